//! Open any mailbox of any size at once; list it, sort it, thread it, read it.
//!
//! ```no_run
//! use barid::{Mailbox, OpenOptions, SortProgram, ThreadAlgorithm, Window};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let options = OpenOptions::new(Some("/var/cache/barid".into()), "/var/lib/barid".into());
//!     let mut mailbox = Mailbox::open("/home/ann/Maildir", &options)?;
//!     let newest = mailbox.sorted(&SortProgram::parse(["date"])?, Window::Last(50))?.rows;
//!     mailbox.summaries(&newest, &mut |message| {
//!         let subject = message.fields.subject.unwrap_or_default();
//!         println!("{} {}", message.uid, barid::message::decode_words(subject));
//!         true
//!     })?;
//!     for node in mailbox.threads(ThreadAlgorithm::References)?.newest(10) {
//!         println!("{}{:?}", "  ".repeat(node.depth as usize), node.row);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! [`Mailbox::open`] finds the format, brings the cache up to date and answers from it: a mailbox
//! that did not change costs a fixed number of system calls, one that did costs what is new.
//! [`OpenOptions::cache_dir`] may be deleted at any time; [`OpenOptions::state_dir`] must be kept,
//! since UIDs live there that no format could hold.
//!
//! Malformed mail is not an error; `barid_message` gives values and defects. [`Mailbox::notes`]
//! reports what is wrong with the mailbox or the cache itself.

mod announcing;
mod bytes;
pub mod caches;
mod change;
mod changes;
mod changes_modseq;
pub mod check;
pub mod convert;
mod create;
mod damaged_state;
mod error;
pub mod fetch;
mod folders;
mod intake;
mod kept;
mod large;
mod large_message;
mod limits;
mod links;
mod mailbox;
mod message_file;
mod opening;
mod options;
mod order;
mod read;
mod reading;
mod recovery;
mod restarts;
mod search;
mod shared;
mod shown;
mod status;
pub mod stores;
mod structures;
mod summary;
mod threading;
mod turns;
mod view;
mod watch;

pub use barid_cache::{CacheOptions, Record as Fields, StoreKind};
pub use barid_formats::{
    CreateOptions, FormatName, MailboxSpec, MboxLock, compression_of, default_format,
};
pub use barid_kv::Compression;
pub use barid_mailbox::{
    Caps, Error as FormatError, FlagChange, FlagChanges, Format, FormatProperties, MessageLayout,
    MessageRest, NewMessage, ReadAs, StoredMessage, Subfolders, SyncFigures, Unfinished,
    WHOLE_LEN_MAX,
};
pub use barid_message as message;
pub use barid_query::search as query;
pub use barid_query::{SortKey, SortProgram, ThreadAlgorithm, ThreadNode, Threads};
pub use barid_state::{Error as StateError, KeptSummary};
pub use barid_types::*;
pub use barid_vfs as vfs;
pub use change::{
    ChangeOptions, ChangeRequest, Changed, KeepExpunged, KeepLimits, KeepPlan, KeptExpunge,
    KeptState, Undo, WriteWhen,
};
pub use changes::MailboxChange;
pub use changes_modseq::ModSeqChanges;
pub use create::create;
pub use error::{Error, ErrorKind, KeywordLimit, Result};
pub use folders::{Folder, TreePlace, folders, place_in_tree, resolve_name};
pub use large::{KeepsBody, ReducedMessage, TakePiece, is_too_large, keeps_texts};
pub use large_message::LargeMessage;
pub use mailbox::Mailbox;
pub use message_file::FileRest;
pub use options::{LongOperation, OpenOptions, Progress, ProgressFn, Unit};
pub use order::{Sorted, Window};
pub use read::RawMessage;
pub use reading::ReadOutcome;
pub use search::FoundMessages;
pub use shared::{Cancel, Mailboxes, SharedMailbox, Subscription};
pub use status::{CacheState, CacheStatus, Note, NoteKind, Status};
pub use summary::Summary;
pub use view::View;
pub use watch::{WatchOptions, Watcher};
