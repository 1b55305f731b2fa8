//! The mailboxes of one account as a tree of names, over any layout: Maildir++, nested Maildirs,
//! trees of mbox, mbx, mix and MH, with INBOX elsewhere.
//!
//! [`FolderTree`] lists, creates, deletes, renames and subscribes as IMAP wants it (RFC 9051
//! §6.3.4 to §6.3.9), and changes the disk as Dovecot does, so that a site can switch between both.
//! What Dovecot has no place for is in the state folder: special uses, metadata, deleted mailboxes,
//! and the UIDVALIDITYs that names have had. Every change is durable when it returns and survives a
//! crash at any moment: see `docs/design/folders.md`.
//!
//! ```
//! # use std::sync::Arc;
//! # use barid_vfs::{MemVfs, Vfs};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
//! use barid::OpenOptions;
//! use barid_folders::{FolderOptions, FolderTree};
//! use barid_imap::command::ListCommand;
//!
//! let mailboxes = OpenOptions::new(None, "/state".into());
//! let tree = FolderTree::open(vfs, FolderOptions::new("/mail".into(), mailboxes))?;
//! tree.create(&"INBOX".into(), false, &[])?;
//! tree.create(&"Lists.rust".into(), false, &[])?;
//! let all = ListCommand { patterns: vec!["*".to_owned()], ..ListCommand::default() };
//! let names: Vec<_> = tree.list(&all)?.into_iter().map(|mailbox| mailbox.name).collect();
//! assert_eq!(names, ["INBOX", "Lists", "Lists.rust"]);
//! tree.delete(&"Lists.rust".into())?;
//! tree.undelete(&"Lists.rust".into())?;
//! # Ok(())
//! # }
//! ```

mod bytes;
mod change;
mod create;
mod delete;
mod error;
mod journal;
mod limits;
mod list;
mod metadata;
mod names;
mod options;
mod patterns;
mod rename;
mod search;
mod special_use;
mod state;
mod steps;
mod subscriptions;
mod tree;
mod validity;

pub use delete::DeletedMailbox;
pub use error::{Error, Result};
pub use options::{FolderOptions, Layout};
pub use rename::Renamed;
pub use tree::FolderTree;
