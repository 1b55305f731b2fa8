//! Mail and texts that inputs are made from.

use barid_corpus::{Corpus, Profile};

/// A message that searches are evaluated on, and that seeds of messages begin with.
pub(crate) const SEARCHED: &[u8] = b"Return-Path: <ann@example.org>\r\n\
Received: from x.example.org by y.example.org; Mon, 3 Jun 2024 08:00:00 +0000\r\n\
From: \"Ann =?utf-8?q?M=C3=BCller?=\" <ann@example.org>, group:;\r\n\
To: =?iso-8859-1?B?SvxyZ2Vu?= <j@example.org>,\r\n bob@example.org (Bob)\r\n\
Subject: Re: [list] =?utf-8?q?caf=C3=A9?= (fwd)\r\n\
Date: Mon, 3 Jun 2024 10:00:00 +0200 (CEST)\r\n\
Message-ID: <1@example.org>\r\nReferences: <0@example.org> <\"a b\"@[1.2.3.4]>\r\n\
In-Reply-To: <0@example.org>\r\nX-UID: 7\r\nStatus: RO\r\nContent-Language: de, en\r\n\
Content-Type: multipart/mixed; boundary=\"b b\"\r\n\r\npreamble\r\n--b b\r\n\
Content-Type: text/plain; charset*0*=utf-8''ut; charset*1=f-8; format=flowed\r\n\
Content-Transfer-Encoding: quoted-printable\r\n\r\ncaf=C3=A9 =\r\ntodo\r\n--b b\r\n\
Content-Type: message/rfc822\r\n\r\nSubject: inner\r\nContent-Type: text/html; charset=koi8-r\r\n\
\r\n<p>one&amp;two</p><!-- x --><style>y</style>\r\n--b b\r\n\
Content-Type: application/octet-stream; name=x\r\n\
Content-Disposition: attachment; filename*=utf-8'en'%e2%82%ac.bin; size=12\r\n\
Content-Transfer-Encoding: base64\r\n\r\naGVsbG8gd29ybGQ=\r\n--b b--\r\nepilogue\r\n";

/// Seed of the generated mail.
const MAIL_SEED: u64 = 20_26;

/// Returns messages: one with everything, and generated ones of two decades.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    let mut messages =
        vec![SEARCHED.to_vec(), String::from_utf8_lossy(SEARCHED).replace('\r', "").into()];
    for profile in [Profile::Modern, Profile::Classic] {
        let corpus = Corpus::with_profile(MAIL_SEED, 1_000, profile);
        messages.extend((0..12).map(|number| corpus.message(number * 7).bytes));
    }
    messages
}

/// Returns the bodies of a field of all messages.
fn bodies_of(names: &[&str]) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    for message in messages() {
        for field in barid_message::fields(&message) {
            if names.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(field.name)) {
                bodies.push(field.body.to_vec());
            }
        }
    }
    bodies
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

pub(crate) fn dates() -> Vec<Vec<u8>> {
    let more = [
        "3 Jun 2024 10:00:00 EST",
        "Monday, 03-Jun-24 10:00:00 GMT",
        "Mon Jun  3 10:00:00 2024",
        "Mon, 29 Feb 1900 23:59:60 -9999",
        "(c) Tue, 1 (d) Jan 49 0:0 Z",
    ];
    [bodies_of(&["date"]), texts(&more)].concat()
}

pub(crate) fn addresses() -> Vec<Vec<u8>> {
    let more = [
        "\"a \\\" b\" <@r1,@r2:a@b.c>, (x (y)) z@[1.2.3.4]",
        "group: a@b, c@d;, undisclosed-recipients:;",
        "a b c <d@e> , , <f>, =?utf-8?q?=22x=22?= <g@h>",
    ];
    [bodies_of(&["from", "to", "cc"]), texts(&more)].concat()
}

pub(crate) fn ids() -> Vec<Vec<u8>> {
    let more = ["<a@b> junk <\"c d\"@[e]><f@g>", "<a\r\n @b>", "\"x\" <<y@z>> <(c)p@q>"];
    [bodies_of(&["message-id", "references", "in-reply-to"]), texts(&more)].concat()
}

