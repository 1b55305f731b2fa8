//! Appends that are cut at every byte, with deliveries of others after the cut, and interrupted
//! recoveries.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{
    ChangeSet, EmptyKnown, Error, NewMessage, ReadAs, Recovered, Storage, SyncContext,
};
use barid_testkit::Scratch;
use barid_types::{FlagSet, InternalDate};
use barid_vfs::{
    CallKind, CrashVfs, Fault, FaultEffect, FaultVfs, LockKind, LockMode, MemVfs, OpenOptions,
    OsVfs, Vfs,
};

use super::support::World;
use crate::MailboxSpec;
use crate::check::{CheckOptions, check};
use crate::mbox::change::{AppendJournal, IntentBuilder};
use crate::mbox::lock::{MboxLockPurpose, MboxWriteLocks};
use crate::mbox::{MboxMailbox, MboxOptions, Variant};

const FROM: &str = "From a@b Sun Sep  9 01:46:40 2001\n";
const BAR: &str = "\u{1}\u{1}\u{1}\u{1}\n";
const THEIRS: &str = "Subject: theirs\n\ntheir body\n";
const JOURNAL: &str = "/mail/.box.barid-journal";

fn message(bytes: &[u8]) -> NewMessage<'_> {
    let internal_date = Some(InternalDate { unix_seconds: 1_000_000_000, zone_minutes: 0 });
    let flags = FlagSet::EMPTY;
    NewMessage { bytes, internal_date, flags, ..NewMessage::default() }
}

fn append(world: &World, texts: &[String]) {
    let messages: Vec<NewMessage<'_>> = texts.iter().map(|text| message(text.as_bytes())).collect();
    let known = EmptyKnown::default();
    let mut context = SyncContext::new(&known);
    world.mailbox().sync(&ChangeSet::default(), &messages, &mut context).unwrap();
}

/// Returns one message in the form in which the file stores it.
fn stored(variant: Variant, text: &str) -> String {
    match variant {
        Variant::Mmdf => format!("{BAR}{FROM}{text}{BAR}"),
        _ => format!("{FROM}{text}\n"),
    }
}

/// An append in progress: its journal is durable, and none of its bytes is written.
struct Begun {
    variant: Variant,
    disk: MemVfs,
    old: Vec<u8>,
    /// The bytes to be appended.
    new: Vec<u8>,
    texts: Vec<String>,
}

impl Begun {
    fn new(variant: Variant, texts: &[String]) -> Self {
        let disk = MemVfs::new();
        disk.set_syncs_names(variant == Variant::Mboxrd);
        let old = stored(variant, "Subject: old\n\nold body\n");
        World::on(Arc::new(disk.clone())).write(old.as_bytes());
        disk.sync_dir(Path::new("/mail")).unwrap();
        let crashing = CrashVfs::new(&disk);
        let live = World { variant: Some(variant), ..World::on(Arc::new(crashing.vfs())) };
        append(&live, texts);
        let all = live.vfs.read(&live.path, 1 << 30).unwrap();
        let is_begun = |point: &usize| {
            let disk = crashing.crash_at(*point, 0);
            disk.metadata(Path::new(JOURNAL)).is_ok_and(|found| found.size > 512)
                && disk.read(&live.path, 1 << 30).unwrap() == old.as_bytes()
        };
        let point = (0..crashing.points()).rev().find(is_begun).unwrap();
        let disk = crashing.crash_at(point, 0);
        let (old, new) = (all[..old.len()].to_vec(), all[old.len()..].to_vec());
        Self { variant, disk, old, new, texts: texts.to_vec() }
    }

    /// Returns the disk with the first `at` bytes written, and `tail` after them.
    fn cut(&self, at: usize, tail: &[u8]) -> MemVfs {
        let disk = self.disk.snapshot();
        let file = disk.open(Path::new("/mail/box"), OpenOptions::WRITE).unwrap();
        file.write_all_at(&[&self.new[..at], tail].concat(), self.old.len() as u64).unwrap();
        disk
    }

