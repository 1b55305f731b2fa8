//! A client that synchronises by QRESYNC alone (RFC 7162), while others change the mailbox.
//!
//! The model knows UIDs, flags and one mod-sequence, as RFC 7162 section 6 says: it opens the
//! mailbox with what it knows, takes `VANISHED` and FETCH responses, and asks for new messages. It
//! is disconnected now and then, also in the middle of changes. Writers with sessions of their own,
//! and others that know nothing but files, change flags, add and remove messages. Whenever they
//! rest, the model must equal what a client without memory finds. All that a server sends is also
//! held against the rules that make the model possible, such as that a `VANISHED` response names
//! visible messages only.

mod fresh;
mod maildir;
mod mbox;
mod mbsync;
mod model;
mod own;
mod real;
mod report;
mod run;
mod session;
mod writer;

pub(crate) use model::set_of;
pub(crate) use own::is_lost;
pub use report::QresyncReport;
pub use run::{Disturb, QresyncOptions, kills_and_losses, qresync_model};
pub use writer::WriterKind;
