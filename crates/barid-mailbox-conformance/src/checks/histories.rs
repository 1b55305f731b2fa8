//! Random histories of two handles against a model.

use barid_mailbox::{ChangeSet, FlagChange};
use barid_types::{FlagSet, Keyword, Uid};
use fastrand::Rng;

use super::reading::check_outdated;
use super::{keywords, messages};
use crate::fixture::Fixture;
use crate::session::{Contents, MessageContent, StorageHandle};
use crate::texts::{canonical, text};

/// Steps of a history.
const STEPS: u32 = 250;
/// Messages of the model, above which more are expunged than appended.
const MESSAGES_MAX: usize = 40;

/// The messages that a storage must have.
struct History {
    model: Contents,
    keywords: Vec<Keyword>,
    appended: u32,
    rng: Rng,
}

pub(super) fn two_handles_follow_a_model(fixture: &dyn Fixture) {
    let mut handles = [StorageHandle::scanned(fixture), StorageHandle::scanned(fixture)];
    let keywords = keywords(&*handles[0].storage);
    let (model, rng) = (Contents::new(), Rng::with_seed(5));
    let mut history = History { model, keywords, appended: 0, rng };
    for step in 0..STEPS {
        let at = history.rng.usize(..2);
        match history.rng.u32(..10) {
            0 => handles[at].forget(),
            1 => fixture.pass_time(),
            2 | 3 => {}
            _ => history.change(&mut handles[at]),
        }
        history.check_others(&handles[1 - at]);
        handles[at].scan();
        let found = handles[at].contents();
        assert!(found == history.model, "step {step}, handle {at}: {}", history.difference(&found));
    }
    assert!(history.appended > STEPS / 2, "only {} messages", history.appended);
    assert_eq!(StorageHandle::scanned(fixture).contents(), history.model);
}

impl History {
    /// Makes a random change in the storage and in the model. The handle may be outdated.
    fn change(&mut self, session: &mut StorageHandle<'_>) {
        let known = session.uids();
        let expunge_one_of = if self.model.len() > MESSAGES_MAX { 3 } else { 12 };
        let mut changes = ChangeSet::default();
        for uid in known {
            match self.rng.u32(..expunge_one_of * 2) {
                0 | 1 => changes.expunge.push(uid),
                2 | 3 => changes.flags.push((uid, self.flag_change())),
                _ => {}
            }
        }
        changes.drop_recent = self.rng.u32(..8) == 0;
        let count = self.rng.u32(..3);
        let texts: Vec<_> = (0..count).map(|_| self.next_text()).collect();
        let mut appends = messages(&texts);
        for message in &mut appends {
            message.flags = FlagSet::from_bits(self.rng.u8(..32));
            message.keywords = self.some_keywords();
        }
        let report = session.sync(&changes, &appends);
        let is_gone = |uid: &&Uid| !self.model.contains_key(uid);
        let mut asked: Vec<Uid> = changes.flags.uids().chain(changes.expunge.clone()).collect();
        asked.sort();
        let gone: Vec<_> = asked.iter().filter(is_gone).copied().collect();
        assert_eq!(report.gone, gone, "messages that are gone are reported");
        self.apply(&changes);
        let uids = session.uids();
        for (message, uid) in appends.iter().zip(&uids[uids.len() - appends.len()..]) {
            let mut keywords: Vec<_> =
                message.keywords.iter().map(|keyword| keyword.as_str().to_owned()).collect();
            keywords.sort();
            let text = canonical(message.bytes);
            let content = MessageContent { flags: message.flags, keywords, text };
            assert!(self.model.insert(*uid, content).is_none(), "{uid} is new");
        }
    }

    fn apply(&mut self, changes: &ChangeSet) {
        for (uid, change) in changes.flags.iter() {
            let Some(content) = self.model.get_mut(&uid) else { continue };
            change.add.iter().for_each(|flag| content.flags = content.flags.with(flag));
            change.remove.iter().for_each(|flag| content.flags = content.flags.without(flag));
            let names = change.add_keywords.iter().map(|keyword| keyword.as_str().to_owned());
            content.keywords.extend(names);
            let is_left = |name: &String| {
                !change.remove_keywords.iter().any(|removed| removed.as_str() == name)
            };
            content.keywords.retain(is_left);
            content.keywords.sort();
            content.keywords.dedup();
        }
        changes.expunge.iter().for_each(|uid| drop(self.model.remove(uid)));
    }

    /// Checks what an outdated handle reads.
    fn check_others(&mut self, session: &StorageHandle<'_>) {
        for _ in 0..3 {
            let Some(row) = self.rng.choice(session.known.rows()) else { return };
            if let Some(content) = self.model.get(&row.uid) {
                check_outdated(session, row, &content.text);
            }
        }
    }

    fn next_text(&mut self) -> Vec<u8> {
        self.appended += 1;
        text(self.appended, &mut self.rng)
    }

    fn some_keywords(&mut self) -> Vec<Keyword> {
        let rng = &mut self.rng;
        self.keywords.iter().filter(|_| rng.u8(..4) == 0).cloned().collect()
    }

    fn flag_change(&mut self) -> FlagChange {
        let bits = self.rng.u8(..32);
        let add = FlagSet::from_bits(bits & self.rng.u8(..));
        let remove = FlagSet::from_bits(!bits & self.rng.u8(..32));
        let [add_keywords, removed] = [self.some_keywords(), self.some_keywords()];
        let remove_keywords =
            removed.into_iter().filter(|keyword| !add_keywords.contains(keyword)).collect();
        FlagChange { add, remove, add_keywords, remove_keywords }
    }

    fn difference(&self, found: &Contents) -> String {
        let uids = self.model.keys().chain(found.keys());
        let differs = uids.filter(|uid| self.model.get(uid) != found.get(uid));
        let show = |content: Option<&MessageContent>| {
            content.map(|content| (content.flags, content.keywords.clone(), content.text.len()))
        };
        let lines = differs.map(|uid| {
            format!("{uid}: {:?}, found {:?}", show(self.model.get(uid)), show(found.get(uid)))
        });
        lines.collect::<Vec<_>>().join("; ")
    }
}
