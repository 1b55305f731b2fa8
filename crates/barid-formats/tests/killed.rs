//! A process that changes an mbx or a mix over and over is killed at random moments: after each
//! recovery every message exists once, whole and under its UID, with its flags from before the
//! interrupted change or from after it; so does mail that others delivered before the recovery.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use barid_mailbox::{ChangeSet, EmptyKnown, FlagChange, NewMessage, SyncContext};
use barid_testkit::Scratch;
use barid_testkit::child::{Child, print_line};
use barid_types::{Keyword, Uid};
use barid_vfs::{OpenOptions, OsVfs, Vfs};

use super::mbx::support::{Cached, World, empty, new_message, record};

/// Maximum time until a victim begins to work.
const SILENCE: Duration = Duration::from_secs(120);

/// Number of kills in an ordinary test run; `BARID_CRASH_SEEDS` sets another number.
const KILLS: u64 = 30;

/// Maximum number of kills: more take minutes and find nothing else.
const KILLS_MAX: u64 = 300;

/// Initial number of messages. Those with even numbers may be expunged.
const MESSAGES: u64 = 600;

/// Keywords of every message in each generation of changes; no two generations share all of theirs.
const GENERATIONS: [&[&str]; 4] = [&["a"], &["b", "c"], &["c", "d"], &["a", "d"]];

/// Returns the text of a message, which follows from its number.
fn text(number: u64) -> String {
    let mut rng = fastrand::Rng::with_seed(number);
    let mut text = format!("Subject: {number}\r\n\r\n");
    for line in 0..rng.u32(1..90) {
        text.push_str(&format!("{number} {line} {}\r\n", "text ".repeat(rng.usize(0..12))));
    }
    text
}

fn number(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Subject: "));
    line.and_then(|number| number.parse().ok())
}

fn keywords(generation: usize) -> Vec<Keyword> {
    GENERATIONS[generation].iter().filter_map(|name| Keyword::new(name)).collect()
}

/// Returns the generation of a message.
fn generation(found: &Cached, at: usize) -> Option<usize> {
    let names = found.report.keywords.select(found.seen[at].mask);
    let names: BTreeSet<&str> = names.map(Keyword::as_str).collect();
    GENERATIONS.iter().position(|all| all.iter().copied().collect::<BTreeSet<_>>() == names)
}

/// Returns the numbers of all messages, from their headers.
fn numbers(found: &Cached) -> Vec<u64> {
    let headers = found.seen.iter().map(|seen| String::from_utf8_lossy(&seen.header));
    headers.map(|header| number(&header).expect("because all have one")).collect()
}

/// Moves all messages to the next generation, expunges some and appends some.
fn next_generation(world: &World, rng: &mut fastrand::Rng, now: usize) -> usize {
    let found = world.scan();
    let next = (now + 1) % GENERATIONS.len();
    let mut changes = ChangeSet { drop_recent: true, ..ChangeSet::default() };
    for (at, (seen, number)) in found.seen.iter().zip(numbers(&found)).enumerate() {
        if number % 2 == 0 && rng.u32(0..15) == 0 {
            changes.expunge.push(seen.uid);
            continue;
        }
        let add_keywords = keywords(next);
        let mut remove_keywords = generation(&found, at).map(keywords).unwrap_or_default();
        remove_keywords.retain(|keyword| !add_keywords.contains(keyword));
        let change = FlagChange { add_keywords, remove_keywords, ..FlagChange::default() };
        changes.flags.push((seen.uid, change));
    }
    let texts: Vec<String> = (0..20).map(|_| text(rng.u64(1_000_000..u64::MAX) & !1)).collect();
    let mut appends: Vec<NewMessage<'_>> =
        texts.iter().map(|text| new_message(text.as_bytes(), 1_000_000_000)).collect();
    appends.iter_mut().for_each(|message| message.keywords = keywords(next));
    world.try_sync(&found, &changes, &appends).unwrap();
    next
}

/// Changes a mailbox over and over, to be killed.
pub(crate) fn victim(args: &[&str]) {
    let mut rng = fastrand::Rng::with_seed(args[0].parse().unwrap());
    let world = World::on(Arc::new(OsVfs), Path::new(args[1]));
    let found = world.scan();
    let mut now = generation(&found, found.seen.len() - 1).unwrap_or(0);
    print_line("ready");
    loop {
        now = next_generation(&world, &mut rng, now);
    }
}

/// Starts the victim and waits until it is at work.
fn start(path: &Path, seed: u64) -> Child {
    let mut child = Child::spawn("change", &[&seed.to_string(), path.to_str().unwrap()]);
    child.says("ready", SILENCE);
    child
}

/// Messages seen after all kills so far.
#[derive(Default)]
struct Seen {
    uids: BTreeMap<u64, Uid>,
    delivered: Vec<u64>,
}

