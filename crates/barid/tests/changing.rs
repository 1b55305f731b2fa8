//! Random histories of two processes that change one mailbox equal a model.

use std::sync::Arc;

use barid::{
    ChangeRequest, Error, Flag, FlagChange, FlagSet, Keyword, Mailbox, OpenOptions, WriteWhen,
};
use barid_testkit::Scratch;
use barid_vfs::OsVfs;

use crate::arena::{Arena, Expected, FORMATS, KEYWORDS, found, keeping, keyword, later, now, uid};

/// Number of histories in memory of each format, and on the disk.
const HISTORIES: u64 = 60;
const HISTORIES_ON_DISK: u64 = 6;
const STEPS: u32 = 25;

/// The expected messages of the mailbox, and those that can be restored.
struct Model {
    messages: Vec<Expected>,
    kept: Vec<Option<Vec<Expected>>>,
}

struct History {
    arena: Arena,
    model: Model,
    random: fastrand::Rng,
    flagged_later: u32,
}

#[test]
fn two_processes_in_memory_equal_a_model() {
    for format in FORMATS {
        let mut later = 0;
        for seed in 0..HISTORIES {
            later += History::new(Arena::in_memory(format, seed), seed).run();
        }
        println!("{format}: {HISTORIES} histories, {later} times flags were accepted");
    }
}

#[test]
fn two_processes_on_a_disk_equal_a_model() {
    for format in FORMATS {
        for seed in 0..HISTORIES_ON_DISK {
            let scratch = Scratch::new("changing").unwrap();
            let arena = Arena::new(Arc::new(OsVfs), scratch.path(), format, seed);
            History::new(arena, seed).run();
        }
    }
}

impl History {
    fn new(arena: Arena, seed: u64) -> Self {
        let model = Model { messages: Vec::new(), kept: Vec::new() };
        Self { arena, model, random: fastrand::Rng::with_seed(seed), flagged_later: 0 }
    }

    fn run(mut self) -> u32 {
        let first = self.random.u64(0..20);
        self.arena.deliver(first);
        let mut one = self.arena.open();
        self.learn(&mut one);
        let mut two = self.arena.open_without_cache();
        let (mut before, mut last) = (0, found(&one));
        for step in 0..STEPS {
            let (actor, other) =
                if self.random.bool() { (&mut one, &mut two) } else { (&mut two, &mut one) };
            let what = self.step(actor);
            let expected: Vec<_> = self.model.messages.iter().map(Expected::found).collect();
            let context = format!("step {step}: {what}");
            actor.refresh().unwrap();
            assert_eq!(found(actor), expected, "{context}");
            other.refresh().unwrap();
            assert_eq!(found(other), expected, "{context}, seen by the other");
            let unseen = expected.iter().filter(|found| !found.flags.contains(Flag::Seen)).count();
            assert_eq!(other.status().unseen as usize, unseen, "{context}");
            let modseq = actor.status().highest_modseq.get();
            assert!(modseq > before || expected == last, "{context}: a change has a new modseq");
            before = modseq.max(before);
            last = expected.clone();
            if self.random.u32(0..4) == 0 {
                one = self.arena.open();
                assert_eq!(found(&one), expected, "{context}, opened anew");
                assert_eq!(found(&self.arena.open_without_cache()), expected, "{context}");
            }
        }
        one.sync(&now()).unwrap();
        assert_eq!(one.pending(), 0);
        self.arena.check_texts(&mut one, &self.model.messages);
        // Pending changes are no longer needed.
        let options = OpenOptions { full_check: true, ..self.arena.options() };
        let expected: Vec<_> = self.model.messages.iter().map(Expected::found).collect();
        assert_eq!(found(&self.arena.try_open(&options).unwrap()), expected);
        self.flagged_later
    }

    /// Adds delivered messages to the model; no client has set their flags.
    fn learn(&mut self, mailbox: &mut Mailbox) {
        mailbox.refresh().unwrap();
        let known = self.model.messages.len();
        let new = found(mailbox).split_off(known);
        let first = self.arena.delivered - new.len() as u64;
        for (number, found) in (first..).zip(new) {
            let date = self.arena.corpus.message(number).date;
            assert_eq!((found.flags, found.date), (FlagSet::EMPTY, date));
            let (flags, keywords) = (FlagSet::EMPTY, found.keywords);
            self.model.messages.push(Expected { uid: found.uid, number, flags, keywords, date });
        }
    }

    fn step(&mut self, actor: &mut Mailbox) -> String {
        match self.random.u32(0..12) {
            0 => {
                let count = self.random.u64(1..4);
                self.arena.deliver(count);
                self.learn(actor);
                "deliver".to_owned()
            }
            1..=5 => self.flag(actor),
            6 | 7 => self.expunge(actor),
            8 => {
                let extra = (0..self.random.usize(1..4)).map(|_| self.some_flags()).collect();
                let (_, new) = self.arena.append(actor, extra);
                self.model.messages.extend(new);
                "append".to_owned()
            }
            9 => {
                let changed = actor.sync(&now()).unwrap();
                assert_eq!((changed.pending, changed.ambiguous), (0, 0));
                format!("sync {changed:?}")
            }
            10 => self.undo(actor),
            _ => {
                actor.refresh().unwrap();
                "refresh".to_owned()
            }
        }
    }

