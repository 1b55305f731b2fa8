//! Opens any mailbox of any size at once, and lists, sorts, threads and reads it.
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
//! [`Mailbox::open`] finds the format, brings the cache up to date and answers from it: an
//! unchanged mailbox costs a fixed number of system calls, a changed one a cost that depends on the
//! new messages. [`OpenOptions::cache_dir`] may be deleted at any time; [`OpenOptions::state_dir`]
//! must be kept, since it stores the UIDs that the formats cannot.
//!
//! Malformed mail is not an error; `barid_message` returns values and defects. [`Mailbox::notes`]
//! reports problems of the mailbox or of the cache itself.
//!
//! # Examples
//!
//! They run on a file system in memory; [`Mailbox::open`] does the same on the disk.
//!
//! Create a mailbox, open it, and append messages. All that [`Mailbox::change`] reports is durable.
//!
//! ```
//! # use std::sync::Arc;
//! # use barid::vfs::{MemVfs, Vfs};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
//! # vfs.create_dir_all("/mail".as_ref(), 0o700)?;
//! use barid::{ChangeOptions, ChangeRequest, CreateOptions, Mailbox, MailboxSpec};
//! use barid::{NewMessage, OpenOptions};
//!
//! let options = OpenOptions::new(Some("/cache".into()), "/state".into());
//! let spec = MailboxSpec::parse("maildir:/mail/ann");
//! let format = spec.format.ok_or("no such format")?.format();
//! barid::create(&vfs, &spec.path, format, &CreateOptions::default(), &options.state_dir)?;
//! let mut mailbox = Mailbox::open_in(vfs, &spec, &options)?;
//! let message = NewMessage { bytes: b"Subject: Hello\n\ntext\n", ..NewMessage::default() };
//! let request = ChangeRequest { appends: &[message], ..ChangeRequest::default() };
//! let changed = mailbox.change(&request, &ChangeOptions::default())?;
//! assert_eq!((changed.appends, mailbox.status().messages), (1, 1));
//! # Ok(())
//! # }
//! ```
//!
//! List, sort and thread: all answers come from the cache, as rows. [`View::summaries`] shows them.
//!
//! ```
//! # use std::sync::Arc;
//! # use barid::vfs::{MemVfs, Vfs};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
//! # vfs.create_dir_all("/mail".as_ref(), 0o700)?;
//! # use barid::{ChangeOptions, ChangeRequest, CreateOptions, Mailbox};
//! # use barid::{MailboxSpec, NewMessage, OpenOptions};
//! # let options = OpenOptions::new(Some("/cache".into()), "/state".into());
//! # let spec = MailboxSpec::parse("mboxrd:/mail/lists");
//! # let format = spec.format.ok_or("no such format")?.format();
//! # barid::create(&vfs, &spec.path, format, &CreateOptions::default(), &options.state_dir)?;
//! # let mut mailbox = Mailbox::open_in(Arc::clone(&vfs), &spec, &options)?;
//! # let texts: [&[u8]; 2] = [
//! #     b"From: ann@example.org\nSubject: Budget\nMessage-ID: <1@example.org>\n\nHow much?\n",
//! #     b"From: bob@example.org\nSubject: Re: Budget\nReferences: <1@example.org>\n\nToo much.\n",
//! # ];
//! # let appends = texts.map(|bytes| NewMessage { bytes, ..NewMessage::default() });
//! # let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
//! # let uids = mailbox.change(&request, &ChangeOptions::default())?.appended;
//! use barid::{SortProgram, ThreadAlgorithm, Window};
//!
//! let mut listed = Vec::new();
//! mailbox.summaries(&[0, 1], &mut |message| {
//!     listed.push((message.uid, message.fields.subject.unwrap_or_default().to_vec()));
//!     true
//! })?;
//! assert_eq!(listed, [(uids[0], b"Budget".to_vec()), (uids[1], b"Re: Budget".to_vec())]);
//!
//! let order: SortProgram = "reverse:from".parse()?;
//! assert_eq!(mailbox.sorted(&order, Window::Last(50))?.rows, [1, 0]);
//!
//! let threads = mailbox.threads(ThreadAlgorithm::References)?;
//! let nodes: Vec<_> = threads.nodes().map(|node| (node.depth, node.row)).collect();
//! assert_eq!(nodes, [(0, Some(0)), (1, Some(1))]);
//! # Ok(())
//! # }
//! ```
//!
//! Search, read a message, and fetch a part of it as IMAP does.
//!
//! ```
//! # use std::sync::Arc;
//! # use barid::vfs::{MemVfs, Vfs};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
//! # vfs.create_dir_all("/mail".as_ref(), 0o700)?;
//! # use barid::{ChangeOptions, ChangeRequest, CreateOptions, Mailbox};
//! # use barid::{MailboxSpec, NewMessage, OpenOptions};
//! # let options = OpenOptions::new(Some("/cache".into()), "/state".into());
//! # let spec = MailboxSpec::parse("mboxrd:/mail/lists");
//! # let format = spec.format.ok_or("no such format")?.format();
//! # barid::create(&vfs, &spec.path, format, &CreateOptions::default(), &options.state_dir)?;
//! # let mut mailbox = Mailbox::open_in(Arc::clone(&vfs), &spec, &options)?;
//! # let texts: [&[u8]; 2] = [
//! #     b"From: ann@example.org\nSubject: Budget\nMessage-ID: <1@example.org>\n\nHow much?\n",
//! #     b"From: bob@example.org\nSubject: Re: Budget\nReferences: <1@example.org>\n\nToo much.\n",
//! # ];
//! # let appends = texts.map(|bytes| NewMessage { bytes, ..NewMessage::default() });
//! # let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
//! # let uids = mailbox.change(&request, &ChangeOptions::default())?.appended;
//! use barid::fetch::FetchItems;
//! use barid::query::parse_imap;
//! use barid::{ReadAs, UidSet};
//!
//! let program = parse_imap(b"FROM bob TEXT \"too much\"")?.program;
//! let found = mailbox.search(&program, &UidSet::new())?;
//! assert_eq!(found.rows, [1]);
//!
//! let uid = mailbox.uid_of(found.rows[0])?;
//! let message = mailbox.read(uid, ReadAs::Message)?;
//! assert_eq!(message.bytes[message.header_len..], *b"Too much.\n");
//!
//! let mut answer = Vec::new();
//! let items = FetchItems::parse("(UID BODY.PEEK[TEXT])")?;
//! mailbox.fetch(&[uid], &items, &|message, out| message.write_imap(out), &mut |bytes| {
//!     answer.extend_from_slice(bytes);
//!     true
//! })?;
//! let answer = String::from_utf8(answer)?;
//! assert!(answer.contains("BODY[TEXT] {11}\r\nToo much.\r\n"), "{answer}");
//! # Ok(())
//! # }
//! ```
//!
//! Flag a message, expunge another, and undo that. A restored message has a new UID, because the
//! UID of an expunged message is never assigned again.
//!
//! ```
//! # use std::sync::Arc;
//! # use barid::vfs::{MemVfs, Vfs};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
//! # vfs.create_dir_all("/mail".as_ref(), 0o700)?;
//! # use barid::{ChangeOptions, ChangeRequest, CreateOptions, Mailbox};
//! # use barid::{MailboxSpec, NewMessage, OpenOptions};
//! # let options = OpenOptions::new(Some("/cache".into()), "/state".into());
//! # let spec = MailboxSpec::parse("mboxrd:/mail/lists");
//! # let format = spec.format.ok_or("no such format")?.format();
//! # barid::create(&vfs, &spec.path, format, &CreateOptions::default(), &options.state_dir)?;
//! # let mut mailbox = Mailbox::open_in(Arc::clone(&vfs), &spec, &options)?;
//! # let texts: [&[u8]; 2] = [
//! #     b"From: ann@example.org\nSubject: Budget\nMessage-ID: <1@example.org>\n\nHow much?\n",
//! #     b"From: bob@example.org\nSubject: Re: Budget\nReferences: <1@example.org>\n\nToo much.\n",
//! # ];
//! # let appends = texts.map(|bytes| NewMessage { bytes, ..NewMessage::default() });
//! # let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
//! # let uids = mailbox.change(&request, &ChangeOptions::default())?.appended;
//! use barid::{Flag, FlagChange, FlagSet, KeepExpunged, KeepLimits};
//!
//! let mut request = ChangeRequest::default();
//! let seen = FlagChange { add: FlagSet::EMPTY.with(Flag::Seen), ..FlagChange::default() };
//! request.flags.push((uids[0], seen));
//! mailbox.change(&request, &ChangeOptions::default())?;
//! assert_eq!(mailbox.uids_with(Flag::Seen)?, uids[..1]);
//!
//! let keep_expunged = KeepExpunged::OrRefuse(KeepLimits::default());
//! let options = ChangeOptions { keep_expunged, ..ChangeOptions::default() };
//! let request = ChangeRequest { expunge: vec![uids[1]], ..ChangeRequest::default() };
//! assert_eq!(mailbox.change(&request, &options)?.expunged, 1);
//! assert_eq!(mailbox.undo(&options)?.appends, 1);
//! assert_eq!(mailbox.status().messages, 2);
//! # Ok(())
//! # }
//! ```
//!
//! Watch a mailbox for changes by others.
//!
//! ```
//! # use std::sync::Arc;
//! # use barid::vfs::{MemVfs, Vfs};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
//! # vfs.create_dir_all("/mail".as_ref(), 0o700)?;
//! # use barid::{ChangeOptions, ChangeRequest, CreateOptions, Mailbox};
//! # use barid::{MailboxSpec, NewMessage, OpenOptions};
//! # let options = OpenOptions::new(Some("/cache".into()), "/state".into());
//! # let spec = MailboxSpec::parse("mboxrd:/mail/lists");
//! # let format = spec.format.ok_or("no such format")?.format();
//! # barid::create(&vfs, &spec.path, format, &CreateOptions::default(), &options.state_dir)?;
//! # let mut mailbox = Mailbox::open_in(Arc::clone(&vfs), &spec, &options)?;
//! # let texts: [&[u8]; 2] = [
//! #     b"From: ann@example.org\nSubject: Budget\nMessage-ID: <1@example.org>\n\nHow much?\n",
//! #     b"From: bob@example.org\nSubject: Re: Budget\nReferences: <1@example.org>\n\nToo much.\n",
//! # ];
//! # let appends = texts.map(|bytes| NewMessage { bytes, ..NewMessage::default() });
//! # let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
//! # let uids = mailbox.change(&request, &ChangeOptions::default())?.appended;
//! use barid::{MailboxChange, WatchOptions, Watcher};
//! use std::time::Duration;
//!
//! let mut watcher = Watcher::new(Arc::clone(&vfs), WatchOptions::default());
//! let watched = Mailbox::open_in(Arc::clone(&vfs), &spec, &options)?;
//! let number = watcher.add(watched);
//! let uid = mailbox.change(&request, &ChangeOptions::default())?.appended[0];
//! let (reporting, changes) = watcher.next(Some(Duration::from_secs(5))).remove(0);
//! assert_eq!(reporting, number);
//! assert!(changes?.contains(&MailboxChange::New(uid)));
//! # Ok(())
//! # }
//! ```
//!
//! Convert a mailbox to another format; with a proof, every message is read back and compared.
//!
//! ```
//! # use std::sync::Arc;
//! # use barid::vfs::{MemVfs, Vfs};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
//! # vfs.create_dir_all("/mail".as_ref(), 0o700)?;
//! # use barid::{ChangeOptions, ChangeRequest, CreateOptions, Mailbox};
//! # use barid::{MailboxSpec, NewMessage, OpenOptions};
//! # let options = OpenOptions::new(Some("/cache".into()), "/state".into());
//! # let spec = MailboxSpec::parse("mboxrd:/mail/lists");
//! # let format = spec.format.ok_or("no such format")?.format();
//! # barid::create(&vfs, &spec.path, format, &CreateOptions::default(), &options.state_dir)?;
//! # let mut mailbox = Mailbox::open_in(Arc::clone(&vfs), &spec, &options)?;
//! # let texts: [&[u8]; 2] = [
//! #     b"From: ann@example.org\nSubject: Budget\nMessage-ID: <1@example.org>\n\nHow much?\n",
//! #     b"From: bob@example.org\nSubject: Re: Budget\nReferences: <1@example.org>\n\nToo much.\n",
//! # ];
//! # let appends = texts.map(|bytes| NewMessage { bytes, ..NewMessage::default() });
//! # let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
//! # let uids = mailbox.change(&request, &ChangeOptions::default())?.appended;
//! use barid::convert::{ConvertOptions, convert};
//!
//! let target = MailboxSpec::parse("mix:/mail/archive");
//! let how = ConvertOptions { proof: true, ..ConvertOptions::default() };
//! let converted = convert(&vfs, (&spec, &target), &options, &how, &mut |_| {})?;
//! assert!(converted.is_whole());
//! assert_eq!(converted.appended, 2);
//! # Ok(())
//! # }
//! ```

