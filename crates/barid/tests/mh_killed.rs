//! A process that changes an MH folder over and over is killed at random moments: every message
//! that it reported exists once, whole, under its UID and with its flags.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use barid::{
    ChangeOptions, ChangeRequest, Flag, FlagChange, FlagSet, Mailbox, NewMessage, OpenOptions,
    ReadAs, Uid,
};
use barid_testkit::child::{Child, print_line};
use barid_testkit::{Scratch, disk};
use fastrand::Rng;

/// Timeout for the start of a victim.
const SILENCE: Duration = Duration::from_secs(120);

/// Number of kills in an ordinary test run; `BARID_CRASH_SEEDS` sets another number.
const KILLS: u64 = 25;

/// Maximum number of kills: more take minutes and find nothing else.
const KILLS_MAX: u64 = 300;

/// Returns the text of a message, which follows from its number.
fn text(number: u64) -> Vec<u8> {
    let lines = Rng::with_seed(number).usize(0..400);
    format!("Subject: {number}\n\n{}", "a line of text\n".repeat(lines)).into_bytes()
}

fn number(text: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(text);
    text.lines().next().unwrap().strip_prefix("Subject: ").unwrap().parse().unwrap()
}

fn open(root: &Path) -> Mailbox {
    let options = OpenOptions::new(Some(root.join("cache")), root.join("state"));
    Mailbox::open(&format!("mh:{}", root.join("box").display()), &options).unwrap()
}

fn change(mailbox: &mut Mailbox, request: &ChangeRequest<'_>) -> Vec<Uid> {
    mailbox.change(request, &ChangeOptions::default()).unwrap().appended
}

/// Changes a folder over and over, to be killed.
pub(crate) fn victim(args: &[&str]) {
    let mut rng = Rng::with_seed(args[0].parse().unwrap());
    let mut mailbox = open(Path::new(args[1]));
    let mut own = Vec::new();
    print_line("ready");
    loop {
        let numbers: Vec<u64> = (0..rng.u32(1..4)).map(|_| rng.u64(..)).collect();
        let texts: Vec<Vec<u8>> = numbers.iter().map(|number| text(*number)).collect();
        let new = |bytes| NewMessage { bytes, ..NewMessage::default() };
        let appends: Vec<NewMessage<'_>> = texts.iter().map(|text| new(text)).collect();
        let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        for (uid, number) in change(&mut mailbox, &request).into_iter().zip(numbers) {
            print_line(&format!("appended {uid} {number}"));
            own.push(uid);
        }
        let uid = own[rng.usize(..own.len())];
        let add = FlagSet::EMPTY.with(Flag::Flagged).with(Flag::Deleted);
        let flags = vec![(uid, FlagChange { add, ..FlagChange::default() })];
        change(&mut mailbox, &ChangeRequest { flags: flags.into(), ..ChangeRequest::default() });
        print_line(&format!("flagged {uid} 0"));
        if own.len() > 4 {
            let uid = own.swap_remove(rng.usize(..own.len()));
            print_line(&format!("expunging {uid} 0"));
            change(&mut mailbox, &ChangeRequest { expunge: vec![uid], ..ChangeRequest::default() });
        }
    }
}

/// Starts the victim and waits until it is at work.
fn start(path: &Path, seed: u64) -> Child {
    let mut child =
        Child::spawn("change an MH folder", &[&seed.to_string(), path.to_str().unwrap()]);
    child.says("ready", SILENCE);
    child
}

/// The reports of the victims so far.
#[derive(Default)]
struct Promised {
    numbers: BTreeMap<u32, u64>,
    flagged: BTreeSet<u32>,
    expunging: BTreeSet<u32>,
}

impl Promised {
    fn learn(&mut self, said: &[String]) {
        for line in said {
            let words: Vec<&str> = line.split(' ').collect();
            let [verb, uid, number] = words[..] else { panic!("{line}") };
            let uid = uid.parse().unwrap();
            match verb {
                "appended" => drop(self.numbers.insert(uid, number.parse().unwrap())),
                "flagged" => drop(self.flagged.insert(uid)),
                _ => drop(self.expunging.insert(uid)),
            }
        }
    }

    /// Checks the folder as it is now.
    fn check(&self, mailbox: &mut Mailbox, what: &str) {
        let mut found = BTreeMap::new();
        let rows: Vec<u32> = (0..mailbox.len()).collect();
        let add = &mut |summary: &barid::Summary<'_>| {
            found.insert(summary.uid, summary.flags);
            true
        };
        mailbox.summaries(&rows, add).unwrap();
        let mut numbers = BTreeMap::new();
        for (uid, flags) in found {
            let bytes = mailbox.read(uid, ReadAs::Message).unwrap().bytes;
            let number = number(&bytes);
            assert!(bytes == text(number), "{what}: {uid} is not whole");
            assert_eq!(numbers.insert(number, (uid.get(), flags)), None, "{what}: {number} twice");
        }
        for (uid, number) in &self.numbers {
            match numbers.get(number) {
                Some((found, flags)) => {
                    assert_eq!(found, uid, "{what}: {number}");
                    let is_flagged = flags.contains(Flag::Flagged);
                    assert!(is_flagged || !self.flagged.contains(uid), "{what}: flags of {uid}");
                }
                None => assert!(self.expunging.contains(uid), "{what}: {uid} is lost"),
            }
        }
    }
}

#[test]
fn kills_lose_nothing() {
    let kills = std::env::var("BARID_CRASH_SEEDS").ok().and_then(|text| text.parse().ok());
    let kills = kills.unwrap_or(KILLS).min(KILLS_MAX);
    let scratch = Scratch::new("mh-killed").unwrap();
    disk::create_dir(&scratch.path().join("box")).unwrap();
    disk::write(&scratch.path().join("box/.mh_sequences"), b"").unwrap();
    let (mut promised, mut rng) = (Promised::default(), Rng::with_seed(1));
    for seed in 0..kills {
        let child = start(scratch.path(), seed);
        std::thread::sleep(Duration::from_micros(rng.u64(0..200_000)));
        promised.learn(&child.kill());
        promised.check(&mut open(scratch.path()), &format!("seed {seed}"));
    }
    let (count, expunged) = (promised.numbers.len(), promised.expunging.len());
    println!("{kills} kills, {count} messages appended, {expunged} expunged, none lost");
    assert!(count as u64 >= kills, "{count} messages");
}
