//! Changing messages: expunges by unlinks, flags and keywords in `.mh_sequences`.
//!
//! Everything happens under the lock of the sequences, which nmh holds while it renumbers. A
//! message that is not under its number is looked for by its mark.
//!
//! Order: unlinks, fsync of the folder; the sequences with all changes of flags, without the
//! messages that went, and with those to come (a file beside, fsync, rename, fsync of the folder);
//! then appends (see `append.rs`). Commit point of an expunge: the unlink; of all flags: the rename
//! of the sequences. After a crash a message has its old flags or its new ones. Between the two a
//! number may stay in sequences without a message; the next delivery clears that.

use std::collections::HashMap;
use std::io::ErrorKind;

use barid_types::{Flag, Keyword, Uid};

use super::append::Drafts;
use super::list::Lister;
use super::name::{Number, parse_place};
use super::sequences::{Edit, Sequences, SequencesLock, can_hold};
use super::{MhFolder, path_of};
use crate::scan::sink_error;
use crate::{
    ChangeSet, Error, Known, Location, NewMessage, Result, SyncContext, SyncFigures, SyncReport,
};

/// Applies changes and appends.
pub(super) fn sync(
    folder: &MhFolder,
    changes: &ChangeSet,
    appends: &[NewMessage<'_>],
    context: &mut SyncContext<'_>,
) -> Result<SyncReport> {
    check_keywords(folder, changes, appends)?;
    let targets = Targets::load(context.known, changes)?;
    let is_nothing = targets.places.is_empty() && appends.is_empty();
    if context.dry_run || is_nothing {
        let mut work = Work::new(folder, &targets)?;
        work.find()?;
        return Ok(work.dry_report(changes));
    }
    let drafts = Drafts::write(folder, appends)?;
    let mode = folder.file_mode()?;
    let _lock = SequencesLock::take(&folder.vfs, &folder.sequences, mode)?;
    let mut work = Work::new(folder, &targets)?;
    work.find()?;
    let numbers = work.expunge(&changes.expunge)?;
    work.sequences.forget(&numbers);
    work.change_flags(changes);
    if work.sequences.is_changed() && appends.is_empty() {
        work.sequences.write(folder.vfs.as_ref(), &folder.sequences, mode)?;
        work.figures.barriers += 2;
    }
    if !appends.is_empty() {
        let last = work.lister().numbers()?.last().copied();
        work.figures.barriers += drafts.deliver(last, &mut work.sequences, mode)?;
        work.figures.bytes_appended = appends.iter().map(|new| new.bytes.len() as u64).sum();
    }
    if let Some(ledger) = context.ledger.as_deref_mut()
        && !changes.expunge.is_empty()
    {
        ledger.expunge(&changes.expunge);
        ledger.commit()?;
    }
    Ok(SyncReport {
        appended: vec![None; appends.len()],
        gone: work.gone(changes),
        figures: work.figures,
        ..SyncReport::default()
    })
}

/// Whether every keyword that is to be set can be.
fn check_keywords(
    folder: &MhFolder,
    changes: &ChangeSet,
    appends: &[NewMessage<'_>],
) -> Result<()> {
    let of_changes = changes.flags.iter().flat_map(|(_, change)| &change.add_keywords);
    let mut all = of_changes.chain(appends.iter().flat_map(|message| &message.keywords));
    match all.all(|keyword: &Keyword| can_hold(keyword)) {
        true => Ok(()),
        false => Err(Error::Unsupported {
            path: folder.path.clone(),
            what: "a keyword of an MH folder has no colon and is not unseen, cur, replied, \
                   flagged, deleted or draft, which are sequences of their own",
        }),
    }
}

/// The messages that are to be changed.
struct Targets {
    /// Where they were found, by UID.
    places: HashMap<Uid, (Number, u64)>,
}

impl Targets {
    fn load(known: &dyn Known, changes: &ChangeSet) -> Result<Self> {
        let flagged = changes.flags.iter().map(|(uid, _)| *uid);
        let mut wanted: Vec<Uid> = flagged.chain(changes.expunge.iter().copied()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut places = HashMap::with_capacity(wanted.len());
        let mut take = |message: &crate::KnownMessage<'_>| {
            if let Location::File { name, .. } = message.location {
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

struct Work<'a> {
    folder: &'a MhFolder,
    dir: Box<dyn barid_vfs::Dir>,
    targets: &'a Targets,
    sequences: Sequences,
    /// The numbers of the messages now; those that are gone are missing.
    numbers: HashMap<Uid, Number>,
    figures: SyncFigures,
}

impl<'a> Work<'a> {
    fn new(folder: &'a MhFolder, targets: &'a Targets) -> Result<Self> {
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
        let vfs = self.folder.vfs.as_ref();
        Lister { vfs, dir: self.dir.as_ref(), path: &self.folder.path, threads: 1 }
    }

    /// Finds the messages: under their numbers, and what is not there by its mark.
    fn find(&mut self) -> Result<()> {
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
            for file in self.lister().files()? {
                let uid = moved.get_mut(&file.mark).and_then(Vec::pop);
                found.extend(uid.map(|uid| (uid, file.number)));
            }
        }
        self.numbers = found;
        Ok(())
    }

    /// Removes messages, durably; returns their numbers as ascending ranges.
    fn expunge(&mut self, uids: &[Uid]) -> Result<Vec<(Number, Number)>> {
        let vfs = self.folder.vfs.as_ref();
        let mut numbers = Vec::new();
        for uid in uids {
            let Some(number) = self.numbers.get(uid).copied() else { continue };
            let path = path_of(&self.folder.path, number);
            match vfs.remove_file(&path) {
                Ok(()) => self.figures.messages_expunged += 1,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    self.numbers.remove(uid);
                    continue;
                }
                Err(source) => return Err(Error::at(&path)(source)),
            }
            numbers.push((number, number));
        }
        if !numbers.is_empty() {
            vfs.sync_dir(&self.folder.path).map_err(Error::at(&self.folder.path))?;
            self.figures.barriers += 1;
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// Changes the sequences; of a message that is expunged, too, nothing is left to change.
    fn change_flags(&mut self, changes: &ChangeSet) {
        let mut edits: HashMap<(What, Edit), Vec<Number>> = HashMap::new();
        for (uid, change) in &changes.flags {
            let is_expunged = changes.expunge.binary_search(uid).is_ok();
            let Some(number) = self.numbers.get(uid).filter(|_| !is_expunged) else { continue };
            self.figures.messages_written += 1;
            for (flags, edit) in [(change.add, Edit::Add), (change.remove, Edit::Remove)] {
                for flag in flags.iter() {
                    edits.entry((What::Flag(flag), edit)).or_default().push(*number);
                }
            }
            for (words, edit) in
                [(&change.add_keywords, Edit::Add), (&change.remove_keywords, Edit::Remove)]
            {
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
                    let added = changes.flags.iter().flat_map(|(_, change)| &change.add_keywords);
                    let removed =
                        changes.flags.iter().flat_map(|(_, change)| &change.remove_keywords);
                    let mut named = added.chain(removed);
                    let same = |word: &&Keyword| word.as_str().eq_ignore_ascii_case(&lower);
                    if let Some(keyword) = named.find(same) {
                        self.sequences.edit_keyword(keyword, edit, &numbers);
                    }
                }
            }
        }
    }

    fn gone(&self, changes: &ChangeSet) -> Vec<Uid> {
        let flagged = changes.flags.iter().map(|(uid, _)| *uid);
        let all = flagged.chain(changes.expunge.iter().copied());
        let mut gone: Vec<Uid> = all.filter(|uid| !self.numbers.contains_key(uid)).collect();
        gone.sort_unstable();
        gone.dedup();
        gone
    }

    fn dry_report(&self, changes: &ChangeSet) -> SyncReport {
        let is_there = |uid: &Uid| self.numbers.contains_key(uid);
        let figures = SyncFigures {
            messages_written: changes.flags.iter().filter(|(uid, _)| is_there(uid)).count() as u64,
            messages_expunged: changes.expunge.iter().filter(|uid| is_there(uid)).count() as u64,
            ..SyncFigures::default()
        };
        SyncReport { gone: self.gone(changes), figures, ..SyncReport::default() }
    }
}

/// A flag or a keyword, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum What {
    Flag(Flag),
    Keyword(String),
}