    /// Checks for the old message, the complete new ones, and theirs if there is one.
    fn check(&self, world: &World, has_theirs: bool, what: &str) {
        let cached = world.scan();
        let read = |seen| String::from_utf8(world.read(seen, ReadAs::Message)).unwrap();
        let mut found: Vec<String> = cached.seen.iter().map(read).collect();
        // A blank line before theirs may follow another.
        assert_eq!(found.remove(0).trim_end(), "Subject: old\n\nold body", "{what}");
        if has_theirs {
            assert_eq!(found.pop().as_deref(), Some(THEIRS), "{what}");
        }
        let are_whole = found.iter().zip(&self.texts).all(|(a, b)| a.trim_end() == b.trim_end());
        assert!(are_whole && found.len() <= self.texts.len(), "{what}: {found:?}");
        assert!(world.vfs.metadata(Path::new(JOURNAL)).is_err(), "{what}");
    }

    /// Checks that a recovery changes nothing after others have changed the file to `found`.
    fn check_untouched(&self, found: &[u8]) {
        let live = World::on(Arc::new(self.cut(0, found)));
        live.recover();
        let bytes = live.vfs.read(&live.path, 1 << 30).unwrap();
        assert!(bytes == [&*self.old, found].concat(), "{} bytes", bytes.len());
        assert!(live.vfs.metadata(Path::new(JOURNAL)).is_err());
    }

    /// Checks the recovery, also after crashes of the recovery itself.
    fn check_recovery(&self, at: usize, tail: &str, crashes: usize) {
        let what = format!("{:?} cut at {at}, then {tail:?}", self.variant);
        let cut = self.cut(at, tail.as_bytes());
        let crashing = CrashVfs::new(&cut);
        let live = World { variant: Some(self.variant), ..World::on(Arc::new(crashing.vfs())) };
        live.recover();
        self.check(&live, !tail.is_empty(), &what);
        for number in 0..crashes {
            let point = crashing.points() * number / crashes;
            let disk = crashing.crash_at(point, number as u64 + 7);
            let again = World { variant: Some(self.variant), ..World::on(Arc::new(disk)) };
            again.recover();
            self.check(&again, !tail.is_empty(), &format!("{what}, again from {point}"));
        }
    }
}

fn texts(lines: usize) -> Vec<String> {
    let body = |number: usize| {
        let lines = (0..lines * number).map(|line| format!("{line} From the body\n"));
        format!("Subject: {number}\n\n{}", lines.collect::<String>())
    };
    (1..4).map(body).collect()
}

#[test]
fn an_append_that_was_cut_is_taken_back_and_mail_after_it_stays() {
    for variant in [Variant::Mboxo, Variant::Mboxrd, Variant::Mmdf] {
        let begun = Begun::new(variant, &texts(2));
        let theirs = stored(variant, THEIRS);
        let lead = if variant == Variant::Mmdf { "" } else { "\n" };
        for at in 0..=begun.new.len() {
            begun.check_recovery(at, "", usize::from(at % 9 == 0));
            begun.check_recovery(at, &theirs, if at % 5 == 0 { 4 } else { 0 });
            begun.check_recovery(at, &format!("{lead}{theirs}"), 0);
        }
    }
}

#[test]
fn a_check_tells_of_a_cut_wherever_it_is() {
    let begun = Begun::new(Variant::Mboxo, &texts(2));
    let mut line_ends = 0;
    for at in 0..=begun.new.len() {
        line_ends += u32::from(begun.new[..at].ends_with(b"\n"));
        let vfs: Arc<dyn Vfs> = Arc::new(begun.cut(at, b""));
        let spec = MailboxSpec::parse("mboxo:/mail/box");
        let report = check(&vfs, &spec, &CheckOptions::default()).unwrap();
        let kinds: Vec<&str> = report.damages.iter().map(|damage| damage.kind).collect();
        assert_eq!(kinds, ["unfinished"], "cut at {at}");
    }
    assert!(line_ends > 10);
}

