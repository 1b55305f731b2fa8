//! What a mailbox is at a glance.

use barid_formats::Format;
use barid_types::{ModSeq, Uid, UidValidity};

/// What the cache had to do to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheState {
    /// There is no cache on disk; everything was read.
    None,
    /// There was none; it was made.
    Populated,
    /// The mailbox had changed; what was new was read.
    Updated,
    /// The mailbox had not changed.
    Fresh,
}

/// What the cache did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStatus {
    /// What it had to do.
    pub state: CacheState,
    /// Messages whose bytes were read from the mailbox.
    pub messages_read: u64,
}

/// The counts and numbers of a mailbox (RFC 9051 §6.3.11, STATUS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its format.
    pub format: Format,
    /// How many messages.
    pub messages: u32,
    /// How many with \Recent.
    pub recent: u32,
    /// How many without \Seen.
    pub unseen: u32,
    /// The UIDVALIDITY.
    pub uidvalidity: UidValidity,
    /// The lowest UID not given out.
    pub uidnext: Uid,
    /// The highest mod-sequence.
    pub highestmodseq: ModSeq,
    /// Bytes of the mailbox: the file, or the sum of the messages.
    pub size_bytes: u64,
    /// Accepted changes not written to the mailbox yet.
    pub pending: u64,
    /// What the cache did.
    pub cache: CacheStatus,
}

/// What a [`Note`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// The cache: it was discarded, or cannot be kept.
    Cache,
    /// The cache: it was moved to the store that was asked for, as it should be.
    Converted,
    /// The mailbox: something in it is not as it should be.
    Mailbox,
    /// Messages: another program is writing them, as it seems. They are not listed yet.
    Arriving,
    /// A message: it cannot be read now. It is listed with what is known of it, and every opening
    /// tries it again.
    Unreadable,
    /// The state folder: UIDs cannot be made to last.
    State,
    /// A change that was interrupted: it was completed, as it should be.
    Recovered,
    /// A change that was interrupted and was not completed, and why.
    Unfinished,
}

/// Something a user may want to know, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What it is about.
    pub kind: NoteKind,
    /// The line.
    pub text: String,
}
