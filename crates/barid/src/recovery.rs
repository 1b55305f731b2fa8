//! Completing a change that was begun and not finished (docs/protocol.md, "Open", step 1).

use barid_mailbox::{EmptyKnown, Error as FormatError, Recovered, SyncContext, Unfinished};
use barid_state::{Ledger, Pending};
use barid_vfs::Timestamp;

use crate::limits::PENDING_LOCK_TIMEOUT;
use crate::opening::expect_writing;
use crate::{LongOperation, Note, NoteKind, OpenOptions, Progress, Result};

/// The parts needed to complete a change.
pub(crate) struct ChangeRecovery<'a> {
    pub(crate) storage: &'a dyn barid_mailbox::Storage,
    pub(crate) pending: &'a mut Pending,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) options: &'a OpenOptions,
    pub(crate) notes: &'a mut Vec<Note>,
    pub(crate) now: Timestamp,
}

impl ChangeRecovery<'_> {
    /// Completes an unfinished change if possible, and reports that in the notes; returns the
    /// change if it stays unfinished. Costs a few system calls if there is none.
    pub(crate) fn at_opening(&mut self) -> Result<Option<Unfinished>> {
        let Some(found) = self.storage.unfinished(Some(&self.options.state_dir))? else {
            return Ok(None);
        };
        let why = match self.options.read_only {
            true if self.storage.abandoned(Some(&self.options.state_dir))?.is_none() => {
                return Ok(None);
            }
            true => "not completed, because the mailbox is opened read-only".to_owned(),
            false => match self.complete() {
                Ok(()) => return Ok(None),
                Err(error) => error.to_string(),
            },
        };
        let path = self.storage.name().display();
        let text = format!("{path}: {} is unfinished: {why}; UIDs may change", found.what);
        self.notes.push(Note { kind: NoteKind::Unfinished, text });
        Ok(Some(found))
    }

    /// Completes an unfinished change, under the lock of the pending changes: those that were
    /// written are dropped before the journal is removed.
    pub(crate) fn complete(&mut self) -> Result<()> {
        let Self { pending, ledger, .. } = self;
        let held = pending.is_locked();
        let locked = pending.lock(PENDING_LOCK_TIMEOUT);
        if locked.is_err() && (ledger.is_persistent() || !pending.records().is_empty()) {
            locked?;
        }
        let done = self.complete_locked();
        if !held {
            self.pending.unlock();
        }
        done
    }

    fn complete_locked(&mut self) -> Result<()> {
        let Self { storage, pending, ledger, options, .. } = self;
        expect_writing(&**storage, self.now, ledger)?;
        let progress = options.progress.as_ref();
        let progress =
            progress.map(|tell| Progress::callback(tell, LongOperation::Recover, storage.format()));
        let known = EmptyKnown::default();
        let mut drop_pending = |through: u64| Ok(pending.drop_through(through)?);
        let mut context = SyncContext {
            ledger: Some(ledger),
            state_dir: Some(&options.state_dir),
            progress: progress.as_ref().map(|progress| progress as &(dyn Fn(u64, u64) + Sync)),
            drop_pending: Some(&mut drop_pending),
            ..SyncContext::new(&known)
        };
        let recovered = storage.recover(&mut context);
        self.conclude(recovered)
    }

    fn conclude(&mut self, recovered: barid_mailbox::Result<Recovered>) -> Result<()> {
        let recovered = recovered?;
        if let Some(through) = recovered.pending_through {
            self.pending.drop_through(through)?;
        }
        let path = self.storage.name().display().to_string();
        let mut note = |kind, text: String| {
            self.notes.push(Note { kind, text: format!("{path}: {text}") });
        };
        if let Some(aside) = &recovered.quarantined {
            let text = "another program rewrote the mailbox during a change, which is not \
                        completed; the journal was moved to";
            note(NoteKind::Unfinished, format!("{text} {}", aside.display()));
        } else if recovered.completed {
            note(NoteKind::Recovered, "an interrupted change was completed".to_owned());
        }
        if recovered.bytes_cut > 0 {
            let bytes = recovered.bytes_cut;
            let text =
                format!("{bytes} bytes of an interrupted append, less than a message, are removed");
            note(NoteKind::Recovered, text);
        }
        if recovered.bytes_delivered > 0 {
            let bytes = recovered.bytes_delivered;
            note(
                NoteKind::Recovered,
                format!("{bytes} bytes of mail delivered meanwhile are kept"),
            );
        }
        match self.storage.abandoned(Some(&self.options.state_dir))? {
            Some(left) => Err(unfinished(self.storage, left).into()),
            None => Ok(()),
        }
    }
}

/// Returns the error that a change is unfinished.
pub(crate) fn unfinished(storage: &dyn barid_mailbox::Storage, found: Unfinished) -> FormatError {
    let path = storage.name().to_owned();
    match found.journal {
        Some(journal) => FormatError::Unfinished { path, journal, what: found.what },
        None => FormatError::Unrecoverable { path, what: found.what },
    }
}
