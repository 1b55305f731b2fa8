//! One pass of writing: what was asked for and what is pending, through the format, into the cache.
//!
//! Order: the lock of the pending changes; unfinished work; the expunged messages are kept, durably;
//! the format's change, which drops the pending changes between its commit and the end of its
//! journal; the mod-sequence, durable in the ledger; the cache.

use barid_cache::{Follow, Follower, Snapshot};
use barid_formats::{
    Error as FormatError, Format, MovedMessage, SyncContext, SyncReport, SyncedState,
};
use barid_state::{Ledger, MessageKey};
use barid_types::{ModSeq, Uid, UidValidity};

use super::resolve::{Resolved, resolve};
use super::{ChangeOptions, ChangeRequest, Changed};
use crate::limits::{CHANGES_MAX, PENDING_LOCK_TIMEOUT};
use crate::opening::{LEDGER_LOCK_TIMEOUT, expect_writing, written_at};
use crate::recovery::unfinished;
use crate::{Error, Mailbox, Note, NoteKind, Progress, Result, Work};

impl Mailbox {
    /// Writes what is asked for and what is pending.
    pub(super) fn write(
        &mut self,
        request: &ChangeRequest<'_>,
        options: &ChangeOptions,
    ) -> Result<Changed> {
        self.check_writable(options)?;
        if options.dry_run {
            return self.write_once(request, options);
        }
        self.under_pending_lock(|mailbox| {
            let uidvalidity = mailbox.snapshot.meta().uidvalidity;
            mailbox.finish_unfinished()?;
            mailbox.catch_up()?;
            mailbox.check_numbering(uidvalidity)?;
            mailbox.write_until_steady(request, options)
        })
    }

    /// What is only to be looked at may be open read-only, if it is whole.
    pub(super) fn check_writable(&self, options: &ChangeOptions) -> Result<()> {
        match &self.unfinished {
            Some(left) if options.dry_run => Err(unfinished(&*self.format, left.clone()).into()),
            _ if options.dry_run || !self.options.read_only => Ok(()),
            _ => Err(Error::ReadOnly { path: self.path().to_owned() }),
        }
    }

