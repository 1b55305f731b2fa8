//! One pass of writing: the request and the pending changes, through the format, into the cache.
//!
//! Order: the lock of the pending changes; unfinished changes; keeping the expunged messages,
//! durably; the format's change, which drops the pending changes between its commit and the end of
//! its journal; the mod-sequence, durable in the ledger; the cache.
//!
//! An attempt ends with the format's change. The steps after it are in `after.rs`: they are not
//! repeated and return no error.

use std::io::ErrorKind;

use barid_cache::{Follower, Snapshot};
use barid_mailbox::{Error as FormatError, MovedMessage, SyncContext, SyncFigures, SyncReport};
use barid_state::Ledger;
use barid_types::{Keyword, ModSeq, Uid, UidValidity};

use super::after::{MadeChange, Next, follow};
use super::resolve::{Resolved, resolve, there};
use super::{ChangeOptions, ChangeRequest, Changed};
use crate::announcing::forget_unless_recorded;
use crate::limits::{CHANGES_MAX, LOCK_SLICE, PENDING_LOCK_TIMEOUT};
use crate::opening::{LEDGER_LOCK_TIMEOUT, expect_writing};
use crate::recovery::unfinished;
use crate::{Error, KeywordLimit, LongOperation, Mailbox, Progress, Result};

impl Mailbox {
    /// Writes the request and the pending changes.
    pub(super) fn write(
        &mut self,
        request: &ChangeRequest<'_>,
        options: &ChangeOptions,
    ) -> Result<Changed> {
        self.check_writable(options)?;
        if options.dry_run {
            let Attempted { made, warnings } = self.attempt(request, options)?;
            return Ok(Changed { warnings, ..made.into_report(request) });
        }
        self.under_pending_lock(options, |mailbox| {
            let uidvalidity = mailbox.snapshot.meta().uidvalidity;
            mailbox.finish_unfinished()?;
            match mailbox.appends_unseen(request, options) && mailbox.needs_no_look()? {
                true => mailbox.ledger.refresh()?,
                false => mailbox.catch_up()?,
            }
            mailbox.check_numbering(uidvalidity)?;
            // What is dropped is announced for the messages of the overlay (`touch_dropped`).
            match mailbox.show_pending() {
                Err(error @ Error::Cache(_)) => mailbox.heal(error)?,
                result => result?,
            }
            mailbox.write_until_steady(request, options)
        })
    }

    /// Checks that the mailbox may be written. For a dry run it may be read-only, if no change is
    /// unfinished.
    pub(super) fn check_writable(&self, options: &ChangeOptions) -> Result<()> {
        match &self.unfinished {
            Some(left) if options.dry_run => Err(unfinished(&*self.storage, left.clone()).into()),
            _ if options.dry_run || !self.options.read_only => Ok(()),
            _ => Err(Error::ReadOnly { path: self.path().to_owned() }),
        }
    }

    /// Runs `act` while no other process can accept, write or drop pending changes. If no state can
    /// be written, nothing can be pending.
    pub(super) fn under_pending_lock<T>(
        &mut self,
        options: &ChangeOptions,
        act: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if self.pending.is_locked() {
            return act(self);
        }
        self.open_poisoned_again()?;
        let locked = self.wait_for_pending(options);
        if locked.is_err() && (self.is_state_kept() || !self.pending.records().is_empty()) {
            locked?;
        } else if let Err(error @ Error::Mailbox(_)) = locked {
            return Err(error);
        }
        let result = act(self);
        // An error may leave the ledger locked.
        self.ledger.unlock();
        self.pending.unlock();
        result
    }

    /// Takes the lock of the pending changes, unless the change is to stop while another process
    /// has it.
    fn wait_for_pending(&mut self, options: &ChangeOptions) -> Result<()> {
        let mut waited = LOCK_SLICE;
        loop {
            match self.pending.lock(LOCK_SLICE) {
                Err(barid_state::Error::Locked { .. }) if waited < PENDING_LOCK_TIMEOUT => {
                    options.check_stop(self.path(), 0)?;
                    waited += LOCK_SLICE;
                }
                Err(barid_state::Error::Locked { path, .. }) => {
                    let timeout = PENDING_LOCK_TIMEOUT;
                    return Err(barid_state::Error::Locked { path, timeout }.into());
                }
                result => return Ok(result?),
            }
        }
    }

