//! Changes of flags and expunges in a Maildir that is kept open: what is seen after them without a
//! listing is what a listing finds.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use barid::{
    Cancel, ChangeRequest, Flag, FlagChange, Keyword, Mailboxes, SharedMailbox, Uid, View,
};
use barid_vfs::{CallKind, CountingVfs, Host as _, MeanwhileVfs, MemVfs, Timestamp, Vfs};

use crate::arena::{Arena, add, flag, memory, now};

struct Kept {
    vfs: CountingVfs<MemVfs>,
    shared: SharedMailbox,
    _arena: Arena,
}

impl Kept {
    /// Opens a Maildir of so many messages, a third of them in `new`, and lets its stamp settle.
    fn new(count: u64) -> Self {
        let vfs = CountingVfs::new(memory());
        let mut arena = Arena::new(Arc::new(vfs.clone()), Path::new("/"), "maildir", 1);
        arena.deliver(count);
        let mailboxes = Mailboxes::new(Arc::clone(&arena.vfs), arena.options(), None);
        let shared = mailboxes.open_spec(&arena.spec).unwrap();
        let kept = Self { vfs, shared, _arena: arena };
        kept.change(&[1, 2], &FlagChange { add_keywords: keywords(), ..FlagChange::default() });
        kept.settle();
        kept
    }

    /// Moves all messages of `new` to `cur`.
    fn drop_recent(&self) {
        self.request(&ChangeRequest { drop_recent: true, ..ChangeRequest::default() });
    }

    fn settle(&self) {
        self.vfs.sleep(Duration::from_secs(5));
        self.refresh();
    }

    fn refresh(&self) -> View {
        self.shared.refresh(&Cancel::new()).unwrap()
    }

    fn change(&self, uids: &[u32], change: &FlagChange) {
        self.request(&flag(uids, change));
    }

    /// Makes a change as a server does: after a refresh.
    fn request(&self, request: &ChangeRequest<'_>) {
        let changed = self.shared.update(&Cancel::new(), |mailbox, _| {
            mailbox.refresh()?;
            mailbox.change(request, &now())
        });
        changed.unwrap();
    }

    /// Returns the number of listings that `work` costs.
    fn listings(&self, work: impl FnOnce()) -> u64 {
        let before = self.vfs.counts();
        work();
        self.vfs.counts().since(&before).of(CallKind::List)
    }

    fn mark_one(&self) {
        mark_one_in(&self.vfs, "");
    }
}

/// Renames a message in `cur`, but not `except`, as another program that marks it as flagged.
fn mark_one_in(vfs: &dyn Vfs, except: &str) {
    let cur = Path::new("/box/cur");
    let mut names = Vec::new();
    let visit = &mut |name: &[u8], _| names.push(String::from_utf8(name.to_vec()).unwrap());
    vfs.open_dir(cur).unwrap().list(visit).unwrap();
    let name = names.iter().find(|name| name.ends_with(":2,") && *name != except).unwrap();
    vfs.rename(&cur.join(name), &cur.join(format!("{name}F"))).unwrap();
}

fn keywords() -> Vec<Keyword> {
    ["one", "two"].map(|name| Keyword::new(name).unwrap()).to_vec()
}

fn marks(view: &View) -> Vec<barid::MessageMarks> {
    let uids: Vec<Uid> = view.uids().unwrap().into_iter().filter_map(Uid::new).collect();
    view.marks_of(&uids).unwrap()
}

#[test]
fn what_is_expected_is_what_a_listing_finds() {
    let kept = Kept::new(60);
    let mut rng = fastrand::Rng::with_seed(5);
    let mut compared = 0;
    for _ in 0..200 {
        let count = rng.usize(1..5);
        let uids = rng.choose_multiple(1..=60_u32, count);
        let mut change = FlagChange::default();
        let flags = [Flag::Seen, Flag::Flagged, Flag::Answered, Flag::Deleted];
        match rng.u8(..4) {
            0 => change.add = flags.into_iter().filter(|_| rng.bool()).collect(),
            1 => change.remove = flags.into_iter().filter(|_| rng.bool()).collect(),
            2 => change.add_keywords = keywords(),
            _ => change.remove_keywords = keywords()[..1].to_vec(),
        }
        let mut request = flag(&uids, &change);
        if rng.u8(..8) == 0 {
            request.expunge = uids[..1].iter().filter_map(|uid| Uid::new(*uid)).collect();
        }
        let listings = kept.listings(|| kept.request(&request));
        assert_eq!(listings, 0);
        let before = kept.shared.view();
        if rng.u8(..4) == 0 {
            let listings = kept.listings(|| kept.settle());
            let after = kept.shared.view();
            assert_eq!(
                (marks(&before), after.changes_since(&before).unwrap(), before.figures()),
                (marks(&after), vec![], after.figures())
            );
            compared += usize::from(listings > 0);
        }
    }
    assert!(compared >= 20, "{compared}");
}

#[test]
fn recent_messages_are_moved_without_a_listing() {
    let kept = Kept::new(20);
    assert!(kept.shared.view().view_status().recent > 0);
    assert_eq!(kept.listings(|| kept.drop_recent()), 0);
    let before = kept.shared.view();
    assert_eq!(before.view_status().recent, 0);
    kept.settle();
    let after = kept.shared.view();
    assert_eq!((marks(&before), after.changes_since(&before).unwrap()), (marks(&after), vec![]));
}

