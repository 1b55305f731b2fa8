//! Random small mailboxes and random changes.

use barid_mailbox::{ChangeSet, FlagChange};
use barid_types::{Flag, FlagSet, Keyword, Uid};
use fastrand::Rng;

use super::support::World;
use crate::mbox::Variant;

const OWNED: &[&str] = &[
    "Status: RO\n",
    "Status: O\n",
    "status:R\n",
    "Status: ROx\n",
    "X-Status: F\n",
    "X-Status: DAZ\n",
    "X-STATUS :T\n \n",
    "X-Keywords: work\n",
    "X-Keywords: Work home                     \n",
    "X-Keywords:                                                   \n",
    "X-keywords: a\n b\n\tc(d)\n",
    "X-UID: 3\n",
    "X-UID: 900                \n",
    "x-uid: nonsense\n",
    "X-IMAPbase: 1600000000 0000000007 work\n",
    "X-IMAPbase: nonsense\n",
    "Content-Length: 7777777\n",
];

const FOREIGN: &[&str] = &[
    "Subject: hello\n",
    "Subject: long\n folded\n",
    "To: a@b.c\n",
    " a fold from nowhere\n",
    "no colon\n",
    "From nowhere\n",
    "X-Other: Status: RO\n",
    "Received: by x; Thu, 1 Jan 2026 00:00:00 +0000\n\tfolded\n",
];

const BODIES: &[&str] = &[
    "",
    "\n",
    "text\n",
    "text\n\n",
    "\n\n\n",
    ">From x\n",
    "two\nlines\n",
    "From here on, no separator\n",
    "Status: RO\n\nnot a header\n",
];

/// Size of a random mailbox.
#[derive(Clone, Copy)]
struct Shape {
    messages_max: usize,
    body_max: usize,
}

fn mailbox(rng: &mut Rng, variant: Variant, shape: Shape) -> Vec<u8> {
    let mut text = Vec::new();
    let is_crlf = rng.u8(0..8) == 0;
    if variant != Variant::Mmdf && rng.u8(0..8) == 0 {
        text.extend_from_slice(b"\n \n");
    }
    let count = rng.usize(0..=shape.messages_max);
    for number in 0..count {
        let is_last = number + 1 == count;
        message(rng, variant, number, is_last, shape, &mut text);
    }
    if is_crlf {
        let text = String::from_utf8(text).unwrap().replace('\n', "\r\n");
        let text = match variant {
            Variant::Mmdf => text.replace("\u{1}\r\n", "\u{1}\n"),
            _ => text,
        };
        return text.into_bytes();
    }
    text
}

fn message(
    rng: &mut Rng,
    variant: Variant,
    number: usize,
    is_last: bool,
    shape: Shape,
    text: &mut Vec<u8>,
) {
    let is_mmdf = variant == Variant::Mmdf;
    if is_mmdf {
        text.extend_from_slice(b"\x01\x01\x01\x01\n");
    }
    if !is_mmdf || rng.bool() {
        text.extend_from_slice(b"From a@b.c Thu Nov  9 10:11:12 2023\n");
    }
    let start = text.len();
    let mut add = |text: &mut Vec<u8>, pieces: &[&str]| {
        text.extend_from_slice(rng.choice(pieces).unwrap().as_bytes());
    };
    let mut picks = Vec::new();
    let mut dice = Rng::with_seed(number as u64 ^ start as u64);
    for _ in 0..dice.usize(0..7) {
        picks.push(dice.bool());
    }
    for pick in picks {
        add(text, if pick { OWNED } else { FOREIGN });
    }
    if number == 0 && rng.u8(0..3) == 0 {
        text.extend_from_slice(b"X-IMAPbase: 1600000000 0000000009 home\n");
    }
    if number == 0 && rng.u8(0..8) == 0 {
        text.extend_from_slice(b"X-IMAP: 1600000000 0000000009\n");
    }
    if rng.u8(0..3) == 0 {
        let uid = number + 1;
        let padding = " ".repeat(rng.usize(0..80));
        let block = format!("Status: RO\nX-Status: \nX-Keywords:{padding}\nX-UID: {uid}\n");
        text.extend_from_slice(block.as_bytes());
    }
    let body = match rng.u8(0..4) {
        0 => "x".repeat(rng.usize(0..=shape.body_max)) + "\n",
        _ => (*rng.choice(BODIES).unwrap()).to_owned(),
    };
    match rng.u8(0..10) {
        // The header ends with the next From_ line, or with the file.
        0 => {
            if is_last && !is_mmdf && rng.bool() && text.len() > start {
                text.pop();
            }
            return;
        }
        1 if !is_mmdf && !body.is_empty() => {
            let length = format!("Content-Length: {}\n", body.len());
            text.extend_from_slice(length.as_bytes());
        }
        _ => {}
    }
    text.push(b'\n');
    text.extend_from_slice(body.as_bytes());
    match rng.u8(0..10) {
        0 if is_last => {
            text.pop();
        }
        1 if is_mmdf && is_last => {}
        _ if is_mmdf => text.extend_from_slice(b"\x01\x01\x01\x01\n"),
        0 | 1 => {}
        _ => text.push(b'\n'),
    }
}

fn changes(rng: &mut Rng, uids: &[Uid]) -> ChangeSet {
    let mut changes = ChangeSet {
        drop_recent: rng.u8(0..3) == 0,
        write_uids: rng.u8(0..3) == 0,
        ..ChangeSet::default()
    };
    let (flagged, expunged) = (rng.u8(0..4), rng.u8(0..5));
    let mut uids = uids.to_vec();
    uids.push(Uid::new(4_000_000).unwrap());
    for uid in uids {
        if rng.u8(0..4) < flagged {
            changes.flags.push((uid, change(rng)));
        }
        if rng.u8(0..5) < expunged {
            changes.expunge.push(uid);
        }
    }
    changes
}

fn change(rng: &mut Rng) -> FlagChange {
    let words = ["work", "home", "$Label1", "new"];
    let mut pick = |count: u8| -> Vec<Keyword> {
        (0..rng.u8(0..=count)).map(|_| Keyword::new(rng.choice(words).unwrap()).unwrap()).collect()
    };
    let (add_keywords, remove_keywords) = (pick(2), pick(1));
    let mut flags = || {
        let all = Flag::ALL.into_iter().filter(|flag| *flag != Flag::Recent);
        all.filter(|_| rng.u8(0..4) == 0).collect::<FlagSet>()
    };
    FlagChange { add: flags(), remove: flags(), add_keywords, remove_keywords }
}

fn check(seed: u64, shape: Shape) {
    let mut rng = Rng::with_seed(seed);
    let variant = if rng.u8(0..5) == 0 { Variant::Mmdf } else { Variant::Mboxo };
    let bytes = mailbox(&mut rng, variant, shape);
    let mut world = World::new(variant, &bytes);
    world.verify = rng.bool();
    world.block = rng.bool().then_some(4096);
    for _ in 0..3 {
        let uids: Vec<Uid> = world.scan().seen.iter().map(|seen| seen.uid).collect();
        let changes = changes(&mut rng, &uids);
        world.apply(&changes);
    }
}

#[test]
fn small_mailboxes() {
    for seed in 0..6_000 {
        let run = || check(seed, Shape { messages_max: 6, body_max: 100 });
        if let Err(error) = std::panic::catch_unwind(run) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(error);
        }
    }
}

#[test]
fn bigger_mailboxes() {
    for seed in 0..150 {
        let run = || check(seed, Shape { messages_max: 60, body_max: 150_000 });
        if let Err(error) = std::panic::catch_unwind(run) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(error);
        }
    }
}
