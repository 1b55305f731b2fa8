//! A process that rewrites an mbox over and over is killed at random moments: after each recovery
//! every message exists once, whole and under its UID, and the interrupted change is made for all
//! messages or for none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use barid_formats::{MboxOptions, WritingOptions};
use barid_mailbox::{ChangeSet, EmptyKnown, FlagChange, NewMessage, Storage, SyncContext};
use barid_testkit::Scratch;
use barid_testkit::child::{Child, print_line};
use barid_types::{FlagSet, Keyword, Uid};
use barid_vfs::OsVfs;

use super::rounds::Scanned;
use super::support::{Box_, file_in, utc};

/// Maximum time until a victim begins to work.
const SILENCE: Duration = Duration::from_secs(120);

/// Number of kills in an ordinary test run; `BARID_CRASH_SEEDS` sets another number.
const KILLS: u64 = 40;

/// Maximum number of kills: more take minutes and find nothing else.
const KILLS_MAX: u64 = 300;

/// Initial number of messages. Those with even numbers may be expunged.
const MESSAGES: u64 = 1500;

/// Keywords of every message in each generation of changes: one or several, so that headers outgrow
/// their padding again and again. No two generations share all of theirs.
const GENERATIONS: [&[&str]; 4] = [
    &["a"],
    &["long-keyword-of-the-second-generation", "and-another-one-that-is-as-long-as-that"],
    &["b"],
    &[
        "long-keyword-of-the-fourth-generation",
        "and-another-one-that-is-quite-as-long-as-this",
        "but-three-of-them-are-more-than-any-padding",
    ],
];

/// Pieces so small that a change of a few megabytes has many of every kind.
const SMALL: WritingOptions = WritingOptions {
    unit_len: 8 * 1024,
    stay_len: 64,
    window_len: 256 * 1024,
    direct_len_min: 48 * 1024,
    direct_len_max: 512 * 1024,
    buffer_len: 64 * 1024,
    image_len: 32 * 1024,
};

/// Returns the text of a message, which follows from its number.
fn text(number: u64) -> String {
    let mut rng = fastrand::Rng::with_seed(number);
    let mut text = format!("Subject: {number}\n\n");
    for line in 0..rng.u32(1..90) {
        text.push_str(&format!("{number} {line} {}\n", "text ".repeat(rng.usize(0..12))));
    }
    text
}

fn number(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Subject: "));
    line.and_then(|number| number.parse().ok())
}

/// Returns `true` if this is the rest of an interrupted append, which was never announced.
fn is_stump(read: &str) -> bool {
    let whole = number(read).map(text);
    whole.is_none_or(|whole| whole != read && whole.starts_with(read.trim_end()))
        && number(read).is_none_or(|number| number % 2 == 0)
}

fn keywords(names: &[&str]) -> Vec<Keyword> {
    names.iter().filter_map(|name| Keyword::new(name)).collect()
}

/// Moves all messages from their generation to the next, expunges some and appends some.
fn next_generation(mailbox: &mut Box_, rng: &mut fastrand::Rng, expunge: bool) {
    let found = mailbox.scan();
    let known = Scanned(&found);
    let generation = found.messages.first().and_then(|first| generation_of(&first.keywords));
    let next = generation.map_or(0, |generation| (generation + 1) % GENERATIONS.len());
    let change = FlagChange {
        add_keywords: keywords(GENERATIONS[next]),
        remove_keywords: generation.map(|old| keywords(GENERATIONS[old])).unwrap_or_default(),
        ..FlagChange::default()
    };
    let mut changes = ChangeSet { drop_recent: true, write_uids: true, ..ChangeSet::default() };
    let both = found.messages.iter().zip(&found.report.new_uids);
    for (message, uid) in both {
        let number = message.subject.as_deref().and_then(|subject| subject.parse::<u64>().ok());
        let is_expendable = number.is_none_or(|number| number % 2 == 0 && rng.u32(0..30) == 0);
        if expunge && is_expendable {
            changes.expunge.push(*uid);
        } else {
            changes.flags.push((*uid, change.clone()));
        }
    }
    let texts: Vec<String> = match expunge {
        true => (0..20).map(|_| text(rng.u64(1_000_000..u64::MAX) & !1)).collect(),
        false => Vec::new(),
    };
    let appends: Vec<NewMessage<'_>> = texts
        .iter()
        .map(|text| NewMessage {
            bytes: text.as_bytes(),
            internal_date: None,
            flags: FlagSet::EMPTY,
            keywords: keywords(GENERATIONS[next]),
            ..NewMessage::default()
        })
        .collect();
    let mut ledger = mailbox.ledger();
    let mut context = SyncContext::new(&known);
    context.ledger = Some(&mut ledger);
    mailbox.mailbox.sync(&changes, &appends, &mut context).unwrap();
}

fn generation_of(names: &[String]) -> Option<usize> {
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    GENERATIONS.iter().position(|all| all.iter().copied().collect::<BTreeSet<_>>() == names)
}