#[test]
fn a_long_append_that_was_cut_is_taken_back() {
    let begun = Begun::new(Variant::Mboxo, &texts(9_000));
    assert!(begun.new.len() > 600_000);
    let theirs = stored(Variant::Mboxo, THEIRS);
    for page in [4096, 8192, 200 * 4096, 400_001] {
        let at = page - if page % 4096 == 0 { begun.old.len() } else { 0 };
        begun.check_recovery(at, "", 2);
        if page % 4096 == 0 {
            begun.check_recovery(at, &theirs, 2);
        }
    }
    begun.check_recovery(begun.new.len(), &theirs, 2);
    // Theirs begins within a piece: nothing proves that the bytes before are not a complete message
    // that has been changed since.
    begun.check_untouched(&[&begun.new[..400_001], theirs.as_bytes()].concat());
}

/// The first bytes of a file that was empty are durable before the others.
#[test]
fn a_long_append_to_an_empty_mailbox_leaves_whole_messages_only() {
    let texts = texts(9_000);
    for variant in [Variant::Mboxrd, Variant::Mmdf] {
        let disk = MemVfs::new();
        World::on(Arc::new(disk.clone())).write(b"");
        disk.sync_dir(Path::new("/mail")).unwrap();
        let crashing = CrashVfs::new(&disk);
        append(&World { variant: Some(variant), ..World::on(Arc::new(crashing.vfs())) }, &texts);
        let mut partial = 0;
        for (point, seed) in (0..=crashing.points()).flat_map(|at| (0..6).map(move |n| (at, n))) {
            let disk = crashing.crash_at(point, seed);
            let again = World { variant: Some(variant), ..World::on(Arc::new(disk)) };
            let size = again.vfs.metadata(&again.path).unwrap().size;
            partial += u32::from((1..600_000).contains(&size));
            again.recover();
            let found = again.scan();
            let read = |seen| String::from_utf8(again.read(seen, ReadAs::Message)).unwrap();
            let found: Vec<String> = found.seen.iter().map(read).collect();
            let are_whole = found.iter().zip(&texts).all(|(a, b)| a.trim_end() == b.trim_end());
            let count = found.len();
            assert!(are_whole && count <= texts.len(), "{variant:?}, {point}, {seed}: {count}");
        }
        assert!(partial > 0);
    }
}

#[test]
fn a_message_that_was_changed_since_its_append_is_left_alone() {
    let quoting = |lines: usize| {
        let text = texts(lines).concat();
        text.replacen("Subject: 1\n", "Subject: 1\nX-Foo: From a@b Thu Nov 19 10:00:00 2009\n", 1)
    };
    for lines in [2, 9_000] {
        let begun = Begun::new(Variant::Mboxo, &[quoting(lines)]);
        let new = String::from_utf8(begun.new.clone()).unwrap();
        let theirs = stored(Variant::Mboxo, THEIRS);
        for (old, changed) in [("2009\n", "2009\nStatus: RO\n"), ("0 From", "1 From")] {
            assert!(new.contains(old));
            let changed = new.replacen(old, changed, 1);
            begun.check_untouched(changed.as_bytes());
            begun.check_untouched(&[changed.as_bytes(), theirs.as_bytes()].concat());
        }
    }
}

