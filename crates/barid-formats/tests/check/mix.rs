//! Damage of a mix mailbox.

use fastrand::Rng;

use super::world::{Box_, Case, Expected, View, expect, texts};

const DATA: &str = ".mix5f000001";
const META: &str = ".mixmeta";
const INDEX: &str = ".mixindex";
const STATUS: &str = ".mixstatus";
const DATE: &str = "20190101100000+0000";
type Damage = fn(&mut Box_, &mut Rng) -> Expected;

fn build(rng: &mut Rng) -> Box_ {
    let texts = texts(rng, "\r\n");
    let (mut data, mut index, mut status) = (Vec::new(), String::new(), String::new());
    index.push_str("S5f000010\r\n");
    status.push_str("S5f000010\r\n");
    for (number, text) in texts.iter().enumerate() {
        let (uid, size, pos) = (number + 1, text.len(), data.len());
        let header = text.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        data.extend(format!(":msg:{uid:08x}:{DATE}:{size:08x}:\r\n").into_bytes());
        data.extend(text);
        let file = 0x5f00_0001;
        let line =
            format!(":{uid:08x}:{DATE}:{size:08x}:{file:08x}:{pos:08x}:0000002d:{header:08x}:\r\n");
        index.push_str(&line);
        let (keywords, flags) = (rng.u32(..4), 0x10 | rng.u16(..4));
        status.push_str(&format!(":{uid:08x}:{keywords:08x}:{flags:04x}:5f000010:\r\n"));
    }
    let last = texts.len();
    let mailbox = Box_::new("mix:/mail/box", "/mail/box", texts);
    mailbox.put(DATA, &data);
    mailbox.put(INDEX, index.as_bytes());
    mailbox.put(STATUS, status.as_bytes());
    let meta = format!("S5f000011\r\nV544aadf6\r\nL{last:08x}\r\nN5f000001\r\nKtodo Junk\r\n");
    mailbox.put(META, meta.as_bytes());
    mailbox
}

fn some(mailbox: &Box_, rng: &mut Rng) -> usize {
    rng.usize(..mailbox.texts.len() - 1)
}

/// Returns the offset of the record of a message in the index; the functions below do the same for
/// status and data file.
fn index_at(at: usize) -> u64 {
    11 + 77 * at as u64
}

fn status_at(at: usize) -> u64 {
    11 + 35 * at as u64
}

fn data_at(mailbox: &Box_, at: usize) -> u64 {
    mailbox.texts[..at].iter().map(|text| text.len() as u64 + 45).sum()
}

