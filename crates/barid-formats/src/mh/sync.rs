//! Changing messages: expunges by unlinks, flags and keywords in `.mh_sequences`.
//!
//! Everything happens under the lock of the sequences, which nmh holds while it renumbers. A
//! message that is not under its number is searched for by its mark. While a program that takes no
//! lock keeps changing the folder, a missing message does not count as gone: then nothing is
//! changed, and the error is [`Error::Changed`].
//!
//! Order: the sequence `deleted` without the messages to be expunged, if it names one; unlinks,
//! fsync of the folder; the sequences with all changes of flags, without the expunged messages, and
//! with the appended ones as unseen (a file beside, fsync, rename, fsync of the folder); then
//! appends (see `append.rs`). Commit point of an expunge: the unlink; of all flags: the rename of
//! the sequences. After a crash a message has its old flags or its new ones; a message whose
//! expunge was not reached has lost only \Deleted. Between the two a number may stay in sequences
//! without a message, but not in `deleted`: another program may give it to new mail. Our next
//! delivery clears that.
//!
//! A request to stop is noticed while messages are written under hidden names, which are then
//! removed, and between two batches of unlinks: messages unlinked until then stay expunged,
//! durably, and the rest of the change is not made.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;

use barid_mailbox::{
    ChangeProgress, ChangeSet, Error, Known, MessageName, NewMessage, Result, SyncContext,
    SyncFigures, SyncReport, sink_error,
};
use barid_types::{Flag, Keyword, Uid};

use super::append::{Drafts, RequestedUids};
use super::layout::EXPUNGE_BATCH;
use super::list::Lister;
use super::name::{Number, parse_place};
use super::sequences::{SequenceEdit, Sequences, SequencesLock, can_hold};
use super::{MhFolder, path_of};