    /// Returns `true` if the state folder can be written.
    fn is_state_kept(&self) -> bool {
        self.ledger.is_persistent()
    }

    /// Repeats the attempt while others change the mailbox or the cache is damaged: until the
    /// format has made the change, and never after that.
    fn write_until_steady(
        &mut self,
        request: &ChangeRequest<'_>,
        options: &ChangeOptions,
    ) -> Result<Changed> {
        let uidvalidity = self.snapshot.meta().uidvalidity;
        let mut tried: Vec<Uid> = Vec::new();
        for attempt in 1..=CHANGES_MAX {
            self.check_numbering(uidvalidity)?;
            let error = match self.attempt(request, options) {
                Ok(Attempted { made, mut warnings }) => {
                    warnings.extend_from_slice(&made.report.failed);
                    let mut changed = Changed { warnings, ..self.conclude(made, request) };
                    changed.count_expunged(&tried);
                    return Ok(changed);
                }
                Err(error) if attempt < CHANGES_MAX => from_sink(error),
                Err(Error::Mailbox(FormatError::Changed { .. })) => break,
                Err(error) => return Err(error),
            };
            match error {
                Error::Mailbox(FormatError::Changed { .. } | FormatError::MessageGone { .. }) => {
                    if attempt == 1 {
                        tried = present(&self.snapshot, &request.expunge)?;
                    }
                    let tail_verified = self.snapshot.meta().tail_verified;
                    self.rescan(attempt > 1 || tail_verified)?;
                }
                error @ Error::Cache(_) => self.heal(error)?,
                Error::Mailbox(error @ FormatError::Unfinished { .. }) => {
                    self.unfinished = self.storage.unfinished(Some(&self.options.state_dir))?;
                    return Err(error.into());
                }
                Error::Mailbox(error @ FormatError::NotAppended { .. }) => {
                    // Everything but the appends is done. A scan now saves one later; the error to
                    // report is the original one.
                    let _ = self.rescan(true);
                    return Err(error.into());
                }
                Error::Mailbox(error @ FormatError::Stopped { .. }) => {
                    // The messages that are done are known at once; the error to report is this
                    // one.
                    let _ = self.rescan(false);
                    return Err(error.into());
                }
                error => return Err(error),
            }
        }
        Err(Error::KeepsChanging { path: self.path().to_owned() })
    }

    /// Rescans if the stamp or the ledger shows that others changed the mailbox.
    pub(crate) fn catch_up(&mut self) -> Result<()> {
        self.ledger.refresh()?;
        let is_same = self.storage.stamp()?.is_same(&self.snapshot.meta().stamp);
        if is_same && self.covers_ledger() { Ok(()) } else { self.rescan(false) }
    }

    /// Fails if the UIDVALIDITY has changed, since the requested UIDs then mean other messages.
    pub(crate) fn check_numbering(&self, uidvalidity: UidValidity) -> Result<()> {
        match self.snapshot.meta().uidvalidity == uidvalidity {
            true => Ok(()),
            false => Err(Error::Renumbered { path: self.path().to_owned() }),
        }
    }

    /// Makes everything up to the format's change, which is the last step that can fail. If there
    /// is no space to write the pending changes, messages are appended without them.
    fn attempt(
        &mut self,
        request: &ChangeRequest<'_>,
        options: &ChangeOptions,
    ) -> Result<Attempted> {
        let error = match self.attempt_with(request, options, true) {
            Err(error) if is_full(&error) && self.can_leave_pending(request) => error,
            result => return result,
        };
        let mut alone = self.attempt_with(request, options, false)?;
        let text = format!("the pending changes are not written and stay pending: {error}");
        alone.warnings.push(text);
        Ok(alone)
    }

    fn can_leave_pending(&self, request: &ChangeRequest<'_>) -> bool {
        request.is_only_appends() && !self.pending.records().is_empty()
    }

    /// Returns `true` if a request is made without a look at the messages that there are.
    fn appends_unseen(&self, request: &ChangeRequest<'_>, options: &ChangeOptions) -> bool {
        options.appends_unseen
            && self.storage.caps().appends_unseen
            && request.is_only_appends()
            && self.pending.records().is_empty()
    }

