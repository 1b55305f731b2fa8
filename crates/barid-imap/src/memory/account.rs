//! The account.

use std::collections::BTreeMap;
use std::sync::Arc;

use barid_types::ModSeq;

use super::mailbox::MemoryMailbox;
use super::{Shared, locked, nonexistent};
use crate::backend::{
    Account, AccountNames, Answer, Appended, ListedMailbox, NamesChange, Namespace, QuotaResource,
    Refusal, StatusValue,
};
use crate::command::{AppendMessage, ListCommand, MailboxName, StatusItem};
use crate::limits::{LIST_LEN_MAX, LITERAL_LEN_MAX};

/// An account in memory. A copy is another session of the same user.
#[derive(Debug, Default)]
pub struct MemoryAccount {
    shared: Shared,
    /// Messages that are being received, with the mailbox.
    received: Vec<(AppendMessage, Vec<u8>)>,
    /// Followed mailboxes with the mod-sequence that was seen.
    followed: BTreeMap<String, ModSeq>,
    /// The names that were returned last.
    names: Arc<AccountNames>,
}

impl Clone for MemoryAccount {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), ..Self::default() }
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
        let mailboxes = locked(&self.shared);
        let listed = |name: &String| ListedMailbox {
            name: name.clone(),
            exists: true,
            is_selectable: true,
            may_have_children: true,
            is_subscribed: mailboxes.subscribed.contains(name),
            ..ListedMailbox::default()
        };
        Ok(mailboxes.by_name.keys().map(listed).collect())
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
        mailboxes.renames = vec![(from.0.clone(), to.0.clone())];
        mailboxes.by_name.insert(to.0.clone(), state);
        Ok(())
    }

    fn subscribe(&mut self, name: &MailboxName, is_subscribed: bool) -> Answer<()> {
        let subscribed = &mut locked(&self.shared).subscribed;
        match is_subscribed {
            true => subscribed.insert(name.0.clone()),
            false => subscribed.remove(&name.0),
        };
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

    fn can_follow(&self) -> bool {
        true
    }

    fn follow(&mut self, names: &[String]) -> Answer<()> {
        let mailboxes = locked(&self.shared);
        let state = |name: &String| mailboxes.state(name).map(|state| state.modseq);
        if names.len() > LIST_LEN_MAX {
            return Err(Refusal::new(Refusal::NOTIFICATION_OVERFLOW, "Too many mailboxes"));
        }
        let before = std::mem::take(&mut self.followed);
        for name in names {
            let seen = before.get(name).copied();
            self.followed.extend(seen.or_else(|| state(name).ok()).map(|at| (name.clone(), at)));
        }
        Ok(())
    }

    fn changed(&mut self) -> Vec<String> {
        let mailboxes = locked(&self.shared);
        let mut changed = Vec::new();
        for (name, seen) in &mut self.followed {
            let Ok(state) = mailboxes.state(name) else { continue };
            if std::mem::replace(seen, state.modseq) != state.modseq {
                changed.push(name.clone());
            }
        }
        changed
    }

    fn names(&mut self, if_changed: bool) -> Answer<Option<NamesChange>> {
        let mailboxes = self.list(&ListCommand::default())?;
        let shared = locked(&self.shared);
        let names = AccountNames { mailboxes, metadata: shared.metadata.clone() };
        if if_changed && names == *self.names {
            return Ok(None);
        }
        self.names = Arc::new(names);
        let renames = shared.renames.clone();
        Ok(Some(NamesChange { names: Arc::clone(&self.names), renames }))
    }

    fn metadata(&mut self, name: &MailboxName) -> Answer<Vec<(String, Vec<u8>)>> {
        let entries = locked(&self.shared).metadata.get(&name.0).cloned();
        Ok(entries.unwrap_or_default().into_iter().collect())
    }

    fn set_metadata(
        &mut self,
        name: &MailboxName,
        entries: &[(String, Option<Vec<u8>>)],
    ) -> Answer<()> {
        let mut mailboxes = locked(&self.shared);
        let metadata = mailboxes.metadata.entry(name.0.clone()).or_default();
        for (entry, value) in entries {
            match value {
                Some(value) if value.len() + metadata.len() < LIST_LEN_MAX => {
                    metadata.insert(entry.clone(), value.clone());
                }
                Some(_) => return Err(Refusal::new("METADATA TOOMANY", "Too much metadata")),
                None => drop(metadata.remove(entry)),
            }
        }
        Ok(())
    }
}
