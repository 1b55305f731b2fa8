//! Our writer among other programs that lock and write the same file: no message is lost, and our
//! writer never gives up waiting.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use barid_formats::{MboxLock, MboxMailbox, MboxOptions};
use barid_mailbox::{ChangeSet, EmptyKnown, Error, NewMessage, Storage, SyncContext};
use barid_testkit::child::Child;
use barid_testkit::peers::{CClient, Dovecot};
use barid_testkit::{Scratch, disk};
use barid_types::FlagSet;
use barid_vfs::{DotLock, DotLockOptions, LockKind, LockMode, OpenOptions, OsVfs, Vfs};

use super::support::{Box_, file_in, utc};

const FROM: &str = "From a@b Thu Nov 19 10:00:00 2009\n";

/// Returns message `number` of a writer.
fn message(who: &str, number: u32) -> String {
    let body = format!("line of {who} {number}\n").repeat(number as usize % 50 + 1);
    format!("Message-ID: <{number}.{who}@test>\nSubject: {who}\n\n{body}")
}

/// Appends messages one by one as this process; every one must succeed.
fn append_all(path: &Path, who: &str, count: u32) {
    for number in 0..count {
        let text = message(who, number);
        let message = NewMessage {
            bytes: text.as_bytes(),
            internal_date: None,
            flags: FlagSet::EMPTY,
            keywords: Vec::new(),
            ..NewMessage::default()
        };
        let mailbox =
            MboxMailbox::open_with(Arc::new(OsVfs), path, None, utc()).expect("because it opens");
        let known = EmptyKnown::default();
        let mut context = SyncContext::new(&known);
        let done = mailbox.sync(&ChangeSet::default(), &[message], &mut context);
        done.unwrap_or_else(|error| panic!("{who} {number}: {error}"));
    }
}

/// Checks that every message of every writer exists once and is whole.
fn check(path: &Path, writers: &[(&str, u32)]) {
    let mailbox = Box_::open(path, None);
    let mut found: BTreeMap<String, u32> = BTreeMap::new();
    for message in &mailbox.scan().messages {
        let text = String::from_utf8(mailbox.same_bytes(message)).unwrap();
        let text: String = text.split_inclusive('\n').filter(|line| !is_added(line)).collect();
        *found.entry(text).or_default() += 1;
    }
    for (who, count) in writers {
        for number in 0..*count {
            let times = found.remove(&message(who, number));
            assert_eq!(times, Some(1), "{who} {number}");
        }
    }
    assert!(found.is_empty(), "{found:?}");
    let folder = OsVfs.open_dir(path.parent().unwrap()).unwrap();
    let mut left = Vec::new();
    folder.list(&mut |name, _| left.push(String::from_utf8_lossy(name).into_owned())).unwrap();
    left.retain(|name| name.contains(".lock"));
    assert_eq!(left, [""; 0], "no lock file is left");
}

/// Returns `true` for a field that a program adds to a message that it stores.
fn is_added(line: &str) -> bool {
    ["Content-Length:"].iter().any(|name| line.starts_with(name))
}

/// Maximum time that a process waits for its locks.
const SILENCE: Duration = Duration::from_secs(120);

/// Starts this program `count` times as one that takes a single lock in its own way, appends a
/// message, and keeps the lock for a while.
fn start_locker(lock: &str, who: &str, count: u32, path: &Path) -> Child {
    Child::spawn("lock", &[lock, who, &count.to_string(), path.to_str().unwrap()])
}

/// See [`start_locker`].
pub(crate) fn locker(args: &[&str]) {
    use rustix::fs::{FlockOperation, fcntl_lock, flock};
    let [lock, who, count, path] = *args else { panic!("{args:?}") };
    let count: u32 = count.parse().unwrap();
    let mut rng = fastrand::Rng::with_seed(who.bytes().map(u64::from).sum());
    let path = Path::new(path);
    for number in 0..count {
        let file = disk::open_append(path).unwrap();
        let mut dotlock = None;
        match lock {
            "flock" => flock(&file, FlockOperation::LockExclusive).unwrap(),
            "fcntl" => fcntl_lock(file.as_fd(), FlockOperation::LockExclusive).unwrap(),
            _ => {
                let options =
                    DotLockOptions { timeout: Duration::from_secs(60), ..Default::default() };
                let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
                dotlock = Some(DotLock::acquire(&vfs, path, options).unwrap());
            }
        }
        let text = format!("{FROM}{}\n", message(who, number));
        // In two pieces, so that a write by another program in between would be detected.
        let half = text.len() / 2;
        (&file).write_all(&text.as_bytes()[..half]).unwrap();
        std::thread::sleep(Duration::from_micros(rng.u64(0..6000)));
        (&file).write_all(&text.as_bytes()[half..]).unwrap();
        if let Some(dotlock) = dotlock {
            dotlock.release().unwrap();
        }
        drop(file);
        std::thread::sleep(Duration::from_micros(rng.u64(0..4000)));
    }
}

