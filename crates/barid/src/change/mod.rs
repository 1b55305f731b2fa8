//! Changing a mailbox: flags, expunges, appends, and writing pending changes.
//!
//! A change of flags may be only accepted: it is then durable in the journal of pending changes,
//! visible in all queries, and written together with others later (`docs/design/changing.md`).
//! Expunges and appends are written at once, together with the pending changes.

mod accept;
mod after;
mod expected;
mod kept;
mod kept_large;
mod keywords;
pub(crate) mod matching;
mod pass;
mod pending;
mod resolve;
mod room;
mod undo;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use barid_mailbox::{Error as FormatError, FlagChanges, NewMessage, SyncFigures, Unfinished};
use barid_types::{Keyword, Uid, UidValidity};
use barid_vfs::Timestamp;

pub use self::room::{KeepExpunged, KeepLimits, KeepPlan};
pub use self::undo::{KeptExpunge, KeptState, Undo};

use crate::{Mailbox, ProgressFn, Result};

/// The changes of one pass.
#[derive(Clone, Debug, Default)]
pub struct ChangeRequest<'a> {
    /// Flag changes, in any order; those of one message are made in the order given.
    pub flags: FlagChanges,
    /// Messages to expunge, in any order.
    pub expunge: Vec<Uid>,
    /// Messages to append.
    pub appends: &'a [NewMessage<'a>],
    /// Keywords that the mailbox is to list, whether or not a message has them: in a format with a
    /// list, later messages find room in it.
    pub keywords: Vec<Keyword>,
    /// `true` to drop \Recent from every message (Maildir: move `new` to `cur`).
    pub drop_recent: bool,
    /// `true` to write the UID of every message into the mailbox, if the format can store them and
    /// it does not have them yet.
    pub write_uids: bool,
}

impl ChangeRequest<'_> {
    /// Returns `true` if messages are appended and nothing else is to be done.
    fn is_only_appends(&self) -> bool {
        let Self { flags, expunge, appends, keywords, drop_recent, write_uids } = self;
        let changes_nothing = flags.is_empty() && expunge.is_empty() && keywords.is_empty();
        changes_nothing && !drop_recent && !write_uids && !appends.is_empty()
    }
}

/// The time at which a change of flags is written to the mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteWhen {
    /// Before the call returns.
    #[default]
    Now,
    /// Later, if that is worthwhile: the call returns when the change is durable in the journal of
    /// pending changes. [`Mailbox::sync`], an expunge, an append or very many pending changes write
    /// them. A Maildir is always written at once.
    Pending,
}

/// Options of a change.
#[derive(Clone, Default)]
pub struct ChangeOptions {
    /// Time at which flags are written.
    pub write: WriteWhen,
    /// `true` if the view need not have the appended messages when the call returns; the next
    /// refresh finds them. Then an append to a Maildir costs the same whatever the size of the
    /// mailbox, unless another program has rewritten its list of UIDs; an append to an mbox whose
    /// messages all have their UIDs in the file costs a barrier less, and the first messages of an
    /// empty one get theirs. Without effect on other formats, and if there is more to change than
    /// appends.
    pub appends_unseen: bool,
    /// `true` to report the effect of the change without making it.
    pub dry_run: bool,
    /// Treatment of the expunged messages.
    pub keep_expunged: KeepExpunged,
    /// Once `true`, a long change ends after its current step, with
    /// [`barid_mailbox::Error::Unfinished`] or [`barid_mailbox::Error::Stopped`].
    pub stop: Option<Arc<AtomicBool>>,
    /// Called with the progress of a long change.
    pub progress: Option<ProgressFn>,
}

impl ChangeOptions {
    /// Fails if the change is to stop, before any of its messages is processed.
    ///
    /// # Errors
    /// [`barid_mailbox::Error::Stopped`].
    pub(crate) fn check_stop(&self, path: &Path, total: u64) -> Result<()> {
        match self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            true => Err(FormatError::Stopped { path: path.to_owned(), done: 0, total }.into()),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for ChangeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeOptions")
            .field("write", &self.write)
            .field("appends_unseen", &self.appends_unseen)
            .field("dry_run", &self.dry_run)
            .field("keep_expunged", &self.keep_expunged)
            .field("stop", &self.stop)
            .finish_non_exhaustive()
    }
}

/// Report of a change, or of a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Cost of the change.
    pub figures: SyncFigures,
    /// Number of messages whose flags or keywords changed, including written pending changes; if
    /// the change is only accepted, the number of messages that it applies to.
    pub flagged: u32,
    /// Number of messages whose visible flags or keywords the request changed; the others had
    /// pending changes.
    pub asked: u32,
    /// Number of messages expunged.
    pub expunged: u32,
    /// Number of messages appended.
    pub appends: u32,
    /// UIDs of the appended messages, in their order; none in a dry run.
    pub appended: Vec<Uid>,
    /// UIDVALIDITY of these UIDs; `None` if there are none.
    pub appended_under: Option<UidValidity>,
    /// Messages that the request names but that do not exist, in ascending order.
    pub gone: Vec<Uid>,
    /// Messages of pending changes that were dropped because the messages do not exist, in
    /// ascending order.
    pub pending_gone: Vec<Uid>,
    /// Messages for which nothing was written because nothing can be put into their header, in
    /// ascending order. Of very many only the first are listed.
    pub unwritable: Vec<Uid>,
    /// Number of such messages.
    pub unwritable_count: u64,
    /// Number of such messages that the request itself was to change; the others had pending
    /// changes.
    pub unwritable_asked: u64,
    /// Number of pending changes that stay because their message is ambiguous.
    pub ambiguous: u32,
    /// Bytes of the expunged messages that were kept for [`Mailbox::undo`], or in a dry run would
    /// be; `None` if no messages were kept.
    pub kept: Option<u64>,
    /// Time from which the kept messages may be dropped.
    pub kept_until: Option<Timestamp>,
    /// Bytes of the expunged messages, if they were to be kept and are too large for that; also set
    /// in a dry run.
    pub too_large: Option<u64>,
    /// Number of accepted changes that are not written yet.
    pub pending: u32,
    /// Further information on a change that was made, a line each: work that was left for later,
    /// and pending changes that could not be written.
    pub warnings: Vec<String>,
    /// Errors of the state after the change was made: UIDs and mod-sequences that the mailbox
    /// itself does not store may not be durable. [`Mailbox::notes`] reports them, too.
    pub unsettled: Vec<String>,
}

