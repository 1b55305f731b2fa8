//! Errors of this crate, their kinds and their hints.

use std::fmt;
use std::path::{Path, PathBuf};

use barid_types::{Keyword, Uid};

use crate::OpenOptions;

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the mailbox.
    #[error(transparent)]
    Mailbox(#[from] barid_mailbox::Error),
    /// An error of the cache that could not be avoided by continuing without the cache.
    #[error(transparent)]
    Cache(#[from] barid_cache::Error),
    /// Another process has replaced the cache that is open; a [`crate::Mailbox::refresh`] or a new
    /// opening finds the new one.
    #[error("{}: another process has replaced this cache", path.display())]
    Superseded {
        /// The cache file.
        path: PathBuf,
    },
    /// An error of the UID ledger or another state file.
    #[error(transparent)]
    State(#[from] barid_state::Error),
    /// Messages cannot be threaded together: there are too many.
    #[error(transparent)]
    Threads(#[from] barid_query::QueryError),
    /// The operation was stopped on request.
    #[error("interrupted")]
    Stopped,
    /// A thread that is updating a shared mailbox requested another update of it.
    #[error("{}: cannot be updated within an update", path.display())]
    Nested {
        /// The mailbox.
        path: PathBuf,
    },
    /// An error of the file system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// No message has this UID.
    #[error("{}: no message with UID {uid}", path.display())]
    NoSuchMessage {
        /// The mailbox.
        path: PathBuf,
        /// The UID.
        uid: Uid,
    },
    /// A part cannot be decoded (RFC 3516 §4.3, UNKNOWN-CTE).
    #[error(
        "{}: {item}: unknown Content-Transfer-Encoding {encoding:?}; \
         BODY gives the part as it is",
        path.display()
    )]
    UnknownEncoding {
        /// The mailbox.
        path: PathBuf,
        /// The requested item, such as `BINARY[1]`.
        item: String,
        /// The encoding.
        encoding: String,
    },
    /// The mailbox was opened read-only.
    #[error("{}: opened read-only", path.display())]
    ReadOnly {
        /// The mailbox.
        path: PathBuf,
    },
    /// The mailbox got a new UIDVALIDITY: the given UIDs are no longer valid.
    #[error("{}: its messages were given new UIDs meanwhile", path.display())]
    Renumbered {
        /// The mailbox.
        path: PathBuf,
    },
    /// The mailbox cannot store a keyword.
    #[error("{}: the keyword {:?} cannot be stored: {limit}", path.display(), keyword.as_str())]
    Keyword {
        /// The mailbox.
        path: PathBuf,
        /// The keyword.
        keyword: Keyword,
        /// The limit that the keyword exceeds.
        limit: KeywordLimit,
    },
    /// No kept expunge can be undone.
    #[error("{}: no expunge is kept", path.display())]
    NothingToUndo {
        /// The mailbox.
        path: PathBuf,
        /// `true` if there are kept expunges of another mailbox that was at this path before.
        replaced: bool,
    },
    /// The messages of the last expunge were not kept.
    #[error(
        "{}: the last expunge, of {messages} messages with {bytes} bytes, was not kept",
        path.display()
    )]
    NotKept {
        /// The mailbox.
        path: PathBuf,
        /// Number of messages expunged.
        messages: u32,
        /// Bytes of these messages.
        bytes: u64,
        /// `true` if an earlier expunge is kept.
        has_older: bool,
    },
    /// Messages were to be expunged only if they can be kept, and there is no room for them.
    #[error(
        "{}: {messages} messages with {bytes} bytes cannot be kept for undo, with room for \
         {bytes_max} bytes: nothing was expunged",
        path.display()
    )]
    CannotKeep {
        /// The mailbox.
        path: PathBuf,
        /// Number of messages to expunge.
        messages: u32,
        /// Bytes of these messages.
        bytes: u64,
        /// Bytes for which there is room.
        bytes_max: u64,
    },
    /// No kept expunge has this number.
    #[error("{}: no expunge with the number {number} is kept", path.display())]
    NoSuchExpunge {
        /// The mailbox.
        path: PathBuf,
        /// The number.
        number: u64,
    },
    /// Another process is converting a mailbox to this place.
    #[error("{}: another process is converting to it", path.display())]
    ConversionRunning {
        /// The target.
        path: PathBuf,
    },
    /// A conversion would create a mailbox where one with messages exists.
    #[error("{}: already exists, with messages", path.display())]
    TargetNotEmpty {
        /// The target.
        path: PathBuf,
    },
    /// The target belongs to another conversion that is unfinished.
    #[error("{}: an unfinished conversion of another mailbox, or with other options", path.display())]
    OtherConversion {
        /// The target.
        path: PathBuf,
    },
    /// The remains of an unfinished conversion can be neither continued nor put aside.
    #[error("{}: {what}", path.display())]
    TargetInTheWay {
        /// The target.
        path: PathBuf,
        /// The reason.
        what: &'static str,
    },
    /// A conversion or a copy was stopped on request. The messages that are written stay, and the
    /// same conversion continues from there.
    #[error("{}: stopped after {done} of {total} messages", path.display())]
    ConversionStopped {
        /// The target.
        path: PathBuf,
        /// Number of messages that are in the target.
        done: u64,
        /// Number of messages to write in all.
        total: u64,
        /// The lowest UID of the source that may be missing; `None` if nothing was written.
        next: Option<Uid>,
    },
    /// Another process is moving messages between the same mailboxes.
    #[error("{}: another process is moving messages from it", path.display())]
    MoveRunning {
        /// The source.
        path: PathBuf,
    },
    /// Messages were copied to be moved, and could not be removed from the source.
    #[error("{}: {messages} messages are copied and could not be removed: {source}", path.display())]
    NotRemoved {
        /// The source.
        path: PathBuf,
        /// Number of messages.
        messages: u64,
        /// The reason.
        source: Box<Error>,
    },
    /// The view has only the names of the messages ([`crate::View::is_listed`]).
    #[error("{}: its messages have not been read yet", path.display())]
    NotRead {
        /// The mailbox.
        path: PathBuf,
    },
    /// An error of a file of the text index.
    #[error("{}: the text index: {source}", path.display())]
    TextIndex {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// The mailbox has no cache on disk, beside which a text index would lie.
    #[error("{}: a text index needs a cache on disk", path.display())]
    NoCacheForIndex {
        /// The mailbox.
        path: PathBuf,
    },
    /// The mailbox changes faster than it can be read.
    #[error("{}: it changed every time it was read", path.display())]
    KeepsChanging {
        /// The mailbox.
        path: PathBuf,
    },
}

