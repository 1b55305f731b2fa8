//! Mailbox formats behind one trait: what a mailbox holds, what changed in it, and changing it.
//!
//! [`open`] finds the format of a path and gives a [`Mailbox`]. [`Mailbox::scan`] compares the
//! mailbox with what is [`Known`] of it and hands every message never seen before to a
//! [`ScanSink`]; only those are read.

pub mod check;
mod create;
mod detect;
mod durable;
mod error;
mod files;
mod flag_changes;
mod folders;
mod given;
mod location;
mod mailbox;
mod maildir;
mod mbox;
mod mbx;
mod mh;
mod mix;
mod new_message;
mod open_message;
mod place;
mod redo;
#[cfg(test)]
mod remembered;
mod scan;
mod spans;
mod stamp;
mod sync;
mod utf7;
#[cfg(test)]
mod worlds;

pub use create::{CreateOptions, Created, create};
pub use detect::{FormatName, MailboxSpec, compression_of, detect, open, open_with};
pub use error::{Error, Result, SinkError};
pub use flag_changes::{FlagChange, FlagChanges};
pub use folders::{Folder, folders};
pub use location::Location;
pub use mailbox::{Caps, Format, Mailbox, ReadAs, ReadKept};
pub use mbox::{
    FromProfile, MboxLock, MboxMailbox, MboxOptions, Variant, WritingOptions, local_zone_minutes,
    write_message,
};
pub use mix::MixMailbox;
pub use new_message::{MessageRest, NewMessage, StoredMessage, TakeRest};
pub use open_message::{OpenMessage, WHOLE_LEN_MAX};
pub use place::{TreePlace, place_in_tree, resolve_name};
pub use scan::{
    ChangedMessage, DefectKind, EmptyKnown, Known, KnownMessage, MailboxDefect, ScanContext,
    ScanReport, ScanSink, ScanStats, ScannedMessage, Sinks,
};
pub use spans::ReadMessage;
pub use stamp::{Racy, Stamp};
pub use sync::{
    ChangeSet, MovedMessage, Recovered, Shift, SyncContext, SyncFigures, SyncReport, SyncedState,
    Unfinished,
};
pub use utf7::decode_utf7;
