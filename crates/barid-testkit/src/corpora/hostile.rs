//! Mail that is broken on purpose: small cases, generated mail with holes, loops of references,
//! and mailboxes with all of these.

use crate::corpus::{Corpus, Random};

/// Messages that answer each other in circles.
pub(super) const LOOPS: usize = 120;
/// Messages with random damage.
const DAMAGED: u64 = 240;
/// Seed of the damage.
const SEED: u64 = 110;

/// Messages of a few lines, each with one thing that programs must survive.
const CASES: [(&str, &[u8]); 36] = [
    ("empty", b""),
    ("blank-line", b"\n"),
    ("no-header", b"\nbody without a header\n"),
    ("no-body", b"Subject: no body\nFrom: a@example.org\n\n"),
    ("no-blank-line", b"Subject: no blank line\nFrom: a@example.org\n"),
    ("no-line-end", b"Subject: no line end"),
    ("crlf", b"Subject: crlf\r\nFrom: a@example.org\r\n\r\nbody\r\n"),
    ("mixed-line-ends", b"Subject: mixed\r\nFrom: a@example.org\n\r\nbody\nmore\r\n"),
    ("nul", b"Subject: nul\0byte\n\nbo\0dy\n"),
    ("eight-bit", b"Subject: caf\xe9 \xff\xfe\nFrom: J\xf6rg <j@example.org>\n\n\xe9t\xe9\n"),
    ("folded-first-line", b" folded\nSubject: folded first line\n\nbody\n"),
    ("no-colon", b"Subject: a line without a colon\nthis is no field\nTo: b@example.org\n\nx\n"),
    ("space-before-colon", b"Subject : space\nFrom\t: a@example.org\n\nx\n"),
    ("empty-fields", b"Subject:\nFrom:\nTo:\nDate:\nMessage-ID:\n\nx\n"),
    ("twice", b"Subject: one\nSubject: two\nMessage-ID: <a@b>\nMessage-ID: <c@d>\n\nx\n"),
    ("long-fold", b"Subject: a\n \n \t\n b\n\t\nFrom: a@example.org\n\nx\n"),
    ("date-broken", b"Date: 31 Feb 2020 25:61:61 +9999\nSubject: date\n\nx\n"),
    ("date-old", b"Date: Thu, 1 Jan 70 00:00:00 EST\nSubject: date\n\nx\n"),
    ("date-words", b"Date: yesterday, after lunch\nSubject: date\n\nx\n"),
    ("address-quotes", b"From: \"unclosed <a@example.org>\nTo: (un(closed) b@example.org\n\nx\n"),
    ("address-group", b"To: friends: a@example.org, b@example.org;, c@example.org\n\nx\n"),
    ("address-empty-group", b"To: undisclosed-recipients:;\nCc: ;\n\nx\n"),
    ("address-route", b"From: <@one.example,@two.example:a@example.org>\n\nx\n"),
    ("encoded-words", b"Subject: =?utf-8?q?a?= =?utf-8?b?Yg==?= =?x?y?z?= =?utf-8?q?=C3?=\n\nx\n"),
    (
        "encoded-word-cut",
        b"Subject: =?utf-8?b?4pi\nFrom: =?iso-8859-1?q?=?= <a@example.org>\n\nx\n",
    ),
    ("id-broken", b"Message-ID: <>\nReferences: <a <b> c> <d@\nIn-Reply-To: >e@f<\n\nx\n"),
    ("boundary-missing", b"Content-Type: multipart/mixed\n\n--b\n\ntext\n--b--\n"),
    ("boundary-empty", b"Content-Type: multipart/mixed; boundary=\"\"\n\n--\n\ntext\n----\n"),
    ("boundary-unclosed", b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--b\n\ntwo\n"),
    ("boundary-prefix", b"Content-Type: multipart/mixed; boundary=b\n\n--bb\n\none\n--b-\n--b--\n"),
    ("base64-junk", b"Content-Transfer-Encoding: base64\n\nZm9v*YmFy\n=\n====\nZg\n"),
    ("quoted-junk", b"Content-Transfer-Encoding: quoted-printable\n\n=zz =4 = \n=\n=C3=A9=\n"),
    ("charset-unknown", b"Content-Type: text/plain; charset=x-none-such\n\n\xe9\xe8\n"),
    ("type-broken", b"Content-Type: text/; charset=;;=\"\nMIME-Version: 9\n\nx\n"),
    (
        "inner-message",
        b"Content-Type: message/rfc822\n\nContent-Type: message/rfc822\n\nSubject: in\n\nx\n",
    ),
    ("from-line", b"From a@example.org Tue Mar  5 12:22:10 2024\nSubject: from line\n\nx\n"),
];

/// Pieces that random damage inserts.
const PIECES: [&[u8]; 12] = [
    b"\0",
    b"\r\n",
    b"\n\n",
    b"\xff\xfe",
    b"\n--",
    b"=?utf-8?q?",
    b"\"",
    b"(",
    b"<",
    b"\nFrom a@example.org Tue Mar  5 12:22:10 2024\n",
    b"\nContent-Type: multipart/mixed; boundary=x\n",
    b"\n\t",
];

/// Returns all files by their paths.
pub(super) fn files(corpus: &Corpus) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> =
        CASES.iter().map(|(name, bytes)| (format!("cases/{name}.eml"), bytes.to_vec())).collect();
    files.push(("cases/deep.eml".to_owned(), deep()));
    files.push(("cases/wide.eml".to_owned(), wide()));
    files.push(("cases/long-line.eml".to_owned(), long_line()));
    let damaged = |number| (format!("damaged/{number:04}.eml"), damaged(corpus, number));
    files.extend((0..DAMAGED).map(damaged));
    files.extend((0..LOOPS).map(|number| (format!("notmuch/{number:04}.eml"), in_circles(number))));
    files.extend(mailboxes(corpus));
    files
}