const CASES: &[(&str, Damage)] = &[
    ("no meta", |mailbox, _| {
        mailbox.remove(META);
        expect("meta-missing", META, None)
    }),
    ("sequence of meta", |mailbox, _| {
        mailbox.patch(META, 0, b"??");
        expect("meta-sequence", META, 0)
    }),
    ("UIDVALIDITY", |mailbox, _| {
        mailbox.patch(META, 12, b"zz");
        expect("uidvalidity", META, 11)
    }),
    ("UIDVALIDITY is 0", |mailbox, _| {
        mailbox.patch(META, 12, b"00000000");
        expect("uidvalidity", META, None)
    }),
    ("last UID is no number", |mailbox, _| {
        mailbox.patch(META, 23, b"x");
        expect("uid-last", META, 22)
    }),
    ("data file for new messages", |mailbox, _| {
        mailbox.patch(META, 34, b"x");
        expect("meta-current", META, 33)
    }),
    ("last UID is too small", |mailbox, _| {
        mailbox.patch(META, 23, b"00000001");
        expect("uid-last", META, None)
    }),
    ("line of meta that means nothing", |mailbox, _| {
        mailbox.splice(META, 44..44, b"Xfoo\r\n");
        expect("meta-line", META, 44)
    }),
    ("last line of meta without an end", |mailbox, _| {
        let len = mailbox.get(META).len();
        mailbox.splice(META, len - 2..len, b"");
        expect("meta-end", META, len as u64 - 2)
    }),
    ("zeros behind meta", |mailbox, _| {
        let len = mailbox.get(META).len();
        mailbox.patch(META, len as u64, &[0; 40]);
        expect("meta-line", META, len as u64)
    }),
    ("keyword that is too long", |mailbox, _| {
        let len = mailbox.get(META).len();
        mailbox.splice(META, len - 2..len - 2, &[b'x'; 60]);
        expect("keyword-line", META, 44)
    }),
    ("keyword without a name", |mailbox, rng| {
        let at = some(mailbox, rng);
        mailbox.patch(STATUS, status_at(at) + 10, b"00000020");
        expect("keyword-name", META, None)
    }),
    ("keyword beyond all", |mailbox, rng| {
        let at = some(mailbox, rng);
        mailbox.patch(STATUS, status_at(at) + 10, b"80000000");
        expect("keyword-bits", STATUS, None)
    }),
    ("no index", |mailbox, _| {
        mailbox.remove(INDEX);
        expect("index-missing", INDEX, None)
    }),
    ("sequence of the index", |mailbox, _| {
        mailbox.patch(INDEX, 0, b"zzz");
        expect("index-sequence", INDEX, 0)
    }),
    ("record of the index", |mailbox, rng| {
        let at = some(mailbox, rng);
        mailbox.patch(INDEX, index_at(at) + rng.u64(1..20), b"\0\0");
        expect("index-record", INDEX, index_at(at))
    }),
    ("index cut", |mailbox, rng| {
        let at = some(mailbox, rng);
        let len = index_at(at) as usize + rng.usize(1..70);
        let index = mailbox.get(INDEX);
        mailbox.put(INDEX, &index[..len]);
        expect("index-record", INDEX, index_at(at))
    }),
    ("zeros in the index", |mailbox, rng| {
        let at = some(mailbox, rng);
        let len = mailbox.get(INDEX).len() as u64 - index_at(at);
        mailbox.patch(INDEX, index_at(at), &vec![0; len as usize]);
        expect("index-record", INDEX, index_at(at))
    }),
    ("record of the index is missing", |mailbox, rng| {
        let at = some(mailbox, rng);
        mailbox.splice(INDEX, index_at(at) as usize..index_at(at + 1) as usize, b"");
        expect("index-lost", DATA, data_at(mailbox, at))
    }),
    ("record of the index stands twice", |mailbox, rng| {
        let at = some(mailbox, rng);
        let record = mailbox.get(INDEX)[index_at(at) as usize..index_at(at + 1) as usize].to_vec();
        let end = index_at(mailbox.texts.len());
        mailbox.patch(INDEX, end, &record);
        expect("index-order", INDEX, end)
    }),
    ("UID in the index", |mailbox, rng| {
        let at = some(mailbox, rng);
        mailbox.patch(INDEX, index_at(at) + 1, b"00000777");
        expect("index-uid", INDEX, index_at(at))
    }),
    ("place in the index", |mailbox, rng| {
        let at = some(mailbox, rng);
        mailbox.patch(INDEX, index_at(at) + 48, b"0000000f");
        expect("index-place", INDEX, index_at(at))
    }),
    ("data file in the index", |mailbox, rng| {
        let at = some(mailbox, rng);
        mailbox.patch(INDEX, index_at(at) + 39, b"6");
        expect("index-place", INDEX, index_at(at))
    }),
    ("size in the index", |mailbox, rng| {
        let at = some(mailbox, rng);
        mailbox.patch(INDEX, index_at(at) + 30, b"0000000f");
        expect("index-size", INDEX, index_at(at))
    }),
    ("length of the header in the index", |mailbox, rng| {
        let at = some(mailbox, rng);
        mailbox.patch(INDEX, index_at(at) + 66, b"0000000f");
        expect("header-len", INDEX, index_at(at))
    }),
    ("no status", |mailbox, _| {
        mailbox.remove(STATUS);
        expect("status-missing", STATUS, None)
    }),
    ("sequence of the status", |mailbox, _| {
        mailbox.patch(STATUS, 1, b"\0");
        expect("status-sequence", STATUS, 0)
    }),
    ("record of the status", |mailbox, rng| {
        let at = some(mailbox, rng);
        mailbox.patch(STATUS, status_at(at) + rng.u64(1..20), b"\xff");
        expect("status-record", STATUS, status_at(at))
    }),
    ("order of the status", |mailbox, rng| {
        let at = some(mailbox, rng);
        let (from, to) = (status_at(at) as usize, status_at(at + 1) as usize);
        let record = mailbox.get(STATUS)[from..to].to_vec();
        mailbox.splice(STATUS, to + 35..to + 35, &record);
        mailbox.splice(STATUS, from..to, b"");
        expect("status-order", STATUS, status_at(at + 1))
    }),
    ("line before a message", |mailbox, rng| {
        let at = some(mailbox, rng);
        mailbox.patch(DATA, data_at(mailbox, at) + rng.u64(..8), b"\0\x01");
        expect("message-line", DATA, data_at(mailbox, at))
    }),
    ("size in the line before a message", |mailbox, rng| {
        let at = some(mailbox, rng);
        mailbox.patch(DATA, data_at(mailbox, at) + 34, b"00000003");
        expect("message-line", DATA, data_at(mailbox, at))
    }),
    ("data file is missing", |mailbox, _| {
        mailbox.remove(DATA);
        expect("data-missing", INDEX, 11).lost(0..mailbox.texts.len())
    }),
    ("data file cut in a text", |mailbox, rng| {
        let at = mailbox.texts.len() - 1;
        let offset = data_at(mailbox, at);
        let len = offset as usize + 45 + rng.usize(1..mailbox.texts[at].len());
        let data = mailbox.get(DATA);
        mailbox.put(DATA, &data[..len]);
        expect("data-short", DATA, offset).lost([at])
    }),
    ("data file cut before a message", |mailbox, _| {
        let at = mailbox.texts.len() - 1;
        let data = mailbox.get(DATA);
        mailbox.put(DATA, &data[..data_at(mailbox, at) as usize + 20]);
        expect("data-short", INDEX, index_at(at)).lost([at])
    }),
    ("place in the index and line before the message", |mailbox, rng| {
        let at = some(mailbox, rng);
        let offset = data_at(mailbox, at);
        mailbox.patch(DATA, offset, &[0; 45]);
        let place = format!("{:08x}", offset + 5);
        mailbox.patch(INDEX, index_at(at) + 48, place.as_bytes());
        expect("message-lost", INDEX, index_at(at)).lost([at])
    }),
    ("date in the index", |mailbox, rng| {
        let at = some(mailbox, rng);
        mailbox.patch(INDEX, index_at(at) + 10, b"2017");
        expect("date", INDEX, index_at(at)).hopeless()
    }),
    ("status of no message", |mailbox, _| {
        let end = status_at(mailbox.texts.len());
        mailbox.patch(STATUS, end, b":00000040:00000000:0010:5f000010:\r\n");
        expect("status-orphan", STATUS, None).hopeless()
    }),
    ("message overwritten with its line", |mailbox, rng| {
        let at = some(mailbox, rng);
        let offset = data_at(mailbox, at);
        mailbox.patch(DATA, offset, &vec![0; 45 + mailbox.texts[at].len()]);
        // Its place and its length are known: the bytes there are kept.
        expect("message-line", DATA, offset).lost([at])
    }),
];