/// The reason why a mailbox cannot store a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeywordLimit {
    /// It has characters beyond ASCII.
    Ascii,
    /// It is longer than this number of bytes.
    Length(u32),
    /// The mailbox already has this number of keywords, the maximum.
    Count(u32),
    /// The format uses the name for something else.
    Name,
}

impl fmt::Display for KeywordLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ascii => f.write_str("this format stores ASCII characters only"),
            Self::Length(most) => write!(f, "this format stores at most {most} bytes"),
            Self::Name => f.write_str("this format reserves the name"),
            Self::Count(most) => write!(f, "the mailbox can have at most {most} keywords"),
        }
    }
}

/// Kind of an error, by who can resolve it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The user requested something that does not exist.
    User,
    /// The given options or folders cannot be used.
    Config,
    /// The file system refused.
    Io,
    /// A file is damaged.
    Corrupt,
}

/// Hint for a repair that cannot be undone.
const CHANGED_SINCE: &str = "`barid check` shows the present state of the mailbox; the bytes that \
                             the repair overwrote stay in the state folder, under `repairs`, \
                             until `barid check --discard`";
/// Hint for objects that are missing or damaged.
const DAMAGED_OBJECT: &str = "`git fsck` in the repository reports all damage; fetch the objects \
                              again, or clone the repository anew";