    /// Keeps other processes from accepting, writing and dropping pending changes meanwhile. Where
    /// no state can be written, nothing can be pending.
    pub(super) fn under_pending_lock<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if self.pending.is_locked() {
            return act(self);
        }
        self.open_poisoned_again()?;
        let locked = self.pending.lock(PENDING_LOCK_TIMEOUT);
        if locked.is_err() && (self.is_state_kept() || !self.pending.records().is_empty()) {
            locked?;
        }
        let result = act(self);
        // An error may leave it locked.
        self.ledger.unlock();
        self.pending.unlock();
        result
    }

    /// Whether the state folder can be written.
    fn is_state_kept(&self) -> bool {
        self.ledger.is_persistent()
    }

    /// Tries again as long as others change the mailbox.
    fn write_until_steady(
        &mut self,
        request: &ChangeRequest<'_>,
        options: &ChangeOptions,
    ) -> Result<Changed> {
        let uidvalidity = self.snapshot.meta().uidvalidity;
        for attempt in 1..=CHANGES_MAX {
            self.check_numbering(uidvalidity)?;
            let error = match self.write_once(request, options) {
                Err(error) if attempt < CHANGES_MAX => from_sink(error),
                result => return result,
            };
            match error {
                Error::Mailbox(FormatError::Changed { .. } | FormatError::MessageGone { .. }) => {
                    let tail_verified = self.snapshot.meta().tail_verified;
                    self.rescan(attempt > 1 || tail_verified)?;
                }
                error @ Error::Cache(_) => self.heal(error)?,
                Error::Mailbox(error @ FormatError::Unfinished { .. }) => {
                    self.unfinished = self.format.unfinished(Some(&self.options.state_dir))?;
                    return Err(error.into());
                }
                error => return Err(error),
            }
        }
        Err(Error::KeepsChanging { path: self.path().to_owned() })
    }

    /// Takes notice of what others changed, if the stamp tells that they did.
    pub(super) fn catch_up(&mut self) -> Result<()> {
        match self.format.stamp()?.same_files(&self.snapshot.meta().stamp) {
            true => Ok(()),
            false => self.rescan(false),
        }
    }

    /// The UIDs asked for mean nothing under another UIDVALIDITY.
    pub(super) fn check_numbering(&self, uidvalidity: UidValidity) -> Result<()> {
        match self.snapshot.meta().uidvalidity == uidvalidity {
            true => Ok(()),
            false => Err(Error::Renumbered { path: self.path().to_owned() }),
        }
    }

    fn write_once(
        &mut self,
        request: &ChangeRequest<'_>,
        options: &ChangeOptions,
    ) -> Result<Changed> {
        let mut resolved = self.resolve(request)?;
        let mut changed = Changed {
            flagged: resolved.flagged,
            appends: request.appends.len() as u32,
            ambiguous: resolved.ambiguous.len() as u32,
            ..Changed::default()
        };
        if !options.dry_run && !resolved.ambiguous.is_empty() {
            self.pending.put_last(&resolved.ambiguous)?;
        }
        let left = self.pending.records().len() - resolved.ambiguous.len();
        let through = match left {
            0 => None,
            written => self.pending.records().get(written - 1).map(|record| record.sequence),
        };
        if !options.dry_run {
            changed.kept = self.keep_expunged(&resolved.changes.expunge, options)?;
        }
        let uidnext = self.snapshot.meta().uidnext;
        let report = match resolved.changes.is_empty() && request.appends.is_empty() {
            true => SyncReport::default(),
            false => self.change_format(&resolved, request, options, through)?,
        };
        if !options.dry_run {
            if let Some(through) = through {
                self.pending.drop_through(through)?;
            }
            self.show_pending()?;
            changed.appended = self.uids_of(request, &report, uidnext)?;
        }
        resolved.gone.extend(&report.gone);
        resolved.gone.sort_unstable();
        resolved.gone.dedup();
        changed.gone = resolved.gone;
        let gone = |uid: &&Uid| report.gone.binary_search(uid).is_ok();
        let expunge = &resolved.changes.expunge;
        changed.expunged = (expunge.len() - expunge.iter().filter(gone).count()) as u32;
        changed.figures = report.figures;
        changed.pending = match options.dry_run {
            true => changed.ambiguous,
            false => self.pending.records().len() as u32,
        };
        Ok(changed)
    }

    fn resolve(&self, request: &ChangeRequest<'_>) -> Result<Resolved> {
        resolve(&self.snapshot, &self.pending, request, &mut |uid| self.body_hash(uid))
    }

    /// Has the format make the changes, and follows them.
    fn change_format(
        &mut self,
        resolved: &Resolved,
        request: &ChangeRequest<'_>,
        options: &ChangeOptions,
        through: Option<u64>,
    ) -> Result<SyncReport> {
        let progress = options.progress.as_ref();
        let progress =
            progress.map(|tell| Progress::teller(tell, Work::Change, self.format.format()));
        let Self { format, snapshot, pending, ledger, .. } = self;
        let may_grow = through.is_some() || !request.appends.is_empty();
        let is_expected = may_grow && !resolved.changes.is_empty();
        if is_expected && !options.dry_run {
            expect_writing(&**format, self.vfs.now(), ledger)?;
        }
        let mut follower = Follower::new(snapshot);
        let mut moved = |message: &MovedMessage| follower.moved(message);
        let mut drop_pending = |through: u64| Ok(pending.drop_through(through)?);
        let mut context = SyncContext {
            ledger: Some(ledger),
            state_dir: Some(&self.options.state_dir),
            moved: Some(&mut moved),
            progress: progress.as_ref().map(|progress| progress as &(dyn Fn(u64, u64) + Sync)),
            stop: options.stop.as_deref(),
            dry_run: options.dry_run,
            pending_through: through.filter(|_| !options.dry_run),
            drop_pending: Some(&mut drop_pending),
            ..SyncContext::new(snapshot)
        };
        let mut report = format.sync(&resolved.changes, request.appends, &mut context)?;
        let is_touched = report.figures.messages_written + report.figures.messages_expunged > 0;
        let appends = !request.appends.is_empty();
        let of_ledger = [is_touched, appends].map(|is_so| is_so && ledger.is_persistent());
        let ours = of_ledger.into_iter().chain([through.is_some(), is_expected]);
        report.figures.barriers += ours.filter(|is_so| *is_so).count() as u64;
        if options.dry_run {
            return Ok(report);
        }
        let Some(state) = report.cache.take() else {
            drop(follower);
            // What was written in place would not be seen by a look at what the file grew by.
            self.rescan(is_touched && self.format.format() != Format::Maildir)?;
            return Ok(report);
        };
        let modseq = match is_touched {
            true => {
                ledger.set_fingerprint(written_at(&state.stamp_after));
                hand_out_modseq(ledger, snapshot.meta().highest_modseq)?
            }
            false => snapshot.meta().highest_modseq,
        };
        let followed = follower.finish(&Follow {
            expunged: &report.expunged,
            shifts: &report.shifts,
            stamp: state.stamp,
            state: &state.state,
            keywords: &state.keywords,
            uidnext: snapshot.meta().uidnext,
            modseq,
            size_bytes: report.figures.size_after.saturating_sub(report.figures.bytes_appended),
            tail_verified: false,
        });
        match followed {
            Ok(snapshot) => self.take_followed(snapshot, &state, appends)?,
            // The cache is of the mailbox before the change, and that is what it says.
            Err(_) => self.rescan(is_touched)?,
        }
        Ok(report)
    }

    /// Goes on with what follows a change; what was appended, by us or by others, is scanned.
    fn take_followed(
        &mut self,
        snapshot: Snapshot,
        state: &SyncedState,
        appended: bool,
    ) -> Result<()> {
        snapshot.release();
        let after = state.stamp_after;
        if appended || !state.stamp.same_files(&after) {
            return self.scan_against(false, |opening| {
                opening.own = Some(after);
                Ok(Some(snapshot))
            });
        }
        if let Some(error) = snapshot.store_error() {
            let text = format!("the cache cannot be written: {error}");
            self.notes.push(Note { kind: NoteKind::Cache, text });
        }
        self.snapshot = snapshot;
        Ok(())
    }

    /// The UIDs of what was appended. Where the format did not tell them they are those of the last
    /// messages that were not there before, by their keys.
    fn uids_of(
        &self,
        request: &ChangeRequest<'_>,
        report: &SyncReport,
        uidnext: Uid,
    ) -> Result<Vec<Uid>> {
        let told: Option<Vec<Uid>> = report.appended.iter().copied().collect();
        if let Some(told) = told.filter(|told| told.len() == request.appends.len()) {
            return Ok(told);
        }
        let mut new = Vec::new();
        let from = self.row_from(uidnext)?;
        self.snapshot.cores(from..self.len(), &mut |_, core| new.push((core.uid, core.key)))?;
        if new.len() == request.appends.len() {
            return Ok(new.into_iter().map(|(uid, _)| uid).collect());
        }
        let mut uids = Vec::with_capacity(request.appends.len());
        for message in request.appends.iter().rev() {
            let key = MessageKey(barid_message::header_key(message.bytes));
            let Some(at) = new.iter().rposition(|(_, found)| *found == key) else { continue };
            uids.push(new[at].0);
            new.truncate(at);
        }
        uids.reverse();
        Ok(uids)
    }
}

/// Hands out a mod-sequence; it is durable when this returns.
pub(super) fn hand_out_modseq(ledger: &mut Ledger, highest: ModSeq) -> Result<ModSeq> {
    // Others hand out mod-sequences, too: what they gave is read again under the lock.
    ledger.lock(LEDGER_LOCK_TIMEOUT)?;
    let modseq = highest.max(ledger.highest_modseq()).next();
    ledger.raise_modseq(modseq);
    let committed = ledger.commit();
    ledger.unlock();
    committed?;
    Ok(modseq)
}

/// The cache's error behind one of what is known.
fn from_sink(error: Error) -> Error {
    match error {
        Error::Mailbox(FormatError::Sink(cause)) => match cause.downcast() {
            Ok(cause) => Error::Cache(*cause),
            Err(cause) => FormatError::Sink(cause).into(),
        },
        error => error,
    }
}
