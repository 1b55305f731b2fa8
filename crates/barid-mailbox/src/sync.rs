//! Changes of a mailbox, the resources that a change may use, and its report.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use barid_state::{Ledger, MessageKey};
use barid_types::{FlagSet, Keyword, KeywordMask, KeywordTable, Uid, UidValidity};

use crate::{Error, FlagChanges, Known, Location, Result, ScanReport, Stamp};

/// All changes of existing messages, to be applied in one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// Flag changes, ascending by UID.
    pub flags: FlagChanges,
    /// Messages to expunge, ascending.
    pub expunge: Vec<Uid>,
    /// Keywords that the mailbox is to list, even if no message has them. An mbox lists the
    /// keywords of appended messages by itself.
    pub keywords: Vec<Keyword>,
    /// `true` to remove \Recent from every message (Maildir: move `new` to `cur`).
    pub drop_recent: bool,
    /// `true` to write the UID of every message into the mailbox, if the format can store UIDs and
    /// the mailbox lacks them.
    pub write_uids: bool,
}

impl ChangeSet {
    /// Returns `true` if nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Resources and options of a change.
pub struct SyncContext<'a> {
    /// The result of the scan that the changes refer to. If the mailbox has changed since then, and
    /// the difference matters, the change fails with [`crate::Error::Changed`] and has changed
    /// nothing: scan and try again.
    pub known: &'a dyn Known,
    /// Ledger of the UIDs that the mailbox does not store. The backend locks and commits it; it may
    /// leave the removal of expunged messages pending, for the caller to commit with the
    /// mod-sequence of the change.
    pub ledger: Option<&'a mut Ledger>,
    /// The state folder: place of a journal that cannot be beside the mailbox.
    pub state_dir: Option<&'a Path>,
    /// Called for every message that now has other flags or another location, in mailbox order,
    /// before the commit point: the calls are void unless the change succeeds.
    pub moved: Option<&'a mut dyn FnMut(&MovedMessage)>,
    /// Called now and then with the progress of a long change: bytes done and their total; messages
    /// instead of bytes in a format with a file per message.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
    /// Once `true`, the change ends after its current step with [`crate::Error::Unfinished`]; in a
    /// format with a file per message, with [`crate::Error::Stopped`].
    pub stop: Option<&'a AtomicBool>,
    /// `true` to determine the effect of the change only: nothing is written, and no lock file is
    /// made.
    pub dry_run: bool,
    /// `true` if the appended messages are not looked at: where the mailbox can store their UIDs it
    /// does, and reports that in [`SyncReport::appended_under`].
    pub unseen: bool,
    /// `true` if the caller will soon scan again, as in [`crate::ScanContext::will_rescan`]: the
    /// report may then have [`SyncReport::expected`].
    pub will_rescan: bool,
    /// Sequence number of the last pending change in this change, if there is one. The journal
    /// carries it, so that no pending change is applied twice.
    pub pending_through: Option<u64>,
    /// Drops the pending changes up to the given sequence number, durably. Called with the number
    /// that the journal carries, once its COMMIT is durable and before the journal is removed, in a
    /// change as in a recovery: if they were dropped later, a crash in between would apply them
    /// once more, over changes that other programs made meanwhile. May be called again. An error
    /// leaves the committed journal for the next recovery ([`crate::Error::Unfinished`]). A change
    /// that needs no journal, because nothing was to be written, does not call it.
    pub drop_pending: Option<&'a mut dyn FnMut(u64) -> Result<()>>,
}

impl<'a> SyncContext<'a> {
    /// Makes a context with nothing but the known messages.
    pub fn new(known: &'a dyn Known) -> Self {
        Self {
            known,
            ledger: None,
            state_dir: None,
            moved: None,
            progress: None,
            stop: None,
            dry_run: false,
            unseen: false,
            will_rescan: false,
            pending_through: None,
            drop_pending: None,
        }
    }

    /// Returns `true` if the change is to end after its current step.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Returns the progress counter of a change of `total` messages, each a file.
    pub fn steps(&self, total: usize) -> ChangeProgress<'a> {
        let (progress, stop) = (self.progress, self.stop);
        ChangeProgress { progress, stop, done: 0, total: total as u64 }
    }

    /// Reports progress.
    pub fn report(&self, done: u64, total: u64) {
        if let Some(progress) = self.progress {
            progress(done, total);
        }
    }
}

/// The progress of a change in a format with a file per message, which may stop after each file.
#[derive(Clone, Default)]
pub struct ChangeProgress<'a> {
    progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
    stop: Option<&'a AtomicBool>,
    /// Number of messages done.
    pub done: u64,
    /// Number of messages of the whole change.
    pub total: u64,
}

impl<'a> ChangeProgress<'a> {
    /// Makes a counter of no steps that stops once the flag is `true`.
    pub fn stopped_by(stop: Option<&'a AtomicBool>) -> Self {
        Self { stop, ..Self::default() }
    }
}