impl Seen {
    /// Checks the mailbox after a recovery.
    fn check(&mut self, world: &World, what: &str) {
        let found = world.scan();
        assert_eq!(found.report.defects, [], "{what}");
        let mut all = BTreeSet::new();
        for (at, seen) in found.seen.iter().enumerate() {
            let read = String::from_utf8(world.read(seen).unwrap()).unwrap();
            let number = number(&read).unwrap();
            assert_eq!(read, text(number), "{what}: {number}");
            assert!(all.insert(number), "{what}: {number} twice");
            assert_eq!(*self.uids.entry(number).or_insert(seen.uid), seen.uid, "{what}: {number}");
            let own = generation(&found, at);
            let is_delivered = self.delivered.contains(&number);
            assert!(own.is_some() || is_delivered, "{what}: {number}: {}", found.flags_of(seen));
        }
        let missing: Vec<u64> = (1..MESSAGES)
            .step_by(2)
            .chain(self.delivered.iter().copied())
            .filter(|number| !all.contains(number))
            .collect();
        assert_eq!(missing, [0; 0], "{what}: lost");
    }
}

/// Delivers mail as c-client does: after the end of the file.
fn deliver(path: &Path, number: u64) {
    let file = OsVfs.open(path, OpenOptions::WRITE).unwrap();
    let size = file.metadata().unwrap().size;
    file.write_all_at(&record(&text(number), 0, 0, 0), size).unwrap();
}

fn kill(name: &str, make: &dyn Fn(&Path)) {
    let kills = std::env::var("BARID_CRASH_SEEDS").ok().and_then(|text| text.parse().ok());
    let kills = kills.unwrap_or(KILLS).min(KILLS_MAX);
    let scratch = Scratch::new(&format!("killed-{name}")).unwrap();
    let path = scratch.path().join("box");
    make(&path);
    let world = World::on(Arc::new(OsVfs), &path);
    let texts: Vec<String> = (0..MESSAGES).map(text).collect();
    let mut messages: Vec<NewMessage<'_>> =
        texts.iter().map(|text| new_message(text.as_bytes(), 1_000_000_000)).collect();
    messages.iter_mut().for_each(|message| message.keywords = keywords(0));
    world.try_sync(&world.scan(), &ChangeSet::default(), &messages).unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut seen = Seen::default();
    seen.check(&world, "before");
    let (mut unfinished, mut completed) = (0, 0);
    for seed in 0..kills {
        let child = start(&path, seed);
        std::thread::sleep(Duration::from_micros(rng.u64(0..400_000)));
        child.kill();
        if name == "mbx" && seed % 3 == 0 {
            let number = 3_000_001 + 2 * seed;
            deliver(&path, number);
            seen.delivered.push(number);
        }
        let mailbox = world.mailbox().unwrap();
        unfinished += u64::from(mailbox.unfinished(None).unwrap().is_some());
        let known = EmptyKnown::default();
        let recovered = mailbox.recover(&mut SyncContext::new(&known)).unwrap();
        assert_eq!(recovered.quarantined, None, "seed {seed}");
        completed += u64::from(recovered.completed);
        assert!(mailbox.unfinished(None).unwrap().is_none(), "seed {seed}");
        // The next change cuts off the remains of an append.
        let nothing = ChangeSet { drop_recent: true, ..ChangeSet::default() };
        world.try_sync(&world.scan(), &nothing, &[]).unwrap();
        seen.check(&world, &format!("seed {seed}"));
    }
    println!(
        "{name}: {kills} kills, {unfinished} in the middle of a change, {completed} changes \
         completed; {} messages seen, none lost",
        seen.uids.len()
    );
    assert!(unfinished > 0, "no kill of {kills} met a change");
}

#[test]
fn kills_of_mbx_lose_nothing_as_in_a_crash() {
    kill("mbx", &|path| {
        let file = OsVfs.open(path, OpenOptions::create_new(0o600)).unwrap();
        file.write_all_at(&empty(), 0).unwrap();
    });
}

#[test]
fn kills_of_mix_lose_nothing_as_in_a_crash() {
    kill("mix", &|path| {
        OsVfs.create_dir(path, 0o700).unwrap();
        let meta = b"S5f000000\r\nV5f000000\r\nL00000000\r\nN5f000000\r\n";
        let files = [(".mix5f000000", &b""[..]), (".mixindex", b""), (".mixstatus", b"")];
        for (name, bytes) in files.into_iter().chain([(".mixmeta", &meta[..])]) {
            let file = OsVfs.open(&path.join(name), OpenOptions::create_new(0o600)).unwrap();
            file.write_all_at(bytes, 0).unwrap();
        }
    });
}