pub(crate) fn words() -> Vec<Vec<u8>> {
    let more = [
        "=?utf-8?q?a?= =?utf-8?b?w6k=?=\r\n =?iso-2022-jp?b?GyRCRnwbKEI=?=",
        "=?utf-7?q?+AOQ-?= =?x?y?z?= =?utf-8*en?q?=e2=82?= =?utf-8?q?=ac?=",
        "\u{e9}\u{4e2d} \u{1f600}",
    ];
    [bodies_of(&["subject", "from"]), texts(&more)].concat()
}

pub(crate) fn subjects() -> Vec<Vec<u8>> {
    let more = ["Re: [x] FWD: [fwd: [y] z (fwd)] (fwd)", "re[2]: SV: a", "[a][b] Re [c] : d"];
    [bodies_of(&["subject"]), texts(&more)].concat()
}

pub(crate) fn charsets() -> Vec<Vec<u8>> {
    let mut seeds = texts(&[
        "utf-8\ncaf\u{e9}",
        "utf-7\nHi +AOQ-+AOQ",
        "iso-2022-jp-2\n\x1b$BF|\x1b(B\x1b.A\x1bN~",
        "iso-2022-kr\n\x1b$)C\x0e0!\x0f",
        "utf-16\n\u{feff}a\0b",
        "hz-gb-2312\n~{;(~}",
        "utf-32\n\0\0\u{fe}\u{ff}\0\0\0a",
    ]);
    for name in ["johab", "cp437", "koi8-u", "big5-hkscs", "euc-kr", "gb18030", "macintosh"] {
        let upper = (0x80..=0xff).flat_map(|byte| [byte, 0x41]);
        seeds.push(name.bytes().chain(*b"\n").chain(upper).collect());
    }
    seeds
}

pub(crate) fn imap_searches() -> Vec<Vec<u8>> {
    texts(&[
        "RETURN (MIN MAX COUNT SAVE PARTIAL 1:10) CHARSET UTF-8 OR FROM ann NOT (SEEN 1:*,7)",
        "HEADER X-UID \"\" SUBJECT {5}\r\nhello BODY \"a \\\" b\" TEXT {3+}\r\nabc",
        "UID 1:5,9:* $ MODSEQ 7 OLDER 60 YOUNGER 9 SENTSINCE 1-Jan-2020 BEFORE \" 3-Jun-2024\"",
        "UNKEYWORD todo KEYWORD $Junk LARGER 10 SMALLER 99999 NEW OLD RECENT UNDRAFT",
    ])
}

pub(crate) fn short_searches() -> Vec<Vec<u8>> {
    texts(&[
        "from:ann (subject:\"a \\\" b\" or -is:seen) not to:bob",
        "date:2020..2021 since:7d before:today larger:10k has:attachment",
        "keyword:todo uid:1:5 is:flagged body:caf\u{e9} header:x-uid=7 all",
        "subject:/^re: [a-z]+$/ budg* \"annual rep*\"~5 is:spam list-id:/x/ /usr/bin",
        "filename:a.pdf mimetype:image/* attachment:pl* thread:7 in:box header:x-a=/b\\/c/",
    ])
}

pub(crate) fn fetches() -> Vec<Vec<u8>> {
    texts(&[
        "(FLAGS UID BODY.PEEK[1.2.HEADER.FIELDS.NOT (TO \"X Y\")]<10.20> ENVELOPE)",
        "BODYSTRUCTURE RFC822.SIZE INTERNALDATE BINARY.PEEK[1]<0.5> BINARY.SIZE[2.1] MODSEQ",
        "1.2.MIME",
        "HEADER.FIELDS (DATE FROM)",
        "2.1.TEXT",
    ])
}

pub(crate) fn sorts() -> Vec<Vec<u8>> {
    let mut seeds = texts(&["date\n", "reverse:size,subject arrival\n", "display-from,to,cc\n"]);
    let rows = (0..200_u32).flat_map(|row| (row.wrapping_mul(2_654_435_761) % 97).to_le_bytes());
    let rows: Vec<u8> = rows.collect();
    seeds.iter_mut().for_each(|seed| seed.extend_from_slice(&rows));
    seeds
}