impl Error {
    /// Returns the kind of the error, which shows who can resolve it.
    pub fn kind(&self) -> ErrorKind {
        use barid_mailbox::Error as Formats;
        match self {
            Self::Mailbox(
                Formats::NotAMailbox { .. }
                | Formats::Unsupported { .. }
                | Formats::Stopped { .. }
                | Formats::RepairStopped { .. }
                | Formats::ChangedSince { .. },
            )
            | Self::NoSuchMessage { .. }
            | Self::UnknownEncoding { .. }
            | Self::NothingToUndo { .. }
            | Self::Keyword { .. }
            | Self::NotKept { .. }
            | Self::NoSuchExpunge { .. }
            | Self::CannotKeep { .. }
            | Self::ReadOnly { .. }
            | Self::TargetNotEmpty { .. }
            | Self::OtherConversion { .. }
            | Self::TargetInTheWay { .. }
            | Self::MoveRunning { .. }
            | Self::Threads(_)
            | Self::Stopped
            | Self::ConversionStopped { .. }
            | Self::Renumbered { .. } => ErrorKind::User,
            Self::Mailbox(Formats::Io { source, .. }) | Self::Io { source, .. }
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                ErrorKind::User
            }
            Self::NotRemoved { source, .. } => source.kind(),
            Self::Mailbox(
                Formats::Damaged { .. } | Formats::Unrecoverable { .. } | Formats::Object { .. },
            ) => ErrorKind::Corrupt,
            Self::State(barid_state::Error::Locked { .. })
            | Self::Mailbox(Formats::State(barid_state::Error::Locked { .. })) => ErrorKind::Io,
            Self::Cache(error) if error.is_damage() => ErrorKind::Corrupt,
            Self::State(_) | Self::Mailbox(Formats::State(_)) | Self::NoCacheForIndex { .. } => {
                ErrorKind::Config
            }
            Self::Cache(error) if is_unavailable(error).is_some() => ErrorKind::Config,
            _ => ErrorKind::Io,
        }
    }

    /// Returns a hint on what to try next, for a user of the program `barid`, if one is known.
    pub fn hint(&self) -> Option<String> {
        use barid_mailbox::Error as Formats;
        match self {
            Self::Mailbox(Formats::NotAMailbox { .. }) => Some(
                "force a format with maildir:PATH or mbox:PATH, or list mailboxes with \
                 `barid folders DIR`"
                    .to_owned(),
            ),
            Self::Mailbox(Formats::Locked { path, holder, .. }) => Some(of_lock(path, holder)),
            Self::State(barid_state::Error::Locked { .. })
            | Self::Mailbox(Formats::State(barid_state::Error::Locked { .. })) => {
                Some("wait until the other barid process has finished with this mailbox".to_owned())
            }
            Self::State(_) | Self::Mailbox(Formats::State(_)) => {
                Some("choose another folder with --state-dir DIR".to_owned())
            }
            Self::Superseded { .. } => Some("run it again".to_owned()),
            Self::TextIndex { .. } => {
                Some("`barid index remove` removes the index; nothing else needs it".to_owned())
            }
            Self::NoCacheForIndex { .. } => {
                Some("choose a folder for it with --cache-dir DIR, without --no-cache".to_owned())
            }
            Self::Cache(error) if error.is_damage() => {
                Some("run it again: the cache is rebuilt".to_owned())
            }
            Self::Cache(error) if is_unavailable(error).is_some() => Some(
                "`barid cache stores` lists the stores, and how to install missing ones".to_owned(),
            ),
            Self::Cache(barid_cache::Error::Store(barid_kv::Error::Busy { .. })) => {
                Some("run it again when no other program uses the cache".to_owned())
            }
            Self::Mailbox(Formats::Unfinished { path, .. }) => {
                Some(format!("run `barid sync {}` to continue", path.display()))
            }
            Self::Mailbox(Formats::Unrecoverable { .. }) => Some(
                "nothing is written to it in this state; restore its journal, or copy the \
                 messages that can be read"
                    .to_owned(),
            ),
            Self::Mailbox(Formats::Object { .. }) => Some(DAMAGED_OBJECT.to_owned()),
            Self::Mailbox(Formats::ChangedSince { .. }) => Some(CHANGED_SINCE.to_owned()),
            Self::Mailbox(Formats::Damaged { path, .. }) => {
                Some(format!("run `barid check` on the mailbox of {}", path.display()))
            }
            Self::Renumbered { .. } => Some("`barid ls MAILBOX` lists the new UIDs".to_owned()),
            Self::ReadOnly { .. } => Some("run it without --read-only".to_owned()),
            Self::Mailbox(error) if is_full(error) => {
                Some("nothing was changed: make room and run it again".to_owned())
            }
            Self::Mailbox(Formats::NotAppended { .. }) => Some(
                "flags and expunges are written, and nothing is pending; append the messages again"
                    .to_owned(),
            ),
            Self::Keyword { limit: KeywordLimit::Count(_), .. } => Some(
                "use an existing keyword: one that no message has still takes its place".to_owned(),
            ),
            Self::Keyword { .. } => Some("choose another name".to_owned()),
            Self::CannotKeep { .. } => Some(
                "`--forget` expunges them for good; `--keep-expunged SIZE` keeps them if the disk \
                 has the room"
                    .to_owned(),
            ),
            Self::NothingToUndo { .. } | Self::NotKept { .. } | Self::NoSuchExpunge { .. } => {
                Some(self.of_undo().to_owned())
            }
            Self::NoSuchMessage { .. } => Some("`barid ls MAILBOX` lists the UIDs".to_owned()),
            _ => self.of_conversion().map(str::to_owned),
        }
    }
}