/// Applies changes and appends.
pub(super) fn sync(
    folder: &MhFolder,
    changes: &ChangeSet,
    appends: &[NewMessage<'_>],
    context: &mut SyncContext<'_>,
) -> Result<SyncReport> {
    check_keywords(folder, changes, appends)?;
    let targets = MhTargets::load(context.known, changes)?;
    let is_nothing = targets.places.is_empty() && appends.is_empty();
    if context.dry_run || is_nothing {
        let mut work = MhChange::new(folder, &targets)?;
        work.find(context.known)?;
        return Ok(work.dry_report(changes));
    }
    let mut steps = context.steps(appends.len());
    let drafts = Drafts::write(folder, appends, &mut steps)?;
    let mode = folder.file_mode()?;
    let mut lock = SequencesLock::take(&folder.vfs, &folder.sequences, mode, &steps)?;
    let mut work = MhChange::new(folder, &targets)?;
    work.find(context.known)?;
    let mut steps = context.steps(changes.expunge.len());
    let expunged = work.expunge(&changes.expunge, mode, &mut lock, &mut steps)?;
    work.change_flags(changes);
    if work.sequences.is_changed() && appends.is_empty() {
        work.write_sequences(mode, &mut lock)?;
    }
    let mut appended = vec![None; appends.len()];
    if !appends.is_empty() {
        let in_use = drafts.numbers(&work.lister());
        let mut uids = None;
        let delivered = in_use.and_then(|in_use| {
            uids = RequestedUids::give(context.ledger.as_deref_mut(), context.known, appends)?;
            drafts.deliver(&in_use, &mut work.sequences, mode, &mut lock, uids.as_mut())
        });
        match delivered {
            Ok(barriers) => work.figures.barriers += barriers,
            Err(error) => return Err(work.without_appends(error, changes, mode, &mut lock)),
        }
        if let Some(uids) = uids.as_ref().filter(|uids| !uids.given.is_empty()) {
            appended = uids.given.iter().copied().map(Some).collect();
        }
        work.figures.bytes_appended = appends.iter().map(NewMessage::size).sum();
    }
    let mut failed = Vec::new();
    if let Some(ledger) = context.ledger.as_deref_mut()
        && !expunged.is_empty()
    {
        ledger.expunge(&expunged);
        if let Err(error) = ledger.commit() {
            failed.push(format!("UIDs of expunged messages are still in the ledger: {error}"));
        }
    }
    Ok(SyncReport {
        appended,
        gone: work.missing(changes),
        failed,
        figures: work.figures,
        ..SyncReport::default()
    })
}

/// Fails if a keyword that is to be set cannot be stored.
fn check_keywords(
    folder: &MhFolder,
    changes: &ChangeSet,
    appends: &[NewMessage<'_>],
) -> Result<()> {
    let of_changes = changes.flags.changes().flat_map(|change| &change.add_keywords);
    let mut all = of_changes.chain(appends.iter().flat_map(|message| &message.keywords));
    match all.all(|keyword: &Keyword| can_hold(keyword)) {
        true => Ok(()),
        false => Err(Error::Unsupported {
            path: folder.path.clone(),
            what: "a keyword of an MH folder cannot contain a colon, or be unseen, cur, replied, \
                   flagged, deleted or draft, which are reserved sequences",
        }),
    }
}

/// The messages that are to be changed.
struct MhTargets {
    /// Their numbers and marks when they were scanned, by UID.
    places: HashMap<Uid, (Number, u64)>,
}

impl MhTargets {
    fn load(known: &dyn Known, changes: &ChangeSet) -> Result<Self> {
        let flagged = changes.flags.uids();
        let mut wanted: Vec<Uid> = flagged.chain(changes.expunge.iter().copied()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut places = HashMap::with_capacity(wanted.len());
        let mut take = |message: &barid_mailbox::KnownMessage<'_>| {
            if let Some(MessageName { name, .. }) = message.location.message_name() {
                places.extend(parse_place(name).map(|place| (message.uid, place)));
            }
        };
        if wanted.len() <= 16 {
            for uid in wanted {
                let at = sink_error(known.position(uid))?;
                if let Some(at) = at {
                    sink_error(known.visit(at, &mut |message| {
                        take(message);
                        false
                    }))?;
                }
            }
        } else {
            let mut wanted = wanted.iter().peekable();
            sink_error(known.visit(0, &mut |message| {
                while wanted.next_if(|uid| **uid < message.uid).is_some() {}
                if wanted.next_if(|uid| **uid == message.uid).is_some() {
                    take(message);
                }
                wanted.peek().is_some()
            }))?;
        }
        Ok(Self { places })
    }
}

struct MhChange<'a> {
    folder: &'a MhFolder,
    dir: Box<dyn barid_vfs::Dir>,
    targets: &'a MhTargets,
    sequences: Sequences,
    /// The current numbers of the messages; those that are gone are missing.
    numbers: HashMap<Uid, Number>,
    figures: SyncFigures,
}

impl<'a> MhChange<'a> {
    fn new(folder: &'a MhFolder, targets: &'a MhTargets) -> Result<Self> {
        let vfs = folder.vfs.as_ref();
        Ok(Self {
            folder,
            dir: vfs.open_dir(&folder.path).map_err(Error::at(&folder.path))?,
            targets,
            sequences: Sequences::read(vfs, &folder.sequences)?,
            numbers: HashMap::with_capacity(targets.places.len()),
            figures: SyncFigures::default(),
        })
    }

    fn lister(&self) -> Lister<'_> {
        Lister { folder: self.folder, dir: self.dir.as_ref(), threads: 1 }
    }

    /// Finds the messages: under their numbers, or else by their marks, but not where another known
    /// message has the same mark: two numbers may be links to one file. Those that are not found
    /// are gone.
    fn find(&mut self, known: &dyn Known) -> Result<()> {
        let mut moved: HashMap<u64, Vec<Uid>> = HashMap::new();
        let mut found = HashMap::with_capacity(self.targets.places.len());
        for (uid, (number, mark)) in &self.targets.places {
            match self.lister().look_at(*number)? {
                Some(file) if file.mark == *mark => {
                    found.insert(*uid, *number);
                }
                _ => moved.entry(*mark).or_default().push(*uid),
            }
        }
        if !moved.is_empty() {
            let mut others = HashSet::new();
            sink_error(known.visit(0, &mut |message| {
                if let Some(MessageName { name, .. }) = message.location.message_name() {
                    let place = parse_place(name).filter(|(_, mark)| moved.contains_key(mark));
                    others.extend(place);
                }
                true
            }))?;
            let mut by_mark = HashMap::new();
            let is_whole = self.lister().until_whole(|_, files, _| {
                let mut left = moved.clone();
                by_mark.clear();
                for file in files {
                    if others.contains(&(file.number, file.mark)) {
                        continue;
                    }
                    let uid = left.get_mut(&file.mark).and_then(Vec::pop);
                    by_mark.extend(uid.map(|uid| (uid, file.number)));
                }
                left.values().all(Vec::is_empty)
            })?;
            if !is_whole {
                return Err(Error::Changed { path: self.folder.path.clone() });
            }
            found.extend(by_mark);
        }
        self.numbers = found;
        Ok(())
    }

    /// Removes messages, durably, and removes them from the sequences, which are still to be
    /// written; returns the messages removed. After an error none of these is in a sequence.
    fn expunge(
        &mut self,
        uids: &[Uid],
        mode: u32,
        lock: &mut SequencesLock,
        steps: &mut ChangeProgress<'_>,
    ) -> Result<Vec<Uid>> {
        let numbers = |uids: &[Uid], all: &HashMap<Uid, Number>| {
            let mut numbers: Vec<_> = uids.iter().filter_map(|uid| all.get(uid).copied()).collect();
            numbers.sort_unstable();
            numbers.dedup();
            numbers
        };
        let going = numbers(uids, &self.numbers);
        let deleted = self.sequences.flagged(Flag::Deleted, &going);
        if !deleted.is_empty() {
            self.sequences.edit_flag(Flag::Deleted, SequenceEdit::Remove, &deleted);
            self.write_sequences(mode, lock)?;
        }
        let (removed, result) = self.unlink(uids, steps);
        let gone = numbers(&removed, &self.numbers);
        self.sequences.forget(&gone.iter().map(|number| (*number, *number)).collect::<Vec<_>>());
        if let Err(error) = result {
            let kept: Vec<_> =
                deleted.into_iter().filter(|number| gone.binary_search(number).is_err()).collect();
            self.sequences.edit_flag(Flag::Deleted, SequenceEdit::Add, &kept);
            // The first error is the one to report.
            let _ = self.write_sequences(mode, lock);
            return Err(error);
        }
        Ok(removed)
    }

    /// Writes the sequences when nothing could be appended; returns the error for the caller.
    fn without_appends(
        &mut self,
        error: Error,
        changes: &ChangeSet,
        mode: u32,
        lock: &mut SequencesLock,
    ) -> Error {
        let is_written = self.write_sequences(mode, lock).is_ok();
        match is_written && !changes.is_empty() {
            true => Error::NotAppended { path: self.folder.path.clone(), what: error.to_string() },
            false => error,
        }
    }

    /// Unlinks messages, durably, until an unlink fails or the change is to stop; returns those
    /// that are gone.
    fn unlink(&mut self, uids: &[Uid], steps: &mut ChangeProgress<'_>) -> (Vec<Uid>, Result<()>) {
        let vfs = self.folder.vfs.as_ref();
        let (mut removed, mut result) = (Vec::new(), Ok(()));
        for uids in uids.chunks(EXPUNGE_BATCH) {
            if steps.is_stopped() {
                let (done, total) = (steps.done, steps.total);
                result = Err(Error::Stopped { path: self.folder.path.clone(), done, total });
            }
            if result.is_err() {
                break;
            }
            let there = |uid: &Uid| self.numbers.contains_key(uid);
            let uids: Vec<Uid> = uids.iter().copied().filter(there).collect();
            let path = |uid| path_of(&self.folder.path, self.numbers[uid]);
            let paths: Vec<_> = uids.iter().map(path).collect();
            for ((uid, path), unlinked) in uids.iter().zip(&paths).zip(vfs.remove_files(&paths)) {
                match unlinked {
                    Ok(()) => removed.push(*uid),
                    Err(error) if error.kind() == ErrorKind::NotFound => {
                        self.numbers.remove(uid);
                    }
                    Err(source) => result = result.and(Err(Error::at(path)(source))),
                }
            }
            steps.advance(uids.len());
        }
        self.figures.messages_expunged += removed.len() as u64;
        if !removed.is_empty() {
            let synced = vfs.sync_dir(&self.folder.path).map_err(Error::at(&self.folder.path));
            self.figures.barriers += 1;
            result = result.and(synced);
        }
        (removed, result)
    }

    fn write_sequences(&mut self, mode: u32, lock: &mut SequencesLock) -> Result<()> {
        self.sequences.write(self.folder.vfs.as_ref(), &self.folder.sequences, mode, lock)?;
        self.figures.barriers += 2;
        Ok(())
    }

    /// Changes the sequences, except for messages that are also expunged.
    fn change_flags(&mut self, changes: &ChangeSet) {
        let mut edits: HashMap<(What, SequenceEdit), Vec<Number>> = HashMap::new();
        for (uid, change) in changes.flags.iter() {
            let is_expunged = changes.expunge.binary_search(&uid).is_ok();
            let Some(number) = self.numbers.get(&uid).filter(|_| !is_expunged) else { continue };
            self.figures.messages_written += 1;
            for (flags, edit) in
                [(change.add, SequenceEdit::Add), (change.remove, SequenceEdit::Remove)]
            {
                for flag in flags.iter() {
                    edits.entry((What::Flag(flag), edit)).or_default().push(*number);
                }
            }
            for (words, edit) in [
                (&change.add_keywords, SequenceEdit::Add),
                (&change.remove_keywords, SequenceEdit::Remove),
            ] {
                for word in words {
                    let what = What::Keyword(word.as_str().to_ascii_lowercase());
                    edits.entry((what, edit)).or_default().push(*number);
                }
            }
        }
        let mut edits: Vec<_> = edits.into_iter().collect();
        edits.sort_by(|a, b| a.0.cmp(&b.0));
        for ((what, edit), mut numbers) in edits {
            numbers.sort_unstable();
            numbers.dedup();
            match what {
                What::Flag(flag) => self.sequences.edit_flag(flag, edit, &numbers),
                What::Keyword(lower) => {
                    let added = changes.flags.changes().flat_map(|change| &change.add_keywords);
                    let removed =
                        changes.flags.changes().flat_map(|change| &change.remove_keywords);
                    let mut named = added.chain(removed);
                    let same = |word: &&Keyword| word.as_str().eq_ignore_ascii_case(&lower);
                    if let Some(keyword) = named.find(same) {
                        self.sequences.edit_keyword(keyword, edit, &numbers);
                    }
                }
            }
        }
    }

    fn missing(&self, changes: &ChangeSet) -> Vec<Uid> {
        let flagged = changes.flags.uids();
        let all = flagged.chain(changes.expunge.iter().copied());
        let mut gone: Vec<Uid> = all.filter(|uid| !self.numbers.contains_key(uid)).collect();
        gone.sort_unstable();
        gone.dedup();
        gone
    }

    fn dry_report(&self, changes: &ChangeSet) -> SyncReport {
        let is_there = |uid: &Uid| self.numbers.contains_key(uid);
        let figures = SyncFigures {
            messages_written: changes.flags.uids().filter(is_there).count() as u64,
            messages_expunged: changes.expunge.iter().filter(|uid| is_there(uid)).count() as u64,
            ..SyncFigures::default()
        };
        SyncReport { gone: self.missing(changes), figures, ..SyncReport::default() }
    }
}

/// A flag, or a keyword in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum What {
    Flag(Flag),
    Keyword(String),
}
