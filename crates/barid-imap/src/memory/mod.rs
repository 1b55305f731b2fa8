//! An account in memory, for tests and fuzzing: every session over a copy of it sees what the
//! others do. It has what the session needs and nothing else: texts are matched as bytes, and FETCH
//! answers flags, numbers, sizes and whole messages.

mod account;
mod mailbox;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barid_types::{Flag, FlagSet, InternalDate, ModSeq, Uid, UidValidity};

pub use self::account::MemoryAccount;
pub use self::mailbox::MemoryMailbox;
pub use self::view::MemoryView;
use crate::backend::{Answer, MetadataEntries, Refusal};

/// A message.
#[derive(Clone, Debug)]
struct MemoryMessage {
    uid: Uid,
    flags: FlagSet,
    keywords: Vec<String>,
    modseq: ModSeq,
    date: InternalDate,
    bytes: Arc<[u8]>,
}

impl MemoryMessage {
    fn has(&self, keyword: &str) -> bool {
        self.keywords.iter().any(|other| other.eq_ignore_ascii_case(keyword))
    }
}

/// A mailbox at one moment.
#[derive(Clone, Debug)]
struct MailboxState {
    uidvalidity: UidValidity,
    uidnext: Uid,
    modseq: ModSeq,
    messages: Vec<MemoryMessage>,
    keywords: Vec<String>,
    expunged: Vec<(Uid, ModSeq)>,
    /// The first UID that is recent for no session yet.
    recent_from: Uid,
}

impl MailboxState {
    fn new(uidvalidity: UidValidity) -> Self {
        Self {
            uidvalidity,
            uidnext: Uid::MIN,
            modseq: ModSeq::new(1).unwrap_or_default(),
            messages: Vec::new(),
            keywords: Vec::new(),
            expunged: Vec::new(),
            recent_from: Uid::MIN,
        }
    }

    /// Adds a message; returns its UID.
    fn push(&mut self, bytes: Arc<[u8]>, flags: FlagSet, keywords: Vec<String>) -> Uid {
        let uid = self.uidnext;
        self.uidnext = uid.next().unwrap_or(uid);
        self.modseq = self.modseq.next();
        self.learn(&keywords);
        let (modseq, date) = (self.modseq, InternalDate::default());
        let flags = flags.without(Flag::Recent);
        self.messages.push(MemoryMessage { uid, flags, keywords, modseq, date, bytes });
        uid
    }

    fn learn(&mut self, keywords: &[String]) {
        for keyword in keywords {
            if !self.keywords.contains(keyword) {
                self.keywords.push(keyword.clone());
            }
        }
    }

    /// Removes messages; returns how many.
    fn remove(&mut self, is_gone: &dyn Fn(&MemoryMessage) -> bool) -> u32 {
        let before = self.messages.len();
        self.modseq = self.modseq.next();
        for message in self.messages.iter().filter(|message| is_gone(message)) {
            self.expunged.push((message.uid, self.modseq));
        }
        self.messages.retain(|message| !is_gone(message));
        (before - self.messages.len()) as u32
    }
}

/// The mailboxes of an account, by name.
#[derive(Debug, Default)]
struct Mailboxes {
    by_name: BTreeMap<String, Arc<MailboxState>>,
    uidvalidity_last: u32,
    subscribed: BTreeSet<String>,
    metadata: BTreeMap<String, MetadataEntries>,
    /// The last rename.
    renames: Vec<(String, String)>,
}

impl Mailboxes {
    fn create(&mut self, name: &str) -> Answer<()> {
        if self.by_name.contains_key(name) {
            return Err(Refusal::new("ALREADYEXISTS", "There is such a mailbox"));
        }
        self.uidvalidity_last += 1;
        let uidvalidity = UidValidity::new(self.uidvalidity_last).unwrap_or(UidValidity::MIN);
        self.by_name.insert(name.to_owned(), Arc::new(MailboxState::new(uidvalidity)));
        Ok(())
    }

    fn state(&self, name: &str) -> Answer<&Arc<MailboxState>> {
        self.by_name.get(name).ok_or_else(nonexistent)
    }

    fn change(&mut self, name: &str) -> Answer<&mut MailboxState> {
        self.by_name.get_mut(name).map(Arc::make_mut).ok_or_else(nonexistent)
    }
}

fn nonexistent() -> Refusal {
    Refusal::new("NONEXISTENT", "There is no such mailbox")
}

type Shared = Arc<Mutex<Mailboxes>>;

fn locked(shared: &Shared) -> MutexGuard<'_, Mailboxes> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
