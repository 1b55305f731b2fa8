//! Many threads read and change one mailbox while other programs deliver to it.
//!
//! With `BARID_STRESS_SECONDS=600`, `cargo test --workspace --test runner sharing::` runs that
//! long.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use barid::vfs::{DotLock, DotLockOptions, LockKind, LockMode, OpenOptions as FileOptions};
use barid::vfs::{OsVfs, Vfs, lock_file};
use barid::{
    Cancel, ChangeRequest, Error, Flag, FlagChange, FlagSet, MailboxChange, Mailboxes, NewMessage,
    OpenOptions, ReadAs, SharedMailbox, Uid, View, WatchOptions,
};
use barid_testkit::{Scratch, disk};

use crate::arena::{Arena, now};

const READERS: usize = 8;
const WRITERS: usize = 2;
/// Changes of each writer, and messages of the other program, without `BARID_STRESS_SECONDS`.
const CHANGES: u64 = 40;
/// Messages that are never expunged, so that there is always something to read.
const MESSAGES_MIN: u32 = 20;
const LONG: Duration = Duration::from_secs(60);

/// A mailbox that many threads change, and the changes made.
struct World {
    path: PathBuf,
    is_maildir: bool,
    shared: SharedMailbox,
    /// The number of the next message; all numbers differ.
    next: AtomicU64,
    expunged: Mutex<BTreeSet<u64>>,
    /// The number of each message by its UID.
    numbers: Mutex<BTreeMap<u32, u64>>,
    until: Option<Instant>,
    changing: AtomicU64,
}

fn text(number: u64) -> Vec<u8> {
    format!("Subject: number {number}\n\nnumber {number}\n{}", "line\n".repeat(20)).into_bytes()
}

