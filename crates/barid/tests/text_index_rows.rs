//! The rows that an index covers are kept, and are those of the messages whatever happens.

use barid::query::parse_imap;
use barid::{Flag, IndexAmount, Mailbox, ReadAs, UidSet};
use fastrand::Rng;

use crate::arena::{Arena, add, expunge, flag, now, uid};
use crate::text_index::{open, remove_files};

/// Words of the bodies of messages, drawn at random.
fn words(mailbox: &mut Mailbox, random: &mut Rng) -> Vec<String> {
    let mut words = Vec::new();
    for number in mailbox.uids().unwrap() {
        let bytes = mailbox.read(uid(number), ReadAs::Message).unwrap().bytes;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = text.split_once("\r\n\r\n").or(text.split_once("\n\n")).unwrap_or_default().1;
        let found = body.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.len() > 3);
        words.extend(found.filter(|_| random.u8(..4) == 0).map(str::to_owned));
    }
    random.shuffle(&mut words);
    words.truncate(40);
    words
}

/// Searches for words with the index, and without it; returns how many messages were read with it.
fn check(arena: &Arena, random: &mut Rng, what: &str) -> u32 {
    let indexed = open(arena, &|_| {});
    let mut plain = open(arena, &|options| options.use_index = false);
    let (mut found, mut read) = (0, 0);
    for word in words(&mut plain, random) {
        let program = parse_imap(format!("BODY {word}").as_bytes()).unwrap().program;
        let search = |mailbox: &Mailbox| mailbox.view().search(&program, &UidSet::new()).unwrap();
        let (ours, expected) = (search(&indexed), search(&plain));
        assert_eq!(ours.rows, expected.rows, "{what}: {word}");
        found += ours.rows.len();
        read += ours.read;
    }
    assert!(found > 10, "{what}: {found}");
    read
}

/// Does something at random to a mailbox, its cache or its index.
fn step(arena: &mut Arena, random: &mut Rng) -> &'static str {
    let mut mailbox = open(arena, &|_| {});
    let some: Vec<u32> =
        mailbox.uids().unwrap().into_iter().filter(|_| random.u8(..8) == 0).collect();
    match random.u8(..6) {
        0 => {
            arena.deliver(random.u64(1..9));
            "deliver"
        }
        1 => {
            mailbox.change(&expunge(&some), &now()).unwrap();
            "expunge"
        }
        2 => {
            mailbox.change(&flag(&some, &add(Flag::Flagged)), &now()).unwrap();
            "flag"
        }
        3 => {
            // As many messages, in a new file of the cache.
            mailbox.change(&expunge(&some), &now()).unwrap();
            arena.deliver(some.len() as u64);
            remove_files(&*arena.vfs, &arena.root.join("cache"), false);
            "replace"
        }
        4 => {
            mailbox.view().remove_index().unwrap();
            mailbox.view().index_texts(IndexAmount::All).unwrap();
            "index anew"
        }
        _ => {
            mailbox.view().index_texts(IndexAmount::All).unwrap();
            "index"
        }
    }
}

#[test]
fn rows_that_are_kept_are_those_of_their_messages() {
    for (format, seed) in [("maildir", 1), ("mboxrd", 2)] {
        let mut arena = Arena::in_memory(format, seed);
        let mut random = Rng::with_seed(seed);
        arena.deliver(70);
        open(&arena, &|_| {}).view().index_texts(IndexAmount::All).unwrap();
        for number in 0..20 {
            let done = step(&mut arena, &mut random);
            // The first search keeps the rows, the second one asks them.
            for time in ["first", "again"] {
                let read = check(&arena, &mut random, &format!("{format} {number} {done} {time}"));
                assert!(read == 0 || !done.starts_with("index"), "{format} {number}: {read}");
            }
        }
    }
}
