//! Errors of mailboxes. Malformed mail is not an error.

use std::path::{Path, PathBuf};

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The error of a [`crate::ScanSink`] or of a [`crate::Known`], passed through.
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// An error of a mailbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system returned an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The path is not a mailbox of a known format.
    #[error("{}: not a mailbox: {reason}", path.display())]
    NotAMailbox {
        /// The path.
        path: PathBuf,
        /// The reason: what was found instead.
        reason: &'static str,
    },
    /// A lock could not be taken in time.
    #[error("{}: locked by {holder} for longer than {waited_ms} ms", path.display())]
    Locked {
        /// The locked file.
        path: PathBuf,
        /// The holder of the lock, as far as known.
        holder: String,
        /// Time waited, in milliseconds.
        waited_ms: u64,
    },
    /// The message is no longer where it was.
    #[error("{}: the message is gone (offset {offset})", path.display())]
    MessageGone {
        /// The file.
        path: PathBuf,
        /// Its former offset, in bytes; 0 in a Maildir.
        offset: u64,
    },
    /// The message is too large to be read as a whole.
    #[error(
        "{}: a message of {size} bytes (offset {offset}) is too large to be read as a whole: the \
         limit is {most} bytes", path.display()
    )]
    MessageTooLarge {
        /// The file.
        path: PathBuf,
        /// Its offset in the file, in bytes.
        offset: u64,
        /// Bytes of the message as stored.
        size: u64,
        /// Size of the largest message that is read as a whole, in bytes.
        most: u64,
    },
    /// The mailbox was truncated or rewritten while it was read, by a program that takes no locks.
    /// The messages passed to the sinks are void; try again.
    #[error("{}: changed while it was read", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A change was begun and could not be finished; nothing is lost. The next opening, or
    /// [`crate::Storage::recover`], completes it.
    #[error("{}: the change is unfinished ({what}); it continues from {}", path.display(),
        journal.display())]
    Unfinished {
        /// The mailbox.
        path: PathBuf,
        /// The journal, which must be kept.
        journal: PathBuf,
        /// The cause: an error of the system, or a request to stop.
        what: String,
    },
    /// The change was stopped on request. Each message is either changed, durably, or unchanged.
    #[error("{}: stopped after {done} of {total} messages", path.display())]
    Stopped {
        /// The mailbox.
        path: PathBuf,
        /// Number of messages changed, expunged or appended.
        done: u64,
        /// Number of messages of the whole change.
        total: u64,
    },
    /// A repair was stopped on request. The steps done are durable, and can be undone.
    #[error("{}: stopped after {done} of {total} steps of the repair", path.display())]
    RepairStopped {
        /// The mailbox.
        path: PathBuf,
        /// Number of steps done.
        done: u64,
        /// Number of steps of the repair; 0 if it was not known yet.
        total: u64,
    },
    /// The messages of the mailbox were changed, durably, but those to be appended were not stored.
    #[error("{}: the changes are done, but no message was appended: {what}", path.display())]
    NotAppended {
        /// The mailbox.
        path: PathBuf,
        /// The cause.
        what: String,
    },
    /// The mailbox is in the middle of a change whose journal is missing or cannot be used.
    #[error("{}: {what}", path.display())]
    Unrecoverable {
        /// The mailbox.
        path: PathBuf,
        /// The missing part.
        what: String,
    },
    /// There is not enough space for the change; nothing was changed.
    #[error("{}: {needed} bytes are needed, {free} are free", path.display())]
    NoSpace {
        /// The mailbox or the folder of its journal.
        path: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        free: u64,
    },
    /// A repair cannot be undone: a file is no longer as the repair left it.
    #[error("{}: changed since it was repaired; nothing was undone", path.display())]
    ChangedSince {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged beyond what is tolerated.
    #[error("{}: damaged at offset {offset}: {kind}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset of the damage, in bytes.
        offset: u64,
        /// Description of the damage.
        kind: &'static str,
    },
    /// An object in which a mailbox stores data is missing or damaged. Other messages can be read.
    #[error("{}: {object} {problem}", path.display())]
    Object {
        /// The file that contains it, or the folder that should.
        path: PathBuf,
        /// The name of the object: in a git repository, the hash or the ref.
        object: String,
        /// The problem, as the predicate of the object.
        problem: &'static str,
    },
    /// The format or this mailbox does not support the operation.
    #[error("{}: {what}", path.display())]
    Unsupported {
        /// The mailbox.
        path: PathBuf,
        /// The unsupported operation.
        what: &'static str,
    },
    /// The UID ledger failed.
    #[error(transparent)]
    State(#[from] barid_state::Error),
    /// A sink, or a `Known`, failed.
    #[error(transparent)]
    Sink(SinkError),
}

impl Error {
    /// Fails with [`Error::MessageTooLarge`] if a message of `size` bytes is too large to be read
    /// as a whole.
    pub fn check_size(path: &Path, offset: u64, size: u64) -> Result<()> {
        let most = crate::WHOLE_LEN_MAX;
        match size > most {
            true => Err(Self::MessageTooLarge { path: path.to_owned(), offset, size, most }),
            false => Ok(()),
        }
    }

    /// Wraps an I/O error; to be used as `.map_err(Error::at(path))`.
    pub fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}
