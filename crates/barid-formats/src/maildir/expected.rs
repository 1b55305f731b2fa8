//! Report of a change of known messages as a scan would find it, without the scan.
//!
//! A scan lists a folder of any size, and a change of one flag need not. So the change notes new
//! names and expunged messages, and is reported as by a scan if nobody else changes anything. A
//! change by somebody else while it runs may be hidden behind our own change of the folder. So the
//! stamp of the report is racy: it counts as taken before the change, or with the known stamp if
//! that was racy already. An equal one proves nothing, and a later scan finds the rest.

use barid_mailbox::{ChangedMessage, Known, Result, ScanReport, ScanStats};
use barid_types::Uid;
use barid_vfs::Timestamp;

use super::state::MaildirState;
use super::{Maildir, name};
use crate::file_stamps::FileStamps;

/// A change of messages that are known as they are.
pub(super) struct ExpectedReport {
    before: FileStamps,
    /// Time before the change.
    began: Timestamp,
    state: MaildirState,
    changed: Vec<ChangedMessage>,
    expunged: Vec<Uid>,
}

impl ExpectedReport {
    /// Begins a change; `None` if the Maildir has changed since it was read.
    pub(super) fn begin(maildir: &Maildir, known: &dyn Known) -> Result<Option<Self>> {
        let state = MaildirState::from_bytes(known.state()).filter(|state| state.unread.is_empty());
        let (Some(before), Some(state)) = (FileStamps::of_known(known), state) else {
            return Ok(None);
        };
        let now = maildir.file_stamps()?;
        let (is_same, began) = (now.same_files(&before), now.taken);
        let (changed, expunged) = (Vec::new(), Vec::new());
        Ok(is_same.then_some(Self { before, began, state, changed, expunged }))
    }

    /// Notes the new name of a message in `cur`, which has no other base name than before.
    pub(super) fn renamed(&mut self, uid: Uid, name: Vec<u8>) {
        let letters = name::letters(&name);
        let (flags, keywords) = (letters.flags, self.state.slots.mask(letters));
        self.changed.push(ChangedMessage { uid, flags, keywords, file: Some((name, false)) });
    }

    /// Notes that a message is gone; `key` is the hash of its name.
    pub(super) fn expunged(&mut self, uid: Uid, key: u64) {
        self.expunged.push(uid);
        // Its line in the UID list is without a file now.
        if let Some(orphans) = &mut self.state.orphans {
            orphans.push(key);
        }
    }

    /// Ends a change that touched some of `new` and `cur`; `None` if it is seen that others have
    /// changed something else.
    pub(super) fn finish(
        mut self,
        maildir: &Maildir,
        touched: [bool; 2],
        known: &dyn Known,
    ) -> Result<Option<ScanReport>> {
        let mut stamp = maildir.file_stamps()?;
        let is_same = |at: usize| stamp.files[at] == self.before.files[at];
        let (Some(uidvalidity), Some(uidnext)) = (known.uidvalidity(), known.uidnext()) else {
            return Ok(None);
        };
        if !(0..stamp.files.len()).all(|at| is_same(at) || touched.get(at) == Some(&true)) {
            return Ok(None);
        }
        // Another change may have been made at any time since, and before that if the known stamp
        // was racy.
        stamp.taken = if self.before.are_settled() { self.began } else { self.before.taken };
        self.expunged.sort_unstable();
        // The last name of each message stays.
        self.changed.reverse();
        self.changed.sort_by_key(|changed| changed.uid);
        self.changed.dedup_by_key(|changed| changed.uid);
        self.changed.retain(|changed| self.expunged.binary_search(&changed.uid).is_err());
        if let Some(orphans) = &mut self.state.orphans {
            orphans.sort_unstable();
            orphans.dedup();
        }
        Ok(Some(ScanReport {
            stamp: stamp.into(),
            state: self.state.to_bytes(),
            uidvalidity,
            uidnext,
            keywords: known.keywords().clone(),
            reset: false,
            expunged: self.expunged,
            changed: self.changed,
            new_uids: Vec::new(),
            tail_verified: false,
            size_bytes: 0,
            defects: Vec::new(),
            stats: ScanStats::default(),
        }))
    }
}
