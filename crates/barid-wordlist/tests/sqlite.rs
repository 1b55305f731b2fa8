//! Lists in the form of bogofilter's SQLite build, without that build; `bogofilter.rs` tests lists
//! that it wrote.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use barid_kv::{KvWrite, Purpose, StoreSpec};
use barid_testkit::Scratch;
use barid_testkit::child::{Child, print_line};
use barid_vfs::{OsVfs, Vfs};
use barid_wordlist::{
    Batch, Change, Counts, Error, Native, OnStore, Sharing, TokenEntry, WordList, dump, keys,
};

use crate::stores::choice;
use crate::world::{CREATED, DATE, set_beside, word};

const NONE: Counts = Counts::new(0, 0);
const ONE: Counts = Counts::new(1, 0);
/// Key under which bogofilter's SQLite build stores its byte order.
const ENDIAN: &[u8] = b".ENDIAN32";
/// Time without output after which a child counts as stuck.
const SILENCE: Duration = Duration::from_secs(120);
/// Words of a message, besides the one that all messages have.
const WORDS: u32 = 60;

/// Creates a list in a new folder. Returns `None` if SQLite is not installed.
fn created() -> Option<(Scratch, PathBuf)> {
    let choice = choice("sqlite")?;
    let scratch = Scratch::new("sqlite").unwrap();
    let path = scratch.path().join("wordlist.db");
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    OnStore::create(vfs, &path, choice, Sharing::Bogofilter, &CREATED).unwrap();
    Some((scratch, path))
}

fn open(path: &Path) -> OnStore {
    let choice = choice("sqlite").unwrap();
    OnStore::open(Arc::new(OsVfs), path, choice, Sharing::Bogofilter).unwrap()
}

/// Changes a list as another program could.
fn apply(path: &Path, batch: &barid_kv::Batch) {
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let place = StoreSpec { vfs: &vfs, path, builtin: None, durable: true };
    let mut writer: Box<dyn KvWrite> =
        choice("sqlite").unwrap().kv.write(&place, Purpose::Update).unwrap();
    writer.apply(batch).unwrap();
    writer.close().unwrap();
}

fn put(path: &Path, key: &[u8], value: &[u8]) {
    let mut batch = barid_kv::Batch::new();
    batch.put(key, value);
    apply(path, &batch);
}

fn text(list: &mut dyn WordList) -> String {
    let mut text = Vec::new();
    dump(list, &mut text, None).unwrap();
    String::from_utf8(text).unwrap()
}

fn train(list: &mut dyn WordList, seed: u64, add: Counts, sub: Counts) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut batch = Batch::new(DATE);
    let mut words: Vec<Vec<u8>> = (0..WORDS).map(|_| word(random.u32(0..500))).collect();
    words.push(b"all".to_vec());
    words.sort();
    words.dedup();
    for word in words {
        batch.change(&word, add, sub).unwrap();
    }
    batch.messages(add, sub).unwrap();
    list.update(&batch).unwrap();
}

#[test]
fn lists_are_as_native_ones() {
    let Some((scratch, path)) = created() else { return };
    let native = scratch.path().join("native");
    let mut native = Native::create(Arc::new(OsVfs), &native, &CREATED).unwrap();
    for round in 0..20 {
        let (add, sub) = if round % 4 == 3 { (NONE, ONE) } else { (ONE, Counts::new(0, 1)) };
        let mut list = open(&path);
        train(&mut list, round, add, sub);
        train(&mut native, round, add, sub);
        if round % 7 == 6 {
            let decide = |token: &[u8], entry: TokenEntry| match token.first() {
                Some(b'1') => Change::Drop,
                Some(b'2') => Change::Rename([&b"3"[..], &token[1..]].concat()),
                Some(b'4') => Change::Set(TokenEntry { spam: 7, ..entry }),
                _ => Change::Keep,
            };
            let rewritten = native.rewrite_beside(&mut { decide }, &mut set_beside).unwrap();
            assert_eq!(list.rewrite_beside(&mut { decide }, &mut set_beside).unwrap(), rewritten);
            assert!(rewritten.dropped > 0 && rewritten.changed > 0);
        }
        // The order of lines is the same, too, and keys that are not tokens are not among them.
        assert_eq!(text(&mut list), text(&mut native));
        let tokens: [&[u8]; 4] = [b"none", b"all", keys::MSG_COUNT, keys::ENCODING];
        let (mut found, mut expected) = ([NONE; 4], [NONE; 4]);
        list.counts(&tokens, &mut found).unwrap();
        native.counts(&tokens, &mut expected).unwrap();
        assert_eq!(found, expected);
    }
    assert!(open(&path).entry(ENDIAN).unwrap().is_some());
}

