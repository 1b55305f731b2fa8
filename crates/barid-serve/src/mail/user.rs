//! The mail of a user, which all sessions of the user share.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use barid::vfs::Vfs;
use barid::{
    Cancel, MailboxSpec, Mailboxes, OpenOptions, SharedMailbox, WatchOptions, WatchSource,
};
use barid_folders::{FolderOptions, FolderTree};
use barid_imap::backend::{Answer, Appended, Refusal};
use barid_imap::command::MailboxName;

use super::append::{AppendQueues, Complete};
use super::follow::Followed;
use super::indexing::Indexing;
use super::progress::UserProgress;
use super::quota::QuotaRoot;
use super::recent::{AllClaimed, ClaimedRecent};
use super::refusal::{fatal, refused};
use super::selected::try_create;
use super::streams::Streams;
use crate::limits::MAILBOXES_KEPT;
use crate::quota::{MailUse, Quota};

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
    /// Limits of all mail.
    pub quota: Quota,
    /// `true` to notice changes of other programs as they happen.
    pub watches: bool,
}

/// Messages that are stored together.
pub(crate) struct StoredMessages {
    pub(crate) messages: Vec<Complete>,
    /// `true` if they are not written together with those of other sessions: a source may fail
    /// meanwhile.
    pub(crate) is_alone: bool,
    /// `true` if they are removed from another mailbox of the user afterwards.
    pub(crate) is_move: bool,
}

/// The mail of a user: one open mailbox for all sessions, one watcher, one writer at a time.
pub struct UserMail {
    pub(crate) name: String,
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) folders: FolderTree,
    pub(crate) mailboxes: Mailboxes,
    pub(crate) appends: AppendQueues,
    pub(crate) streams: Streams,
    pub(crate) spool_dir: PathBuf,
    pub(crate) append_limit: Option<u64>,
    pub(crate) quota: QuotaRoot,
    pub(crate) progress: Arc<UserProgress>,
    pub(crate) followed: Followed,
    pub(crate) indexing: Arc<Indexing>,
    /// Options of all mailboxes.
    pub(crate) open: OpenOptions,
    /// `true` if no mailbox is changed.
    pub(crate) read_only: bool,
    claimed: AllClaimed,
    /// Mailboxes used last, which stay open: the next command often names one of them again.
    kept: Mutex<VecDeque<SharedMailbox>>,
}

impl UserMail {
    /// Opens the mail of a user: recovers what was interrupted, and opens no mailbox yet.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn open(vfs: Arc<dyn Vfs>, options: UserOptions) -> Result<Self, barid_folders::Error> {
        Self::open_watched(vfs, options, None)
    }

    /// Opens the mail as [`UserMail::open`]; changes of other programs are noticed by a source that
    /// is not that of the file system, if there is one.
    ///
    /// # Errors
    /// As [`UserMail::open`].
    pub fn open_watched(
        vfs: Arc<dyn Vfs>,
        options: UserOptions,
        source: Option<WatchSource>,
    ) -> Result<Self, barid_folders::Error> {
        let folders = FolderTree::open(Arc::clone(&vfs), options.folders)?;
        create_inbox(&folders)?;
        let progress = Arc::new(UserProgress::default());
        let open = OpenOptions { progress: Some(progress.callback()), ..options.open };
        let appends = AppendQueues::new(progress.callback());
        let watch = options.watches.then(|| WatchOptions { source, ..WatchOptions::default() });
        Ok(Self {
            read_only: open.read_only,
            name: options.name,
            mailboxes: Mailboxes::new(Arc::clone(&vfs), open.clone(), watch),
            open,
            progress,
            followed: Followed::default(),
            indexing: Arc::default(),
            quota: QuotaRoot::new(options.quota),
            vfs,
            folders,
            appends,
            streams: Streams::default(),
            spool_dir: options.spool_dir,
            append_limit: options.append_limit,
            claimed: AllClaimed::default(),
            kept: Mutex::default(),
        })
    }

    /// Opens a mailbox, or returns the one that is open; it stays open for the next command.
    pub(crate) fn open_mailbox(&self, name: &MailboxName) -> Answer<SharedMailbox> {
        let shared = self.find_mailbox(name)?;
        self.keep(&shared);
        Ok(shared)
    }

    /// Opens a mailbox as [`UserMail::open_mailbox`] does, but its messages may only be listed
    /// ([`Mailboxes::open_listed`]).
    pub(crate) fn open_listed(&self, name: &MailboxName) -> Answer<SharedMailbox> {
        let spec = self.folders.spec_of(name).map_err(refused_folder)?;
        let shared = self.mailboxes.open_listed(&spec).map_err(refused)?;
        self.keep(&shared);
        Ok(shared)
    }

    /// Opens a mailbox, or returns the one that is open.
    pub(crate) fn find_mailbox(&self, name: &MailboxName) -> Answer<SharedMailbox> {
        let spec = self.folders.spec_of(name).map_err(refused_folder)?;
        self.mailboxes.open_spec(&spec).map_err(refused)
    }

    /// Keeps a mailbox open, and lets go of the one that was used longest ago.
    fn keep(&self, shared: &SharedMailbox) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.iter().position(|one| one.is_same(shared));
        let shared = known.and_then(|at| kept.remove(at)).unwrap_or_else(|| shared.clone());
        kept.push_back(shared);
        let oldest = if kept.len() > MAILBOXES_KEPT { kept.pop_front() } else { None };
        drop(kept);
        // Closing may write, so not under the lock.
        drop(oldest);
    }

    /// Returns `true` while headers of mailboxes are read that sessions have only listed.
    pub(crate) fn is_reading(&self) -> bool {
        self.mailboxes.is_reading()
    }

    /// Waits until they are read.
    pub(crate) fn wait_until_read(&self) {
        self.mailboxes.wait_until_read();
    }

    /// Closes the mailboxes that no session uses.
    pub(crate) fn release_mailboxes(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let all = std::mem::take(&mut *kept);
        drop(kept);
        drop(all);
    }

    /// Opens a mailbox that was found just now; `None` if it cannot be opened.
    pub(crate) fn open_found(&self, spec: &MailboxSpec) -> Option<SharedMailbox> {
        let shared = self.mailboxes.open_spec(spec).ok()?;
        self.keep(&shared);
        Some(shared)
    }

    /// Opens the target of a copy.
    pub(crate) fn open_target(&self, name: &MailboxName) -> Answer<SharedMailbox> {
        self.open_mailbox(name).map_err(try_create)
    }

    /// Stores messages at the end of a mailbox, all or none; durable when this returns.
    ///
    /// # Errors
    /// `OVERQUOTA`, unless the messages are moved and so no more than before; errors of the
    /// storage.
    pub(crate) fn store(
        &self,
        target: &SharedMailbox,
        messages: StoredMessages,
        cancel: &Cancel,
    ) -> Answer<Appended> {
        let StoredMessages { messages, is_alone, is_move } = messages;
        let room = if is_move { MailUse::default() } else { MailUse::of(&messages) };
        let _reserved = self.reserve(room, cancel)?;
        let is_selected = target.is_awaited() || self.claimed.is_held(target.view().id());
        self.appends.append(target, (messages, is_alone), is_selected, cancel)
    }

    /// Fails if a name does not mean this mailbox any more.
    pub(crate) fn check_same(&self, name: &MailboxName, shared: &SharedMailbox) -> Answer<()> {
        match self.find_mailbox(name) {
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
