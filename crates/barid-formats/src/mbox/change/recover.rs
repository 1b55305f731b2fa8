//! Completes an interrupted change (docs/protocol.md, "Recover").
//!
//! The content of the file shows how far the change got: a unit is done if its new bytes are in
//! their place. From the first step that is not done, everything must still have its old bytes, or
//! be in the window of the journal. Otherwise another program has rewritten the file; then the
//! journal is put aside and the file is not changed, except that saved mail is put back. Every step
//! may be interrupted and repeated.

use std::io;
use std::path::{Path, PathBuf};

use barid_mailbox::{Error, Recovered, Result, SyncContext, Unfinished};
use barid_vfs::OpenOptions;

use super::apply::{PIECE_LEN, piece_hash, read_or_zeros};
use super::assemble::{has_kept, has_new, has_old, pieces, runs};
use super::collapse::Midway;
use super::foreign::Foreign;
use super::header::{JournalHeader, JournalRecord, Origin, RECORDS_LEN, RecordKind};
use super::intent::Intent;
use super::journal::{ATTRIBUTE, FileAtJournal, JournalFile, Places};
use super::limits::OFFSET_MAX;
use super::load::{Load, LoadedPlan, find, is_of_append_at, original};
use super::mend::mend;
use super::run::Stage;
use super::source::{BufferedFile, hash_of};
use super::steps::{StepKind, Steps, WriteStep};
use super::work::{PlannedChange, places_of};
use crate::mbox::MboxMailbox;
use crate::mbox::lock::{MboxLockPurpose, MboxWriteLocks, lock_for_reading};
use crate::redo;

/// Returns the unfinished change, if there is a journal. Costs two system calls if there is none.
pub(in crate::mbox) fn unfinished(
    mailbox: &MboxMailbox,
    state_dir: Option<&Path>,
) -> Result<Option<Unfinished>> {
    let path = match mailbox.vfs.canonicalize(&mailbox.path) {
        Ok(path) => path,
        Err(error) => return Err(Error::at(&mailbox.path)(error)),
    };
    let places = Places { vfs: &*mailbox.vfs, mailbox: &path, state_dir };
    let Some(found) = find(&places)? else { return Ok(None) };
    let journal = match found.path {
        Some(path) => (places.look(&path)? == FileAtJournal::Ours).then_some(path),
        None => None,
    };
    let is_append = journal.as_ref().is_some_and(|path| is_of_append_at(&places, path));
    let what = if is_append { "an append" } else { "a change of messages" };
    Ok(Some(Unfinished { journal, what: what.to_owned() }))
}

/// Returns the unfinished change as [`unfinished`] does, unless a running process is still writing
/// it.
pub(in crate::mbox) fn abandoned(
    mailbox: &MboxMailbox,
    state_dir: Option<&Path>,
) -> Result<Option<Unfinished>> {
    let Some(found) = unfinished(mailbox, state_dir)? else { return Ok(None) };
    let file = mailbox.vfs.open(&mailbox.path, OpenOptions::READ);
    match lock_for_reading(mailbox, &*file.map_err(Error::at(&mailbox.path))?) {
        Err(Error::Locked { .. }) => Ok(Some(found)),
        locked => locked.and_then(|()| unfinished(mailbox, state_dir)),
    }
}

/// Takes the locks and completes an unfinished change. Uses the locks of an append unless messages
/// must move, and stops waiting once no change is unfinished.
pub(in crate::mbox) fn recover_mailbox(
    mailbox: &MboxMailbox,
    context: &mut SyncContext<'_>,
) -> Result<Recovered> {
    let mut purpose = MboxLockPurpose::Append;
    loop {
        let wanted = || Ok(unfinished(mailbox, context.state_dir)?.map(|_| purpose));
        let Some(locks) = MboxWriteLocks::acquire_while(mailbox, wanted)? else {
            return Ok(Recovered::default());
        };
        let outcome = recover(mailbox, &locks, context)?;
        if !outcome.is_blocked {
            return Ok(outcome.recovered);
        }
        purpose = MboxLockPurpose::Change;
    }
}

/// Result of a recovery, and its cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Report for the caller.
    pub(super) recovered: Recovered,
    /// `true` if there was a journal.
    pub(super) was_needed: bool,
    /// `true` if messages must move, which the locks do not allow: nothing was done.
    pub(super) is_blocked: bool,
    /// Number of fsync calls.
    pub(super) barriers: u64,
}