/// Changes a mailbox over and over, to be killed.
pub(crate) fn victim(args: &[&str]) {
    let (seed, path) = (args[0].parse::<u64>().unwrap(), args[1]);
    let mut rng = fastrand::Rng::with_seed(seed);
    let writing = match seed % 2 {
        0 => WritingOptions::default(),
        _ => SMALL,
    };
    let options = MboxOptions { writing, ..utc() };
    let mut mailbox = Box_::with(Arc::new(OsVfs), Path::new(path), None, options);
    print_line("ready");
    loop {
        next_generation(&mut mailbox, &mut rng, true);
    }
}

/// Starts the victim and waits until it is at work.
fn start(path: &Path, seed: u64) -> Child {
    let mut child = Child::spawn("rewrite", &[&seed.to_string(), path.to_str().unwrap()]);
    child.says("ready", SILENCE);
    child
}

/// Messages seen after all kills so far.
#[derive(Default)]
struct Seen {
    uids: BTreeMap<u64, Uid>,
    numbers: BTreeMap<Uid, u64>,
    /// Remains of interrupted appends.
    stumps: BTreeMap<Uid, String>,
}

impl Seen {
    /// Checks the mailbox after a recovery.
    fn check(&mut self, mailbox: &Box_, what: &str) {
        let found = mailbox.scan();
        let mut numbers = BTreeSet::new();
        let mut generation = None;
        for (message, uid) in found.messages.iter().zip(&found.report.new_uids) {
            let read = String::from_utf8(mailbox.same_bytes(message)).unwrap();
            if is_stump(&read) {
                let is_last = found.report.new_uids.last() == Some(uid);
                assert!(is_last || self.stumps.contains_key(uid), "{what}: {uid}: {read}");
                // An append after it adds a line end.
                let known = self.stumps.entry(*uid).or_insert_with(|| read.trim_end().to_owned());
                assert_eq!(*known, read.trim_end(), "{what}: {uid}: a stump stays as it is");
                continue;
            }
            let number = number(&read).expect("because else it is a stump");
            assert_eq!(read, text(number), "{what}: {number}");
            assert!(numbers.insert(number), "{what}: {number} twice");
            assert_eq!(*self.uids.entry(number).or_insert(*uid), *uid, "{what}: {number}");
            assert_eq!(*self.numbers.entry(*uid).or_insert(number), number, "{what}: {uid}");
            let own = generation_of(&message.keywords);
            assert!(own.is_some(), "{what}: {number} has {:?}", message.keywords);
            // Messages appended last have the generation that was current then.
            assert_eq!(own, *generation.get_or_insert(own), "{what}: {number}");
        }
        for number in (1..MESSAGES).step_by(2) {
            assert!(numbers.contains(&number), "{what}: {number} is lost");
        }
    }
}

#[test]
fn kills_lose_nothing() {
    let kills = std::env::var("BARID_CRASH_SEEDS").ok().and_then(|text| text.parse().ok());
    let kills = kills.unwrap_or(KILLS).min(KILLS_MAX);
    let scratch = Scratch::new("killed").unwrap();
    let mut file = String::new();
    for number in 0..MESSAGES {
        file.push_str(&format!("From a@b Thu Nov 19 10:00:00 2009\n{}\n", text(number)));
    }
    let path = file_in(&scratch, "box", file.as_bytes());
    let mut mailbox = Box_::open(&path, None);
    let mut rng = fastrand::Rng::with_seed(1);
    next_generation(&mut mailbox, &mut rng, false);
    let mut seen = Seen::default();
    seen.check(&mailbox, "before");
    let (mut unfinished, mut completed) = (0, 0);
    for seed in 0..kills {
        let child = start(&path, seed);
        std::thread::sleep(Duration::from_micros(rng.u64(0..800_000)));
        child.kill();
        unfinished += u64::from(mailbox.mailbox.unfinished(None).unwrap().is_some());
        let known = EmptyKnown::default();
        let recovered = mailbox.mailbox.recover(&mut SyncContext::new(&known)).unwrap();
        assert_eq!(recovered.quarantined, None, "seed {seed}");
        completed += u64::from(recovered.completed);
        assert!(mailbox.mailbox.unfinished(None).unwrap().is_none(), "seed {seed}");
        seen.check(&mailbox, &format!("seed {seed}"));
    }
    println!(
        "{kills} kills, {unfinished} in the middle of a change, {completed} changes completed; \
         {} messages seen, none lost; {} appends were cut short",
        seen.uids.len(),
        seen.stumps.len()
    );
    assert!(unfinished * 10 >= kills, "{unfinished} of {kills} kills met a change");
    let folder = barid_testkit::disk::list(scratch.path()).unwrap();
    let is_journal = |path: &std::path::PathBuf| path.to_string_lossy().contains("journal");
    assert!(!folder.iter().any(is_journal), "{folder:?}");
}
