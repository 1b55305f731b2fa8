//! The messages of APPEND, MULTIAPPEND and REPLACE (RFC 9051 §6.3.12, RFC 3502, RFC 4469,
//! RFC 8508).

use barid_types::InternalDate;

use super::{FlagList, MailboxName};

/// The arguments of a message that precede its bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct AppendMessage {
    /// The mailbox of the command.
    pub mailbox: MailboxName,
    /// `true` for the first message of the command.
    pub is_first: bool,
    /// The flags.
    pub flags: FlagList,
    /// The internal date; `None` for now.
    pub internal_date: Option<InternalDate>,
    /// `true` if it replaces another message (REPLACE).
    pub replaces: bool,
    /// `true` if it is joined from parts (CATENATE).
    pub is_joined: bool,
    /// `true` if it has the form for headers in UTF-8 (RFC 6855).
    pub is_utf8: bool,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendPart {
    /// A literal of so many bytes, which follow.
    Literal {
        /// Length in bytes.
        len: u64,
        /// `true` for a literal8 (RFC 3516).
        is_binary: bool,
    },
    /// The URL of a message or a part of one, whose bytes are inserted (CATENATE, RFC 4469).
    Url(String),
}
