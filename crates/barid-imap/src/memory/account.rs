//! The account.

use std::sync::Arc;

use super::mailbox::MemoryMailbox;
use super::{Shared, locked, nonexistent};
use crate::backend::{
    Account, Answer, Appended, ListedMailbox, Namespace, QuotaResource, Refusal, StatusValue,
};
use crate::command::{AppendMessage, ListCommand, MailboxName, StatusItem};
use crate::limits::LITERAL_LEN_MAX;

/// An account in memory. A copy is another session of the same user.
#[derive(Debug, Default)]
pub struct MemoryAccount {
    shared: Shared,
    /// Messages that are being received, with the mailbox.
    received: Vec<(AppendMessage, Vec<u8>)>,
}

impl Clone for MemoryAccount {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), received: Vec::new() }
    }
}

impl MemoryAccount {
    /// Creates an account whose INBOX has these messages.
    pub fn new(messages: &[&str]) -> Self {
        let account = Self::default();
        let mut mailboxes = locked(&account.shared);
        if mailboxes.create(MailboxName::INBOX).is_ok()
            && let Ok(inbox) = mailboxes.change(MailboxName::INBOX)
        {
            for message in messages {
                inbox.push(message.as_bytes().into(), Default::default(), Vec::new());
            }
        }
        drop(mailboxes);
        account
    }
}

impl Account for MemoryAccount {
    type Mailbox = MemoryMailbox;

    fn user(&self) -> &str {
        "user"
    }

    fn separator(&self) -> char {
        '/'
    }

    fn namespaces(&self) -> Vec<Namespace> {
        vec![Namespace { prefix: String::new() }]
    }

    fn open(&mut self, name: &MailboxName, read_only: bool) -> Answer<MemoryMailbox> {
        let uidvalidity = locked(&self.shared).state(&name.0)?.uidvalidity;
        Ok(MemoryMailbox::new(Arc::clone(&self.shared), name, uidvalidity, read_only))
    }

    fn list(&mut self, _: &ListCommand) -> Answer<Vec<ListedMailbox>> {
        let listed = |name: &String| ListedMailbox {
            name: name.clone(),
            exists: true,
            is_selectable: true,
            may_have_children: true,
            ..ListedMailbox::default()
        };
        Ok(locked(&self.shared).by_name.keys().map(listed).collect())
    }

    fn status(
        &mut self,
        name: &MailboxName,
        items: &[StatusItem],
    ) -> Answer<Vec<(StatusItem, StatusValue)>> {
        let mailboxes = locked(&self.shared);
        let state = mailboxes.state(&name.0)?;
        let value = |item: &StatusItem| match item {
            StatusItem::Messages => StatusValue::Number(state.messages.len() as u64),
            StatusItem::UidNext => StatusValue::Number(state.uidnext.get().into()),
            StatusItem::UidValidity => StatusValue::Number(state.uidvalidity.get().into()),
            StatusItem::HighestModSeq => StatusValue::Number(state.modseq.get()),
            StatusItem::MailboxId => StatusValue::Id(format!("F{}", state.uidvalidity)),
            _ => StatusValue::Number(0),
        };
        Ok(items.iter().map(|item| (*item, value(item))).collect())
    }

    fn create(&mut self, name: &MailboxName, _: bool, _: &[String]) -> Answer<()> {
        locked(&self.shared).create(&name.0)
    }

    fn delete(&mut self, name: &MailboxName) -> Answer<()> {
        if name.is_inbox() {
            return Err(Refusal::new("CANNOT", "INBOX cannot be deleted"));
        }
        locked(&self.shared).by_name.remove(&name.0).map(drop).ok_or_else(nonexistent)
    }

    fn rename(&mut self, from: &MailboxName, to: &MailboxName) -> Answer<()> {
        let mut mailboxes = locked(&self.shared);
        if from.is_inbox() {
            return Err(Refusal::new("CANNOT", "INBOX cannot be renamed"));
        }
        if mailboxes.by_name.contains_key(&to.0) {
            return Err(Refusal::new("ALREADYEXISTS", "There is such a mailbox"));
        }
        let state = mailboxes.by_name.remove(&from.0).ok_or_else(nonexistent)?;
        mailboxes.by_name.insert(to.0.clone(), state);
        Ok(())
    }

    fn subscribe(&mut self, _: &MailboxName, _: bool) -> Answer<()> {
        Ok(())
    }

    fn append_begin(&mut self, message: &AppendMessage) -> Answer<()> {
        if let Err(refusal) = locked(&self.shared).state(&message.mailbox.0) {
            return Err(Refusal::new("TRYCREATE", refusal.text));
        }
        self.received.push((message.clone(), Vec::new()));
        Ok(())
    }

    fn append_literal(&mut self, len: u64, _: bool) -> Answer<()> {
        match len > LITERAL_LEN_MAX {
            true => Err(Refusal::new("TOOBIG", "The message is too large")),
            false => Ok(()),
        }
    }

    fn append_bytes(&mut self, bytes: &[u8]) -> Answer<()> {
        if let Some((_, received)) = self.received.last_mut() {
            received.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn append_url(&mut self, _: &str) -> Answer<()> {
        Err(Refusal::new("BADURL", "There are no URLs here"))
    }

    fn append(&mut self) -> Answer<Appended> {
        let received = std::mem::take(&mut self.received);
        let Some((first, _)) = received.first() else {
            return Err(Refusal::text("No message was received"));
        };
        let mut mailboxes = locked(&self.shared);
        let state = mailboxes.change(&first.mailbox.0)?;
        let mut uids = Vec::with_capacity(received.len());
        for (message, bytes) in &received {
            let keywords = message.flags.keywords.iter();
            let keywords = keywords.map(|keyword| keyword.as_str().to_owned()).collect();
            uids.push(state.push(bytes.as_slice().into(), message.flags.flags, keywords));
        }
        Ok(Appended { uidvalidity: state.uidvalidity, uids })
    }

    fn append_abort(&mut self) {
        self.received.clear();
    }

    fn append_limit(&self) -> Option<u64> {
        Some(LITERAL_LEN_MAX)
    }

    fn quota(&mut self, _: Option<&MailboxName>) -> Answer<Vec<(String, Vec<QuotaResource>)>> {
        Ok(Vec::new())
    }

    fn metadata(&mut self, _: &MailboxName) -> Answer<Vec<(String, Vec<u8>)>> {
        Ok(Vec::new())
    }

    fn set_metadata(&mut self, _: &MailboxName, _: &[(String, Option<Vec<u8>>)]) -> Answer<()> {
        Err(Refusal::new("METADATA TOOMANY", "There is no metadata here"))
    }
}
