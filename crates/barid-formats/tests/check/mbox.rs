//! Damage of an mbox and an MMDF.

use fastrand::Rng;

use super::world::{Box_, Case, Expected, View, expect, texts};

const FILE: &str = "box";
type Damage = fn(&mut Box_, &mut Rng) -> Expected;

fn build(rng: &mut Rng) -> Box_ {
    let texts = texts(rng, "\n");
    let mut file = String::new();
    for (number, text) in texts.iter().enumerate() {
        let text = String::from_utf8(text.clone()).unwrap();
        let (head, body) = text.split_once("\n\n").unwrap();
        let (uid, len) = (number + 1, body.len());
        file.push_str("From ann@example.org Tue Jan  1 10:00:00 2019\n");
        if number == 0 {
            file.push_str(&format!("X-IMAPbase: 1700000000 {:010} todo\n", texts.len()));
        }
        file.push_str(&format!("{head}\nX-UID: {uid}\nStatus: RO\nContent-Length: {len}\n"));
        file.push_str(&format!("\n{body}\n"));
    }
    let mailbox = Box_::new("mboxo:/mail/box", "/mail", texts);
    mailbox.put(FILE, file.as_bytes());
    mailbox
}

fn build_mboxcl(rng: &mut Rng) -> Box_ {
    Box_ { spec: "mboxcl:/mail/box".to_owned(), ..build(rng) }
}

fn build_mmdf(rng: &mut Rng) -> Box_ {
    let texts = texts(rng, "\n");
    let mut file = String::new();
    for text in &texts {
        let text = String::from_utf8(text.clone()).unwrap();
        file.push_str(&format!("\x01\x01\x01\x01\n{text}\x01\x01\x01\x01\n"));
    }
    let mailbox = Box_::new("mmdf:/mail/box", "/mail", texts);
    mailbox.put(FILE, file.as_bytes());
    mailbox
}

fn some(mailbox: &Box_, rng: &mut Rng) -> usize {
    rng.usize(1..mailbox.texts.len() - 1)
}

/// Returns the offsets of the separators.
fn separators(mailbox: &Box_, separator: &[u8]) -> Vec<usize> {
    let all = mailbox.get(FILE);
    let is_one =
        |at: &usize| all[*at..].starts_with(separator) && (*at == 0 || all[*at - 1] == b'\n');
    (0..all.len()).filter(is_one).collect()
}

fn from_line(mailbox: &Box_, at: usize) -> usize {
    separators(mailbox, b"From ann")[at]
}

