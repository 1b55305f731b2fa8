//! Large Maildirs that are first opened from the names of their messages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use barid::fetch::FetchItems;
use barid::query::parse_imap;
use barid::{
    Cancel, Error, Flag, Mailbox, MailboxChange, Mailboxes, ReadAs, SharedMailbox, SortProgram,
    ThreadAlgorithm, UidSet, View, Window,
};
use barid_vfs::{CallKind, Fault, FaultEffect, FaultVfs, Host as _, MeanwhileVfs, MemVfs};
use barid_vfs::{OpenOptions as FileOptions, Timestamp, Vfs};

use crate::arena::{Arena, add, expunge, flag, found, memory, now, uid};

/// Messages of a mailbox that is first listed.
const MANY: u64 = 2_100;
/// Longest wait for something that happens at once on an idle machine.
const LONG: Duration = Duration::from_secs(60);

/// A gate that message files are read through once it is open.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let is_open = self.0.0.lock().unwrap();
        let waited = self.0.1.wait_timeout_while(is_open, LONG, |is_open| !*is_open).unwrap();
        assert!(!waited.1.timed_out(), "a message was read too early");
    }
}

/// A Maildir whose messages are read through a gate.
struct Gated {
    disk: MemVfs,
    gate: Gate,
    /// The mailbox as other programs see it.
    arena: Arena,
    vfs: Arc<dyn Vfs>,
}

impl Gated {
    fn new(messages: u64) -> Self {
        Self::failing(messages, None)
    }

    /// Makes the mailbox; the message with this UID can never be read.
    fn failing(messages: u64, unreadable: Option<usize>) -> Self {
        let (disk, gate) = (memory(), Gate::default());
        let mut arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), "maildir", 7);
        arena.deliver(messages);
        let world = Self { vfs: Arc::new(disk.clone()), disk, gate, arena };
        world.pass_time();
        let gate = world.gate.clone();
        let vfs = MeanwhileVfs::new(world.disk.clone(), move |kind, path| {
            let dir = path.parent().and_then(Path::to_str);
            let is_message = matches!(dir, Some("/box/new" | "/box/cur"));
            if is_message && kind == CallKind::Open {
                gate.pass();
            }
        });
        let vfs: Arc<dyn Vfs> = match unreadable {
            None => Arc::new(vfs),
            Some(uid) => {
                let path = &paths_by_uid(messages)[uid - 1];
                let refuse = FaultEffect::Error(std::io::ErrorKind::PermissionDenied);
                let fault = Fault::nth(0).of(CallKind::Open).at(path.as_path());
                Arc::new(FaultVfs::new(vfs, fault.with(refuse).forever()))
            }
        };
        Self { vfs, ..world }
    }

    /// Lets time pass until stamps are old.
    fn pass_time(&self) {
        let now = self.disk.now().unix_nanos;
        self.disk.set_now(Timestamp { unix_nanos: now + 5_000_000_000 });
    }

    fn mailboxes(&self) -> Mailboxes {
        Mailboxes::new(Arc::clone(&self.vfs), self.arena.options(), None)
    }

    fn listed(&self, mailboxes: &Mailboxes) -> SharedMailbox {
        let shared = mailboxes.open_listed(&self.arena.spec).unwrap();
        assert!(shared.view().is_listed());
        shared
    }
}

/// Returns the paths of the messages of such a mailbox in the order of their UIDs.
fn paths_by_uid(messages: u64) -> Vec<PathBuf> {
    let mut arena = Arena::in_memory("maildir", 7);
    arena.deliver(messages);
    drop(arena.open());
    let content = String::from_utf8(arena.content()).unwrap();
    let list = arena.vfs.read(Path::new("/box/dovecot-uidlist"), u64::MAX).unwrap();
    let list = String::from_utf8(list).unwrap();
    let bases = list.lines().skip(1).map(|line| line.split_once(" :").unwrap().1);
    let names: BTreeMap<&str, &str> =
        content.lines().map(|name| (name[4..].split(':').next().unwrap(), name)).collect();
    bases.map(|base| Path::new("/box").join(names[base])).collect()
}

fn refreshed(shared: &SharedMailbox) -> View {
    shared.refresh(&Cancel::new()).unwrap()
}

fn all_uids(view: &View) -> Vec<barid::Uid> {
    view.uids_in(&[(1, u32::MAX)], false).unwrap()
}

/// Runs work in a thread; the receiver gets its result.
fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver): (Sender<T>, _) = channel();
    std::thread::spawn(move || drop(sender.send(work())));
    receiver
}

/// Fails if a thread is done.
fn is_waiting<T>(receiver: &Receiver<T>) -> bool {
    receiver.recv_timeout(Duration::from_millis(50)).is_err()
}