mod announcing;
mod at_rest;
mod attachments;
pub mod caches;
mod change;
mod changes;
mod changes_modseq;
pub mod check;
pub mod convert;
mod create;
mod damaged_state;
mod email_ids;
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
mod marks;
mod message_file;
mod message_of_view;
mod opening;
mod options;
mod order;
pub mod query;
mod read;
mod reading;
mod recovery;
mod restarts;
mod search;
mod shared;
mod shown;
mod status;
mod stored_values;
pub mod stores;
mod structures;
mod summary;
#[cfg(test)]
mod test_mailbox;
mod text_index;
mod threading;
mod turns;
mod view;
mod watch;

pub use at_rest::{MailboxAtRest, MailboxFigures, at_rest, figures_at_rest, identity_of, renumber};
pub use attachments::{AttachedMessage, AttachmentReader, AttachmentText, AttachmentToRead};
pub use barid_cache::{CacheOptions, Error as CacheError, StoreKind};
pub use barid_formats::{
    CreateOptions, FormatName, MailboxSpec, MboxLock, compression_of, default_format,
};
pub use barid_kv::Compression;
pub use barid_mailbox::{
    Caps, Error as FormatError, FlagChange, FlagChanges, Format, FormatProperties, MessageLayout,
    MessageRest, NewMessage, ReadAs, StoredMessage, Subfolders, SyncFigures, TakeRest, Unfinished,
    WHOLE_LEN_MAX,
};
pub use barid_message as message;
pub use barid_message::HeaderFields;
pub use barid_query::{QueryError, SortKey, SortProgram, ThreadAlgorithm, ThreadNode, Threads};
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
pub use email_ids::EmailId;
pub use error::{Error, ErrorKind, KeywordLimit, Result};
pub use folders::{
    Folder, FolderSearch, TreePlace, detect, folders, folders_with, place_in_tree, resolve_name,
};
pub use large::{KeepsBody, ReducedMessage, TakePiece, is_too_large, keeps_texts};
pub use large_message::LargeMessage;
pub use mailbox::Mailbox;
pub use marks::{MessageMarks, ViewStatus};
pub use message_file::FileRest;
pub use message_of_view::ViewMessage;
pub use options::{LongOperation, OpenOptions, Progress, ProgressFn, Unit};
pub use order::{Sorted, Window, sorted_together};
pub use read::RawMessage;
pub use reading::ReadOutcome;
pub use search::{FoundMessages, RankedMessage, RankedMessages, ranked_together};
pub use shared::{Cancel, Mailboxes, SharedMailbox, Subscription};
pub use status::{CacheState, CacheStatus, Note, NoteKind, Status};
pub use summary::Summary;
pub use text_index::{IndexAmount, IndexReport, IndexStatus};
pub use threading::{JoinedThreads, threads_together};
pub use view::View;
pub use watch::{WatchOptions, WatchSource, Watcher};