pub(super) fn cases() -> Vec<Case> {
    CASES
        .iter()
        .map(|(name, damage)| Case { format: "mix", name, build, damage: *damage })
        .collect()
}

/// An abandoned message precedes the message that then got its UID.
fn with_two_of_one_uid(rng: &mut Rng) -> (Box_, u64) {
    let mailbox = build(rng);
    let first = data_at(&mailbox, 1);
    let given_up = b":msg:00000002:20190101100000+0000:00000010:\r\nSubject: no\r\n\r\n.";
    mailbox.splice(DATA, first as usize..first as usize, given_up);
    let index = String::from_utf8(mailbox.get(INDEX)).unwrap();
    let moved = |line: &str| match line.get(47..57) {
        Some(place) if !place.starts_with(":00000000:") => {
            let pos = u64::from_str_radix(&line[48..56], 16).unwrap() + given_up.len() as u64;
            format!("{}{pos:08x}{}\r\n", &line[..48], &line[56..])
        }
        _ => format!("{line}\r\n"),
    };
    let index: String = index.lines().map(moved).collect();
    mailbox.put(INDEX, index.as_bytes());
    (mailbox, first + given_up.len() as u64)
}

#[test]
fn of_two_messages_with_one_uid_the_later_one_counts() {
    type Harm = fn(&Box_);
    let harms: [Harm; 3] = [
        |mailbox| mailbox.remove(INDEX),
        |mailbox| mailbox.splice(INDEX, index_at(1) as usize..index_at(2) as usize, b""),
        |mailbox| mailbox.patch(INDEX, index_at(1) + 39, b"6"),
    ];
    for (number, harm) in harms.into_iter().enumerate() {
        let (mailbox, place) = with_two_of_one_uid(&mut Rng::with_seed(5));
        let view = View::of(&mailbox.disk, &mailbox.spec);
        assert_eq!(view.check().unwrap().damages, [], "{number}");
        let index = mailbox.get(INDEX);
        harm(&mailbox);
        assert!(view.repair().unwrap().kept.is_some(), "{number}");
        assert_eq!(mailbox.get(INDEX)[11..], index[11..], "{number}: {place:x}");
    }
}
