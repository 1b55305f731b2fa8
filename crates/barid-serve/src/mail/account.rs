//! The account of one session.

use std::sync::Arc;

use barid::{Cancel, MailboxSpec, UidSet};
use barid_folders::Renamed;
use barid_imap::backend::{
    Account, Answer, Appended, ListedMailbox, Mailbox as _, NamesChange, Namespace, QuotaResource,
    Refusal, StatusValue,
};
use barid_imap::command::{AppendMessage, ListCommand, MailboxName, StatusItem};
use tokio::sync::Notify;

use super::append::{Received, Spool, finish_all};
use super::catenate;
use super::follow::SessionFollows;
use super::progress::UserProgress;
use super::refusal::refused;
use super::selected::{ServedMailbox, try_create};
use super::status;
use super::user::{StoredMessages, UserMail, refused_folder};
use crate::limits::APPEND_MEMORY_LEN;
use crate::quota::MailUse;

/// The account of one session.
pub struct SessionAccount {
    user: Arc<UserMail>,
    cancel: Cancel,
    /// The mailbox to which messages are being appended, as it was found at the beginning.
    append_to: Option<(MailboxName, MailboxSpec)>,
    received: Vec<Received>,
    spool: Spool,
    follows: SessionFollows,
    /// Woken when something changes that the session follows.
    wake: Arc<Notify>,
}

impl SessionAccount {
    /// Creates the account of a session; `cancel` ends its waits.
    pub fn new(user: Arc<UserMail>, cancel: Cancel) -> Self {
        let spool = Spool::new(Arc::clone(&user.vfs), &user.spool_dir);
        let wake = Arc::new(Notify::new());
        let follows = SessionFollows::new(Arc::clone(&user), Arc::clone(&wake));
        Self { user, cancel, append_to: None, received: Vec::new(), spool, follows, wake }
    }

    pub(crate) fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    pub(crate) fn progress(&self) -> &Arc<UserProgress> {
        &self.user.progress
    }

    fn is_possible(&self, len: u64) -> Answer<()> {
        match self.user.append_limit.filter(|limit| len > *limit) {
            Some(limit) => {
                Err(Refusal::new("TOOBIG", format!("At most {limit} bytes are possible")))
            }
            None => Ok(()),
        }
    }

    /// Refuses a large message before it is sent, if there cannot be room for it.
    fn has_room(&self, len: u64) -> Answer<()> {
        let is_first = self.received.len() == 1 && self.received.iter().all(Received::is_empty);
        if !is_first || len <= APPEND_MEMORY_LEN as u64 {
            return Ok(());
        }
        // At most every second byte is the CR of a line end, which is not stored.
        let room = MailUse { size: len / 2, messages: 1 };
        self.user.reserve(room, &self.cancel).map(drop)
    }
}

impl Account for SessionAccount {
    type Mailbox = ServedMailbox;

    fn user(&self) -> &str {
        &self.user.name
    }

    fn separator(&self) -> char {
        self.user.folders.separator()
    }

    fn namespaces(&self) -> Vec<Namespace> {
        self.user.folders.namespaces()
    }

    fn open(&mut self, name: &MailboxName, read_only: bool) -> Answer<ServedMailbox> {
        let shared = self.user.open_listed(name)?;
        let view = shared.refresh_listed(&self.cancel).map_err(refused)?;
        Ok(ServedMailbox {
            must_rename: false,
            late_recent: UidSet::new(),
            uidvalidity: view.view_status().uidvalidity,
            claimed: self.user.claimed_recent(view.id()),
            user: Arc::clone(&self.user),
            shared,
            name: name.clone(),
            read_only: read_only || self.user.read_only,
            cancel: self.cancel.clone(),
        })
    }

    fn list(&mut self, command: &ListCommand) -> Answer<Vec<ListedMailbox>> {
        self.user.folders.list(command).map_err(refused_folder)
    }

    fn status(
        &mut self,
        name: &MailboxName,
        items: &[StatusItem],
    ) -> Answer<Vec<(StatusItem, StatusValue)>> {
        let shared = self.user.open_listed(name)?;
        match status::needs_messages(items) {
            true => shared.refresh(&self.cancel),
            false => shared.refresh_listed(&self.cancel),
        }
        .map_err(refused)?;
        status::values(&self.user, &shared, items)
    }

    fn create(
        &mut self,
        name: &MailboxName,
        is_folder: bool,
        special_use: &[String],
    ) -> Answer<()> {
        self.user.folders.create(name, is_folder, special_use).map_err(refused_folder)?;
        self.user.followed.names_changed(&[name], None);
        Ok(())
    }

    fn delete(&mut self, name: &MailboxName) -> Answer<()> {
        self.user.release_mailboxes();
        self.user.folders.delete(name).map_err(refused_folder)?;
        self.user.followed.names_changed(&[name], None);
        Ok(())
    }