    /// Returns `true` if only appends that nobody looked at were made since the last scan, or if
    /// other changes do not matter to an append.
    fn needs_no_look(&self) -> Result<bool> {
        if self.format().has_message_files() {
            return Ok(true);
        }
        let known = &self.snapshot.meta().stamp;
        match self.storage.left_unseen(known) {
            Some(left) => Ok(self.storage.stamp()?.is_same(&left)),
            None => Ok(false),
        }
    }

    /// Returns the figures of a pass that changes nothing.
    pub(super) fn unchanged(&self) -> SyncFigures {
        // The size of many files says nothing about what a change wrote.
        let is_one = !self.format().has_message_files();
        let size = if is_one { self.snapshot.meta().size_bytes } else { 0 };
        SyncFigures { size_before: size, size_after: size, ..SyncFigures::default() }
    }

    /// Returns warnings about keywords that are not written because the mailbox cannot store them.
    fn warn_refused(&self, refused: &[(Keyword, KeywordLimit)]) -> Vec<String> {
        let path = self.path().display();
        let line = |(keyword, limit): &(Keyword, KeywordLimit)| {
            let name = keyword.as_str();
            format!(
                "{path}: the pending keyword {name:?} is dropped because it cannot be stored: \
                 {limit}"
            )
        };
        refused.iter().map(line).collect()
    }

    /// Makes an attempt as [`Mailbox::attempt`] does, with or without the pending changes.
    fn attempt_with(
        &mut self,
        request: &ChangeRequest<'_>,
        options: &ChangeOptions,
        with_pending: bool,
    ) -> Result<Attempted> {
        let refused = self.check_keywords(request)?;
        let resolved = self.resolve(request, &refused, with_pending)?;
        let asked = self.asked(request, &resolved)?;
        if !options.dry_run && !resolved.ambiguous.is_empty() {
            self.pending.put_last(&resolved.ambiguous)?;
        }
        let left = self.pending.records().len() - resolved.ambiguous.len();
        let through = match left {
            _ if !with_pending => None,
            0 => None,
            written => self.pending.records().get(written - 1).map(|record| record.sequence),
        };
        let kept = self.keep_expunged(&resolved.changes.expunge, options)?;
        let meta = self.snapshot.meta();
        let numbering = (meta.uidvalidity, meta.uidnext);
        let covered = self.covered();
        let (report, next) = match resolved.changes.is_empty() && request.appends.is_empty() {
            true => (SyncReport { figures: self.unchanged(), ..Default::default() }, Next::Nothing),
            false => match self.change_format(&resolved, request, options, through) {
                Ok(made) => made,
                Err(error) => {
                    self.drop_kept(&kept, &error);
                    return Err(error);
                }
            },
        };
        let appends = request.appends.len() as u32;
        let made = MadeChange {
            resolved,
            asked,
            appends,
            report,
            next,
            kept,
            through,
            numbering,
            covered,
        };
        let warnings = if with_pending { self.warn_refused(&refused) } else { Vec::new() };
        Ok(Attempted { made, warnings })
    }

    /// Returns the number of messages whose visible flags the request changes.
    fn asked(&self, request: &ChangeRequest<'_>, resolved: &Resolved) -> Result<u32> {
        if self.pending.records().is_empty() {
            return Ok(resolved.flagged);
        }
        self.count_changing(&request.flags)
    }

    fn resolve(
        &self,
        request: &ChangeRequest<'_>,
        refused: &[(Keyword, KeywordLimit)],
        with_pending: bool,
    ) -> Result<Resolved> {
        let pending = if with_pending { self.pending.records() } else { &[] };
        let mut body_hash = |uid| self.body_hash(uid);
        resolve(&self.snapshot, pending, refused, request, &mut body_hash)
    }

