//! Listing pending changes, dropping them, and taking over those of a replaced mailbox.

use std::sync::Arc;

use barid_mailbox::FlagChange;
use barid_state::{Pending, PendingChange, PendingKind};
use barid_types::{ModSeq, Uid};

use super::ChangeOptions;
use super::pass::hand_out_modseq;
use super::resolve::change_of;
use crate::limits::CHANGES_MAX;
use crate::shown::Shown;
use crate::{Error, Mailbox, Result};

impl Mailbox {
    /// Returns the accepted changes that are not written yet, with the UIDs at the time of
    /// acceptance.
    pub fn pending_changes(&self) -> Vec<(Uid, FlagChange)> {
        let flags = self.pending.records().iter().filter_map(|record| match &record.change.kind {
            PendingKind::Flags(delta) => Some((record.change.uid, change_of(delta))),
            PendingKind::Expunge => None,
        });
        flags.collect()
    }

    /// Assigns a mod-sequence to changes that will be pending; the ledger stays locked.
    fn announce_pending(&mut self) -> Result<ModSeq> {
        for _ in 0..CHANGES_MAX {
            let covered = self.covered();
            match hand_out_modseq(&mut self.ledger, covered, &[])? {
                Some(modseq) => return Ok(modseq),
                None => self.rescan(false)?,
            }
        }
        Err(Error::KeepsChanging { path: self.path().to_owned() })
    }

    /// Drops the pending changes, durably; returns their number.
    ///
    /// # Errors
    /// As [`Mailbox::change`].
    pub fn discard_pending(&mut self) -> Result<u32> {
        self.check_writable(&ChangeOptions::default())?;
        self.under_pending_lock(&ChangeOptions::default(), |mailbox| {
            mailbox.finish_unfinished()?;
            mailbox.catch_up()?;
            let count = mailbox.pending();
            if let Some(last) = mailbox.pending.last_sequence() {
                mailbox.show_pending()?;
                let shown = Arc::clone(&mailbox.shown);
                // A crash after the drop leaves a number that no cache has, so that all rise.
                let modseq = mailbox.announce_pending()?;
                mailbox.pending.drop_through(last)?;
                let known = mailbox.not_above(&shown, ModSeq::MAX)?;
                mailbox.touch(&known, modseq)?;
            }
            Ok(count)
        })
    }

    /// Gives messages whose pending changes were dropped a new mod-sequence, unless they got one
    /// when the changes were written: clients may know them with these changes. `shown` are the
    /// changes that were pending, `covered` the mod-sequence that the view covered with them.
    ///
    /// After a crash before this is done, the cache lacks numbers that were announced, and all
    /// mod-sequences rise.
    pub(super) fn touch_dropped(&mut self, shown: &Shown, covered: ModSeq) -> Result<()> {
        let known = self.not_above(shown, covered)?;
        if known.is_empty() && self.covers_ledger() {
            return Ok(());
        }
        let covered = covered.max(self.covered());
        let Some(modseq) = hand_out_modseq(&mut self.ledger, covered, &[])? else {
            return self.rescan(false);
        };
        self.touch(&known, modseq)
    }

    /// Returns the messages with these changes whose mod-sequence is not above `modseq`.
    fn not_above(&self, shown: &Shown, modseq: ModSeq) -> Result<Vec<Uid>> {
        let mut known = Vec::new();
        for uid in shown.uids() {
            let Some(row) = self.row_of(uid)? else { continue };
            if self.snapshot.core(row)?.modseq <= modseq {
                known.push(uid);
            }
        }
        Ok(known)
    }

    /// Gives messages a mod-sequence that was assigned, and unlocks the ledger.
    fn touch(&mut self, uids: &[Uid], modseq: ModSeq) -> Result<()> {
        let touched = self.snapshot.touched(uids, modseq);
        self.ledger.unlock();
        let touched = touched?;
        touched.release();
        self.view.snapshot = Arc::new(touched);
        self.show_pending()
    }

    /// Returns the number of changes that are pending for another mailbox, last seen at the path of
    /// this one: it was replaced by a file without the attribute `user.barid.id`. Lists the state
    /// folder.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn earlier_pending(&self) -> Result<u32> {
        let earlier = Pending::earlier(&self.vfs, &self.options.state_dir, &self.identity)?;
        Ok(earlier.iter().map(|journal| journal.records().len() as u32).sum())
    }

    /// Makes the changes that [`Mailbox::earlier_pending`] counts pending for this mailbox; each
    /// finds its message by its header, or is dropped when it is written. Returns their number.
    ///
    /// They are accepted here before they are dropped there: after a crash in between they are
    /// pending twice, which has the same effect.
    ///
    /// # Errors
    /// As [`Mailbox::change`].
    pub fn take_over_pending(&mut self) -> Result<u32> {
        self.check_writable(&ChangeOptions::default())?;
        self.under_pending_lock(&ChangeOptions::default(), |mailbox| {
            mailbox.finish_unfinished()?;
            let vfs = Arc::clone(&mailbox.vfs);
            let (dir, identity) = (&mailbox.options.state_dir, &mailbox.identity);
            let mut count = 0;
            for mut journal in Pending::earlier(&vfs, dir, identity)? {
                let Some(last) = journal.last_sequence() else { continue };
                let modseq = mailbox.announce_pending()?;
                let changes = journal.records().iter();
                let changes: Vec<PendingChange> = changes
                    .map(|record| PendingChange { modseq, ..record.change.clone() })
                    .collect();
                count += changes.len() as u32;
                let accepted = mailbox.pending.accept(changes);
                mailbox.ledger.unlock();
                accepted?;
                journal.drop_through(last)?;
            }
            mailbox.show_pending()?;
            Ok(count)
        })
    }
}
