//! The arguments of LIST and STATUS (RFC 9051 §6.3.9 and §6.3.11, RFC 5258, RFC 5819, RFC 6154).

use super::MailboxName;

/// The arguments of LIST, LSUB or XLIST.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListCommand {
    /// The name of the response: `LIST`, `LSUB` or `XLIST`.
    pub response: &'static str,
    /// The reference name.
    pub reference: String,
    /// The patterns, with `%` and `*`; an empty one asks for the separator.
    pub patterns: Vec<String>,
    /// The selection options.
    pub selection: ListSelection,
    /// The return options.
    pub returns: ListReturn,
    /// `true` if the command has the extended syntax (RFC 5258 §6).
    pub is_extended: bool,
}

/// Options that select mailboxes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListSelection {
    /// SUBSCRIBED.
    pub subscribed: bool,
    /// REMOTE.
    pub remote: bool,
    /// RECURSIVEMATCH.
    pub recursive_match: bool,
    /// SPECIAL-USE.
    pub special_use: bool,
}

/// Data that is returned for each mailbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListReturn {
    /// SUBSCRIBED.
    pub subscribed: bool,
    /// CHILDREN.
    pub children: bool,
    /// SPECIAL-USE.
    pub special_use: bool,
    /// MYRIGHTS (RFC 8440).
    pub my_rights: bool,
    /// STATUS with its items.
    pub status: Vec<StatusItem>,
    /// METADATA with entries (RFC 9590).
    pub metadata: Vec<String>,
}

/// An item of STATUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusItem {
    /// Number of messages.
    Messages,
    /// Number of messages with \Recent (RFC 3501).
    Recent,
    /// UIDNEXT.
    UidNext,
    /// UIDVALIDITY.
    UidValidity,
    /// Number of messages without \Seen.
    Unseen,
    /// Number of messages with \Deleted.
    Deleted,
    /// Sum of RFC822.SIZE (RFC 8438).
    Size,
    /// Highest mod-sequence (RFC 7162).
    HighestModSeq,
    /// Largest message that can be appended (RFC 7889).
    AppendLimit,
    /// The identifier of the mailbox (RFC 8474).
    MailboxId,
    /// Bytes that DELETED messages take (RFC 9208).
    DeletedStorage,
}

impl ListCommand {
    /// Returns `true` if the command asks for the hierarchy separator only (RFC 9051 §6.3.9).
    pub fn asks_separator(&self) -> bool {
        !self.is_extended && self.patterns.iter().all(String::is_empty)
    }
}

impl From<&str> for MailboxName {
    /// Makes a name; `inbox` in any case is `INBOX`.
    fn from(name: &str) -> Self {
        match name.eq_ignore_ascii_case(Self::INBOX) {
            true => Self(Self::INBOX.to_owned()),
            false => Self(name.to_owned()),
        }
    }
}