/// Returns `true` if the disk has no room for a change, none of which was made.
fn is_full(error: &barid_mailbox::Error) -> bool {
    use barid_mailbox::Error as Formats;
    match error {
        Formats::Io { source, .. } => source.kind() == std::io::ErrorKind::StorageFull,
        error => matches!(error, Formats::NoSpace { .. }),
    }
}

impl Error {
    /// Wraps an error of the file system; to be used as `.map_err(Error::at(path))`.
    pub(crate) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// Returns the hint for a conversion that cannot continue.
    fn of_conversion(&self) -> Option<&'static str> {
        Some(match self {
            Self::ConversionRunning { .. } | Self::MoveRunning { .. } => "wait until it ends",
            Self::NotRemoved { .. } => {
                "no message is lost: run it again to remove them; none is copied twice"
            }
            Self::TargetNotEmpty { .. } => {
                "choose another path, or add the messages with `barid copy SRC all DST`"
            }
            Self::OtherConversion { .. } => {
                "finish that conversion, or move the target away and run this one again"
            }
            Self::TargetInTheWay { .. } => "move it away and run the conversion again",
            Self::ConversionStopped { .. } => "run it again to continue",
            Self::Mailbox(barid_mailbox::Error::RepairStopped { .. }) => {
                "no message is lost: run it again to continue; --undo restores the state before"
            }
            Self::Mailbox(barid_mailbox::Error::Stopped { .. }) => {
                "the other messages are unchanged: run it again to continue"
            }
            _ => return None,
        })
    }

    /// Returns the hint for an undo without a kept expunge.
    fn of_undo(&self) -> &'static str {
        match self {
            Self::NothingToUndo { replaced: true, .. } => {
                "another file has replaced the mailbox since: `barid undo --replaced MAILBOX` \
                 brings back messages expunged from the former one"
            }
            Self::NotKept { has_older: true, .. } => {
                "earlier expunges are kept: `barid undo --list MAILBOX` lists their numbers, and \
                 `barid undo --number N MAILBOX` brings one back"
            }
            Self::NoSuchExpunge { .. } => "`barid undo --list MAILBOX` lists the numbers",
            _ => "expunged messages are kept for 30 days, unless expunged with --forget",
        }
    }
}

