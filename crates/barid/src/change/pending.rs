//! Listing pending changes, dropping them, and taking over those of a replaced mailbox.

use std::sync::Arc;

use barid_mailbox::FlagChange;
use barid_state::{Pending, PendingChange, PendingKind};
use barid_types::Uid;

use super::ChangeOptions;
use super::resolve::change_of;
use crate::{Mailbox, Result};

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

    /// Drops the pending changes, durably; returns their number.
    ///
    /// # Errors
    /// As [`Mailbox::change`].
    pub fn discard_pending(&mut self) -> Result<u32> {
        self.check_writable(&ChangeOptions::default())?;
        self.under_pending_lock(&ChangeOptions::default(), |mailbox| {
            mailbox.finish_unfinished()?;
            let count = mailbox.pending();
            if let Some(last) = mailbox.pending.last_sequence() {
                mailbox.pending.drop_through(last)?;
            }
            mailbox.show_pending()?;
            Ok(count)
        })
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
                let changes: Vec<PendingChange> =
                    journal.records().iter().map(|record| record.change.clone()).collect();
                count += changes.len() as u32;
                mailbox.pending.accept(changes)?;
                journal.drop_through(last)?;
            }
            mailbox.show_pending()?;
            Ok(count)
        })
    }
}