const CASES: &[(&str, Damage)] = &[
    ("garbage before the first message", |mailbox, rng| {
        let garbage: Vec<u8> = (0..rng.usize(1..900)).map(|_| rng.u8(b'a'..=b'z')).collect();
        mailbox.splice(FILE, 0..0, &[&garbage[..], b"\n"].concat());
        expect("garbage", FILE, 0)
    }),
    ("zeros at the end", |mailbox, rng| {
        let len = mailbox.get(FILE).len() as u64;
        mailbox.patch(FILE, len, &vec![0; rng.usize(1..3000)]);
        expect("zeros-at-end", FILE, len)
    }),
    ("zeros before a message", |mailbox, rng| {
        let number = some(mailbox, rng);
        let at = from_line(mailbox, number);
        mailbox.splice(FILE, at..at, &vec![0; rng.usize(8..3000)]);
        expect("zeros", FILE, at as u64)
    }),
    ("zeros in a message", |mailbox, rng| {
        let number = some(mailbox, rng);
        let at = mailbox.find(FILE, &format!("line 0 of {number}"));
        mailbox.patch(FILE, at as u64, &[0; 9]);
        expect("zeros", FILE, at as u64).lost([number]).hopeless()
    }),
    ("first letters of a separator", |mailbox, rng| {
        let number = some(mailbox, rng);
        let at = from_line(mailbox, number);
        mailbox.patch(FILE, at as u64 + rng.u64(..3), b"#\x01");
        expect("separator", FILE, at as u64)
    }),
    ("separator behind two blank lines", |mailbox, rng| {
        let number = some(mailbox, rng);
        let at = from_line(mailbox, number);
        mailbox.splice(FILE, at..at + 2, b"\n#\x01");
        expect("separator", FILE, at as u64 + 1).lost([number - 1])
    }),
    ("date of a separator", |mailbox, rng| {
        let number = some(mailbox, rng);
        let at = from_line(mailbox, number);
        mailbox.patch(FILE, at as u64 + 20, b"##############");
        mailbox.patch(FILE, at as u64 + 32, b"10:00");
        expect("separator", FILE, at as u64)
    }),
    ("From_ line in a body", |mailbox, rng| {
        let number = some(mailbox, rng);
        let at = mailbox.find(FILE, &format!("line 0 of {number}"));
        let line = b"\nFrom ann@example.org Tue Jan  1 10:00:00 2019\nas she said\n";
        mailbox.splice(FILE, at..at, line);
        expect("no-header", FILE, at as u64 + 1).lost([number])
    }),
    ("header without a blank line", |mailbox, rng| {
        let number = some(mailbox, rng);
        let at = from_line(mailbox, number);
        let inserted = b"From ann@example.org Tue Jan  1 10:00:00 2019\nSubject: x\n";
        mailbox.splice(FILE, at..at, inserted);
        expect("no-blank-line", FILE, (at + inserted.len()) as u64)
    }),
    ("last header without a blank line", |mailbox, _| {
        let len = mailbox.get(FILE).len();
        let more = b"From ann@example.org Tue Jan  1 10:00:00 2019\nSubject: x\n";
        mailbox.patch(FILE, len as u64, more);
        expect("no-blank-line", FILE, (len + more.len()) as u64)
    }),
    ("UID twice", |mailbox, rng| {
        let number = some(mailbox, rng);
        let at = mailbox.find(FILE, &format!("X-UID: {}\n", number + 1));
        mailbox.patch(FILE, at as u64 + 7, number.to_string().as_bytes());
        expect("uid-order", FILE, None)
    }),
    ("UID out of the world", |mailbox, rng| {
        let number = some(mailbox, rng);
        let at = mailbox.find(FILE, &format!("X-UID: {}\n", number + 1));
        mailbox.splice(FILE, at + 7..at + 7, b"777777");
        expect("uid-order", FILE, at as u64 + 6)
    }),
    ("last UID is too small", |mailbox, _| {
        mailbox.patch(FILE, mailbox.find(FILE, " todo") as u64 - 1, b"1");
        expect("uid-last", FILE, None)
    }),
    ("UIDVALIDITY in a later message", |mailbox, rng| {
        let number = some(mailbox, rng);
        let at = from_line(mailbox, number);
        let field = at + b"From ann@example.org Tue Jan  1 10:00:00 2019\n".len();
        mailbox.splice(FILE, field..field, b"X-IMAPbase: 1700000000 0000000009\n");
        let value = field + b"X-IMAPbase:".len();
        expect("imapbase-place", FILE, value as u64).hopeless()
    }),
    ("UIDVALIDITY is no number", |mailbox, _| {
        let at = mailbox.find(FILE, " 1700000000");
        mailbox.patch(FILE, at as u64 + 4, b"x");
        expect("imapbase", FILE, at as u64)
    }),
    ("last line without an end", |mailbox, _| {
        let len = mailbox.get(FILE).len();
        mailbox.splice(FILE, len - 2..len, b"");
        let lost = mailbox.texts.len() - 1;
        // Its stored length is then wrong, too.
        let found = expect("no-line-end", FILE, len as u64 - 2);
        found.lost([lost])
    }),
];

const MBOXCL: &[(&str, Damage)] = &[("length of a body", |mailbox, rng| {
    let number = some(mailbox, rng);
    let at = from_line(mailbox, number);
    let length = mailbox.get(FILE)[at..].windows(15).position(|w| w == b"Content-Length:");
    let at = at + length.unwrap() + 15;
    mailbox.patch(FILE, at as u64, b" 1");
    mailbox.splice(FILE, at + 2..at + 2, b"7777");
    expect("content-length", FILE, at as u64)
})];

const MMDF: &[(&str, Damage)] = &[
    ("no separator at the end", |mailbox, _| {
        let len = mailbox.get(FILE).len();
        mailbox.splice(FILE, len - 5..len, b"");
        expect("mmdf-end", FILE, len as u64 - 5)
    }),
    ("one separator between two messages", |mailbox, rng| {
        let number = some(mailbox, rng);
        let at = separators(mailbox, b"\x01\x01\x01\x01\n")[2 * number];
        mailbox.splice(FILE, at..at + 5, b"");
        expect("mmdf-separator", FILE, at as u64 - 5)
    }),
];