    /// Makes the changes through the format, and applies them to the cache.
    fn change_format(
        &mut self,
        resolved: &Resolved,
        request: &ChangeRequest<'_>,
        options: &ChangeOptions,
        through: Option<u64>,
    ) -> Result<(SyncReport, Next)> {
        let progress = options.progress.as_ref();
        let progress = progress
            .map(|tell| Progress::callback(tell, LongOperation::Change, self.storage.format()));
        let covered = self.covered();
        let is_unseen = self.appends_unseen(request, options);
        let Self { view, pending, ledger, .. } = self;
        let (storage, snapshot) = (&*view.storage, &*view.snapshot);
        let may_grow = through.is_some() || !request.appends.is_empty();
        let is_expected = may_grow && !resolved.changes.is_empty();
        if is_expected && !options.dry_run {
            expect_writing(storage, view.vfs.now(), ledger)?;
        }
        let mut follower = Follower::new(snapshot);
        let mut moved = |message: &MovedMessage| follower.moved(message);
        let mut drop_pending = |through: u64| Ok(pending.drop_through(through)?);
        let mut context = SyncContext {
            ledger: Some(ledger),
            state_dir: Some(&view.options.state_dir),
            moved: Some(&mut moved),
            progress: progress.as_ref().map(|progress| progress as &(dyn Fn(u64, u64) + Sync)),
            stop: options.stop.as_deref(),
            dry_run: options.dry_run,
            unseen: is_unseen,
            will_rescan: view.options.is_kept_open,
            pending_through: through.filter(|_| !options.dry_run),
            drop_pending: Some(&mut drop_pending),
            ..SyncContext::new(snapshot)
        };
        let mut report = storage.sync(&resolved.changes, request.appends, &mut context)?;
        let is_touched = report.figures.messages_written + report.figures.messages_expunged > 0;
        let appends = !request.appends.is_empty();
        let unseen = report.appended_under.filter(|_| is_unseen);
        let of_ledger =
            [is_touched, appends && unseen.is_none()].map(|is_so| is_so && ledger.is_persistent());
        let ours = of_ledger.into_iter().chain([through.is_some(), is_expected]);
        report.figures.barriers += ours.filter(|is_so| *is_so).count() as u64;
        let next = match (unseen, report.expected.take()) {
            _ if options.dry_run => Next::Nothing,
            (Some(uidvalidity), _) => Next::Unseen(uidvalidity),
            (None, Some(expected)) => Next::Expected(expected),
            (None, None) => {
                let rules = storage.stamp_rules();
                let next =
                    follow(rules, follower, &mut report, (ledger, covered), snapshot, appends);
                ledger.unlock();
                next
            }
        };
        Ok((report, next))
    }
}

/// Returns those of `uids` that are messages of a snapshot, in ascending order.
fn present(snapshot: &Snapshot, uids: &[Uid]) -> Result<Vec<Uid>> {
    let mut uids = uids.to_vec();
    uids.sort_unstable();
    let mut there = there(snapshot, uids.iter().copied(), &mut |_| {})?.into_iter();
    uids.retain(|_| there.next() == Some(true));
    Ok(uids)
}

/// A change that the format has made, and warnings.
struct Attempted {
    made: MadeChange,
    warnings: Vec<String>,
}

/// Returns `true` if there was no space for the change.
fn is_full(error: &Error) -> bool {
    match error {
        Error::Mailbox(FormatError::NoSpace { .. }) => true,
        Error::Mailbox(FormatError::Io { source, .. }) => {
            use ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
            matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge)
        }
        _ => false,
    }
}

/// Assigns a mod-sequence to a change of a view that contains everything up to `covered`, and
/// records the UIDs that vanish with it, ascending. Both are durable when this returns, and the
/// ledger is locked: the caller unlocks it when the change is in the cache, or is pending. `None`
/// if the view lacks a change that others announced.
pub(super) fn hand_out_modseq(
    ledger: &mut Ledger,
    covered: ModSeq,
    vanished: &[Uid],
) -> Result<Option<ModSeq>> {
    // Others assign mod-sequences, too: theirs are read again under the lock.
    ledger.lock(LEDGER_LOCK_TIMEOUT)?;
    if ledger.is_persistent() && ledger.highest_modseq() > covered {
        ledger.unlock();
        return Ok(None);
    }
    let modseq = covered.max(ledger.highest_modseq()).next();
    forget_unless_recorded(ledger, covered);
    ledger.record_vanished(modseq, vanished);
    let committed = ledger.commit();
    if committed.is_err() {
        ledger.unlock();
    }
    committed?;
    Ok(Some(modseq))
}

/// Returns the cache's error that caused an error of a sink.
fn from_sink(error: Error) -> Error {
    match error {
        Error::Mailbox(FormatError::Sink(cause)) => match cause.downcast() {
            Ok(cause) => Error::Cache(*cause),
            Err(cause) => FormatError::Sink(cause).into(),
        },
        error => error,
    }
}
