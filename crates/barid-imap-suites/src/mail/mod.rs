//! Mailboxes for the suites: real mail where there is some, and folders of it with UIDs and flags
//! that every server reads the same.

mod maildir;
mod mbox;
mod plan;
mod pool;

pub use maildir::{dovecot_uidlist, letters_of};
pub use plan::{MailboxPlan, MessagePlan, write_mailboxes};
pub use pool::{MailPool, PoolMessage};