/// Returns the hint for a lock of another program.
fn of_lock(path: &Path, holder: &str) -> String {
    let shown = path.display();
    if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"dovecot-")) {
        return format!(
            "wait for {holder}, or remove {shown} if it no longer runs; a Maildir can be read \
             with --read-only"
        );
    }
    let wait = format!("wait for {holder}, or longer with --lock-timeout TIME");
    match holder.ends_with("(lock file)") {
        true => format!("{wait}; if it no longer runs, remove {shown}.lock"),
        false => wait,
    }
}

/// Returns the store whose library cannot be used here, if that is the error.
pub(crate) fn is_unavailable(error: &barid_cache::Error) -> Option<&'static str> {
    match error {
        barid_cache::Error::Store(barid_kv::Error::Unavailable { store, .. }) => Some(store),
        _ => None,
    }
}

/// Returns `true` if the cache may be sound, but cannot be used here or now.
pub(crate) fn is_out_of_reach(error: &barid_cache::Error) -> bool {
    use barid_kv::Error as Store;
    match error {
        barid_cache::Error::Store(Store::Unavailable { .. } | Store::Busy { .. }) => true,
        barid_cache::Error::Io { source, .. }
        | barid_cache::Error::Store(Store::Io { source, .. }) => is_of_the_system(source),
        _ => false,
    }
}

/// Returns `true` if an I/O error does not concern the file's content: something is full or
/// forbidden.
fn is_of_the_system(error: &std::io::Error) -> bool {
    use std::io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::StorageFull
            | Kind::QuotaExceeded
            | Kind::PermissionDenied
            | Kind::ReadOnlyFilesystem
            | Kind::OutOfMemory
    )
}

/// Returns `true` if the error is that the requested store cannot be used here.
pub(crate) fn is_refused(error: &barid_cache::Error, options: &OpenOptions) -> bool {
    let asked = options.store.map(|store| store.name());
    options.cache_dir.is_some() && asked.is_some() && is_unavailable(error) == asked
}

/// Returns the file that is damaged or cannot be read, if that is the error. A library often
/// reports bytes as invalid when in fact a call failed.
pub(crate) fn damaged_file(error: &barid_cache::Error) -> Option<&Path> {
    use barid_cache::Error as Cache;
    use barid_kv::Error as Store;
    match error {
        Cache::Damaged { path, .. }
        | Cache::NoUse { path, .. }
        | Cache::Io { path, .. }
        | Cache::Store(
            Store::Damaged { path, .. } | Store::NotFound { path } | Store::Io { path, .. },
        ) => Some(path),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, holder: &str, expected: &str) {
        let (path, holder) = (path.into(), holder.to_owned());
        let error = Error::from(barid_mailbox::Error::Locked { path, holder, waited_ms: 5 });
        assert_eq!(error.hint().as_deref(), Some(expected));
    }

    #[test]
    fn a_lock_is_waited_for_or_removed() {
        check(
            "/mail/box",
            "process 7, mutt (fcntl)",
            "wait for process 7, mutt (fcntl), or longer with --lock-timeout TIME",
        );
        check(
            "/mail/box",
            "process 7 on far (lock file)",
            "wait for process 7 on far (lock file), or longer with --lock-timeout TIME; if it no \
             longer runs, remove /mail/box.lock",
        );
        check(
            "/mail/dir/dovecot-uidlist.lock",
            "another program",
            "wait for another program, or remove /mail/dir/dovecot-uidlist.lock if it no longer \
             runs; a Maildir can be read with --read-only",
        );
    }
}
