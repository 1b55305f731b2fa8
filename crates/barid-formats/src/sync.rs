//! What can be changed in a mailbox.

use barid_types::{FlagSet, InternalDate, Keyword, Uid};

/// Flags and keywords to add to and remove from one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlagChange {
    /// Flags to add.
    pub add: FlagSet,
    /// Flags to remove.
    pub remove: FlagSet,
    /// Keywords to add.
    pub add_keywords: Vec<Keyword>,
    /// Keywords to remove.
    pub remove_keywords: Vec<Keyword>,
}

/// All changes of existing messages, to be applied in one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// Flag changes, ascending by UID.
    pub flags: Vec<(Uid, FlagChange)>,
    /// Messages to expunge, ascending.
    pub expunge: Vec<Uid>,
    /// Drop \Recent from every message (Maildir: move `new` to `cur`).
    pub drop_recent: bool,
}

/// A message to be appended.
#[derive(Clone, Debug)]
pub struct NewMessage<'a> {
    /// Header, blank line, body.
    pub bytes: &'a [u8],
    /// When it arrived; now, if `None`.
    pub internal_date: Option<InternalDate>,
    /// Its flags; \Recent is added by the format.
    pub flags: FlagSet,
    /// Its keywords.
    pub keywords: Vec<Keyword>,
    /// The envelope sender, for a From_ line; `MAILER-DAEMON` if `None`.
    pub sender: Option<&'a str>,
}

/// A stretch of the file that moved: what was at `old_offset` is now at `new_offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    /// Where the stretch was.
    pub old_offset: u64,
    /// Its bytes.
    pub len: u64,
    /// Where it is.
    pub new_offset: u64,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// UIDs of the appended messages, in their order, where the format could tell; else the next
    /// scan gives them.
    pub appended: Vec<Option<Uid>>,
    /// Messages that were to be changed but are gone.
    pub gone: Vec<Uid>,
    /// How messages moved in the file, ascending.
    pub shifts: Vec<Shift>,
}
