//! A mailbox at one moment.

use std::sync::Arc;

use barid_query::search::{SearchKey, SearchNode, SearchProgram, ranges_contain};
use barid_query::{SortProgram, ThreadAlgorithm, Threads};
use barid_types::{Flag, InternalDate, ModSeq, Uid, UidSet, UidValidity};

use super::{MailboxState, MemoryMessage};
use crate::backend::{
    Answer, FetchStyle, Fetched, MailView, MessageFlags, ModSeqChanges, Output, Refusal,
    ViewChange, ViewNumbers,
};
use crate::fetch::{FetchItem, FetchItems, literal, number, write_date};

/// A view of a mailbox in memory.
#[derive(Clone, Debug)]
pub struct MemoryView(Arc<MailboxState>);

impl Default for MemoryView {
    fn default() -> Self {
        Self(Arc::new(MailboxState::new(UidValidity::MIN)))
    }
}

impl MemoryView {
    pub(super) fn of(state: &Arc<MailboxState>) -> Self {
        Self(Arc::clone(state))
    }

    fn at(&self, uid: Uid) -> Option<usize> {
        self.0.messages.binary_search_by_key(&uid, |message| message.uid).ok()
    }

    fn matches(&self, row: usize, key: &SearchKey, saved: &UidSet) -> bool {
        let message = &self.0.messages[row];
        let has_text = |text: &str| {
            text.is_empty() || memchr::memmem::find(&message.bytes, text.as_bytes()).is_some()
        };
        match key {
            SearchKey::Flag(flag) => message.flags.contains(*flag),
            SearchKey::Keyword(keyword) => message.has(keyword.as_str()),
            SearchKey::Seq(set) => ranges_contain(&set.resolve(self.len()), row as u32 + 1),
            SearchKey::Uid(_) | SearchKey::UidAfter(_) | SearchKey::UidBefore(_) => {
                let last = self.0.messages.last().map_or(0, |message| message.uid.get());
                let ranges = key.uid_ranges(last).unwrap_or_default();
                ranges_contain(&ranges, message.uid.get())
            }
            SearchKey::EmailId(id) => *id == format!("M{}", message.uid),
            SearchKey::Saved => saved.contains(message.uid),
            SearchKey::Larger(size) => message.bytes.len() as u64 > *size,
            SearchKey::Smaller(size) => (message.bytes.len() as u64) < *size,
            SearchKey::ModSeq(modseq) => message.modseq.get() >= *modseq,
            SearchKey::Address(_, text)
            | SearchKey::Subject(text)
            | SearchKey::Header(_, text)
            | SearchKey::Body(text)
            | SearchKey::Text(text) => has_text(text),
            SearchKey::All | SearchKey::Younger(_) => true,
            _ => false,
        }
    }

    fn write_item(message: &MemoryMessage, item: &FetchItem, is_recent: bool, out: &mut Vec<u8>) {
        item.push_name(out);
        out.push(b' ');
        match item {
            FetchItem::Uid => number(message.uid.get().into(), out),
            FetchItem::Flags => {
                let mut words: Vec<&str> = message.flags.iter().map(|flag| flag.name()).collect();
                words.extend(message.keywords.iter().map(String::as_str));
                words.extend(is_recent.then_some("\\Recent"));
                out.extend_from_slice(format!("({})", words.join(" ")).as_bytes());
            }
            FetchItem::ModSeq => out.extend_from_slice(format!("({})", message.modseq).as_bytes()),
            FetchItem::InternalDate => write_date(message.date, out),
            FetchItem::Rfc822Size => number(message.bytes.len() as u64, out),
            FetchItem::EmailId => out.extend_from_slice(format!("(M{})", message.uid).as_bytes()),
            FetchItem::Section { .. } => literal(&message.bytes, out),
            _ => out.extend_from_slice(b"NIL"),
        }
    }
}

impl MailView for MemoryView {
    fn numbers(&self) -> Answer<ViewNumbers> {
        let MailboxState { uidvalidity, uidnext, modseq, messages, .. } = &*self.0;
        let unseen = messages.iter().filter(|message| !message.flags.contains(Flag::Seen)).count();
        Ok(ViewNumbers {
            exists: self.len(),
            unseen: unseen as u32,
            uidvalidity: *uidvalidity,
            uidnext: *uidnext,
            highest_modseq: *modseq,
        })
    }

    fn len(&self) -> u32 {
        self.0.messages.len() as u32
    }

    fn uid_of(&self, row: u32) -> Answer<Uid> {
        let message = self.0.messages.get(row as usize);
        message.map(|message| message.uid).ok_or_else(|| Refusal::text("There is no such row"))
    }

    fn uids_of(&self, rows: &[u32]) -> Answer<Vec<Uid>> {
        rows.iter().map(|row| self.uid_of(*row)).collect()
    }

    fn row_from(&self, uid: Uid) -> Answer<u32> {
        Ok(self.0.messages.partition_point(|message| message.uid < uid) as u32)
    }

    fn uids_in(&self, ranges: &[(u32, u32)], by_number: bool) -> Answer<Vec<Uid>> {
        let in_ranges =
            |number: u32| ranges.iter().any(|(first, last)| (*first..=*last).contains(&number));
        let named = (1..)
            .zip(&self.0.messages)
            .filter(|(row, message)| in_ranges(if by_number { *row } else { message.uid.get() }));
        Ok(named.map(|(_, message)| message.uid).collect())
    }