pub(super) fn cases() -> Vec<Case> {
    let mbox = CASES.iter();
    let mbox = mbox.map(|(name, damage)| Case { format: "mbox", name, build, damage: *damage });
    let mmdf = MMDF.iter().map(|(name, damage)| {
        let (build, damage) = (build_mmdf as fn(&mut Rng) -> Box_, *damage);
        Case { format: "mmdf", name, build, damage }
    });
    let mboxcl = MBOXCL.iter().map(|(name, damage)| {
        let (build, damage) = (build_mboxcl as fn(&mut Rng) -> Box_, *damage);
        Case { format: "mboxcl", name, build, damage }
    });
    mbox.chain(mboxcl).chain(mmdf).collect()
}

#[test]
fn a_body_whose_length_is_right_stays() {
    let body = "forwarded:\n\nFr#m bob@example.org Tue Jan  1 10:00:00 2019\n\
                Date: Tue, 1 Jan 2019 10:00:00 +0000\nFrom: bob@example.org\nTo: ann\n\ntext\n";
    let separator = "From ann@example.org Tue Jan  1 10:00:00 2019\n";
    let message = format!("{separator}Subject: 1\nContent-Length: {}\n\n{body}\n", body.len());
    let mailbox = Box_::new("mboxcl2:/mail/box", "/mail", Vec::new());
    mailbox.put(FILE, message.repeat(2).as_bytes());
    let view = View::of(&mailbox.disk, &mailbox.spec);
    assert_eq!(view.check().unwrap().damages, []);
    assert_eq!(view.repair().unwrap().kept, None);
    let without = message.replace("Content-Length", "X-Length").repeat(2);
    mailbox.put(FILE, without.as_bytes());
    assert!(view.check().unwrap().damages.iter().any(|damage| damage.kind == "separator"));
}

/// Bytes that a check reads at once: 1 MiB, and some bytes after.
const PIECE: usize = 1 << 20;

/// Returns two messages, the second of which begins at `at`, with `before` in front of it.
fn two_messages(at: usize, before: &[u8]) -> (Box_, String) {
    let separator = "From ann@example.org Tue Jan  1 10:00:00 2019\n";
    let header = "Date: Tue, 1 Jan 2019 10:00:00 +0000\nFrom: ann\nSubject: x\n\n";
    let len = at - before.len() - separator.len() - header.len();
    let mut body = "words in a line, as they stand in mail\n".repeat(len / 39 + 1);
    body.truncate(len - 2);
    let first = format!("{separator}{header}{body}\n\n");
    let second = format!("{separator}{header}text\n");
    let mailbox = Box_::new("mboxo:/mail/box", "/mail", Vec::new());
    mailbox.put(FILE, &[first.as_bytes(), before, second.as_bytes()].concat());
    assert!(mailbox.get(FILE)[at..].starts_with(separator.as_bytes()));
    (mailbox, first + &second)
}

#[test]
fn a_separator_is_found_wherever_pieces_end() {
    for at in PIECE - 2..PIECE + 4 {
        let (mailbox, sound) = two_messages(at, b"");
        mailbox.patch(FILE, at as u64, b"#");
        let view = View::of(&mailbox.disk, &mailbox.spec);
        let damages = view.repair().unwrap().found.damages;
        let found: Vec<_> = damages.iter().map(|damage| (damage.kind, damage.offset)).collect();
        assert_eq!(found, [("separator", Some(at as u64))]);
        assert_eq!(mailbox.get(FILE), sound.as_bytes(), "{at}");
    }
}

#[test]
fn zeros_are_one_run_wherever_pieces_end() {
    for len in [9, 8192, PIECE - 1, PIECE + 8192 - 500, 3 * PIECE + 77] {
        for from in [500, PIECE - 1, PIECE, PIECE + 1, PIECE + 8190] {
            let (mailbox, sound) = two_messages(from + len, &vec![0; len]);
            let view = View::of(&mailbox.disk, &mailbox.spec);
            let damages = view.repair().unwrap().found.damages;
            let found: Vec<_> = damages.iter().map(|damage| (damage.kind, damage.offset)).collect();
            assert_eq!(found, [("zeros", Some(from as u64))], "{len} zeros");
            assert!(mailbox.get(FILE) == sound.as_bytes(), "{len} zeros at {from}");
            // If no separator follows, they stay.
            mailbox.splice(FILE, from..from, &[vec![0; len], b"x\n".to_vec()].concat());
            let damages = view.check().unwrap().damages;
            let found: Vec<_> = damages.iter().map(|damage| (damage.kind, damage.repair)).collect();
            assert_eq!(found, [("zeros", None)], "{len} zeros");
        }
    }
}