impl Outcome {
    /// Creates the outcome after a journal was found and handled.
    pub(super) fn needed(recovered: Recovered, barriers: u64) -> Self {
        Self { recovered, was_needed: true, is_blocked: false, barriers }
    }

    /// Creates the outcome for messages that must move, which the locks do not allow.
    pub(super) fn blocked() -> Self {
        Self { is_blocked: true, ..Self::default() }
    }
}

/// Completes an unfinished change, under locks for writing.
pub(super) fn recover(
    mailbox: &MboxMailbox,
    locks: &MboxWriteLocks,
    context: &mut SyncContext<'_>,
) -> Result<Outcome> {
    let places = places_of(mailbox, locks, context.state_dir);
    let unrecoverable = |what| Error::Unrecoverable { path: mailbox.path.clone(), what };
    let inode = locks.file().metadata().map_err(Error::at(places.mailbox))?.inode;
    let check = |origin: &Origin, own: &[u8; 16], id: Option<[u8; 16]>, path: &Path| {
        let is_moved = inode != origin.inode;
        let is_named_otherwise = id.is_some_and(|id| id != *own);
        if is_named_otherwise || is_moved && original(&places, (origin, own), path).is_some() {
            return Err(unrecoverable(copied(origin, path)));
        }
        Ok(is_moved)
    };
    let (journal, path, loaded, id) = match open_journal(&places, locks, &unrecoverable)? {
        OpenedJournal::Over(outcome) => return Ok(outcome),
        OpenedJournal::Append { journal, path, intent, id } => {
            check(&intent.origin, &intent.id, id, &path)?;
            return mend(mailbox, locks, (journal, &path), &intent, context);
        }
        OpenedJournal::Whole { .. } if !locks.may_move() => return Ok(Outcome::blocked()),
        OpenedJournal::Whole { journal, path, loaded, id } => (journal, path, loaded, id),
    };
    let is_moved = check(&loaded.header.origin, &loaded.header.id, id, &path)?;
    let mut work = work_of(mailbox, locks, places, journal, loaded);
    // The inode is another, and holes do not prove that this is the same file.
    let resumed = match is_moved && !work.collapses.is_empty() {
        true => Err(work.changed()),
        false => work.resume(context),
    };
    match resumed {
        Ok(bytes_delivered) => {
            let recovered = Recovered {
                completed: true,
                quarantined: None,
                bytes_delivered,
                pending_through: work.header.pending_through,
                bytes_cut: 0,
            };
            Ok(Outcome::needed(recovered, work.barriers))
        }
        Err(Error::Changed { .. }) if is_moved && id.is_some() => {
            let what = "belongs to another file: if this one was moved or restored in the middle \
                        of a change, restore both; otherwise move the journal away";
            Err(unrecoverable(format!("{} {what}", path.display())))
        }
        Err(Error::Changed { .. }) => work.quarantine(),
        Err(error) => Err(work.unfinished(error)),
    }
}

/// Result of opening a journal.
enum OpenedJournal {
    /// Nothing is left to do.
    Over(Outcome),
    /// A change to complete; `id` is the one that the mailbox names.
    Whole { journal: JournalFile, path: PathBuf, loaded: Box<LoadedPlan>, id: Option<[u8; 16]> },
    /// An append that may be incomplete.
    Append { journal: JournalFile, path: PathBuf, intent: Box<Intent>, id: Option<[u8; 16]> },
}