/// Lists of machines with the other order of bytes, and lists that say nothing that makes sense.
#[test]
fn the_order_of_bytes_is_that_of_the_list() {
    let Some((_scratch, path)) = created() else { return };
    let (little, big) = ([4, 3, 2, 1].repeat(2), [1, 2, 3, 4].repeat(2));
    let check = |marker: &[u8], value: &[u8], after: &[u8]| {
        put(&path, ENDIAN, marker);
        put(&path, b"word", value);
        let mut list = open(&path);
        let found = list.entry(b"word").unwrap();
        assert_eq!(found, Some(TokenEntry { spam: 1, ham: 2, date: 3 }), "{marker:?}");
        let mut batch = Batch::new(DATE);
        batch.set(b"word", TokenEntry { spam: 1, ham: 3, date: 0 }).unwrap();
        list.update(&batch).unwrap();
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        let place = StoreSpec { vfs: &vfs, path: &path, builtin: None, durable: true };
        let mut found = Vec::new();
        let mut reader = choice("sqlite").unwrap().kv.read(&place).unwrap();
        reader.get(b"word", &mut |value| found = value.to_vec()).unwrap();
        assert_eq!(found, after);
    };
    let little_value = [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0];
    check(&little, &little_value, &little_value.map(|byte| if byte == 2 { 3 } else { byte })[..8]);
    let big_value = [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3];
    check(&big, &big_value, &[0, 0, 0, 1, 0, 0, 0, 3]);
    let damaged = |marker: &[u8]| {
        put(&path, ENDIAN, marker);
        let mut list = open(&path);
        assert!(matches!(list.totals(), Err(Error::Damaged { .. })), "{marker:?}");
        assert!(matches!(list.update(&Batch::new(DATE)), Err(Error::Damaged { .. })));
    };
    damaged(&[3, 4, 1, 2, 3, 4, 1, 2]);
    damaged(&[1, 2]);
    damaged(b"");
    let mut batch = barid_kv::Batch::new();
    batch.delete(ENDIAN);
    apply(&path, &batch);
    let mut list = open(&path);
    train(&mut list, 1, ONE, NONE);
    assert_eq!(list.totals().unwrap(), ONE);
}

/// Numbers that a short value lacks are 0; further bytes of a long one are ignored.
#[test]
fn values_of_any_length_are_read() {
    let Some((_scratch, path)) = created() else { return };
    let value: Vec<u8> = [1_u32, 2, 3, 4].iter().flat_map(|number| number.to_le_bytes()).collect();
    put(&path, ENDIAN, &[4, 3, 2, 1, 4, 3, 2, 1]);
    for (len, expected) in
        [(0, [0, 0, 0]), (3, [0, 0, 0]), (4, [1, 0, 0]), (7, [1, 0, 0]), (8, [1, 2, 0])]
            .into_iter()
            .chain([(11, [1, 2, 0]), (12, [1, 2, 3]), (13, [1, 2, 3]), (16, [1, 2, 3])])
    {
        put(&path, b"word", &value[..len]);
        let [spam, ham, date] = expected;
        let expected = TokenEntry { spam, ham, date };
        let mut list = open(&path);
        assert_eq!(list.entry(b"word").unwrap(), Some(expected));
        let mut found = None;
        let mut visit = |token: &[u8], entry| {
            found = (token == b"word").then_some(entry).or(found);
            true
        };
        list.scan(&mut visit).unwrap();
        assert_eq!(found, Some(expected));
    }
}

/// Trains with `count` messages, each with a new handle, and reports each to the parent.
pub(crate) fn child_trains(args: &[&str]) {
    let (first, count): (u64, u64) = (args[1].parse().unwrap(), args[2].parse().unwrap());
    for seed in first..first + count {
        train(&mut open(Path::new(args[0])), seed, ONE, NONE);
        print_line(&seed.to_string());
    }
}

fn trainer(path: &Path, first: u64, count: u64) -> Child {
    let (path, first, count) = (path.display(), first.to_string(), count.to_string());
    Child::spawn("sqlite", &[&path.to_string(), &first, &count])
}

/// Checks that every message is there completely. Returns the number of messages.
fn assert_whole(list: &mut OnStore) -> u32 {
    let mut found = [NONE; 2];
    list.counts(&[keys::MSG_COUNT, b"all"], &mut found).unwrap();
    assert_eq!(found[0], found[1], "half a message");
    found[0].spam
}

#[test]
fn writers_at_once_lose_nothing() {
    let Some((scratch, path)) = created() else { return };
    let children = [1_000, 2_000, 3_000].map(|first| trainer(&path, first, 15));
    std::thread::scope(|scope| {
        for first in [4_000, 5_000] {
            let path = &path;
            scope.spawn(move || {
                for seed in first..first + 15 {
                    train(&mut open(path), seed, ONE, NONE);
                }
            });
        }
        let mut list = open(&path);
        let mut last = 0;
        for _ in 0..50 {
            let found = assert_whole(&mut list);
            assert!(found >= last);
            last = found;
        }
    });
    for child in children {
        child.finish(SILENCE);
    }
    let native = scratch.path().join("native");
    let mut native = Native::create(Arc::new(OsVfs), &native, &CREATED).unwrap();
    for first in [1_000, 2_000, 3_000, 4_000, 5_000] {
        (first..first + 15).for_each(|seed| train(&mut native, seed, ONE, NONE));
    }
    assert_eq!(text(&mut open(&path)), text(&mut native));
}

#[test]
fn killed_writers_lose_nothing() {
    let Some((_scratch, path)) = created() else { return };
    let mut random = fastrand::Rng::with_seed(8);
    let (mut told, mut last) = (0, 0);
    for round in 0..500 {
        // On a busy machine a child may be killed before it has done anything.
        if round >= 25 && told > 10 {
            break;
        }
        let child = trainer(&path, round * 100, 100);
        std::thread::sleep(Duration::from_micros(random.u64(5_000..60_000)));
        told += child.kill().len();
        let found = assert_whole(&mut open(&path));
        assert!(found as usize >= told && found >= last, "{found} messages of {told}");
        last = found;
    }
    println!("{told} acknowledged, {last} there");
    assert!(told > 10);
    train(&mut open(&path), 1, ONE, NONE);
    assert_eq!(assert_whole(&mut open(&path)), last + 1);
}