fn number_in(text: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(text);
    let digits = text.rsplit("\nnumber ").next().and_then(|rest| rest.lines().next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no number: {text}"))
}

/// Returns the flags of all messages.
fn flags_of(view: &View) -> BTreeMap<Uid, FlagSet> {
    let rows: Vec<u32> = (0..view.len()).collect();
    let mut all = BTreeMap::new();
    view.summaries(&rows, &mut |summary| {
        all.insert(summary.uid, summary.flags.without(Flag::Recent));
        true
    })
    .unwrap();
    assert_eq!(all.len(), view.len() as usize);
    all
}

impl World {
    fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    fn goes_on(&self, done: u64) -> bool {
        self.until.map_or(done < CHANGES, |until| Instant::now() < until)
    }

    /// Delivers as another program does.
    fn deliver(&self) {
        let number = self.next();
        let text = text(number);
        if self.is_maildir {
            let name = format!("{}.M{number}P1.host", 1_600_000_000 + number);
            let temporary = self.path.join("tmp").join(&name);
            disk::write(&temporary, &text).unwrap();
            return disk::rename(&temporary, &self.path.join("new").join(name)).unwrap();
        }
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        let timeout = LONG;
        let options = DotLockOptions { timeout, break_stale: false, ..DotLockOptions::default() };
        let lock = DotLock::acquire(&vfs, &self.path, options).unwrap();
        let file = vfs.open(&self.path, FileOptions::WRITE).unwrap();
        let exclusive = (LockKind::Fcntl, LockMode::Exclusive);
        lock_file(&*vfs, &*file, &self.path, exclusive, timeout).unwrap();
        let from = &b"From a@b Sat Jan  3 01:05:34 1996\n"[..];
        let end = file.metadata().unwrap().size;
        file.write_all_at(&[from, &text, b"\n"].concat(), end).unwrap();
        file.unlock(LockKind::Fcntl).unwrap();
        lock.release().unwrap();
    }

    fn write(&self, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut done = 0;
        while self.goes_on(done) {
            done += 1;
            let action = rng.u8(..4);
            let updated = self.shared.update(&Cancel::new(), |mailbox, _| {
                let uids = mailbox.uids()?;
                let uid = Uid::new(uids[rng.usize(..uids.len())]).unwrap();
                match action {
                    0 => {
                        let bytes = text(self.next());
                        let appends = [NewMessage { bytes: &bytes, ..NewMessage::default() }];
                        let request = ChangeRequest { appends: &appends, ..Default::default() };
                        mailbox.change(&request, &now()).map(drop)
                    }
                    1 if uids.len() as u32 > MESSAGES_MIN => {
                        let number = number_in(&mailbox.read(uid, ReadAs::Message)?.bytes);
                        let request = ChangeRequest { expunge: vec![uid], ..Default::default() };
                        mailbox.change(&request, &now())?;
                        assert!(self.expunged.lock().unwrap().insert(number), "{number} twice");
                        Ok(())
                    }
                    _ => {
                        let flag = [Flag::Seen, Flag::Flagged, Flag::Answered][rng.usize(..3)];
                        let (set, none) = ([flag].into_iter().collect(), FlagSet::default());
                        let (add, remove) = if rng.bool() { (set, none) } else { (none, set) };
                        let change = FlagChange { add, remove, ..FlagChange::default() };
                        let flags = [(uid, change)].into_iter().collect();
                        let request = ChangeRequest { flags, ..Default::default() };
                        mailbox.change(&request, &now()).map(drop)
                    }
                }
            });
            match updated {
                // The other program has moved a message, or holds the lock for long.
                Ok(()) | Err(Error::NoSuchMessage { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        self.changing.fetch_sub(1, Ordering::SeqCst);
    }

    fn read(&self, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut view = self.shared.view();
        let mut model = flags_of(&view);
        let mut is_last = false;
        while !is_last {
            is_last = self.changing.load(Ordering::SeqCst) == 0;
            let newer = match seed % 2 {
                0 => self.shared.refresh(&Cancel::new()).unwrap(),
                _ if is_last => self.shared.refresh(&Cancel::new()).unwrap(),
                _ => {
                    let newer = self.shared.wait_for_newer(&view, Duration::from_millis(100));
                    newer.unwrap_or_else(|| self.shared.view())
                }
            };
            apply(&mut model, &newer, &view);
            assert_eq!(model, flags_of(&newer));
            self.read_some(&view, &mut rng);
            self.read_some(&newer, &mut rng);
            view = newer;
        }
    }

    /// Reads some messages of a view, which may be gone, but never have other content.
    fn read_some(&self, view: &View, rng: &mut fastrand::Rng) {
        for _ in 0..3 {
            let uid = view.uid_of(rng.u32(..view.len())).unwrap();
            match view.read(uid, ReadAs::Message) {
                Ok(message) => {
                    let number = number_in(&message.bytes);
                    let mut numbers = self.numbers.lock().unwrap();
                    assert_eq!(*numbers.entry(uid.get()).or_insert(number), number, "UID {uid}");
                }
                Err(Error::NoSuchMessage { .. }) => {}
                Err(error) => panic!("UID {uid}: {error}"),
            }
        }
    }
}

/// Applies the changes between two views to the state of a client.
fn apply(model: &mut BTreeMap<Uid, FlagSet>, newer: &View, before: &View) {
    let flags = flags_of(newer);
    for change in newer.changes_since(before).unwrap() {
        match change {
            MailboxChange::Expunged(uid) => assert!(model.remove(&uid).is_some(), "{uid}"),
            MailboxChange::New(uid) => assert!(model.insert(uid, flags[&uid]).is_none(), "{uid}"),
            MailboxChange::Flags(uid) => assert!(model.insert(uid, flags[&uid]).is_some(), "{uid}"),
            MailboxChange::ModSeq(uid) => assert_eq!(model.get(&uid), flags.get(&uid), "{uid}"),
            MailboxChange::Renumbered(uidvalidity) => panic!("renumbered: {uidvalidity}"),
        }
    }
}

fn run(format: &str, seconds: Option<u64>) {
    let scratch = Scratch::new("sharing").unwrap();
    let arena = Arena::new(Arc::new(OsVfs), scratch.path(), format, 41);
    let folder = |name: &str| scratch.path().join(name);
    let options = OpenOptions::new(Some(folder("cache")), folder("state"));
    let mailboxes = Mailboxes::new(Arc::new(OsVfs), options, Some(WatchOptions::default()));
    let world = World {
        path: arena.spec.path.clone(),
        is_maildir: arena.is_maildir,
        shared: mailboxes.open_spec(&arena.spec).unwrap(),
        next: AtomicU64::new(0),
        expunged: Mutex::default(),
        numbers: Mutex::default(),
        until: seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds)),
        changing: AtomicU64::new(WRITERS as u64 + 1),
    };
    (0..2 * MESSAGES_MIN).for_each(|_| world.deliver());
    world.shared.refresh(&Cancel::new()).unwrap();
    std::thread::scope(|scope| {
        let world = &world;
        for reader in 0..READERS as u64 {
            scope.spawn(move || world.read(reader));
        }
        for writer in 0..WRITERS as u64 {
            scope.spawn(move || world.write(100 + writer));
        }
        scope.spawn(|| {
            let mut done = 0;
            while world.goes_on(done) {
                done += 1;
                world.deliver();
                std::thread::sleep(Duration::from_millis(5));
            }
            world.changing.fetch_sub(1, Ordering::SeqCst);
        });
    });
    world.check_nothing_is_lost(format);
}

impl World {
    /// Compares the messages of the mailbox with those that were delivered and not expunged.
    fn check_nothing_is_lost(&self, format: &str) {
        let view = self.shared.refresh(&Cancel::new()).unwrap();
        let mut there = BTreeSet::new();
        for uid in view.uids().unwrap() {
            let read = view.read(Uid::new(uid).unwrap(), ReadAs::Message).unwrap();
            assert!(there.insert(number_in(&read.bytes)), "{format}: UID {uid} is there twice");
        }
        let expunged = self.expunged.lock().unwrap();
        let all = 0..self.next.load(Ordering::SeqCst);
        let expected: BTreeSet<u64> = all.filter(|number| !expunged.contains(number)).collect();
        assert_eq!(there, expected, "{format}");
    }
}

#[test]
fn a_mailbox_is_read_and_changed_by_many_at_once() {
    let seconds = std::env::var("BARID_STRESS_SECONDS").ok().map(|text| text.parse().unwrap());
    for format in ["mboxrd", "maildir"] {
        run(format, seconds);
    }
}
