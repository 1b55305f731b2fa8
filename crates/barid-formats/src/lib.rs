//! Formats of mailboxes on a file system, each a backend of [`barid_mailbox::Storage`].
//!
//! [`open`] finds the format of a path and opens the mailbox, [`create`] makes an empty one,
//! [`check`] finds and mends damage, and [`folders()`] lists the mailboxes below a directory.

pub mod check;
mod create;
mod detect;
mod durable;
mod eml;
mod file_stamps;
mod files;
mod folders;
mod given;
mod maildir;
mod mbox;
mod mbx;
mod mh;
mod mix;
mod new_files;
mod on_files;
mod place;
mod probe;
mod public_inbox;
mod redo;
mod registered;
mod registry;
#[cfg(test)]
mod remembered;
mod spans;
#[cfg(test)]
mod worlds;

pub use create::create;
pub use detect::{detect, open, open_with};
pub use folders::{Folder, FolderSearch, folders, folders_with};
pub use mbox::{
    FromProfile, MboxLock, MboxMailbox, MboxOptions, Variant, WritingOptions, write_message,
};
pub use mix::MixMailbox;
pub use new_files::CreateOptions;
pub use place::{TreePlace, place_in_tree, resolve_name};
pub use probe::compression_of;
pub use registry::{FormatName, MailboxSpec, default_format};