/// Words of mail headers and bodies.
pub(crate) const MAIL_WORDS: &[&str] = &[
    "\r\n",
    "\n\n",
    "\n ",
    "=?utf-8?q?",
    "=?iso-2022-jp?b?GyRCRnwbKEI=?=",
    "?=",
    "=C3=A9",
    "=\n",
    "Content-Type: multipart/mixed; boundary=b\n\n",
    "Content-Type: multipart/digest; boundary=b\n",
    "Content-Type: message/rfc822\n\n",
    "Content-Type: text/html; charset=utf-16\n",
    "\n--b\n",
    "\n--b--\n",
    "Content-Transfer-Encoding: base64\n",
    "Content-Transfer-Encoding: x-uuencode\n",
    "filename*0*=utf-8''%C3;",
    "Content-Disposition: attachment;",
    "From: ",
    "Subject: ",
    "Date: ",
    "References: ",
    "Status: RO\n",
    "X-UID: 4\n",
    "Content-Length: 9\n",
    "<a@b>",
    "(",
    "\"",
    "Re:",
    "Fwd:",
    "[x]",
    "(fwd)",
    "Mon, 1 Jan 2001 10:00:00 +0100",
    "&#x41;",
    "<!--",
    "<style>",
];
/// Words of queries.
pub(crate) const QUERY_WORDS: &[&str] = &[
    "(",
    ")",
    "NOT ",
    "OR ",
    "ALL ",
    "-",
    " or ",
    "not ",
    "from:",
    "subject:",
    "date:",
    "is:seen ",
    "\"",
    "{3}\r\nabc",
    "{999999999}\r\n",
    "1:*",
    "4294967295",
    "HEADER ",
    "UID ",
    "BODY[",
    "HEADER.FIELDS (",
    "]<0.1>",
    "reverse:",
    "date,",
    "1-Jan-2020",
    "..",
    "7d",
];
/// Words of SASL, passwd-files and tokens.
pub(crate) const AUTH_WORDS: &[&str] = &[
    "\0",
    "\x01",
    "\x01auth=Bearer ",
    "\x01\x01",
    "n,,",
    "y,,",
    "p=tls-exporter,,",
    "n=ann,r=",
    "=2C",
    "=3D",
    ",m=",
    ",p=AAAA",
    "c=biws,",
    "user=ann\x01",
    "secret",
    "ann:",
    ":::",
    "{PLAIN}",
    "{SSHA256.HEX}",
    "{SCRAM-SHA-256}4096,",
    "{PBKDF2}$1$",
    "$6$rounds=4294967295$",
    "$2y$31$",
    "$y$jST$",
    "$argon2id$v=19$m=4294967295,t=1,p=1$",
    " userdb_mail=%h/%Lu%{user|domain}",
    " allow_nets=0.0.0.0/0,::/128,local",
    " nologin",
    "=",
    "==",
    ".",
    "..",
    "@",
    "4294967296",
    "eyJhbGciOiJub25lIn0.",
    "\"alg\":\"none\"",
    "\"kty\":\"oct\"",
    "[[[[",
];
/// Words of mailbox files.
pub(crate) const BOX_WORDS: &[&str] = &[
    "\nFrom a@b Sat Jan  3 01:05:34 1998\n",
    "\n\nFrom ",
    ">From ",
    "From ",
    "\x01\x01\x01\x01\n",
    "X-IMAPbase: 1700000000 0000000009 todo\n",
    "X-UID: 3\n",
    "Status: RO\n",
    "X-Status: AFDT\n",
    "X-Keywords: todo junk\n",
    "Content-Length: 4294967296\n",
    "Content-Length: 20\n",
    "\r\n",
    "\n\n",
    "Subject: x\n\n",
    "*mbx*\r\n",
    ";00000007ffff-",
    ",U=7:2,",
    ":2,FRS",
    " :",
    "3 V1700000000 N9\n",
    "unseen: 1-4294967295\n",
    "cur: 1\n",
    ":S1700000000\r\n",
    ":$",
    "0-",
    "\0\0\0\0",
];
