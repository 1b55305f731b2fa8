//! The status and the notes of a mailbox.

use barid_mailbox::Format;
use barid_types::{ModSeq, Uid, UidValidity};

/// Work that the cache had to do to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheState {
    /// There is no cache on disk; everything was read.
    None,
    /// There was no cache; it was made.
    Populated,
    /// The mailbox had changed; the new messages were read.
    Updated,
    /// The mailbox had not changed.
    Fresh,
}

/// Work of the cache at the last opening or refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStatus {
    /// Kind of work.
    pub state: CacheState,
    /// Messages whose bytes were read from the mailbox.
    pub messages_read: u64,
}

/// The counts and numbers of a mailbox (RFC 9051 §6.3.11, STATUS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Format of the mailbox.
    pub format: Format,
    /// Number of messages.
    pub messages: u32,
    /// Number of messages with \Recent.
    pub recent: u32,
    /// Number of messages without \Seen.
    pub unseen: u32,
    /// The UIDVALIDITY.
    pub uidvalidity: UidValidity,
    /// The lowest UID not assigned yet.
    pub uidnext: Uid,
    /// The highest mod-sequence.
    pub highest_modseq: ModSeq,
    /// Bytes of the mailbox: the file, or the sum of the messages.
    pub size_bytes: u64,
    /// Number of accepted changes not written to the mailbox yet.
    pub pending: u64,
    /// Work of the cache.
    pub cache: CacheStatus,
}

/// Subject of a [`Note`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// The cache: it was discarded, or cannot be kept.
    Cache,
    /// The cache: it was moved to the requested store as expected, or stays where it is because
    /// another process writes it.
    Converted,
    /// The mailbox: something in it is wrong.
    Mailbox,
    /// Messages: another program seems to be writing them, or keeps renaming them. They are not
    /// listed yet.
    Arriving,
    /// A message: it cannot be read now. It is listed with the data known from before, and every
    /// opening tries it again.
    Unreadable,
    /// The state folder: UIDs may change because it cannot be written.
    State,
    /// A change that was interrupted: it was completed, as expected.
    Recovered,
    /// A change that was interrupted and was not completed, and the reason.
    Unfinished,
}

/// Something a user may want to know, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Subject of the note.
    pub kind: NoteKind,
    /// The line.
    pub text: String,
}