/// Runs two processes that each know only one lock, and two of our writers.
fn contend(lock: &str) {
    let scratch = Scratch::new("contend").unwrap();
    let path = file_in(&scratch, "box", b"");
    let lockers = [("one", 40), ("two", 40)];
    let running = lockers.map(|(who, count)| start_locker(lock, who, count, &path));
    std::thread::scope(|scope| {
        for who in ["ours", "also"] {
            let path = &path;
            scope.spawn(move || append_all(path, who, 30));
        }
    });
    for child in running {
        child.finish(SILENCE);
    }
    check(&path, &[("one", 40), ("two", 40), ("ours", 30), ("also", 30)]);
    println!("{lock}: 60 appends of ours among 80 of two others, none failed, none lost");
}

#[test]
fn among_programs_that_flock() {
    contend("flock");
}

#[test]
fn among_programs_that_lock_by_fcntl() {
    contend("fcntl");
}

#[test]
fn among_programs_with_lock_files() {
    contend("dotlock");
}

/// Returns a mailbox that c-client and Dovecot can reach, in the home of the former.
fn shared() -> Option<(CClient, Dovecot, PathBuf)> {
    let (c_client, dovecot) = (CClient::new()?, Dovecot::new()?);
    let path = c_client.folder().join("box");
    disk::write(&path, format!("{FROM}{}\n", message("first", 0)).as_bytes()).unwrap();
    Some((c_client, dovecot, path))
}

#[test]
fn among_mailutil_and_dovecot() {
    let Some((c_client, dovecot, path)) = shared() else { return };
    const THEIRS: u32 = 25;
    for number in 0..THEIRS {
        let file = c_client.folder().join(format!("source{number}"));
        disk::write(&file, format!("{FROM}{}\n", message("mailutil", number)).as_bytes()).unwrap();
    }
    let mut session = dovecot.imap(&dovecot.mbox_location(&path), &[]).unwrap();
    // c-client must own the files that it is given.
    c_client.mailutil(&["check", "box"]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..THEIRS {
                c_client.mailutil(&["append", &format!("source{number}"), "box"]).unwrap();
            }
        });
        scope.spawn(|| {
            for number in 0..THEIRS {
                let text = message("dovecot", number).replace('\n', "\r\n");
                session.append("INBOX", "", text.as_bytes()).unwrap();
            }
        });
        scope.spawn(|| append_all(&path, "ours", 50));
    });
    session.logout().unwrap();
    check(&path, &[("first", 1), ("mailutil", THEIRS), ("dovecot", THEIRS), ("ours", 50)]);
    println!("mailutil and Dovecot: 50 appends of ours among 50 of theirs, none failed, none lost");
}

/// Returns options of a writer that does not wait.
fn impatient() -> MboxOptions {
    MboxOptions { lock_timeout: Duration::ZERO, ..utc() }
}

fn append_one(path: &Path, options: MboxOptions) -> Result<(), Error> {
    let mailbox = MboxMailbox::open_with(Arc::new(OsVfs), path, None, options)?;
    let message = NewMessage {
        bytes: b"Subject: x\n\n",
        internal_date: None,
        flags: FlagSet::EMPTY,
        keywords: Vec::new(),
        ..NewMessage::default()
    };
    let known = EmptyKnown::default();
    mailbox.sync(&ChangeSet::default(), &[message], &mut SyncContext::new(&known)).map(drop)
}

/// Checks that an append fails at once and names this holder.
fn check_named(path: &Path, expected: &str) {
    match append_one(path, impatient()) {
        Err(Error::Locked { holder, .. }) => assert!(holder.contains(expected), "{holder}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_holder_is_named() {
    let scratch = Scratch::new("holder").unwrap();
    let path = file_in(&scratch, "box", b"");
    let own = std::process::id();
    let file = OsVfs.open(&path, OpenOptions::WRITE).unwrap();
    assert!(file.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap());
    check_named(&path, &format!("process {own}, "));
    check_named(&path, "(flock)");
    file.unlock(LockKind::Flock).unwrap();
    assert!(file.try_lock(LockKind::Fcntl, LockMode::Exclusive).unwrap());
    check_named(&path, "another program (fcntl)");
    file.unlock(LockKind::Fcntl).unwrap();
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let dotlock = DotLock::acquire(&vfs, &path, DotLockOptions::default()).unwrap();
    check_named(&path, "(lock file)");
    check_named(&path, &format!("process {own}, "));
    drop(dotlock);
    // A process that another test starts has our locked files open until it executes its program.
    append_one(&path, utc()).unwrap();
    let options = MboxOptions { write_locks: vec![MboxLock::Flock], ..utc() };
    append_one(&path, options).unwrap();
}
