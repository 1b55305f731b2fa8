//! Appends that nobody has looked at since.
//!
//! Whoever appends again, under the locks and to a file that is still as the last of these appends
//! left it, knows without a scan that the file has the known messages and after them only ours,
//! each with its UID. So does the next scan, which has then no other change to look for.

use barid_mailbox::{Known, Stamp};
use barid_types::{Uid, UidValidity};

use super::{Base, MboxAppend};
use crate::file_stamps::FileStamps;
use crate::mbox::MboxMailbox;

/// The appends since the last scan, if nobody has looked at the mailbox since, nor changed it.
#[derive(Clone, Copy, Debug)]
pub(in crate::mbox) struct UnseenAppends {
    /// The stamp of the scan.
    known: FileStamps,
    /// The stamp after the last append; no other change leaves an equal one.
    after: FileStamps,
    validity: UidValidity,
    /// The lowest UID not assigned yet.
    pub(super) uidnext: Uid,
}

impl UnseenAppends {
    /// Returns the appends after which a mailbox has the stamp `now`; `None` also if the known
    /// messages are not those that were known at the first of them.
    pub(in crate::mbox) fn of(
        mailbox: &MboxMailbox,
        known: &dyn Known,
        now: &FileStamps,
    ) -> Option<Self> {
        let unseen = Self::since(mailbox, &FileStamps::of_known(known)?)?;
        let is_same = known.uidvalidity() == Some(unseen.validity);
        (is_same && unseen.after.same_files(now)).then_some(unseen)
    }

    /// Returns the lowest UID that was not told to anybody under a UIDVALIDITY, as far as these
    /// appends know: the file need not tell it any more.
    pub(in crate::mbox) fn uidnext_under(&self, validity: Option<UidValidity>) -> Option<Uid> {
        (validity == Some(self.validity)).then_some(self.uidnext)
    }

    fn since(mailbox: &MboxMailbox, known: &FileStamps) -> Option<Self> {
        mailbox.unseen().filter(|unseen| unseen.known.same_files(known))
    }

    /// Returns the stamp after the last append, if the first one found the mailbox with the stamp
    /// `known`.
    pub(in crate::mbox) fn stamp_since(mailbox: &MboxMailbox, known: &Stamp) -> Option<Stamp> {
        Self::since(mailbox, &FileStamps::of(known)).map(|unseen| unseen.after.into())
    }

    /// Records an append to a file whose content is certain; `after` is its stamp now. Returns the
    /// UIDVALIDITY, if all messages have their UIDs in the file.
    pub(in crate::mbox) fn record(
        mailbox: &MboxMailbox,
        known: &dyn Known,
        base: Base<'_>,
        (appended, after): (&MboxAppend, FileStamps),
    ) -> Option<UidValidity> {
        let Base::Believed(believed) = base else { return None };
        let (validity, stamp) = (believed.notes.base_validity?, FileStamps::of_known(known)?);
        let uids: Vec<Uid> = appended.uids.iter().copied().collect::<Option<_>>()?;
        let uidnext = uids.last()?.next()?;
        if !after.are_settled() {
            return None;
        }
        mailbox.set_unseen(Self { known: stamp, after, validity, uidnext });
        Some(validity)
    }
}
