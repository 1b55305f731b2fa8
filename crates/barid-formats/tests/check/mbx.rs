//! Damage of an mbx.

use fastrand::Rng;

use super::world::{Box_, Case, Expected, View, expect, texts};
use crate::mbx::support::{header, record};

const FILE: &str = "box";
type Damage = fn(&mut Box_, &mut Rng) -> Expected;

fn build(rng: &mut Rng) -> Box_ {
    let texts = texts(rng, "\r\n");
    let mut file = header(0x544a_adf6, texts.len() as u32, &["todo", "Junk"]);
    for (number, text) in texts.iter().enumerate() {
        let text = std::str::from_utf8(text).unwrap();
        file.extend(record(text, rng.u32(..3), 0x10 | rng.u16(..4), number as u32 + 1));
    }
    let mailbox = Box_::new("mbx:/mail/box", "/mail", texts);
    mailbox.put(FILE, &file);
    mailbox
}

/// Returns the offsets of the lines, and of the end of the file.
fn lines(mailbox: &Box_) -> Vec<u64> {
    let mut at = 2048;
    let mut lines = vec![at];
    for text in &mailbox.texts {
        let line = record(std::str::from_utf8(text).unwrap(), 0, 0, 1);
        at += line.len() as u64;
        lines.push(at);
    }
    lines
}

/// Returns a message that is not the last one.
fn some(mailbox: &Box_, rng: &mut Rng) -> (usize, u64) {
    let at = rng.usize(..mailbox.texts.len() - 1);
    (at, lines(mailbox)[at])
}

/// Returns the length of the line of a message in bytes.
fn line_len(mailbox: &Box_, at: usize) -> u64 {
    lines(mailbox)[at + 1] - lines(mailbox)[at] - mailbox.texts[at].len() as u64
}

/// Writes bytes into the line of a message, at a distance before its end; returns their offset.
fn in_line(mailbox: &Box_, rng: &mut Rng, before_end: u64, bytes: &[u8]) -> u64 {
    let (at, offset) = some(mailbox, rng);
    let place = offset + line_len(mailbox, at) - before_end;
    mailbox.patch(FILE, place, bytes);
    place
}

