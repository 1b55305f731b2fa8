//! What can be changed in a mailbox, what a change may use, and what it reports.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use barid_state::Ledger;
use barid_types::{FlagSet, Keyword, KeywordMask, KeywordTable, Uid};

use crate::{Error, FlagChanges, Known, Location, Result, Stamp};

/// All changes of existing messages, to be applied in one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// Flag changes, ascending by UID.
    pub flags: FlagChanges,
    /// Messages to expunge, ascending.
    pub expunge: Vec<Uid>,
    /// Keywords that the mailbox is to list, whether or not a message has them. An mbox lists those
    /// of the messages that are appended by itself.
    pub keywords: Vec<Keyword>,
    /// Drop \Recent from every message (Maildir: move `new` to `cur`).
    pub drop_recent: bool,
    /// Write the UID of every message into the mailbox where it can hold them and does not yet.
    pub write_uids: bool,
}

impl ChangeSet {
    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a change is given beside the changes.
pub struct SyncContext<'a> {
    /// What is known of the mailbox: the result of the scan that the changes refer to. If the
    /// mailbox is no longer that, and the difference matters, [`crate::Error::Changed`] is the
    /// answer and nothing was changed: scan and try again.
    pub known: &'a dyn Known,
    /// Where UIDs are that the mailbox does not hold; locked and committed by the format.
    pub ledger: Option<&'a mut Ledger>,
    /// The state folder: where a journal goes that cannot stand beside the mailbox.
    pub state_dir: Option<&'a Path>,
    /// Told of every message that now has other flags or another place, in mailbox order, before
    /// the commit point: what it was told is void unless the change succeeds.
    pub moved: Option<&'a mut dyn FnMut(&MovedMessage)>,
    /// Called now and then with the progress of a long change: bytes done and their total, in a
    /// format with a file per message messages.
    pub progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
    /// Once true, the change ends after its current step with [`crate::Error::Unfinished`], in a
    /// format with a file per message with [`crate::Error::Stopped`].
    pub stop: Option<&'a AtomicBool>,
    /// Only find out what would be done: nothing is written, and no lock file made.
    pub dry_run: bool,
    /// Where there are pending changes among these: the sequence number of the last of them, which
    /// the journal carries, so that none is applied twice.
    pub pending_through: Option<u64>,
    /// Drops the pending changes up to the one given, durably. Called with what the journal carries
    /// once its COMMIT is durable and before the journal goes, in a change as in a recovery: were
    /// they dropped after that, a crash in between would apply them once more, over what other
    /// programs changed meanwhile. May be called again. Its error leaves the journal, committed,
    /// for the next recovery ([`crate::Error::Unfinished`]). A change that needs no journal,
    /// because nothing was to be written, does not call it.
    pub drop_pending: Option<&'a mut dyn FnMut(u64) -> Result<()>>,
}

impl<'a> SyncContext<'a> {
    /// A context with just what is known.
    pub fn new(known: &'a dyn Known) -> Self {
        Self {
            known,
            ledger: None,
            state_dir: None,
            moved: None,
            progress: None,
            stop: None,
            dry_run: false,
            pending_through: None,
            drop_pending: None,
        }
    }

    /// Whether the change is to end after its current step.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// The progress of a change of `total` messages, each a file.
    pub(crate) fn steps(&self, total: usize) -> Steps<'a> {
        let (progress, stop) = (self.progress, self.stop);
        Steps { progress, stop, done: 0, total: total as u64 }
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
pub(crate) struct Steps<'a> {
    progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
    stop: Option<&'a AtomicBool>,
    pub(crate) done: u64,
    pub(crate) total: u64,
}

impl<'a> Steps<'a> {
    /// No steps, which end once a flag is true.
    pub(crate) fn stopped_by(stop: Option<&'a AtomicBool>) -> Self {
        Self { stop, ..Self::default() }
    }
}

impl Steps<'_> {
    /// Returns `true` once the change is to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Counts messages that are done; reports progress now and then.
    pub(crate) fn advance(&mut self, messages: usize) {
        let before = self.done;
        self.done += messages as u64;
        if let Some(progress) = self.progress
            && before / STEPS_REPORTED != self.done / STEPS_REPORTED
        {
            progress(self.done, self.total);
        }
    }

    /// Fails if the change is to stop, before anything of it is visible.
    ///
    /// # Errors
    /// [`Error::Stopped`] with no message done.
    pub(crate) fn check(&self, path: &Path) -> Result<()> {
        match self.is_stopped() {
            true => Err(Error::Stopped { path: path.to_owned(), done: 0, total: self.total }),
            false => Ok(()),
        }
    }
}

