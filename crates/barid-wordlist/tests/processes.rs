//! Several processes that use one list, some of which are killed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use barid_testkit::Scratch;
use barid_testkit::child::{Child, print_line};
use barid_vfs::OsVfs;
use barid_wordlist::{Batch, Class, Counts, Created, Native, WordList};

use crate::world::{DATE, word};

const CREATED: Created = Created { date: DATE, encoding: Some(2) };
const NONE: Counts = Counts::new(0, 0);
/// Tokens of a message, besides the one that all messages have.
const TOKENS: u32 = 40;
/// Time without output after which a child counts as stuck.
const SILENCE: Duration = Duration::from_secs(120);
/// Number of times that a training process is killed.
const KILLS: u32 = 300;
/// Interval, in messages, between large batches, each of which replaces the table.
const LARGE_EVERY: u64 = 25;

fn open(path: &str) -> Native {
    Native::open_or_create(Arc::new(OsVfs), Path::new(path), &CREATED).unwrap()
}

/// Trains the list with one message. Its tokens are derived from `content`, so the expected counts
/// of a list follow from its receipts.
fn train(list: &mut Native, content: u64) {
    let mut batch = Batch::new(DATE);
    let one = Counts::new(1, 0);
    for token in tokens(content) {
        batch.change(&token, one, NONE).unwrap();
    }
    batch.messages(one, NONE).unwrap();
    batch.train(u128::from(content), Class::Spam, 0);
    let updated = list.update(&batch).unwrap();
    assert!(updated.afterwards.is_none() && updated.saturated + updated.floored == 0);
}

fn tokens(content: u64) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(content);
    let is_large = content % LARGE_EVERY == LARGE_EVERY - 1;
    let mut tokens: Vec<Vec<u8>> = (0..if is_large { 400 } else { TOKENS })
        .map(|_| {
            let mut token = word(random.u32(0..3_000));
            token.resize(if is_large { 900 } else { token.len() }, b'x');
            token
        })
        .collect();
    tokens.push(b"all".to_vec());
    tokens.sort();
    tokens.dedup();
    tokens
}

/// Trains with one message after the other, and reports each to the parent once it is acknowledged.
pub(crate) fn child_trains(args: &[&str]) {
    let first: u64 = args[1].parse().unwrap();
    let mut list = open(args[0]);
    for content in first.. {
        // A child that is never killed fills no disk.
        if content > first + 100_000 {
            return;
        }
        train(&mut list, content);
        print_line(&content.to_string());
    }
}

/// Reads the list in a loop and checks that no message is half there and that none disappears.
pub(crate) fn child_reads(args: &[&str]) {
    let (mut last, mut looks) = (0, 0_u32);
    loop {
        let mut list = open(args[0]);
        let mut found = [NONE; 2];
        list.counts(&[b".MSG_COUNT", b"all"], &mut found).unwrap();
        assert_eq!(found[0], found[1], "half a message");
        assert!(found[0].spam >= last, "fewer messages than before");
        assert!(list.damage().is_empty(), "{:?}", list.damage());
        last = found[0].spam;
        looks += 1;
        print_line(&looks.to_string());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Two training processes are killed again and again, 300 kills in all, while two others read:
/// every acknowledged message is there, and any other is there completely or not at all.
#[test]
fn killed_trainers_lose_nothing() {
    let scratch = Scratch::new("words").unwrap();
    let path = scratch.path().join("list").display().to_string();
    drop(open(&path));
    let readers = [(); 2].map(|()| Child::spawn("read", &[&path]));
    let mut random = fastrand::Rng::with_seed(12);
    let mut acknowledged: Vec<u64> = Vec::new();
    for round in 0..KILLS / 2 {
        let first = |trainer: u64| (u64::from(round) * 2 + trainer) * 1_000_000;
        let spawn = |trainer| Child::spawn("train", &[&path, &first(trainer).to_string()]);
        let trainers = [0, 1].map(spawn);
        std::thread::sleep(Duration::from_micros(random.u64(3_000..40_000)));
        for trainer in trainers {
            let told = trainer.kill();
            acknowledged.extend(told.iter().map(|told| told.parse::<u64>().unwrap()));
        }
    }
    let looks: usize = readers.map(|reader| reader.kill().len()).iter().sum();
    let mut list = open(&path);
    assert!(list.damage().is_empty());
    let mut trained: Vec<u64> = Vec::new();
    list.scan_receipts(&mut |content, _| trained.push(content as u64)).unwrap();
    trained.sort_unstable();
    let lost = acknowledged.iter().filter(|content| trained.binary_search(content).is_err());
    assert_eq!(lost.count(), 0);
    holds_just(&mut list, &trained);
    let more = trained.len() - acknowledged.len();
    println!(
        "{KILLS} kills: {} messages acknowledged, {more} more, {looks} looks",
        acknowledged.len()
    );
    assert!(acknowledged.len() > 100 && looks > 100);
}

/// Checks that the list has exactly the counts of the messages in `trained`.
fn holds_just(list: &mut Native, trained: &[u64]) {
    let mut expected = std::collections::BTreeMap::<Vec<u8>, u32>::new();
    for token in trained.iter().flat_map(|content| tokens(*content)) {
        *expected.entry(token).or_default() += 1;
    }
    let mut found = std::collections::BTreeMap::new();
    list.scan(&mut |token, entry| {
        found.insert(token.to_vec(), entry.spam).is_none() && entry.ham == 0
    })
    .unwrap();
    found.retain(|token, _| token[0] != b'.');
    assert!(found == expected, "{} tokens, expected {}", found.len(), expected.len());
    assert_eq!(list.totals().unwrap(), Counts::new(trained.len() as u32, 0));
}

const COUNTED: u64 = 30;

/// Trains with a few messages, each with a new handle.
pub(crate) fn child_counts(args: &[&str]) {
    let first: u64 = args[1].parse().unwrap();
    for content in first..first + COUNTED {
        train(&mut open(args[0]), content);
    }
}

/// Ten processes train at once, starting without a list: none is blocked forever, and no update is
/// lost.
#[test]
fn ten_processes_lose_no_update() {
    let scratch = Scratch::new("words").unwrap();
    let path = scratch.path().join("list").display().to_string();
    let children: Vec<Child> = (0..10_u64)
        .map(|child| Child::spawn("count", &[&path, &(child * 1_000).to_string()]))
        .collect();
    for child in children {
        child.finish(SILENCE);
    }
    let trained: Vec<u64> =
        (0..10).flat_map(|child| child * 1_000..child * 1_000 + COUNTED).collect();
    let mut list = open(&path);
    holds_just(&mut list, &trained);
    assert!(list.damage().is_empty());
}
