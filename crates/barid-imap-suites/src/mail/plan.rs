//! Mailboxes as they are to be, written in any format.

use std::io;
use std::path::Path;

use super::pool::PoolMessage;
use super::{maildir, mbox};
use crate::server::MailFormat;

/// A message of a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessagePlan {
    /// Index in the pool.
    pub message: usize,
    /// The UID.
    pub uid: u32,
    /// Flags, as letters of a Maildir in their order: `DFRST`.
    pub flags: String,
    /// Keywords.
    pub keywords: Vec<String>,
    /// `true` if no client has seen it: \Recent.
    pub is_new: bool,
}

/// A mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxPlan {
    /// The name, with `/` between its levels.
    pub name: String,
    /// UIDVALIDITY.
    pub uidvalidity: u32,
    /// Messages, by their UIDs.
    pub messages: Vec<MessagePlan>,
}

impl MailboxPlan {
    /// Returns UIDNEXT.
    pub fn uidnext(&self) -> u32 {
        self.messages.last().map_or(1, |message| message.uid + 1)
    }
}

/// Writes mailboxes to the folder of a user, in which INBOX exists.
///
/// # Errors
/// Errors of the file system; formats that no code here writes.
pub fn write_mailboxes(
    format: MailFormat,
    dir: &Path,
    plans: &[MailboxPlan],
    pool: &[PoolMessage],
) -> io::Result<()> {
    for plan in plans {
        format.create(dir, &plan.name)?;
        let path = format.mailbox_path(dir, &plan.name);
        match format {
            MailFormat::Maildir | MailFormat::Nested => maildir::write(&path, plan, pool)?,
            MailFormat::Mbox => mbox::write(&path, plan, pool)?,
            MailFormat::Mbx | MailFormat::Mix => {
                let text = format!("{} mailboxes cannot be written", format.name());
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
        }
    }
    Ok(())
}
