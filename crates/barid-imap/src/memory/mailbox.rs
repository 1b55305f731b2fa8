//! A selected mailbox.

use barid_types::{Flag, FlagSet, Uid, UidSet, UidValidity};

use super::view::MemoryView;
use super::{MemoryMessage, Shared, locked};
use crate::backend::{Answer, Copied, Mailbox, Refusal, StoreRequest, Stored};
use crate::command::{MailboxName, StoreHow};

/// A selected mailbox in memory.
#[derive(Debug)]
pub struct MemoryMailbox {
    shared: Shared,
    name: MailboxName,
    uidvalidity: UidValidity,
    read_only: bool,
    /// The newest view that was there.
    last: MemoryView,
}

impl MemoryMailbox {
    pub(super) fn new(
        shared: Shared,
        name: &MailboxName,
        uidvalidity: UidValidity,
        read_only: bool,
    ) -> Self {
        let last = locked(&shared).state(&name.0).map(MemoryView::of).unwrap_or_default();
        Self { shared, name: name.clone(), uidvalidity, read_only, last }
    }

    fn now(&self) -> Option<MemoryView> {
        let mailboxes = locked(&self.shared);
        let state = mailboxes.state(&self.name.0).ok()?;
        (state.uidvalidity == self.uidvalidity).then(|| MemoryView::of(state))
    }

    fn is_named<'u>(uids: &'u [Uid]) -> impl Fn(&MemoryMessage) -> bool + 'u {
        |message| uids.binary_search(&message.uid).is_ok()
    }
}

fn removed() -> Refusal {
    let text = "The selected mailbox was removed or renamed";
    Refusal { is_fatal: true, ..Refusal::new("UNAVAILABLE", text) }
}

impl Mailbox for MemoryMailbox {
    type View = MemoryView;

    fn view(&self) -> MemoryView {
        self.now().unwrap_or_else(|| self.last.clone())
    }

    fn refresh(&mut self) -> Answer<MemoryView> {
        self.last = self.now().ok_or_else(removed)?;
        Ok(self.last.clone())
    }

    fn id(&self) -> String {
        format!("F{}", self.uidvalidity)
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn takes_keywords(&self) -> bool {
        true
    }

    fn recent(&mut self) -> Answer<UidSet> {
        let mailboxes = locked(&self.shared);
        let state = mailboxes.state(&self.name.0)?;
        let uids = state.messages.iter().map(|message| message.uid);
        Ok(uids.filter(|uid| *uid >= state.recent_from).collect())
    }

    fn claim_recent(&mut self) -> Answer<UidSet> {
        let recent = self.recent()?;
        let mut mailboxes = locked(&self.shared);
        let state = mailboxes.change(&self.name.0)?;
        state.recent_from = state.uidnext;
        Ok(recent)
    }

    fn store(&mut self, request: &StoreRequest<'_>) -> Answer<Stored> {
        let mut mailboxes = locked(&self.shared);
        let state = mailboxes.change(&self.name.0)?;
        let mut stored = Stored::default();
        let asked: Vec<String> =
            request.flags.keywords.iter().map(|keyword| keyword.as_str().to_owned()).collect();
        state.learn(&asked);
        state.modseq = state.modseq.next();
        let modseq = state.modseq;
        for uid in request.uids {
            let Ok(at) = state.messages.binary_search_by_key(uid, |message| message.uid) else {
                stored.gone.push(*uid);
                continue;
            };
            let message = &mut state.messages[at];
            if request.unchanged_since.is_some_and(|since| message.modseq > since) {
                stored.modified.push(*uid);
                continue;
            }
            let (had, flags) = (message.flags.bits(), request.flags.flags.bits());
            let is_asked = |keyword: &String| asked.contains(keyword);
            let bits = match request.how {
                StoreHow::Replace => flags,
                StoreHow::Add => had | flags,
                StoreHow::Remove => had & !flags,
            };
            match request.how {
                StoreHow::Replace => message.keywords.clone_from(&asked),
                StoreHow::Add => {
                    message.keywords.retain(|keyword| !is_asked(keyword));
                    message.keywords.extend_from_slice(&asked);
                }
                StoreHow::Remove => message.keywords.retain(|keyword| !is_asked(keyword)),
            }
            message.flags = FlagSet::from_bits(bits).without(Flag::Recent);
            message.modseq = modseq;
        }
        Ok(stored)
    }

    fn expunge(&mut self, uids: Option<&[Uid]>) -> Answer<u32> {
        let mut mailboxes = locked(&self.shared);
        let is_deleted = |message: &MemoryMessage| {
            message.flags.contains(Flag::Deleted)
                && uids.is_none_or(|uids| uids.binary_search(&message.uid).is_ok())
        };
        Ok(mailboxes.change(&self.name.0)?.remove(&is_deleted))
    }

    fn remove(&mut self, uids: &[Uid]) -> Answer<()> {
        locked(&self.shared).change(&self.name.0)?.remove(&Self::is_named(uids));
        Ok(())
    }

    fn copy(&mut self, uids: &[Uid], to: &MailboxName, moves: bool) -> Answer<Copied> {
        let mut mailboxes = locked(&self.shared);
        let source = mailboxes.state(&self.name.0)?;
        let named = source.messages.iter().filter(|message| Self::is_named(uids)(message));
        let messages: Vec<MemoryMessage> = named.cloned().collect();
        if messages.len() != uids.len() {
            return Err(Refusal::new("EXPUNGEISSUED", "Some of the messages no longer exist"));
        }
        let target = mailboxes.change(&to.0);
        let target = target.map_err(|refusal| Refusal::new("TRYCREATE", refusal.text))?;
        let mut copied = Copied { uidvalidity: Some(target.uidvalidity), ..Copied::default() };
        for MemoryMessage { uid, flags, keywords, bytes, .. } in messages {
            copied.from.push(uid);
            copied.to.push(target.push(bytes, flags, keywords));
        }
        if moves {
            mailboxes.change(&self.name.0)?.remove(&Self::is_named(uids));
        }
        Ok(copied)
    }
}
