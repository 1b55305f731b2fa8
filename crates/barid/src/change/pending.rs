//! Looking at what is pending, dropping it, and taking over what belongs to nobody.

use std::sync::Arc;

use barid_formats::FlagChange;
use barid_state::{Pending, PendingChange, PendingKind};
use barid_types::Uid;

use super::ChangeOptions;
use super::resolve::change_of;
use crate::{Mailbox, Result};

impl Mailbox {
    /// The accepted changes that are not written yet, as they were accepted: by the UIDs of then.
    pub fn pending_changes(&self) -> Vec<(Uid, FlagChange)> {
        let flags = self.pending.records().iter().filter_map(|record| match &record.change.kind {
            PendingKind::Flags(delta) => Some((record.change.uid, change_of(delta))),
            PendingKind::Expunge => None,
        });
        flags.collect()
    }

    /// Drops what is pending, durably; tells how many changes that were.
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

    /// How many changes are pending for another mailbox that was last seen at the path of this one:
    /// it was replaced by a file without the attribute `user.barid.id`. Lists the state folder.
    ///
    /// # Errors
    /// What the file system says.
    pub fn earlier_pending(&self) -> Result<u32> {
        let earlier = Pending::earlier(&self.vfs, &self.options.state_dir, &self.identity)?;
        Ok(earlier.iter().map(|journal| journal.records().len() as u32).sum())
    }

    /// Makes what [`Mailbox::earlier_pending`] counts pending for this mailbox; each change finds
    /// its message by its header, or is dropped when it is written. Tells how many changes that
    /// were.
    ///
    /// They are accepted here before they are dropped there: after a crash in between they are
    /// pending twice, which comes to the same.
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
