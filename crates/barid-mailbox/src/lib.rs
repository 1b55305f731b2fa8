//! Contract between mailboxes and their storage formats: finding the messages of a mailbox and its
//! changes since an earlier scan, reading messages, and changing the mailbox.
//!
//! A backend implements [`Storage`]. [`Storage::scan`] compares the mailbox with the [`Known`]
//! messages of an earlier scan, and passes every new message to a [`ScanSink`]; only these are
//! read.

mod error;
mod flag_changes;
mod format;
mod limits;
mod location;
mod new_message;
mod open_message;
mod scan;
mod stamp;
mod storage;
mod sync;

pub use error::{Error, Result, SinkError};
pub use flag_changes::{FlagChange, FlagChanges, FlagRun};
pub use format::{Format, FormatProperties, MessageLayout, Subfolders};
pub use limits::WHOLE_LEN_MAX;
pub use location::{Extent, Location, LocationParts, MessageName};
pub use new_message::{MessageRest, NewMessage, StoredMessage, TakeRest};
pub use open_message::{OpenMessage, ReadPiece};
pub use scan::{
    ChangedMessage, DefectKind, EmptyKnown, Known, KnownKey, KnownMessage, MailboxDefect,
    ScanContext, ScanReport, ScanSink, ScanStats, ScannedMessage, Sinks, sink_error,
};
pub use stamp::{Stamp, StampRules};
pub use storage::{Caps, ReadAs, ReadKept, ReadMessage, Storage};
pub use sync::{
    ChangeProgress, ChangeSet, MovedMessage, Recovered, Shift, SyncContext, SyncFigures,
    SyncReport, SyncedState, Unfinished,
};