#[test]
fn what_others_change_in_the_same_tick_is_found_by_a_later_refresh() {
    let kept = Kept::new(20);
    let flagged =
        |view: &View| marks(view).iter().filter(|m| m.flags.contains(Flag::Flagged)).count();
    kept.drop_recent();
    let before = flagged(&kept.shared.view());
    // Whole milliseconds would be those of a file system with a coarser clock.
    const TICK_NANOS: i64 = 10_000_037;
    kept.vfs.inner().set_granularity(Duration::from_nanos(TICK_NANOS.unsigned_abs()));
    kept.vfs.inner().set_now(Timestamp { unix_nanos: 180_000_000_001 * TICK_NANOS });
    kept.change(&[3], &add(Flag::Answered));
    // The stamp is that of our own change.
    kept.mark_one();
    kept.change(&[4], &add(Flag::Answered));
    assert_eq!(kept.listings(|| assert_eq!(flagged(&kept.refresh()), before)), 0);
    // The longest time until a listing.
    kept.vfs.sleep(Duration::from_millis(1900));
    assert_eq!(kept.listings(|| assert_eq!(flagged(&kept.refresh()), before + 1)), 1);
    let answered = marks(&kept.refresh());
    assert_eq!(answered.iter().filter(|m| m.flags.contains(Flag::Answered)).count(), 2);
}

/// The folder is made durable by a disk that takes its time.
#[test]
fn what_others_change_during_a_slow_change_is_found() {
    let disk = memory();
    let mut arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), "maildir", 1);
    arena.deliver(20);
    arena.open().sync(&now()).unwrap();
    disk.sleep(Duration::from_secs(5));
    let is_armed = Arc::new(AtomicBool::new(false));
    let (armed, other) = (Arc::clone(&is_armed), disk.clone());
    let vfs = MeanwhileVfs::new(disk.clone(), move |kind, path| match kind {
        CallKind::Sync if path == Path::new("/box/cur") => other.sleep(Duration::from_millis(50)),
        CallKind::Name if armed.swap(false, Ordering::SeqCst) => {
            mark_one_in(&other, path.file_name().and_then(OsStr::to_str).unwrap());
        }
        _ => {}
    });
    let mailboxes = Mailboxes::new(Arc::new(vfs), arena.options(), None);
    let shared = mailboxes.open_spec(&arena.spec).unwrap();
    let flagged =
        |view: &View| marks(view).iter().filter(|m| m.flags.contains(Flag::Flagged)).count();
    let before = flagged(&shared.refresh(&Cancel::new()).unwrap());
    is_armed.store(true, Ordering::SeqCst);
    let request = flag(&[3], &add(Flag::Answered));
    shared.update(&Cancel::new(), |mailbox, _| mailbox.change(&request, &now())).unwrap();
    assert!(!is_armed.load(Ordering::SeqCst));
    disk.sleep(Duration::from_secs(2));
    assert_eq!(flagged(&shared.refresh(&Cancel::new()).unwrap()), before + 1);
}

#[test]
fn changes_without_pause_do_not_hide_for_long_what_others_change() {
    let kept = Kept::new(20);
    kept.drop_recent();
    kept.settle();
    let flagged =
        |view: &View| marks(view).iter().filter(|m| m.flags.contains(Flag::Flagged)).count();
    let before = flagged(&kept.shared.view());
    const TICK_NANOS: i64 = 4_000_037;
    kept.vfs.inner().set_granularity(Duration::from_nanos(TICK_NANOS.unsigned_abs()));
    kept.vfs.inner().set_now(Timestamp { unix_nanos: 450_000_000_001 * TICK_NANOS });
    kept.change(&[3], &add(Flag::Answered));
    kept.mark_one();
    let mut listings = Vec::new();
    for round in 0..60 {
        let change =
            FlagChange { add: [Flag::Answered].into_iter().collect(), ..Default::default() };
        let undo = FlagChange { remove: change.add, ..Default::default() };
        let change = if round % 2 == 0 { change } else { undo };
        listings.push(kept.listings(|| kept.change(&[4], &change)));
        kept.vfs.sleep(Duration::from_millis(3));
    }
    assert_eq!(flagged(&kept.shared.view()), before + 1);
    assert!((1..=20).contains(&listings.iter().sum::<u64>()), "{listings:?}");
}

#[test]
fn a_message_that_others_have_renamed_is_listed() {
    let kept = Kept::new(20);
    kept.drop_recent();
    kept.settle();
    kept.mark_one();
    let changed = marks(&kept.shared.view());
    // The change refreshes first, and finds the other one.
    let all: Vec<u32> = changed.iter().map(|marks| marks.uid.get()).collect();
    kept.change(&all, &add(Flag::Seen));
    let view = kept.refresh();
    assert!(marks(&view).iter().all(|marks| marks.flags.contains(Flag::Seen)));
    assert_eq!(
        marks(&view).iter().filter(|m| m.flags.contains(Flag::Flagged)).count(),
        1 + changed.iter().filter(|m| m.flags.contains(Flag::Flagged)).count()
    );
}