/// Opens the journal of a mailbox. One that no mailbox names and that is not whole was never begun:
/// it is removed.
fn open_journal(
    places: &Places<'_>,
    locks: &MboxWriteLocks,
    unrecoverable: &dyn Fn(String) -> Error,
) -> Result<OpenedJournal> {
    let Some(found) = find(places)? else { return Ok(OpenedJournal::Over(Outcome::default())) };
    let may_be_gone = found.may_be_gone;
    let Some(path) = found.path else {
        let what = format!("{ATTRIBUTE} names a file that cannot be a journal of this mailbox");
        return Err(unrecoverable(what));
    };
    let redo = redo::JournalPath::beside(places.mailbox);
    if path == redo.journal() && redo.is_redo(places.vfs)? {
        // The journal of an interrupted repair.
        if !locks.may_move() {
            return Ok(OpenedJournal::Over(Outcome::blocked()));
        }
        let recovered = redo::recover(places.vfs, &redo, None, None)?;
        return Ok(OpenedJournal::Over(Outcome::needed(recovered, 0)));
    }
    match places.look(&path)? {
        FileAtJournal::Ours => {}
        FileAtJournal::Missing if may_be_gone => {
            // An append's journal is removed once the append is durable.
            unname(places, locks)?;
            return Ok(OpenedJournal::Over(Outcome::needed(Recovered::default(), 1)));
        }
        FileAtJournal::Missing => {
            return missing(places, locks, &path, found.id).map(OpenedJournal::Over);
        }
        FileAtJournal::Strange => {
            let what = "owned by another user, or writable by others: it is not used";
            return Err(unrecoverable(format!("{} is {what}", path.display())));
        }
    }
    let journal = JournalFile::open(places, &path)?;
    let never_begun = Outcome::needed(Recovered::default(), 1);
    match LoadedPlan::load(&journal).map_err(Error::at(&path))? {
        Load::Whole(loaded) => Ok(OpenedJournal::Whole { journal, path, loaded, id: found.id }),
        Load::Append(intent) => Ok(OpenedJournal::Append { journal, path, intent, id: found.id }),
        Load::Nothing if found.id.is_none() => {
            journal.forget(places.vfs);
            Ok(OpenedJournal::Over(never_begun))
        }
        Load::Incomplete if found.id.is_none() => {
            journal.discard(places.vfs);
            Ok(OpenedJournal::Over(never_begun))
        }
        Load::Incomplete | Load::Damaged => damaged(places, locks, &path).map(OpenedJournal::Over),
        Load::Nothing => Err(unrecoverable(format!("its journal {} is empty", path.display()))),
        Load::Unusable(what) => Err(unrecoverable(format!("{} {what}", path.display()))),
    }
}

/// Returns the work of a journal, before its progress is known.
fn work_of<'a>(
    mailbox: &'a MboxMailbox,
    locks: &'a MboxWriteLocks,
    places: Places<'a>,
    journal: JournalFile,
    loaded: Box<LoadedPlan>,
) -> PlannedChange<'a> {
    PlannedChange {
        mailbox,
        locks,
        places,
        options: mailbox.options.writing,
        journal,
        steps: Steps::of(&loaded.units, loaded.header.params),
        header: loaded.header,
        units: loaded.units,
        collapses: loaded.collapses,
        barriers: 0,
        is_unsynced: false,
        times: None,
        window: None,
        bytes_done: 0,
        decompressor: None,
    }
}

/// Describes a copy of a mailbox that was in the middle of a change.
fn copied(origin: &Origin, path: &Path) -> String {
    let of = origin.path().map(|path| format!(" of {}", path.display()));
    format!(
        "it is a copy{} in the middle of a change, and {} does not belong to it: open that \
         mailbox first and copy it again, or remove the attribute {ATTRIBUTE} of the copy to use \
         it unchanged",
        of.unwrap_or_default(),
        path.display()
    )
}

/// Handles a named journal that is missing: it may have been put aside before.
fn missing(
    places: &Places<'_>,
    locks: &MboxWriteLocks,
    path: &Path,
    id: Option<[u8; 16]>,
) -> Result<Outcome> {
    let aside = id.map(|id| places.quarantine(path, &id));
    match aside {
        Some(aside) if places.look(&aside)? == FileAtJournal::Ours => {
            unname(places, locks)?;
            let quarantined = Some(aside);
            let recovered = Recovered { quarantined, ..Recovered::default() };
            Ok(Outcome::needed(recovered, 1))
        }
        _ => {
            let what =
                format!("it is in the middle of a change, and {} is missing", path.display());
            Err(Error::Unrecoverable { path: places.mailbox.to_owned(), what })
        }
    }
}

/// Removes the attribute from the mailbox, durably.
fn unname(places: &Places<'_>, locks: &MboxWriteLocks) -> Result<()> {
    let file = locks.file();
    file.remove_xattr(ATTRIBUTE).map_err(Error::at(places.mailbox))?;
    file.sync_all().map_err(Error::at(places.mailbox))
}

/// Puts aside a journal that was whole and is damaged.
fn damaged(places: &Places<'_>, locks: &MboxWriteLocks, path: &Path) -> Result<Outcome> {
    let mut id = [0; 16];
    places.vfs.random(&mut id).map_err(Error::at(path))?;
    let quarantined = Some(put_aside(places, path, &id)?);
    unname(places, locks)?;
    let recovered = Recovered { quarantined, ..Recovered::default() };
    Ok(Outcome::needed(recovered, 2))
}

