//! Changing a mailbox: flags, expunges, appends, and writing what was delayed.
//!
//! A change of flags may be only accepted: it is then durable in the journal of pending changes and
//! shown by everything that is told of the mailbox, and written together with others later
//! (`docs/design/changing.md`). Expunges and appends are written at once, and what is pending with
//! them.

mod accept;
mod after;
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

use barid_formats::{Error as FormatError, FlagChanges, NewMessage, SyncFigures, Unfinished};
use barid_types::{Keyword, Uid};
use barid_vfs::Timestamp;

pub use self::room::{KeepExpunged, KeepLimits, KeepPlan};
pub use self::undo::{KeptExpunge, KeptState, Undo};

use crate::{Mailbox, ProgressFn, Result};

/// What is to be changed, in one pass.
#[derive(Clone, Debug, Default)]
pub struct ChangeRequest<'a> {
    /// Flag changes, in any order; those of one message are made in the order given.
    pub flags: FlagChanges,
    /// Messages to expunge, in any order.
    pub expunge: Vec<Uid>,
    /// Messages to append.
    pub appends: &'a [NewMessage<'a>],
    /// Keywords that the mailbox is to list, whether or not a message has them: where its format
    /// has a list, messages that come later find room in it.
    pub keywords: Vec<Keyword>,
    /// Drop \Recent from every message (Maildir: move `new` to `cur`).
    pub drop_recent: bool,
    /// Write the UID of every message into the mailbox, where it can hold them and does not yet.
    pub write_uids: bool,
}

/// When a change of flags is written to the mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteWhen {
    /// Before the call returns.
    #[default]
    Now,
    /// Later, where that is worth while: the call returns when the change is durable in the journal
    /// of pending changes. [`Mailbox::sync`], an expunge, an append or very many pending changes
    /// write them. A Maildir writes at once all the same.
    Pending,
}

/// How a change is to be made.
#[derive(Clone, Default)]
pub struct ChangeOptions {
    /// When flags are written.
    pub write: WriteWhen,
    /// Only find out what would be done.
    pub dry_run: bool,
    /// What becomes of the messages that are expunged.
    pub keep_expunged: KeepExpunged,
    /// Once true, a long change ends after its current step, with
    /// [`barid_formats::Error::Unfinished`] or [`barid_formats::Error::Stopped`].
    pub stop: Option<Arc<AtomicBool>>,
    /// Told how far a long change is.
    pub progress: Option<ProgressFn>,
}

impl ChangeOptions {
    /// Fails if the change is to stop, before any of its messages is done.
    ///
    /// # Errors
    /// [`barid_formats::Error::Stopped`].
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
            .field("dry_run", &self.dry_run)
            .field("keep_expunged", &self.keep_expunged)
            .field("stop", &self.stop)
            .finish_non_exhaustive()
    }
}

/// What was changed, or in a dry run would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// What it cost.
    pub figures: SyncFigures,
    /// Messages of which flags or keywords were changed, pending changes that were written
    /// included; where the change is only accepted, those of which it is.
    pub flagged: u32,
    /// Those of them of which the request changed flags or keywords as they were shown; the others
    /// had changes pending.
    pub asked: u32,
    /// Messages expunged.
    pub expunged: u32,
    /// Messages appended.
    pub appends: u32,
    /// UIDs of the appended messages, in their order; none in a dry run.
    pub appended: Vec<Uid>,
    /// Messages that the request names but that are not there, ascending.
    pub gone: Vec<Uid>,
    /// Messages of pending changes that were dropped because they are not there, ascending.
    pub pending_gone: Vec<Uid>,
    /// Messages of which nothing was written, ascending, since nothing can be put into their
    /// header. Of very many only the first are named.
    pub unwritable: Vec<Uid>,
    /// How many such messages there are.
    pub unwritable_count: u64,
    /// How many of them the request itself was to change; the others had changes pending.
    pub unwritable_asked: u64,
    /// Pending changes that were left, since it cannot be told which message they mean.
    pub ambiguous: u32,
    /// Bytes of the expunged messages that were kept for [`Mailbox::undo`], or in a dry run would
    /// be; `None` if none were.
    pub kept: Option<u64>,
    /// When what was kept may be dropped.
    pub kept_until: Option<Timestamp>,
    /// Bytes of the expunged messages, if they were to be kept and are too large for that; also in
    /// a dry run.
    pub too_large: Option<u64>,
    /// Accepted changes that are not written yet.
    pub pending: u32,
    /// What else is to be known of a change that was made, a line each: what was left of it for
    /// another time, and what was pending and could not be written.
    pub warnings: Vec<String>,
    /// Errors of the state once the change was made: UIDs and mod-sequences that the mailbox itself
    /// does not hold may not be durable. [`Mailbox::notes`] tells of them, too.
    pub unsettled: Vec<String>,
}

impl Changed {
    /// Adds what a later change of the same mailbox could not do, its warnings included.
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
    /// When it returns, what it reports is durable: in the mailbox, or with
    /// [`WriteWhen::Pending`] and nothing but flag changes in the journal of pending changes. What
    /// is pending is written in the same pass unless the request only adds to it. Rows are counted
    /// anew.
    ///
    /// # Errors
    /// Unfinished work that cannot be completed; a lock that another program holds;
    /// [`crate::Error::ReadOnly`]; what the file system says. [`barid_formats::Error::Unfinished`]
    /// says that the change goes on at the next opening, [`barid_formats::Error::Stopped`] that it
    /// was told to stop after some of the messages, [`barid_formats::Error::NotAppended`] that
    /// all is done but the appends; after any other error nothing was changed in an mbox, and in a
    /// Maildir each message was changed or not. Once the change is made no trouble with the cache
    /// or the ledger is an error: [`Mailbox::notes`] tells of it.
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

    /// Writes what is pending, drops \Recent, and writes UIDs where the format holds them.
    ///
    /// # Errors
    /// As [`Mailbox::change`].
    pub fn sync(&mut self, options: &ChangeOptions) -> Result<Changed> {
        let request =
            ChangeRequest { drop_recent: true, write_uids: true, ..ChangeRequest::default() };
        self.write(&request, options)
    }

    /// Brings back the messages of the last expunge, with their flags, keywords and dates, and
    /// forgets them; those that are there are left out. Once more, it brings back those of the
    /// expunge before, if it is kept. In an mbox they stand as they stood, byte by byte, but for
    /// their UIDs.
    ///
    /// May be repeated after it was interrupted: what it brought back is not brought back twice.
    ///
    /// # Errors
    /// [`crate::Error::NothingToUndo`]; [`crate::Error::NotKept`]; as [`Mailbox::change`].
    pub fn undo(&mut self, options: &ChangeOptions) -> Result<Changed> {
        self.undo_one(Undo::Last, options)
    }

    /// [`Mailbox::undo`] of some kept expunge.
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

    /// How many accepted changes are not written yet.
    pub fn pending(&self) -> u32 {
        self.pending.records().len() as u32
    }

    /// A change that was begun and not finished, and could not be completed at the opening.
    pub fn unfinished(&self) -> Option<&Unfinished> {
        self.unfinished.as_ref()
    }
}

/// Adds what another pass cost, which came later.
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