#[test]
fn a_session_is_waited_for_only_if_mail_must_move() {
    let begun = Begun::new(Variant::Mboxo, &texts(2));
    let theirs = stored(Variant::Mboxo, THEIRS);
    let text = message(b"Subject: later\n\nlater body\n");
    for tail in ["", &theirs] {
        let disk = begun.cut(50, tail.as_bytes());
        disk.create_dir(Path::new("/tmp"), 0o777).unwrap();
        let found = disk.metadata(Path::new("/mail/box")).unwrap();
        let session = format!("/tmp/.{:x}.{:x}", found.device, found.inode);
        let session = disk.open(Path::new(&session), OpenOptions::create(0o666)).unwrap();
        assert!(session.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap());
        let world = World::on(Arc::new(disk.clone()));
        let known = EmptyKnown::default();
        let deliver = || {
            let mut context = SyncContext::new(&known);
            world.mailbox().sync(&ChangeSet::default(), std::slice::from_ref(&text), &mut context)
        };
        if !tail.is_empty() {
            let before = world.vfs.read(&world.path, 1 << 20).unwrap();
            let recovered = world.mailbox().recover(&mut SyncContext::new(&known));
            assert!(matches!(recovered, Err(Error::Locked { .. })), "{recovered:?}");
            assert!(matches!(deliver(), Err(Error::Locked { .. })));
            assert!(world.vfs.read(&world.path, 1 << 20).unwrap() == before);
            session.unlock(LockKind::Flock).unwrap();
        }
        deliver().unwrap();
        assert_eq!(world.scan().uids.len(), if tail.is_empty() { 2 } else { 3 });
        let content = String::from_utf8(world.vfs.read(&world.path, 1 << 20).unwrap()).unwrap();
        assert!(!content.contains("Subject: 1") && content.ends_with("later body\n\n"));
    }
}

#[test]
fn an_append_under_way_is_waited_for() {
    let scratch = Scratch::new("append-under-way").unwrap();
    let path = scratch.path().join("box");
    let vfs = Arc::new(OsVfs);
    let open = || MboxMailbox::open_with(vfs.clone(), &path, None, MboxOptions::default()).unwrap();
    let file = vfs.open(&path, OpenOptions::create(0o600)).unwrap();
    file.write_all_at(stored(Variant::Mboxo, THEIRS).as_bytes(), 0).unwrap();
    let (mailbox, size) = (open(), file.metadata().unwrap().size);
    let (is_seen, see) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let locks = MboxWriteLocks::acquire(&mailbox, MboxLockPurpose::Append).unwrap();
        let intent = IntentBuilder::new(size);
        let journal = AppendJournal::begin(&mailbox, &locks, None, intent, None).unwrap();
        let (reader, recoverer) = (open(), open());
        let read = scope.spawn(move || {
            assert!(reader.unfinished(None).unwrap().is_some());
            is_seen.send(()).unwrap();
            reader.abandoned(None).unwrap()
        });
        let recover = scope.spawn(move || {
            let known = EmptyKnown::default();
            let recoverer = recoverer;
            recoverer.recover(&mut SyncContext::new(&known)).unwrap()
        });
        see.recv().unwrap();
        journal.unwrap().end();
        drop(locks);
        assert_eq!(read.join().unwrap(), None);
        assert_eq!(recover.join().unwrap(), Recovered::default());
    });
    // A journal that no process works on is reported without waiting.
    let locks = MboxWriteLocks::acquire(&mailbox, MboxLockPurpose::Append).unwrap();
    AppendJournal::begin(&mailbox, &locks, None, IntentBuilder::new(size), None).unwrap();
    drop(locks);
    assert!(mailbox.abandoned(None).unwrap().is_some());
}