    fn some_flags(&mut self) -> (FlagSet, Vec<Keyword>) {
        let flags = FlagSet::from_bits(self.random.u8(..)).without(Flag::Recent);
        let names = KEYWORDS.iter().filter(|_| self.random.u32(0..3) == 0);
        (flags, names.map(|name| keyword(name)).collect())
    }

    /// Returns some UIDs as the actor knows them, which may be expunged by now, and one that never
    /// existed.
    fn some_uids(&mut self, actor: &Mailbox, one_in: u32) -> Vec<u32> {
        let mut uids = actor.uids().unwrap();
        uids.retain(|_| self.random.u32(0..one_in) == 0);
        if self.random.u32(0..5) == 0 {
            uids.push(1_000_000);
        }
        uids
    }

    fn flag(&mut self, actor: &mut Mailbox) -> String {
        let write = if self.random.u32(0..4) == 0 { now() } else { later() };
        let one_in = if self.random.bool() { 3 } else { 10 };
        let mut flags = Vec::new();
        for number in self.some_uids(actor, one_in) {
            let (add, add_keywords) = self.some_flags();
            let (remove, mut remove_keywords) = self.some_flags();
            remove_keywords.retain(|name| !add_keywords.contains(name));
            let remove = FlagSet::from_bits(remove.bits() & !add.bits());
            flags.push((uid(number), FlagChange { add, remove, add_keywords, remove_keywords }));
        }
        let request = ChangeRequest { flags: flags.into(), ..ChangeRequest::default() };
        let before = self.arena.content();
        let changed = actor.change(&request, &write).unwrap();
        let mut gone = Vec::new();
        for (uid, change) in request.flags.iter() {
            match self.model.messages.iter_mut().find(|message| message.uid == uid.get()) {
                Some(message) => message.apply(change),
                None => gone.push(uid),
            }
        }
        assert_eq!(changed.gone, gone);
        if write.write == WriteWhen::Pending && actor.pending() > 0 {
            assert_eq!(self.arena.content(), before, "what is pending is not written");
            self.flagged_later += 1;
        }
        format!("flag {:?} {request:?} {changed:?}", write.write)
    }

    fn expunge(&mut self, actor: &mut Mailbox) -> String {
        let uids = self.some_uids(actor, 6);
        let expunge = uids.iter().map(|number| uid(*number)).collect();
        let request = ChangeRequest { expunge, ..ChangeRequest::default() };
        let options = if self.random.u32(0..3) > 0 { keeping() } else { now() };
        let changed = actor.change(&request, &options).unwrap();
        let is_gone = |message: &Expected| uids.contains(&message.uid);
        let (gone, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.model.messages).into_iter().partition(is_gone);
        self.model.messages = left;
        assert_eq!(changed.expunged as usize, gone.len());
        assert_eq!(changed.gone.len(), uids.len() - gone.len());
        assert_eq!(changed.pending, 0);
        let keeps = options.keep_expunged != barid::KeepExpunged::No && !gone.is_empty();
        assert_eq!(changed.kept.is_some(), keeps);
        match (keeps, gone.is_empty()) {
            (true, _) => self.model.kept.push(Some(gone)),
            // A note is needed only if another expunge could be mistaken for this one.
            (false, false) if !self.model.kept.is_empty() => self.model.kept.push(None),
            (false, _) => {}
        }
        format!("expunge {uids:?}, kept {keeps}")
    }

    fn undo(&mut self, actor: &mut Mailbox) -> String {
        let mut kept = match self.model.kept.last_mut() {
            Some(Some(kept)) => std::mem::take(kept),
            Some(None) => {
                let error = actor.undo(&now()).unwrap_err();
                assert!(matches!(error, Error::NotKept { .. }), "{error}");
                let count = actor.discard_kept().unwrap() as usize;
                assert_eq!(count, std::mem::take(&mut self.model.kept).len());
                return "not kept".to_owned();
            }
            None => {
                let error = actor.undo(&now()).unwrap_err();
                assert!(matches!(error, Error::NothingToUndo { .. }), "{error}");
                return "nothing to undo".to_owned();
            }
        };
        self.model.kept.pop();
        let changed = actor.undo(&now()).unwrap();
        assert_eq!(changed.appended.len(), kept.len());
        for (message, uid) in kept.iter_mut().zip(&changed.appended) {
            message.uid = uid.get();
        }
        self.model.messages.extend(kept);
        format!("undo {:?}", changed.appended)
    }
}