/// Messages after which progress is reported.
const STEPS_REPORTED: u64 = 16;

/// A message that has other flags, or is in another place of the file than its neighbours' shift
/// ([`SyncReport::shifts`]) tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedMessage {
    /// Which.
    pub uid: Uid,
    /// Its flags now.
    pub flags: FlagSet,
    /// Its keywords now, by slots of [`SyncedState::keywords`].
    pub keywords: KeywordMask,
    /// Where it is now: a [`Location::Span`].
    pub location: Location<'static>,
}

/// A stretch of the file that moved: what was at `old_offset` is now at `new_offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// Where the stretch was.
    pub old_offset: u64,
    /// Its bytes.
    pub len: u64,
    /// Where it is.
    pub new_offset: u64,
}

/// What a change cost, or in a dry run would cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncFigures {
    /// Messages whose flags, keywords or UID were written.
    pub messages_written: u64,
    /// Messages expunged.
    pub messages_expunged: u64,
    /// Bytes written to the mailbox in place of others, without moving what follows.
    pub bytes_in_place: u64,
    /// Bytes of the mailbox that were moved.
    pub bytes_moved: u64,
    /// Bytes cut out by the file system.
    pub bytes_collapsed: u64,
    /// Bytes written to the journal.
    pub bytes_journaled: u64,
    /// Bytes appended.
    pub bytes_appended: u64,
    /// How often was waited for the disk (`fsync`, `fdatasync`).
    pub barriers: u64,
    /// Bytes of the mailbox before and after.
    pub size_before: u64,
    /// See `size_before`.
    pub size_after: u64,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// UIDs of the appended messages, in their order, where the format could tell; else the next
    /// scan gives them.
    pub appended: Vec<Option<Uid>>,
    /// Messages that were to be changed but are gone.
    pub gone: Vec<Uid>,
    /// Messages that had to stay as they are, ascending, since nothing can be put into their
    /// header. Of very many only the first are named.
    pub unwritable: Vec<Uid>,
    /// How many had to.
    pub unwritable_count: u64,
    /// Known messages that were expunged, ascending.
    pub expunged: Vec<Uid>,
    /// How messages moved in the file that [`SyncContext::moved`] was not told of, ascending. What
    /// no stretch names is where it was.
    pub shifts: Vec<Shift>,
    /// What the mailbox is now, for a cache that follows by `shifts` and the like instead of a
    /// scan; `None` where only a scan can tell. Not racy: it was taken under the locks, and no
    /// later change leaves it equal.
    pub cache: Option<SyncedState>,
    /// What could not be done once the change was durable, in words: nothing of the change itself
    /// is missing, and what is left is done another time.
    pub failed: Vec<String>,
    /// What it cost.
    pub figures: SyncFigures,
}

/// The part of a [`SyncReport`] that a cache stores as it stores that of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncedState {
    /// The stamp before anything was appended: a scan against it finds just what was.
    pub stamp: Stamp,
    /// The stamp in the end: a scan that finds this has found nothing but our own appends.
    pub stamp_after: Stamp,
    /// The format's notes for the next scan.
    pub state: Vec<u8>,
    /// The keywords; slots that were known keep their place.
    pub keywords: KeywordTable,
}

/// Work on a mailbox that was begun and not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Its journal; absent if that is missing.
    pub journal: Option<std::path::PathBuf>,
    /// What was being done, in a few words.
    pub what: String,
}

/// What a recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The change is complete now (else there was nothing to do, or the journal was put aside).
    pub completed: bool,
    /// The journal was put aside under this name, since another program has rewritten the mailbox.
    pub quarantined: Option<std::path::PathBuf>,
    /// Bytes of mail that others delivered meanwhile, which were kept.
    pub bytes_delivered: u64,
    /// The pending changes up to this one are in the mailbox.
    pub pending_through: Option<u64>,
    /// Bytes of an append that was interrupted, which were cut off.
    pub bytes_cut: u64,
}