/// Renames a journal that is put aside.
fn put_aside(places: &Places<'_>, path: &Path, id: &[u8; 16]) -> Result<PathBuf> {
    let to = places.quarantine(path, id);
    places.vfs.rename(path, &to).map_err(Error::at(path))?;
    if let Some(dir) = path.parent() {
        places.vfs.sync_dir(dir).map_err(Error::at(dir))?;
    }
    Ok(to)
}

/// The records in a journal.
struct Records {
    bytes: Vec<u8>,
    id: [u8; 16],
}

impl Records {
    fn get(&self, kind: RecordKind) -> Option<[u64; 4]> {
        let bytes = self.bytes.get(kind.offset() as usize..)?;
        JournalRecord::from_bytes(bytes, kind, &self.id).map(|record| record.words)
    }
}

/// Bytes of a unit to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Are {
    Old,
    New,
}

/// Converts an unexpected end of the file to `false`.
pub(super) fn unless_short(found: io::Result<bool>) -> io::Result<bool> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        found => found,
    }
}

impl PlannedChange<'_> {
    fn records(&self) -> Result<Records> {
        let mut bytes = vec![0; RECORDS_LEN as usize];
        let Some(file) = self.journal.file() else { return Err(self.changed()) };
        file.read_full_at(&mut bytes, self.header.records_at()).map_err(self.at_journal())?;
        Ok(Records { bytes, id: self.header.id })
    }

    /// Determines how far the change got and does the rest. Returns the number of bytes of others'
    /// mail that were put back.
    ///
    /// # Errors
    /// [`Error::Changed`] if another program has rewritten the file.
    fn resume(&mut self, context: &mut SyncContext<'_>) -> Result<u64> {
        let records = self.records()?;
        if records.get(RecordKind::Commit).is_some() {
            // The removal of the attribute may not be on the disk yet.
            self.sync_all()?;
            self.clean_up(context)?;
            return Ok(0);
        }
        // Everything read here must be on the disk before anything builds on it. After a failed
        // fsync it may be in memory only, and must be written again.
        self.rewrite_records(&records)?;
        self.sync_all()?;
        let mut stage = Stage { is_begun: true, ..Stage::default() };
        stage.foreign = records.get(RecordKind::Foreign).map(Foreign::from_words);
        if stage.foreign.is_some_and(|foreign| foreign.len > OFFSET_MAX) {
            return Err(self.changed());
        }
        stage.is_grown = records.get(RecordKind::Grown).is_some();
        stage.collapsed = match records.get(RecordKind::Collapsed) {
            Some([done, ..]) => self.collapses.len().min(done as usize),
            None => 0,
        };
        let delivered = |foreign: Option<Foreign>| foreign.map_or(0, |foreign| foreign.len);
        if let Some(foreign) = stage.foreign.filter(Foreign::is_placed) {
            stage.is_grown = true;
            stage.collapsed = self.collapses.len();
            stage.steps_done = self.steps.len();
            stage.is_cut = true;
            self.check_placed(foreign)?;
            self.go_on(stage, context)?;
            return Ok(delivered(stage.foreign));
        }
        if stage.foreign.is_some_and(|foreign| foreign.returned().is_some()) {
            return Err(self.changed());
        }
        let is_moved = records.get(RecordKind::Moved).is_some();
        let midway = self.find_midway(&mut stage)?;
        let mut end = self.find_end(&mut stage, is_moved)?;
        self.find_steps_done(&mut stage, end, &records, midway)?;
        // Only now is it certain that this is the same file.
        if let Midway::Hole(hole) = midway {
            self.collapse_hole(&mut stage, hole)?;
            end = self.find_end(&mut stage, is_moved)?;
        }
        let JournalHeader { base_size, new_size, .. } = self.header;
        let is_in_the_way = match () {
            () if midway == Midway::Moved => true,
            () if stage.collapsed < self.collapses.len() => new_size != base_size,
            () if new_size > base_size => !stage.is_grown,
            () => end > new_size,
        };
        if is_in_the_way || stage.foreign.is_some() {
            stage.foreign = self.take_foreign(end, stage.foreign)?;
        }
        if midway == Midway::Moved {
            self.record_collapsed(stage.collapsed)?;
        }
        self.go_on(stage, context)?;
        Ok(delivered(stage.foreign))
    }

    fn rewrite_records(&mut self, records: &Records) -> Result<()> {
        let mut any = false;
        for kind in RecordKind::ALL.into_iter().filter(|kind| *kind != RecordKind::Window) {
            if let Some(words) = records.get(kind) {
                self.put_record(kind, words)?;
                any = true;
            }
        }
        if any { self.sync_journal() } else { Ok(()) }
    }

    fn check_size(&self, min: u64) -> Result<()> {
        match self.file().metadata().map_err(self.at())?.size < min {
            true => Err(self.changed()),
            false => Ok(()),
        }
    }

    /// Checks that all is done except the return of others' mail, for which there is room.
    fn check_placed(&mut self, foreign: Foreign) -> Result<()> {
        let mut source = self.source();
        for index in 0..self.units.len() as u32 {
            if !self.is(index, Are::New, &mut source)? {
                return Err(self.changed());
            }
        }
        match self.has_room(self.header.new_size, foreign)? {
            true => Ok(()),
            false => Err(self.changed()),
        }
    }

    /// Returns the end of the file at its stage; bytes after it were delivered by others, or are
    /// room that was made.
    fn find_end(&mut self, stage: &mut Stage, is_moved: bool) -> Result<u64> {
        let JournalHeader { old_size, base_size, new_size, .. } = self.header;
        if stage.collapsed < self.collapses.len() {
            let done = &self.collapses[..stage.collapsed];
            let end = old_size - done.iter().map(|collapse| collapse.len).sum::<u64>();
            self.check_size(end)?;
            return Ok(end);
        }
        if new_size < base_size {
            let is_whole = self.is_uncut()?;
            if !is_whole && !is_moved {
                return Err(self.changed());
            }
            stage.is_cut = !is_whole;
        }
        let end = match stage.is_cut || (new_size > base_size && stage.is_grown) {
            true => new_size,
            false => base_size,
        };
        self.check_size(end)?;
        Ok(end)
    }

    /// Returns `true` if the bytes to cut off are still there.
    fn is_uncut(&self) -> Result<bool> {
        let size = self.file().metadata().map_err(self.at())?.size;
        let (end, cut) = (self.header.base_size, self.header.cut);
        if size < end || end < cut.len {
            return Ok(false);
        }
        let found = hash_of(self.file(), end - cut.len, cut.len, self.options.buffer_len);
        Ok(found.map_err(self.at())? == cut.hash)
    }

    /// Finds the first step that is not done, and checks that it and those after it can be done.
    fn find_steps_done(
        &mut self,
        stage: &mut Stage,
        end: u64,
        records: &Records,
        midway: Midway,
    ) -> Result<()> {
        let mut source = self.jumping(stage.collapsed, midway);
        for index in 0..self.units.len() as u32 {
            let is_evidence = self.units[index as usize].write_len == 0;
            if is_evidence && !self.is(index, Are::New, &mut source)? {
                return Err(self.changed());
            }
        }
        let is_begun = stage.collapsed == self.collapses.len()
            && (stage.is_grown || self.header.new_size <= self.header.base_size);
        let mut first = 0;
        while is_begun
            && first < self.steps.len()
            && self.all(self.steps.get(first), Are::New, &mut source)?
        {
            first += 1;
        }
        if stage.is_cut {
            // All of it was durable before, and bytes that the steps read may be gone.
            stage.steps_done = first;
            return if first == self.steps.len() { Ok(()) } else { Err(self.changed()) };
        }
        let window = self.valid_window(records)?;
        for index in first..self.steps.len() {
            let step = self.steps.get(index);
            let is_whole = match index == first && window == Some(index) {
                true => self.is_old_or_new(step, end)?,
                false => self.all(step, Are::Old, &mut source)?,
            };
            if !is_whole {
                return Err(self.changed());
            }
        }
        let mut wanted = first;
        // The step before may not be on the disk, if it was the last and its barrier failed.
        if let Some(last) = first.checked_sub(1) {
            let step = self.steps.get(last);
            if step.kind == StepKind::Window && window == Some(last) {
                (first, wanted) = (last, last);
            } else if step.kind == StepKind::Direct && self.all(step, Are::Old, &mut source)? {
                first = last;
            }
        }
        if let Some(index) = window.filter(|index| *index == wanted) {
            self.rewrite_window(records)?;
            self.window = Some(index);
        }
        stage.steps_done = first;
        Ok(())
    }

    fn all(&mut self, step: WriteStep, are: Are, source: &mut BufferedFile<'_>) -> Result<bool> {
        for unit in self.steps.units(step) {
            if !self.is(unit, are, source)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns `true` if the old, or the new, bytes of a unit are in the file.
    fn is(&mut self, index: u32, are: Are, source: &mut BufferedFile<'_>) -> Result<bool> {
        let script = self.script(index)?;
        let unit = &self.units[index as usize];
        let found = match are {
            Are::Old => has_old(unit, &script, source),
            Are::New => has_new(unit, &script, source),
        };
        unless_short(found).map_err(self.at())
    }

    /// Returns the step whose window is complete in the journal.
    fn valid_window(&self, records: &Records) -> Result<Option<usize>> {
        let Some([step, payload_len, len, hash]) = records.get(RecordKind::Window) else {
            return Ok(None);
        };
        let at = self.header.window_at();
        let Some(file) = self.journal.file() else { return Ok(None) };
        let size = file.metadata().map_err(self.at_journal())?.size;
        let is_sane = payload_len <= len && len <= self.header.window_cap && at + len <= size;
        if !is_sane || step as usize >= self.steps.len() {
            return Ok(None);
        }
        let found = hash_of(file, at, len, self.options.buffer_len).map_err(self.at_journal())?;
        Ok((found == hash).then_some(step as usize))
    }

    /// Returns `true` if every sector that the window covers has its old or its new bytes, and the
    /// kept bytes beside them are there.
    fn is_old_or_new(&mut self, step: WriteStep, end: u64) -> Result<bool> {
        let mut payload_at = self.header.window_at();
        let mut piece_at = payload_at + self.steps.write_len(step, &self.units);
        for index in self.steps.units(step) {
            let script = self.script(index)?;
            let unit = self.units[index as usize];
            let Some(journal) = self.journal.file() else { return Ok(false) };
            let mut payload = BufferedFile::new(journal, self.options.buffer_len);
            let mut there = self.source();
            let has_kept = has_kept(&unit, &script, &mut there, &mut payload, payload_at);
            if !unless_short(has_kept).map_err(self.at())? {
                return Ok(false);
            }
            let mut hashes = BufferedFile::new(journal, self.options.buffer_len);
            let (mut found, mut new, mut hash) = (Vec::new(), Vec::new(), Vec::new());
            let mut is_whole = true;
            let checked = runs(&unit, &script, |at, len| {
                pieces(at, len, |at, len| {
                    read_or_zeros(&mut there, end, at, len, &mut found)?;
                    read_or_zeros(&mut payload, u64::MAX, payload_at, len, &mut new)?;
                    read_or_zeros(&mut hashes, u64::MAX, piece_at, PIECE_LEN, &mut hash)?;
                    is_whole &= found == new || hash == piece_hash(&found);
                    payload_at += len;
                    piece_at += PIECE_LEN;
                    Ok(())
                })
            });
            checked.map_err(self.at())?;
            if !is_whole {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the window again, in case its barrier failed.
    fn rewrite_window(&mut self, records: &Records) -> Result<()> {
        let Some(words) = records.get(RecordKind::Window) else { return Ok(()) };
        let [_, _, len, _] = words;
        let mut bytes = vec![0; self.options.buffer_len];
        let mut at = self.header.window_at();
        let end = at + len;
        while at < end {
            let more = (end - at).min(bytes.len() as u64) as usize;
            self.journal.read(&mut bytes[..more], at).map_err(self.at_journal())?;
            self.write_journal(&bytes[..more], at)?;
            at += more as u64;
        }
        self.put_record(RecordKind::Window, words)?;
        self.sync_journal()
    }

    /// Puts the journal aside after another program has rewritten the file. Only mail that was
    /// taken out of the file is put back.
    fn quarantine(mut self) -> Result<Outcome> {
        let foreign = self.records()?.get(RecordKind::Foreign).map(Foreign::from_words);
        let foreign = foreign.filter(|foreign| foreign.len <= OFFSET_MAX);
        let bytes_delivered = match foreign.map_or(Ok(0), |foreign| self.return_foreign(foreign)) {
            Ok(bytes) => bytes,
            Err(error) => return Err(self.unfinished(error)),
        };
        let Some(path) = self.journal.path().map(Path::to_owned) else {
            return Err(self.changed());
        };
        let quarantined = Some(put_aside(&self.places, &path, &self.header.id)?);
        self.remove_attribute()?;
        self.sync_all()?;
        let recovered = Recovered { quarantined, bytes_delivered, ..Recovered::default() };
        Ok(Outcome::needed(recovered, self.barriers + 1))
    }
}