impl ChangeProgress<'_> {
    /// Returns `true` once the change is to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Counts messages as done; reports progress now and then.
    pub fn advance(&mut self, messages: usize) {
        let before = self.done;
        self.done += messages as u64;
        if let Some(progress) = self.progress
            && before / STEPS_REPORTED != self.done / STEPS_REPORTED
        {
            progress(self.done, self.total);
        }
    }

    /// Fails if the change is to stop; must be called before any of it is visible.
    ///
    /// # Errors
    /// [`Error::Stopped`] with no message done.
    pub fn check(&self, path: &Path) -> Result<()> {
        match self.is_stopped() {
            true => Err(Error::Stopped { path: path.to_owned(), done: 0, total: self.total }),
            false => Ok(()),
        }
    }
}

/// Number of messages after which progress is reported.
const STEPS_REPORTED: u64 = 16;

/// A message that has other flags, or that moved otherwise than its neighbours
/// ([`SyncReport::shifts`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedMessage {
    /// Its UID.
    pub uid: Uid,
    /// Its flags now.
    pub flags: FlagSet,
    /// Its keywords now, by slots of [`SyncedState::keywords`].
    pub keywords: KeywordMask,
    /// Its location now; `None` if that follows from [`SyncReport::shifts`], as that of a message
    /// with a name always does.
    pub location: Option<Location<'static>>,
}

/// A stretch of the file that moved from `old_offset` to `new_offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// Offset before the change.
    pub old_offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset after the change.
    pub new_offset: u64,
}

/// Cost of a change; in a dry run, the cost that it would have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncFigures {
    /// Number of messages whose flags, keywords or UID were written.
    pub messages_written: u64,
    /// Number of messages expunged.
    pub messages_expunged: u64,
    /// Bytes of the mailbox overwritten in place, without moving what follows.
    pub bytes_in_place: u64,
    /// Bytes of the mailbox that were moved.
    pub bytes_moved: u64,
    /// Bytes removed by the file system (collapsed ranges).
    pub bytes_collapsed: u64,
    /// Bytes written to the journal.
    pub bytes_journaled: u64,
    /// Bytes appended.
    pub bytes_appended: u64,
    /// Number of barriers (`fsync`, `fdatasync`).
    pub barriers: u64,
    /// Bytes of the mailbox before the change.
    pub size_before: u64,
    /// Bytes of the mailbox after the change.
    pub size_after: u64,
}

/// Result of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// UIDs of the appended messages, in their order. `None` where the format cannot know the UID
    /// yet; the next scan then gives one.
    pub appended: Vec<Option<Uid>>,
    /// UIDVALIDITY of the UIDs of `appended`, if the mailbox itself has them durably and nobody
    /// needs to look at it for them; `None` if only a scan can tell.
    pub appended_under: Option<UidValidity>,
    /// Keys under which a scan finds the appended messages, in their order; empty if they are those
    /// of their headers.
    pub appended_keys: Vec<MessageKey>,
    /// Messages that were to be changed but are gone.
    pub gone: Vec<Uid>,
    /// Messages that could not be changed, ascending, since nothing can be added to their header.
    /// Only the first of very many are listed.
    pub unwritable: Vec<Uid>,
    /// Number of messages that could not be changed.
    pub unwritable_count: u64,
    /// Known messages that were expunged, ascending.
    pub expunged: Vec<Uid>,
    /// Moves of the messages whose location [`SyncContext::moved`] was not given, ascending. A
    /// message in none of these stretches did not move.
    pub shifts: Vec<Shift>,
    /// State of the mailbox after the change, for a cache that follows `shifts` and the other
    /// fields instead of a scan; `None` where only a scan can find it. Not racy: it was taken under
    /// the locks, and no later change leaves it equal.
    pub cache: Option<SyncedState>,
    /// Report of a scan after a change of known messages, without [`ScanReport::size_bytes`], if
    /// nobody else changes anything meanwhile. `None` where only a scan can tell, and without
    /// [`SyncContext::will_rescan`]: its stamp is racy, and the scan that must follow finds the
    /// changes of others.
    pub expected: Option<Box<ScanReport>>,
    /// Descriptions of steps that failed after the change was durable: the change itself is
    /// complete, and the remaining steps are done another time.
    pub failed: Vec<String>,
    /// Cost of the change.
    pub figures: SyncFigures,
}

/// The part of a [`SyncReport`] that a cache stores in the same way as that of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncedState {
    /// The stamp before anything was appended: a scan against it finds the appended messages as
    /// new.
    pub stamp: Stamp,
    /// The stamp at the end: a scan that finds it has found nothing but our own appends.
    pub stamp_after: Stamp,
    /// Private notes of the format for the next scan.
    pub state: Vec<u8>,
    /// The keywords; slots that were known keep their place.
    pub keywords: KeywordTable,
}

/// A change of a mailbox that was begun and not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Its journal; `None` if the journal is missing.
    pub journal: Option<std::path::PathBuf>,
    /// Short description of the change.
    pub what: String,
}

/// Result of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// `true` if the change is complete now; otherwise there was nothing to do, or the journal was
    /// put aside.
    pub completed: bool,
    /// Path under which the journal was put aside, because another program has rewritten the
    /// mailbox.
    pub quarantined: Option<std::path::PathBuf>,
    /// Bytes of mail that other programs delivered meanwhile, which were kept.
    pub bytes_delivered: u64,
    /// Sequence number of the last pending change that is in the mailbox.
    pub pending_through: Option<u64>,
    /// Bytes of an interrupted append that were cut off.
    pub bytes_cut: u64,
}
