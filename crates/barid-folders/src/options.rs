//! Options of a tree of mailboxes.

use std::path::PathBuf;
use std::time::Duration;

use barid::{Format, MailboxSpec, OpenOptions};

use crate::limits::KEEP_DELETED;

/// Arrangement of the mailboxes of an account on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Maildir++: the mailbox `A/B` is the folder `.A.B` in the root, which is INBOX itself
    /// (Courier; Dovecot's default for Maildirs). The separator is `.` unless another is chosen.
    MaildirPlusPlus,
    /// Maildirs in folders: the mailbox `A/B` is the folder `A/B` in the root (Dovecot's
    /// `LAYOUT=fs`). The root itself may be INBOX.
    NestedMaildirs,
    /// A tree of folders with mailboxes of a format: files (mbox, mbx), or folders (MH, mix).
    /// Mailboxes of other formats are found, too; new ones have this format.
    Files(Format),
}

/// Options of a tree of mailboxes.
#[derive(Clone, Debug)]
pub struct FolderOptions {
    /// The folder of the mailboxes.
    pub root: PathBuf,
    /// INBOX, if it is not the root or in the root.
    pub inbox: Option<MailboxSpec>,
    /// The layout; `None` detects it, and is Maildir++ for a root that is empty or missing.
    pub layout: Option<Layout>,
    /// The hierarchy separator; `None` is `.` for Maildir++ and `/` for the others.
    pub separator: Option<char>,
    /// Prefix of all names but INBOX, with a separator at its end, such as `INBOX.` of Courier;
    /// empty for none.
    pub prefix: String,
    /// Time for which deleted mailboxes are kept.
    pub keep_deleted: Duration,
    /// Options with which mailboxes are opened. The tree has its own files in the state folder;
    /// nothing is changed if they are `read_only`.
    pub mailboxes: OpenOptions,
}

impl FolderOptions {
    /// Creates options with everything but the folders at its default.
    pub fn new(root: PathBuf, mailboxes: OpenOptions) -> Self {
        Self {
            root,
            inbox: None,
            layout: None,
            separator: None,
            prefix: String::new(),
            keep_deleted: KEEP_DELETED,
            mailboxes,
        }
    }
}