#[test]
fn a_change_whose_journal_is_lost_is_not_taken_for_an_append() {
    let attribute = |disk: &MemVfs| disk.xattr(Path::new("/mail/box"), "user.barid.journal");
    let content = |disk: &MemVfs| disk.read(Path::new("/mail/box"), 1 << 30).unwrap();
    let in_state = |world: &World, texts: &[&[u8]]| {
        let known = EmptyKnown::default();
        let mut context = SyncContext::new(&known);
        context.state_dir = Some(Path::new("/state"));
        let messages: Vec<_> = texts.iter().map(|text| message(text)).collect();
        match messages.is_empty() {
            true => world.mailbox().recover(&mut context).map(drop),
            false => world.mailbox().sync(&ChangeSet::default(), &messages, &mut context).map(drop),
        }
    };
    let disk = MemVfs::new();
    let old = stored(Variant::Mboxo, "Subject: old\n\nold body\n").repeat(30);
    World::on(Arc::new(disk.clone())).write(old.as_bytes());
    disk.set_mode(Path::new("/mail"), 0o500).unwrap();
    let crashing = CrashVfs::new(&disk);
    let text = "Subject: new\n\nnew body\n".repeat(90);
    in_state(&World::on(Arc::new(crashing.vfs())), &[text.as_bytes()]).unwrap();
    let begun = (0..crashing.points()).rev().map(|point| crashing.crash_at(point, 0));
    let is_begun =
        |disk: &MemVfs| attribute(disk).unwrap().is_some() && content(disk).len() == old.len();
    let disk = begun.into_iter().find(is_begun).unwrap();
    let file = disk.open(Path::new("/mail/box"), OpenOptions::WRITE).unwrap();
    let theirs = stored(Variant::Mboxo, THEIRS).repeat(40);
    let half = &content(&crashing.vfs())[old.len()..][..1000].to_vec();
    file.write_all_at(&[half, theirs.as_bytes()].concat(), old.len() as u64).unwrap();
    let before = content(&disk);
    let crashing = CrashVfs::new(&disk);
    in_state(&World::on(Arc::new(crashing.vfs())), &[]).unwrap();
    let after = content(&crashing.vfs());
    let mut refused = 0;
    for (point, seed) in (0..=crashing.points()).flat_map(|point| [(point, 3), (point, 9)]) {
        let disk = crashing.crash_at(point, seed);
        if attribute(&disk).unwrap().is_none() || [&before, &after].contains(&&content(&disk)) {
            continue;
        }
        let mut names = Vec::new();
        let mut collect = |name: &[u8], _| names.push(String::from_utf8_lossy(name).into_owned());
        disk.open_dir(Path::new("/state")).unwrap().list(&mut collect).unwrap();
        for name in names.iter().filter(|name| name.ends_with("journal")) {
            disk.remove_file(&Path::new("/state").join(name)).unwrap();
        }
        let result = in_state(&World::on(Arc::new(disk)), &[]);
        assert!(matches!(result, Err(Error::Unrecoverable { .. })), "{point}: {result:?}");
        refused += 1;
    }
    assert!(refused > 3, "{refused}");
}

#[test]
fn a_limit_of_file_sizes_leaves_the_file_as_it_was() {
    for path in ["/mail/box", JOURNAL] {
        for nth in 0.. {
            let disk = MemVfs::new();
            let whole = World::on(Arc::new(disk.clone()));
            whole.write(stored(Variant::Mboxo, "Subject: old\n\nold body\n").as_bytes());
            let before = whole.vfs.read(&whole.path, 1 << 20).unwrap();
            let effect = FaultEffect::Error(ErrorKind::FileTooLarge);
            let fault = Fault::nth(nth).of(CallKind::Write).at(path).with(effect);
            let faulty = FaultVfs::new(disk, fault);
            let live = World::on(Arc::new(faulty.clone()));
            let text = message(b"Subject: new\n\nnew body\n");
            let known = EmptyKnown::default();
            let mut context = SyncContext::new(&known);
            let done = live.mailbox().sync(&ChangeSet::default(), &[text], &mut context);
            if !faulty.fired() {
                assert!(done.is_ok() && nth > 0, "{path}: {done:?}");
                break;
            }
            assert!(done.is_err(), "{path}, write {nth}");
            assert!(whole.vfs.read(&whole.path, 1 << 20).unwrap() == before, "{path}, {nth}");
            assert!(whole.vfs.metadata(Path::new(JOURNAL)).is_err(), "{path}, {nth}");
        }
    }
}