    fn rename(&mut self, from: &MailboxName, to: &MailboxName) -> Answer<()> {
        self.user.release_mailboxes();
        let renamed = self.user.folders.rename(from, to).map_err(refused_folder)?;
        let is_done = matches!(renamed, Renamed::Done);
        self.user.followed.names_changed(&[from, to], is_done.then_some((from, to)));
        match renamed {
            Renamed::Done => Ok(()),
            Renamed::MoveMessages { .. } => self.move_all(from, to),
        }
    }

    fn subscribe(&mut self, name: &MailboxName, is_subscribed: bool) -> Answer<()> {
        self.user.folders.subscribe(name, is_subscribed).map_err(refused_folder)?;
        self.user.followed.attributes_changed();
        Ok(())
    }

    fn append_begin(&mut self, message: &AppendMessage) -> Answer<()> {
        if message.is_first {
            let spec = self.user.folders.spec_of(&message.mailbox);
            let spec = spec.map_err(refused_folder).map_err(try_create)?;
            self.append_to = Some((message.mailbox.clone(), spec));
        }
        self.end_received()?;
        self.received.push(Received::new(message));
        Ok(())
    }

    fn append_literal(&mut self, len: u64, is_binary: bool) -> Answer<()> {
        self.is_possible(len)?;
        self.has_room(len)?;
        let Some(received) = self.received.last_mut() else { return Ok(()) };
        if is_binary { received.keep_binary(len) } else { Ok(()) }
    }

    fn append_bytes(&mut self, bytes: &[u8]) -> Answer<()> {
        let Some(received) = self.received.last_mut() else { return Ok(()) };
        received.push(bytes, &mut self.spool)
    }

    fn append_url(&mut self, url: &str) -> Answer<()> {
        let bytes = catenate::bytes_of(&self.user, url, &self.cancel)?;
        self.append_bytes(&bytes)
    }

    fn append(&mut self) -> Answer<Appended> {
        let stored = self.store_received();
        self.append_abort();
        stored
    }

    fn append_abort(&mut self) {
        self.received.clear();
        self.spool.clear();
        self.append_to = None;
    }

    fn append_limit(&self) -> Option<u64> {
        self.user.append_limit
    }

    fn quota(&mut self, _: Option<&MailboxName>) -> Answer<Vec<(String, Vec<QuotaResource>)>> {
        self.user.quota_roots(&self.cancel)
    }

    fn limited_resources(&self) -> Vec<&'static str> {
        self.user.limited_resources()
    }

    fn can_follow(&self) -> bool {
        true
    }

    fn follow(&mut self, names: &[String]) -> Answer<()> {
        self.follows.follow(names)
    }

    fn changed(&mut self) -> Vec<String> {
        self.follows.changed()
    }

    fn may_try_again(&mut self) -> bool {
        self.follows.may_try_again()
    }

    fn names(&mut self, if_changed: bool) -> Answer<Option<NamesChange>> {
        self.follows.names(if_changed)
    }

    fn metadata(&mut self, name: &MailboxName) -> Answer<Vec<(String, Vec<u8>)>> {
        self.user.folders.metadata(name).map_err(refused_folder)
    }

    fn set_metadata(
        &mut self,
        name: &MailboxName,
        entries: &[(String, Option<Vec<u8>>)],
    ) -> Answer<()> {
        self.user.folders.set_metadata(name, entries).map_err(refused_folder)?;
        self.user.followed.attributes_changed();
        Ok(())
    }
}

impl SessionAccount {
    /// Ends the message that is being received.
    fn end_received(&mut self) -> Answer<()> {
        match self.received.last_mut() {
            Some(received) => received.end(&mut self.spool),
            None => Ok(()),
        }
    }

    fn store_received(&mut self) -> Answer<Appended> {
        self.end_received()?;
        let received = std::mem::take(&mut self.received);
        let Some((name, spec)) = self.append_to.take() else {
            return Err(Refusal::text("No message was received"));
        };
        let target = match self.user.open_found(&spec) {
            Some(target) => target,
            // It was removed or renamed while the messages arrived.
            None => self.user.open_target(&name)?,
        };
        let messages = finish_all(received, &self.spool)?;
        let messages = StoredMessages { messages, is_alone: false, is_move: false };
        self.user.store(&target, messages, &self.cancel)
    }

    /// Moves the messages of INBOX to a mailbox that was made for them (RFC 9051 §6.3.6).
    fn move_all(&mut self, from: &MailboxName, to: &MailboxName) -> Answer<()> {
        let mut inbox = self.open(from, false)?;
        let view = inbox.refresh()?;
        let uids = view.view.uids_in(&[(1, u32::MAX)], false).map_err(refused)?;
        if !uids.is_empty() {
            let copied = inbox.copy(&uids, to, true)?;
            return copied.not_removed.map_or(Ok(()), Err);
        }
        Ok(())
    }
}