#[test]
fn names_and_messages_give_the_same_numbers() {
    let world = Gated::new(MANY);
    let mailboxes = world.mailboxes();
    let shared = world.listed(&mailboxes);
    let names = shared.view();
    assert_eq!(u64::from(names.len()), MANY);
    assert_eq!(u64::from(names.view_status().recent), MANY);
    // Nothing has changed, so that nobody has to wait to know that.
    assert!(shared.refresh_listed(&Cancel::new()).unwrap().is_listed());
    assert!(world.listed(&mailboxes).is_same(&shared));
    let (spec, registry) = (world.arena.spec.clone(), mailboxes.clone());
    let opened = beside(move || registry.open_spec(&spec).unwrap().view().is_listed());
    let other = shared.clone();
    let read = beside(move || refreshed(&other).is_listed());
    let (cancel, other) = (Cancel::new(), shared.clone());
    let cancelled = {
        let cancel = cancel.clone();
        beside(move || other.refresh(&cancel).map(|_| ()))
    };
    assert!(is_waiting(&opened) && is_waiting(&read) && is_waiting(&cancelled));
    cancel.cancel();
    assert!(matches!(cancelled.recv_timeout(LONG).unwrap(), Err(Error::Stopped)));

    world.gate.open();
    assert!(!read.recv_timeout(LONG).unwrap() && !opened.recv_timeout(LONG).unwrap());
    let view = refreshed(&shared);
    assert!(!view.is_listed() && view.is_cached());
    assert_eq!(view.changes_since(&names).unwrap(), []);
    assert_eq!(view.changes_since_modseq(names.highest_modseq()).unwrap().changed, []);
    assert_eq!(view.view_status(), names.view_status());
    assert_eq!(view.keywords(), names.keywords());
    let uids = all_uids(&names);
    assert_eq!(all_uids(&view), uids);
    assert_eq!(view.marks_of(&uids).unwrap(), names.marks_of(&uids).unwrap());

    // They are those of a mailbox that is opened as a whole, by this process and another.
    assert_eq!(found(&world.arena.open()).len() as u64, MANY);
    assert_eq!(world.arena.open().status().messages, names.len());
    let plain = Gated::new(MANY);
    assert_eq!(found(&plain.arena.open()), found(&world.arena.open()));
}

#[test]
fn nothing_is_answered_that_a_name_does_not_contain() {
    let world = Gated::new(MANY);
    let mailboxes = world.mailboxes();
    let shared = world.listed(&mailboxes);
    let view = shared.view();
    let write = |message: &barid::fetch::Fetched<'_>, out: &mut Vec<u8>| message.write_imap(out);
    let fetch = |items: &str| {
        let (items, mut bytes) = (FetchItems::parse(items).unwrap(), Vec::new());
        let mut take = |piece: &mut Vec<u8>| {
            bytes.extend_from_slice(piece);
            true
        };
        view.fetch(&[uid(1)], &items, &write, &mut take).map(|_| bytes)
    };
    let far_apart = [uid(1), uid(2000)];
    let items = FetchItems::parse("FLAGS").unwrap();
    assert_eq!(view.fetch(&far_apart, &items, &write, &mut |_| true).unwrap().fetched, 2);
    let marks = fetch("(UID FLAGS MODSEQ)").unwrap();
    let modseq = view.highest_modseq();
    let expected = format!("* 1 FETCH (UID 1 FLAGS (\\Recent) MODSEQ ({modseq}))\r\n");
    assert_eq!(String::from_utf8(marks).unwrap(), expected);
    let is_refused = |error: Error| matches!(error, Error::NotRead { .. });
    for items in ["ENVELOPE", "FLAGS RFC822.SIZE", "INTERNALDATE", "BODY[]", "PREVIEW", "EMAILID"] {
        assert!(is_refused(fetch(items).unwrap_err()), "{items}");
    }
    let all = parse_imap(b"LARGER 1").unwrap().program;
    let order = SortProgram::parse(["arrival"]).unwrap();
    assert!(is_refused(view.search(&all, &UidSet::new()).unwrap_err()));
    assert!(is_refused(view.sorted(&order, Window::All).unwrap_err()));
    assert!(is_refused(view.threads(ThreadAlgorithm::Refs).unwrap_err()));
    assert!(is_refused(view.threads_among(ThreadAlgorithm::Refs, &[0]).unwrap_err()));
    assert!(is_refused(view.summaries(&[0], &mut |_| true).unwrap_err()));
    assert!(is_refused(view.read(uid(1), ReadAs::Message).unwrap_err()));
    assert!(is_refused(view.read_pieces(uid(1), ReadAs::Message, &mut |_| true).unwrap_err()));
    assert!(is_refused(view.rfc822_total(None).unwrap_err()));
    assert!(is_refused(view.messages_to_append(&[uid(1)]).map(drop).unwrap_err()));
    assert!(is_refused(view.checked_uids().map(drop).unwrap_err()));
    world.gate.open();
}

