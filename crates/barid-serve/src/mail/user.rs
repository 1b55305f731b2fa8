//! The mail of a user, which all sessions of the user share.

use std::path::PathBuf;
use std::sync::Arc;

use barid::vfs::Vfs;
use barid::{Mailboxes, OpenOptions, SharedMailbox, WatchOptions};
use barid_folders::{FolderOptions, FolderTree};
use barid_imap::backend::{Answer, Refusal};
use barid_imap::command::MailboxName;

use super::append::AppendQueues;
use super::recent::{AllClaimed, ClaimedRecent};
use super::refusal::{fatal, refused};
use super::selected::try_create;

/// Options for the mail of a user: its place, and the manner of opening it.
#[derive(Clone, Debug)]
pub struct UserOptions {
    /// The name of the user.
    pub name: String,
    /// The mailboxes.
    pub folders: FolderOptions,
    /// Folders of caches and state.
    pub open: OpenOptions,
    /// Folder for large messages while they are received.
    pub spool_dir: PathBuf,
    /// Largest message that can be appended, in bytes.
    pub append_limit: Option<u64>,
    /// `true` to notice changes of other programs as they happen.
    pub watches: bool,
}

/// The mail of a user: one open mailbox for all sessions, one watcher, one writer at a time.
pub struct UserMail {
    pub(crate) name: String,
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) folders: FolderTree,
    pub(crate) mailboxes: Mailboxes,
    pub(crate) appends: AppendQueues,
    pub(crate) spool_dir: PathBuf,
    pub(crate) append_limit: Option<u64>,
    /// `true` if no mailbox is changed.
    pub(crate) read_only: bool,
    claimed: AllClaimed,
}

impl UserMail {
    /// Opens the mail of a user: recovers what was interrupted, and opens no mailbox yet.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn open(vfs: Arc<dyn Vfs>, options: UserOptions) -> Result<Self, barid_folders::Error> {
        let folders = FolderTree::open(Arc::clone(&vfs), options.folders)?;
        create_inbox(&folders)?;
        let watch = options.watches.then(WatchOptions::default);
        Ok(Self {
            read_only: options.open.read_only,
            name: options.name,
            mailboxes: Mailboxes::new(Arc::clone(&vfs), options.open, watch),
            vfs,
            folders,
            appends: AppendQueues::default(),
            spool_dir: options.spool_dir,
            append_limit: options.append_limit,
            claimed: AllClaimed::default(),
        })
    }

    /// Opens a mailbox, or returns the one that is open.
    pub(crate) fn open_mailbox(&self, name: &MailboxName) -> Answer<SharedMailbox> {
        let spec = self.folders.spec_of(name).map_err(refused_folder)?;
        self.mailboxes.open_spec(&spec).map_err(refused)
    }

    /// Opens the target of a copy.
    pub(crate) fn open_target(&self, name: &MailboxName) -> Answer<SharedMailbox> {
        self.open_mailbox(name).map_err(try_create)
    }

    /// Fails if a name does not mean this mailbox any more.
    pub(crate) fn check_same(&self, name: &MailboxName, shared: &SharedMailbox) -> Answer<()> {
        match self.open_mailbox(name) {
            Ok(now) if now.is_same(shared) => Ok(()),
            _ => Err(fatal("UNAVAILABLE", "The selected mailbox was removed or renamed")),
        }
    }

    pub(crate) fn claimed_recent(&self, id: u128) -> Arc<ClaimedRecent> {
        self.claimed.of(id)
    }
}

/// Creates INBOX, which every account has.
fn create_inbox(folders: &FolderTree) -> Result<(), barid_folders::Error> {
    let inbox = MailboxName::from(MailboxName::INBOX);
    match folders.spec_of(&inbox) {
        Err(barid_folders::Error::NoSuchMailbox { .. }) => folders.create(&inbox, false, &[]),
        _ => Ok(()),
    }
}

/// Returns the identifier of a mailbox (RFC 8474 §4).
pub(crate) fn mailbox_id(shared: &SharedMailbox) -> String {
    let view = shared.view();
    format!("F{:032x}-{}", view.id(), view.view_status().uidvalidity)
}

/// Turns an error of the tree of mailboxes into a refusal.
pub(crate) fn refused_folder(error: barid_folders::Error) -> Refusal {
    match error.code() {
        Some(code) => Refusal::new(code, error.to_string()),
        None => Refusal::text(error.to_string()),
    }
}