const CASES: &[(&str, Damage)] = &[
    ("magic", |mailbox, _| {
        mailbox.patch(FILE, 0, b"*m");
        mailbox.patch(FILE, 2, b"?x*\r\n");
        expect("magic", FILE, 0)
    }),
    ("uidvalidity is no number", |mailbox, _| {
        mailbox.patch(FILE, 9, b"zz");
        expect("uidvalidity", FILE, 7)
    }),
    ("uidvalidity is 0", |mailbox, _| {
        mailbox.patch(FILE, 7, b"00000000");
        expect("uidvalidity", FILE, 7)
    }),
    ("last UID is no number", |mailbox, _| {
        mailbox.patch(FILE, 15, b"\0\0\0\0\0\0\0\0");
        expect("uid-last", FILE, 15)
    }),
    ("last UID is too small", |mailbox, _| {
        mailbox.patch(FILE, 15, b"00000001");
        expect("uid-last", FILE, 15)
    }),
    ("line end of the numbers", |mailbox, _| {
        mailbox.patch(FILE, 23, b"xx");
        expect("header-line", FILE, 23)
    }),
    ("name of a keyword", |mailbox, _| {
        mailbox.patch(FILE, 25, b"t\x01");
        expect("keyword-line", FILE, 25)
    }),
    ("hole in the keywords", |mailbox, _| {
        mailbox.splice(FILE, 25..29, b"");
        mailbox.splice(FILE, 2030..2030, b"\0\0\0\0");
        expect("keyword-line", FILE, 25)
    }),
    ("lines of keywords are zeros", |mailbox, _| {
        mailbox.patch(FILE, 60, &[0; 300]);
        expect("keyword-lines", FILE, None)
    }),
    ("process id", |mailbox, _| {
        mailbox.patch(FILE, 2038, b"zz");
        expect("pid", FILE, 2038)
    }),
    ("header cut", |mailbox, rng| {
        let len = rng.usize(8..2000);
        let head = mailbox.get(FILE);
        mailbox.put(FILE, &head[..len]);
        let all = 0..mailbox.texts.len();
        expect("header-short", FILE, len as u64).lost(all)
    }),
    ("keyword without a name", |mailbox, rng| {
        in_line(mailbox, rng, 23, b"00000020");
        expect("keyword-name", FILE, None)
    }),
    ("keyword beyond all", |mailbox, rng| {
        let status = in_line(mailbox, rng, 23, b"80000000");
        expect("keyword-bits", FILE, status)
    }),
    ("flags that there are not", |mailbox, rng| {
        let flags = in_line(mailbox, rng, 15, b"1f51");
        expect("flag-bits", FILE, flags)
    }),
    ("UID twice", |mailbox, rng| {
        let (at, offset) = some(mailbox, rng);
        let uid = offset + line_len(mailbox, at) - 10;
        mailbox.patch(FILE, uid, format!("{:08x}", at + 2).as_bytes());
        expect("uid-order", FILE, None)
    }),
    ("UID out of the world", |mailbox, rng| {
        let uid = in_line(mailbox, rng, 10, b"fffffff0");
        expect("uid-order", FILE, uid)
    }),
    ("UID is 0 in the middle", |mailbox, rng| {
        let uid = in_line(mailbox, rng, 10, b"00000000");
        expect("uid-order", FILE, uid)
    }),
    ("date", |mailbox, rng| {
        let (_, offset) = some(mailbox, rng);
        mailbox.patch(FILE, offset + 3, b"???");
        expect("date", FILE, offset)
    }),
    ("size is no number", |mailbox, rng| {
        let (_, offset) = some(mailbox, rng);
        mailbox.patch(FILE, offset + 27, b"x");
        expect("line", FILE, offset)
    }),
    ("size is too large", |mailbox, rng| {
        let (at, offset) = some(mailbox, rng);
        let len = mailbox.texts[at].len();
        // Chosen so that no other message begins right there.
        let large = len + rng.usize(1..40);
        let large = if large.ilog10() == len.ilog10() { large } else { len - 20 };
        mailbox.patch(FILE, offset + 27, large.to_string().as_bytes());
        expect("size", FILE, offset)
    }),
    ("size is too small", |mailbox, rng| {
        let (at, offset) = some(mailbox, rng);
        let digits = mailbox.texts[at].len().to_string().len();
        let small = format!("{:0digits$}", 10 + rng.usize(..80));
        mailbox.patch(FILE, offset + 27, small.as_bytes());
        expect("size", FILE, offset)
    }),
    ("size of the last one is too large", |mailbox, _| {
        let at = mailbox.texts.len() - 1;
        let offset = lines(mailbox)[at];
        let digits = mailbox.texts[at].len().to_string().len();
        mailbox.patch(FILE, offset + 27, "9".repeat(digits).as_bytes());
        expect("size", FILE, offset)
    }),
    ("flags are no number", |mailbox, rng| {
        let (at, offset) = some(mailbox, rng);
        mailbox.patch(FILE, offset + line_len(mailbox, at) - 20, b"\0\0\0");
        expect("line", FILE, offset)
    }),
    ("line is garbage", |mailbox, rng| {
        let (at, offset) = some(mailbox, rng);
        let garbage: Vec<u8> = (0..line_len(mailbox, at)).map(|_| rng.u8(128..)).collect();
        mailbox.patch(FILE, offset, &garbage);
        expect("line", FILE, offset)
    }),
    ("line is zeros", |mailbox, rng| {
        let (at, offset) = some(mailbox, rng);
        mailbox.patch(FILE, offset, &vec![0; line_len(mailbox, at) as usize]);
        expect("line", FILE, offset)
    }),
    ("line of the last one is garbage", |mailbox, _| {
        let at = mailbox.texts.len() - 1;
        let offset = lines(mailbox)[at];
        mailbox.patch(FILE, offset, &vec![0xaa; line_len(mailbox, at) as usize]);
        expect("line", FILE, offset)
    }),
    ("garbage between messages", |mailbox, rng| {
        let (_, offset) = some(mailbox, rng);
        let garbage: Vec<u8> = (0..rng.usize(1..4000)).map(|_| rng.u8(..32)).chain([0]).collect();
        mailbox.splice(FILE, offset as usize..offset as usize, &garbage);
        expect("garbage", FILE, offset)
    }),
    ("zeros at the end", |mailbox, rng| {
        let end = *lines(mailbox).last().unwrap();
        mailbox.patch(FILE, end, &vec![0; rng.usize(1..5000)]);
        expect("zeros-at-end", FILE, end)
    }),
    ("append cut in the text", |mailbox, rng| {
        let end = *lines(mailbox).last().unwrap();
        let torn = record("Subject: torn\r\n\r\nbody\r\n", 0, 0, 0);
        let len = rng.usize(torn.len() - 15..torn.len());
        mailbox.patch(FILE, end, &torn[..len]);
        expect("torn-end", FILE, end)
    }),
    ("append cut in the line", |mailbox, rng| {
        let end = *lines(mailbox).last().unwrap();
        let torn = record("Subject: torn\r\n\r\nbody\r\n", 0, 0, 0);
        mailbox.patch(FILE, end, &torn[..rng.usize(30..50)]);
        expect("torn-end", FILE, end)
    }),
];

pub(super) fn cases() -> Vec<Case> {
    CASES
        .iter()
        .map(|(name, damage)| Case { format: "mbx", name, build, damage: *damage })
        .collect()
}

#[test]
fn what_is_no_mbx_is_not_mended() {
    let mbox = b"From ann@example.org Tue Jan  1 10:00:00 2019\nSubject: x\n\ntext\n";
    let zeros = [0; 5000];
    let text = b"no mailbox at all\r\n".repeat(300);
    for bytes in [mbox.as_slice(), &zeros, &text] {
        let mailbox = Box_::new("mbx:/mail/box", "/mail", Vec::new());
        mailbox.put(FILE, bytes);
        let view = View::of(&mailbox.disk, &mailbox.spec);
        let error = view.repair().unwrap_err();
        assert!(matches!(error, barid_mailbox::Error::NotAMailbox { .. }), "{error}");
        assert_eq!(mailbox.get(FILE), bytes);
    }
}