impl Changed {
    /// Counts the messages as expunged that an earlier attempt of the same change was to expunge,
    /// and that no longer exist. `tried` ascends.
    fn count_expunged(&mut self, tried: &[Uid]) {
        let before = self.gone.len();
        self.gone.retain(|uid| tried.binary_search(uid).is_err());
        self.expunged += (before - self.gone.len()) as u32;
    }

    /// Adds the problems of a later change of the same mailbox, including its warnings.
    pub fn add_trouble(&mut self, later: &Self) {
        self.gone.extend(&later.gone);
        self.pending_gone.extend(&later.pending_gone);
        self.unwritable.extend(&later.unwritable);
        self.unwritable_count += later.unwritable_count;
        self.unwritable_asked += later.unwritable_asked;
        self.ambiguous = later.ambiguous;
        self.unsettled.extend_from_slice(&later.unsettled);
        for warning in &later.warnings {
            if !self.warnings.contains(warning) {
                self.warnings.push(warning.clone());
            }
        }
    }
}

impl Mailbox {
    /// Changes flags, expunges and appends.
    ///
    /// Everything reported is durable when this returns: in the mailbox, or with
    /// [`WriteWhen::Pending`] and only flag changes in the journal of pending changes. Pending
    /// changes are written in the same pass unless the request only adds to them. Rows are
    /// renumbered.
    ///
    /// # Errors
    /// An unfinished change that cannot be completed; a lock of another program;
    /// [`crate::Error::ReadOnly`]; errors of the file system. [`barid_mailbox::Error::Unfinished`]
    /// means that the change continues at the next opening, [`barid_mailbox::Error::Stopped`] that
    /// it was stopped on request after some of the messages, [`barid_mailbox::Error::NotAppended`]
    /// that everything but the appends is done; after any other error nothing was changed in an
    /// mbox, and in a Maildir each message was changed completely or not at all. Once the change is
    /// made, problems of the cache or the ledger are not errors: [`Mailbox::notes`] reports them.
    pub fn change(
        &mut self,
        request: &ChangeRequest<'_>,
        options: &ChangeOptions,
    ) -> Result<Changed> {
        match self.may_wait(request, options) {
            true => self.accept(request, options),
            false => self.write(request, options),
        }
    }

    /// Writes the pending changes, drops \Recent, and writes UIDs if the format stores them.
    ///
    /// # Errors
    /// As [`Mailbox::change`].
    pub fn sync(&mut self, options: &ChangeOptions) -> Result<Changed> {
        let request =
            ChangeRequest { drop_recent: true, write_uids: true, ..ChangeRequest::default() };
        self.write(&request, options)
    }

    /// Restores the messages of the last expunge, with their flags, keywords and dates, and forgets
    /// the expunge; messages that still exist are left out. A second call restores those of the
    /// expunge before, if it is kept. In an mbox the messages are the same as before, byte by byte,
    /// except for their UIDs.
    ///
    /// May be repeated after an interruption: restored messages are not restored twice.
    ///
    /// # Errors
    /// [`crate::Error::NothingToUndo`]; [`crate::Error::NotKept`]; as [`Mailbox::change`].
    pub fn undo(&mut self, options: &ChangeOptions) -> Result<Changed> {
        self.undo_one(Undo::Last, options)
    }

    /// Restores the messages of any kept expunge, as [`Mailbox::undo`] does for the last one.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchExpunge`]; as [`Mailbox::undo`].
    pub fn undo_one(&mut self, which: Undo, options: &ChangeOptions) -> Result<Changed> {
        self.check_writable(options)?;
        match options.dry_run {
            true => self.bring_back(which, options),
            false => self.under_pending_lock(options, |mailbox| mailbox.bring_back(which, options)),
        }
    }

    /// Returns the number of accepted changes that are not written yet.
    pub fn pending(&self) -> u32 {
        self.pending.records().len() as u32
    }

    /// Returns a change that was begun and not finished, and could not be completed at the opening.
    pub fn unfinished(&self) -> Option<&Unfinished> {
        self.unfinished.as_ref()
    }
}

/// Adds the cost of a later pass.
pub(crate) fn add_figures(sum: &mut SyncFigures, more: &SyncFigures) {
    let is_first = *sum == SyncFigures::default();
    sum.messages_written += more.messages_written;
    sum.messages_expunged += more.messages_expunged;
    sum.bytes_in_place += more.bytes_in_place;
    sum.bytes_moved += more.bytes_moved;
    sum.bytes_collapsed += more.bytes_collapsed;
    sum.bytes_journaled += more.bytes_journaled;
    sum.bytes_appended += more.bytes_appended;
    sum.barriers += more.barriers;
    sum.size_before = if is_first { more.size_before } else { sum.size_before };
    sum.size_after = more.size_after;
}