    fn keywords(&self) -> Vec<String> {
        self.0.keywords.clone()
    }

    fn first_with(&self, flag: Flag, has: bool) -> Answer<Option<u32>> {
        let is_it = |message: &MemoryMessage| message.flags.contains(flag) == has;
        Ok(self.0.messages.iter().position(is_it).map(|row| row as u32))
    }

    fn uids_with(&self, flag: Flag) -> Answer<Vec<Uid>> {
        let with = self.0.messages.iter().filter(|message| message.flags.contains(flag));
        Ok(with.map(|message| message.uid).collect())
    }

    fn flags_of(&self, uids: &[Uid]) -> Answer<Vec<MessageFlags>> {
        let found = uids.iter().filter_map(|uid| self.at(*uid));
        Ok(found
            .map(|at| {
                let MemoryMessage { uid, flags, keywords, modseq, .. } = &self.0.messages[at];
                let (uid, flags, modseq) = (*uid, *flags, *modseq);
                MessageFlags { uid, flags, keywords: keywords.clone(), modseq }
            })
            .collect())
    }

    fn changes_since(&self, before: &Self) -> Answer<Vec<ViewChange>> {
        if before.0.uidvalidity != self.0.uidvalidity {
            return Ok(vec![ViewChange::Renumbered]);
        }
        let gone = before.0.messages.iter().filter(|message| self.at(message.uid).is_none());
        let mut changes: Vec<_> = gone.map(|message| ViewChange::Expunged(message.uid)).collect();
        let (mut flags, mut new) = (Vec::new(), Vec::new());
        for message in &self.0.messages {
            match before.at(message.uid) {
                None => new.push(ViewChange::New(message.uid)),
                Some(at) => {
                    let old = &before.0.messages[at];
                    if (old.flags, &old.keywords) != (message.flags, &message.keywords) {
                        flags.push(ViewChange::Flags(message.uid));
                    } else if old.modseq != message.modseq {
                        flags.push(ViewChange::ModSeq(message.uid));
                    }
                }
            }
        }
        changes.append(&mut flags);
        changes.append(&mut new);
        Ok(changes)
    }

    fn changes_since_modseq(&self, modseq: ModSeq) -> Answer<ModSeqChanges> {
        let changed = self.0.messages.iter().filter(|message| message.modseq > modseq);
        let vanished = self.0.expunged.iter().filter(|(_, at)| *at > modseq);
        Ok(ModSeqChanges {
            changed: changed.map(|message| (message.uid, message.modseq)).collect(),
            vanished: vanished.map(|(uid, _)| *uid).collect(),
        })
    }

    fn fetch(
        &self,
        uids: &[Uid],
        items: &FetchItems,
        style: &FetchStyle<'_>,
        out: &mut dyn Output,
    ) -> Answer<Fetched> {
        let mut fetched = Fetched::default();
        for uid in uids {
            let Some(at) = self.at(*uid) else {
                fetched.gone.push(*uid);
                continue;
            };
            let (name, shown) = match (style.number_of)(*uid, at as u32) {
                0 => continue,
                _ if style.uid_only => ("UIDFETCH", uid.get()),
                number => ("FETCH", number),
            };
            let mut line = format!("* {shown} {name} (").into_bytes();
            for (index, item) in items.items().iter().enumerate() {
                if index > 0 {
                    line.push(b' ');
                }
                let is_recent = (style.is_recent)(*uid);
                Self::write_item(&self.0.messages[at], item, is_recent, &mut line);
            }
            line.extend_from_slice(b")\r\n");
            if !out.write(&line) {
                fetched.is_stopped = true;
                break;
            }
        }
        Ok(fetched)
    }

    fn search(&self, program: &SearchProgram, saved: &UidSet) -> Answer<Vec<u32>> {
        let mut rows = Vec::new();
        for row in 0..self.0.messages.len() {
            let mut values: Vec<bool> = Vec::with_capacity(program.nodes().len());
            for node in program.nodes() {
                let value_of = |id: &u32| values.get(*id as usize).copied().unwrap_or_default();
                let value = match node {
                    SearchNode::Key(key) => self.matches(row, key, saved),
                    SearchNode::Not(id) => !value_of(id),
                    SearchNode::And(ids) => ids.iter().all(value_of),
                    SearchNode::Or(ids) => ids.iter().any(value_of),
                };
                values.push(value);
            }
            if values.last() == Some(&true) {
                rows.push(row as u32);
            }
        }
        Ok(rows)
    }

    /// Returns the messages from the newest to the oldest, whatever the program.
    fn sort(&self, _: &SortProgram) -> Answer<Vec<u32>> {
        Ok((0..self.len()).rev().collect())
    }

    fn threads(&self, _: ThreadAlgorithm, _: Option<&[u32]>) -> Answer<Threads> {
        Ok(Threads::default())
    }

    fn internal_date(&self, uid: Uid) -> Answer<Option<InternalDate>> {
        Ok(self.at(uid).map(|at| self.0.messages[at].date))
    }
}
