//! What can go wrong with a mailbox. Malformed mail is not among it.

use std::path::{Path, PathBuf};

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The error of a [`crate::ScanSink`] or of what is [`crate::Known`]: theirs, passed through.
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// An error of a mailbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The path holds no mailbox of a known format.
    #[error("{}: not a mailbox: {reason}", path.display())]
    NotAMailbox {
        /// The path.
        path: PathBuf,
        /// What was found instead.
        reason: &'static str,
    },
    /// A lock was not to be had in time.
    #[error("{}: locked by {holder} for longer than {waited_ms} ms", path.display())]
    Locked {
        /// The file whose lock it is.
        path: PathBuf,
        /// Who holds it, as far as known.
        holder: String,
        /// How long was waited, in milliseconds.
        waited_ms: u64,
    },
    /// The message is no longer where it was.
    #[error("{}: the message is gone (offset {offset})", path.display())]
    MessageGone {
        /// The file.
        path: PathBuf,
        /// Where it was; 0 in a Maildir.
        offset: u64,
    },
    /// The message is larger than what is read as a whole.
    #[error(
        "{}: a message of {size} bytes (offset {offset}) is too large to be read as a whole, \
         which is done up to {most} bytes", path.display()
    )]
    MessageTooLarge {
        /// The file.
        path: PathBuf,
        /// Where in the file it starts.
        offset: u64,
        /// Bytes of the message as stored.
        size: u64,
        /// The largest that is read.
        most: u64,
    },
    /// The mailbox was cut or rewritten while it was read, by a program that takes no locks; what
    /// the sinks were given is void. To be tried again.
    #[error("{}: changed while it was read", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A change was begun and could not be finished; nothing is lost. The next opening, or
    /// [`crate::Mailbox::recover`], goes on.
    #[error("{}: the change is unfinished ({what}); it goes on from {}", path.display(),
        journal.display())]
    Unfinished {
        /// The mailbox.
        path: PathBuf,
        /// The journal, which must be kept.
        journal: PathBuf,
        /// What stopped it: an error of the system, or a request to stop.
        what: String,
    },
    /// The change was told to stop. Each message is changed, durably, or as it was.
    #[error("{}: stopped when {done} of {total} messages were done", path.display())]
    Stopped {
        /// The mailbox.
        path: PathBuf,
        /// Messages that are changed, expunged or appended.
        done: u64,
        /// Messages that were to be.
        total: u64,
    },
    /// A repair was told to stop. What is done is durable, and can be undone.
    #[error("{}: stopped when {done} of {total} steps of the repair were done", path.display())]
    RepairStopped {
        /// The mailbox.
        path: PathBuf,
        /// Steps that are done.
        done: u64,
        /// Steps of the repair; 0 if they were not known yet.
        total: u64,
    },
    /// The messages of the mailbox were changed, durably, but those to be appended were not stored.
    #[error("{}: the changes are done, but no message was appended: {what}", path.display())]
    NotAppended {
        /// The mailbox.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// The mailbox is in the middle of a change whose journal is missing or cannot be used.
    #[error("{}: {what}", path.display())]
    Unrecoverable {
        /// The mailbox.
        path: PathBuf,
        /// What is missing.
        what: String,
    },
    /// There is not enough space for the change; nothing was changed.
    #[error("{}: {needed} bytes are needed, {free} are free", path.display())]
    NoSpace {
        /// The mailbox or the folder of its journal.
        path: PathBuf,
        /// Bytes that are needed.
        needed: u64,
        /// Bytes that are free.
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
        /// Where.
        offset: u64,
        /// What is wrong there.
        kind: &'static str,
    },
    /// The format or this mailbox cannot do it.
    #[error("{}: {what}", path.display())]
    Unsupported {
        /// The mailbox.
        path: PathBuf,
        /// What it cannot do.
        what: &'static str,
    },
    /// The UID ledger failed.
    #[error(transparent)]
    State(#[from] barid_state::Error),
    /// A sink, or what is known, failed.
    #[error(transparent)]
    Sink(SinkError),
}

impl Error {
    /// Fails with [`Error::MessageTooLarge`] if a message of `size` bytes is not read as a whole.
    pub(crate) fn check_size(path: &Path, offset: u64, size: u64) -> Result<()> {
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