#[test]
fn changes_before_the_messages_are_read_are_announced() {
    let world = Gated::failing(MANY, Some(10));
    let mailboxes = world.mailboxes();
    let shared = world.listed(&mailboxes);
    let names = shared.view();
    let paths = paths_by_uid(MANY);
    // Others remove, flag, and deliver.
    world.disk.remove_file(&paths[3]).unwrap();
    let base = paths[5].file_name().unwrap().to_string_lossy().into_owned();
    let base = base.split(':').next().unwrap().to_owned();
    world.disk.rename(&paths[5], &Path::new("/box/cur").join(format!("{base}:2,S"))).unwrap();
    let new = world.disk.open(Path::new("/box/new/9999999999.new"), FileOptions::create(0o600));
    new.unwrap().write_all_at(b"Subject: new\n\ntext\n", 0).unwrap();
    world.pass_time();
    let other = shared.clone();
    let read = beside(move || other.refresh_listed(&Cancel::new()).unwrap());
    assert!(is_waiting(&read));
    world.gate.open();

    let view = read.recv_timeout(LONG).unwrap();
    let new = uid(MANY as u32 + 1);
    let expected =
        [MailboxChange::Expunged(uid(4)), MailboxChange::Flags(uid(6)), MailboxChange::New(new)];
    assert_eq!(view.changes_since(&names).unwrap(), expected);
    let before = names.view_status();
    assert_eq!(view.view_status().uidvalidity, before.uidvalidity);
    assert!(view.highest_modseq() > before.highest_modseq);
    let changes = view.changes_since_modseq(before.highest_modseq).unwrap();
    let changed: Vec<_> = changes.changed.iter().map(|(uid, _)| *uid).collect();
    assert_eq!(changed, [uid(6), new]);
    assert_eq!(changes.vanished, [uid(4)].into_iter().collect());
    assert!(!changes.is_older_than_kept);
    // A message that cannot be read has its UID and its flags, as everywhere.
    assert!(view.read(uid(10), ReadAs::Message).is_err());
    assert!(view.read(uid(11), ReadAs::Message).is_ok());
    assert!(names.marks_of(&[uid(10)]).unwrap() == view.marks_of(&[uid(10)]).unwrap());
}

#[test]
fn our_changes_wait_for_the_messages() {
    let world = Gated::new(MANY);
    let mailboxes = world.mailboxes();
    let shared = world.listed(&mailboxes);
    let names = shared.view();
    let other = shared.clone();
    let changed = beside(move || {
        other.update(&Cancel::new(), |mailbox, _| {
            mailbox.change(&flag(&[2], &add(Flag::Flagged)), &now())?;
            mailbox.change(&expunge(&[3]), &now())?;
            Ok(mailbox.is_listed())
        })
    });
    assert!(is_waiting(&changed) && shared.view().is_listed());
    world.gate.open();
    assert!(!changed.recv_timeout(LONG).unwrap().unwrap());
    let expected = [MailboxChange::Expunged(uid(3)), MailboxChange::Flags(uid(2))];
    assert_eq!(shared.view().changes_since(&names).unwrap(), expected);
    drop((shared, mailboxes));
    assert_eq!(u64::from(world.arena.open().len()), MANY - 1);
}

#[test]
fn few_messages_are_read_at_once() {
    let world = Gated::new(100);
    world.gate.open();
    let mailboxes = world.mailboxes();
    let shared = mailboxes.open_listed(&world.arena.spec).unwrap();
    assert!(!shared.view().is_listed() && shared.view().is_cached());
    // A cache is never replaced by names.
    let world = Gated::new(MANY);
    drop(world.arena.open());
    let mailboxes = world.mailboxes();
    let shared = mailboxes.open_listed(&world.arena.spec).unwrap();
    assert!(!shared.view().is_listed() && shared.view().is_cached());
    assert_eq!(u64::from(shared.view().len()), MANY);
}

#[test]
fn the_headers_are_read_after_the_last_session_but_not_after_the_registry() {
    let world = Gated::new(MANY);
    let mailboxes = world.mailboxes();
    drop(world.listed(&mailboxes));
    world.gate.open();
    let end = std::time::Instant::now() + LONG;
    while !mailboxes.is_empty() {
        assert!(std::time::Instant::now() < end, "the mailbox stays open");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(opened_with(&world), barid::CacheState::Fresh);

    let world = Gated::new(MANY);
    let (vfs, mailboxes) = (Arc::downgrade(&world.vfs), world.mailboxes());
    drop(world.listed(&mailboxes));
    drop(mailboxes);
    let Gated { vfs: held, gate, arena, .. } = world;
    drop(held);
    gate.open();
    let end = std::time::Instant::now() + LONG;
    while vfs.strong_count() > 0 {
        assert!(std::time::Instant::now() < end, "the thread does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
    // As after a crash, the next opening reads all of it, and gives the same UIDs.
    let mailbox = arena.open();
    assert_eq!(mailbox.status().cache.state, barid::CacheState::Populated);
    assert_eq!(u64::from(mailbox.len()), MANY);
    assert_eq!(u64::from(mailbox.status().uidnext.get()), MANY + 1);
}

fn opened_with(world: &Gated) -> barid::CacheState {
    let mailbox: Mailbox = world.arena.open();
    mailbox.status().cache.state
}