/// Returns multiparts nested deeper than any parser descends.
fn deep() -> Vec<u8> {
    let mut bytes = b"Subject: deep\n".to_vec();
    for depth in 0..200 {
        let part = format!("Content-Type: multipart/mixed; boundary=b{depth}\n\n--b{depth}\n");
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes.extend_from_slice(b"\nat the bottom\n");
    bytes
}

/// Returns a multipart with many parts, and a header with many fields.
fn wide() -> Vec<u8> {
    let fields: String = (0..500).map(|at| format!("X-Field-{at}: {at}\n")).collect();
    let parts: String = (0..500).map(|at| format!("--b\n\npart {at}\n")).collect();
    let head = "Subject: wide\nContent-Type: multipart/mixed; boundary=b\n";
    format!("{head}{fields}\n{parts}--b--\n").into_bytes()
}

fn long_line() -> Vec<u8> {
    let word = "verylong".repeat(2_000);
    format!("Subject: {word}\nReferences: <{word}@example.org>\n\n{word}\n").into_bytes()
}

fn damaged(corpus: &Corpus, number: u64) -> Vec<u8> {
    let mut random = Random::new(SEED, number, 0);
    let mut bytes = corpus.message(number % corpus.len()).bytes;
    for _ in 0..1 + random.below(8) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        match random.below(4) {
            0 => bytes.truncate(at.max(40)),
            1 => {
                let end = (at + random.below(400) as usize).min(bytes.len());
                bytes.drain(at..end);
            }
            2 => bytes[at..].iter_mut().step_by(97).for_each(|byte| *byte ^= 0x80),
            _ => {
                let piece = PIECES[random.below(PIECES.len() as u64) as usize];
                bytes.splice(at..at, piece.iter().copied());
            }
        }
    }
    bytes
}

/// Returns a message of a circle of up to nine, each of which answers the next and lists all ids.
fn in_circles(number: usize) -> Vec<u8> {
    let (circle, size) = (number / 10, number / 10 % 8 + 2);
    let id = |at: usize| format!("<{circle}.{}@loop.example.org>", at % size);
    let at = number % 10;
    let references: Vec<String> = (1..=size).map(|step| id(at + step)).collect();
    let (subject, date) = (["loop", "Re: loop", "Fwd: loop", "loop (was: pool)"][at % 4], 1 + at);
    format!(
        "From: user{at}@example.org\nTo: list@example.org\nSubject: {subject} {circle}\n\
         Date: {date} Mar 2024 12:00:00 +0000\nMessage-ID: {}\nIn-Reply-To: {}\n\
         References: {}\n\nround and round\n",
        id(at),
        id(at + 1),
        references.join(" ")
    )
    .into_bytes()
}

/// Returns mailboxes: complete, truncated, with CRLF, and with lines that only look like
/// separators.
fn mailboxes(corpus: &Corpus) -> Vec<(String, Vec<u8>)> {
    let from = "From a@example.org Tue Mar  5 12:22:10 2024\n";
    let (mut mbox, mut mmdf) = (Vec::new(), Vec::new());
    for number in 0..20 {
        let message = corpus.message(number).bytes;
        mbox.extend_from_slice(from.as_bytes());
        mbox.extend_from_slice(&message);
        mbox.push(b'\n');
        mmdf.extend_from_slice(b"\x01\x01\x01\x01\n");
        mmdf.extend_from_slice(&message);
        mmdf.extend_from_slice(b"\x01\x01\x01\x01\n");
    }
    let cut = |bytes: &[u8]| bytes[..bytes.len() * 2 / 3].to_vec();
    let crlf: Vec<u8> = String::from_utf8_lossy(&mbox).replace('\n', "\r\n").into_bytes();
    let nested =
        format!("{from}Subject: one\n\n{from}{from}\nSubject: two\n\n>{from}x\n").repeat(5);
    let lengths = format!("{from}Content-Length: 99999\nSubject: lies\n\nx\n\n").repeat(5);
    [
        ("whole.mbox", mbox.clone()),
        ("cut.mbox", cut(&mbox)),
        ("crlf.mbox", crlf),
        ("nested.mbox", nested.into_bytes()),
        ("lengths.mbox", lengths.into_bytes()),
        ("whole.mmdf", mmdf.clone()),
        ("cut.mmdf", cut(&mmdf)),
    ]
    .map(|(name, bytes)| (format!("mailboxes/{name}"), bytes))
    .to_vec()
}
