//! Carrying out a change, at first and from its journal after a crash.

use std::io;
use std::path::Path;

use barid_mailbox::{Error, Recovered, Result};
use barid_vfs::{File, OpenOptions, Vfs, create_for_owner_of};

use super::change::{Change, FileChange, RedoWrite};
use super::encode::{BODY_AT, COMMIT_AT, Journal, Parsed, commit_record, encode, parse};
use super::limits::{BODY_LEN_MAX, SECTOR_LEN};
use super::place::{JournalPath, JournalSearch, is_missing};
use super::plan::RecoveryPlan;

/// Drops the pending changes up to the given one ([`barid_mailbox::SyncContext::drop_pending`]).
pub(crate) type DropPending<'a> = Option<&'a mut dyn FnMut(u64) -> Result<()>>;

/// Recovery of a mailbox of which other programs have changed some files, but not those whose bytes
/// move.
pub(crate) struct Mend<'a> {
    /// Returns `true` if a file of this name may be completed without the others.
    pub(crate) is_moved: fn(&[u8]) -> bool,
    /// Makes the other files agree with those of these names, which are complete. May be called
    /// again.
    pub(crate) mend: &'a mut dyn FnMut(&[&[u8]]) -> Result<()>,
}

/// Cost of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Number of barriers.
    pub(crate) barriers: u64,
    /// Bytes of the journal.
    pub(crate) bytes_journaled: u64,
}

/// Makes a change: all of it or nothing, even if the power fails. The change is durable when this
/// returns. `mode` is that of the journal, without permission for others to write it.
///
/// Requires the locks of the mailbox, and that [`recover`] has left no journal. Costs three
/// barriers and one for each file; one in all where the change lies in one sector of one file.
///
/// # Errors
/// [`Error::Unfinished`] once the change is begun; before that nothing was changed:
/// [`Error::NoSpace`], [`Error::Io`], and [`Error::Unsupported`] if the change is larger than
/// `BODY_LEN_MAX`.
pub(crate) fn apply(
    vfs: &dyn Vfs,
    place: &JournalPath,
    change: &Change,
    mode: u32,
    drop_pending: DropPending<'_>,
) -> Result<Cost> {
    if change.is_empty() {
        return Ok(Cost::default());
    }
    let files = open_files(vfs, place, change)?;
    if let Some(sector) = one_sector(change) {
        write_sector(change, &*files[0], sector).map_err(Error::at(&place.mailbox))?;
        return Ok(Cost { barriers: 1, bytes_journaled: 0 });
    }
    let mut id = [0; 16];
    vfs.random(&mut id).map_err(Error::at(&place.journal))?;
    let too_large = "the change is larger than a redo journal may be";
    let Some(bytes) = encode(change, &id) else {
        return Err(Error::Unsupported { path: place.mailbox.clone(), what: too_large });
    };
    let journal = write_journal(vfs, place, &bytes, mode)?;
    let work = RedoChange { vfs, place, change, files, journal, id };
    if let Err(error) = work.grow() {
        let undone = work.shrink_back().and_then(|()| discard(vfs, place, &*work.journal));
        undone.map_err(|_| work.unfinished(&error))?;
        return Err(work.full(error));
    }
    let barriers = work.write().and_then(|synced| Ok(synced + work.finish(drop_pending, false)?));
    let barriers = barriers.map_err(|error| work.unfinished(&error))?;
    Ok(Cost { barriers: barriers + 2, bytes_journaled: bytes.len() as u64 })
}

/// Contents of a journal, in short.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// The names of its files.
    pub(crate) names: Vec<Vec<u8>>,
    /// `true` if some are to have another size.
    pub(crate) resizes: bool,
}

/// Returns the summary of the journal; it is empty if there is no complete journal. Needs no locks.
pub(crate) fn summary(vfs: &dyn Vfs, place: &JournalPath) -> Result<Summary> {
    if place.look(vfs)? != JournalSearch::Redo {
        return Ok(Summary::default());
    }
    let bytes = match vfs.read(&place.journal, BODY_LEN_MAX + BODY_AT as u64) {
        Ok(bytes) => bytes,
        Err(error) if is_missing(&error) => return Ok(Summary::default()),
        Err(error) => return Err(Error::at(&place.journal)(error)),
    };
    let Parsed::Whole(journal) = parse(&bytes) else { return Ok(Summary::default()) };
    let files = journal.change.files;
    let resizes = files.iter().any(|file| file.new_size != file.old_size);
    Ok(Summary { names: files.into_iter().map(|file| file.name).collect(), resizes })
}

/// Completes the change of the journal, if there is a complete one. Requires the locks of the
/// mailbox. May be interrupted and repeated. What other programs have appended meanwhile stays.
///
/// # Errors
/// [`Error::Unrecoverable`] if the journal belongs to another user or cannot be parsed;
/// [`Error::Unfinished`] if the change is begun and still not complete.
pub(crate) fn recover(
    vfs: &dyn Vfs,
    place: &JournalPath,
    drop_pending: DropPending<'_>,
    mend: Option<Mend<'_>>,
) -> Result<Recovered> {
    let at = || Error::at(&place.journal);
    match place.look(vfs)? {
        JournalSearch::Nothing | JournalSearch::Other => return Ok(Recovered::default()),
        JournalSearch::Redo => {}
        JournalSearch::Strange => {
            let what = "belongs to another user, or others can write to it: it is not used";
            return Err(place.unrecoverable(format!("{} {what}", place.journal.display())));
        }
    }
    let mut journal = place.open(vfs)?;
    let mut bytes = vec![0; journal.metadata().map_err(at())?.size as usize];
    journal.read_exact_at(&mut bytes, 0).map_err(at())?;
    let Journal { id, change, is_committed } = match parse(&bytes) {
        Parsed::Whole(journal) => journal,
        Parsed::Incomplete => {
            discard(vfs, place, &*journal).map_err(at())?;
            return Ok(Recovered::default());
        }
        Parsed::Unusable(what) => {
            return Err(place.unrecoverable(format!("{} {what}", place.journal.display())));
        }
    };
    drop(bytes);
    let pending_through = change.pending_through;
    let plan = match is_committed {
        true => Some(RecoveryPlan { change, ..RecoveryPlan::default() }),
        false => RecoveryPlan::of(vfs, place, change, mend.as_ref().map(|mend| mend.is_moved))?,
    };
    let Some(plan) = plan else { return put_aside(vfs, place, &id) };
    if plan.bytes_kept > 0 {
        // Including those left out: the next recovery must know of them, too.
        let mut all = plan.change.clone();
        all.files.extend_from_slice(&plan.others);
        journal = exchange(vfs, place, &all, &id, &*journal)?;
    }
    // The bytes just read may be in memory only.
    journal.sync_all().map_err(at())?;
    vfs.sync_dir(place.journal_folder()).map_err(at())?;
    let RecoveryPlan { change, files, bytes_kept, is_part, .. } = plan;
    let work = RedoChange { vfs, place, change: &change, files, journal, id };
    if !is_committed {
        work.grow().and_then(|()| work.write()).map_err(|error| work.unfinished(&error))?;
    }
    if let (true, Some(mend)) = (is_part, mend) {
        let names: Vec<&[u8]> = change.files.iter().map(|file| file.name.as_slice()).collect();
        (mend.mend)(&names)?;
    }
    work.finish(drop_pending, is_committed).map_err(|error| work.unfinished(&error))?;
    let bytes_delivered = bytes_kept;
    Ok(Recovered { completed: true, pending_through, bytes_delivered, ..Recovered::default() })
}

fn open_files(vfs: &dyn Vfs, place: &JournalPath, change: &Change) -> Result<Vec<Box<dyn File>>> {
    let open = |file: &FileChange| {
        let path = place.file(&file.name);
        let options = OpenOptions { no_follow: true, ..OpenOptions::WRITE };
        vfs.open(&path, options).map_err(Error::at(&path))
    };
    change.files.iter().map(open).collect()
}

/// Returns the start and end of the writes of a change that lies in one sector of one file.
fn one_sector(change: &Change) -> Option<(u64, u64)> {
    let [file] = change.files.as_slice() else { return None };
    if file.old_size != file.new_size || change.pending_through.is_some() {
        return None;
    }
    let mut writes = file.writes.iter().filter(|write| !write.is_evidence && write.len > 0);
    let first = writes.next()?;
    let end = writes.next_back().unwrap_or(first).end();
    (first.offset / SECTOR_LEN == (end - 1) / SECTOR_LEN).then_some((first.offset, end))
}

/// Writes a change that lies in one sector, which is written completely or not at all.
fn write_sector(change: &Change, file: &dyn File, (from, end): (u64, u64)) -> io::Result<()> {
    let mut bytes = vec![0; (end - from) as usize];
    file.read_exact_at(&mut bytes, from)?;
    for (write, new) in writes(&change.files[0]) {
        let at = (write.offset - from) as usize;
        bytes[at..at + new.len()].copy_from_slice(new);
    }
    let written = file.write_all_at(&bytes, from);
    // Whatever the outcome, it must be on the disk.
    let synced = file.sync_all();
    written.and(synced)
}

/// Returns the writes of a file with their bytes.
fn writes(change: &FileChange) -> impl Iterator<Item = (&RedoWrite, &[u8])> {
    let mut bytes = change.bytes.as_slice();
    change.writes.iter().filter(|write| !write.is_evidence).map(move |write| {
        let (own, rest) = bytes.split_at(write.len as usize);
        bytes = rest;
        (write, own)
    })
}

/// Creates the file of a journal, readable by those who may read the mailbox.
fn create(vfs: &dyn Vfs, place: &JournalPath, path: &Path, mode: u32) -> io::Result<Box<dyn File>> {
    create_for_owner_of(vfs, place.mailbox_path(), path, mode & 0o644 | 0o600)
}

/// Writes a journal and makes it durable.
fn write_journal(
    vfs: &dyn Vfs,
    place: &JournalPath,
    bytes: &[u8],
    mode: u32,
) -> Result<Box<dyn File>> {
    let journal = create(vfs, place, &place.journal, mode);
    let journal = journal.map_err(|error| full(vfs, &place.journal, bytes.len() as u64, error))?;
    let written = journal
        .write_all_at(bytes, 0)
        .and_then(|()| journal.sync_all())
        .and_then(|()| vfs.sync_dir(place.journal_folder()));
    match written {
        Ok(()) => Ok(journal),
        Err(error) => match discard(vfs, place, &*journal) {
            Ok(()) => Err(full(vfs, &place.journal, bytes.len() as u64, error)),
            // It may be there, and complete.
            Err(_) => Err(place.unfinished(&error)),
        },
    }
}

/// Replaces a journal by another one with the same mode.
fn exchange(
    vfs: &dyn Vfs,
    place: &JournalPath,
    change: &Change,
    id: &[u8; 16],
    old: &dyn File,
) -> Result<Box<dyn File>> {
    let too_large = || place.unrecoverable("too much was appended to continue".to_owned());
    let bytes = encode(change, id).ok_or_else(too_large)?;
    let path = place.next_journal();
    match vfs.remove_file(&path) {
        Err(error) if !is_missing(&error) => return Err(Error::at(&path)(error)),
        _ => {}
    }
    let mode = old.metadata().map_err(Error::at(&place.journal))?.mode;
    let new = create(vfs, place, &path, mode);
    let new = new.map_err(|error| full(vfs, &path, bytes.len() as u64, error))?;
    let written = new.write_all_at(&bytes, 0).and_then(|()| new.sync_all());
    written.map_err(|error| full(vfs, &path, bytes.len() as u64, error))?;
    vfs.rename(&path, &place.journal).map_err(Error::at(&place.journal))?;
    Ok(new)
}

/// Removes the journal of a change that was not begun, so that no recovery finds it complete later.
/// If this fails, one may.
fn discard(vfs: &dyn Vfs, place: &JournalPath, journal: &dyn File) -> io::Result<()> {
    let cut = journal.set_len(0).and_then(|()| journal.sync_all());
    let gone = unlink(vfs, place, journal).and_then(|()| vfs.sync_dir(place.journal_folder()));
    // Either is enough.
    gone.or(cut)
}

/// Removes the name of a journal, if it still names this file.
fn unlink(vfs: &dyn Vfs, place: &JournalPath, journal: &dyn File) -> io::Result<()> {
    match vfs.symlink_metadata(&place.journal) {
        Ok(found) if found.inode == journal.metadata()?.inode => vfs.remove_file(&place.journal),
        Ok(_) => Ok(()),
        Err(error) if is_missing(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Puts aside a journal that another program has made obsolete.
fn put_aside(vfs: &dyn Vfs, place: &JournalPath, id: &[u8; 16]) -> Result<Recovered> {
    let to = place.quarantine(id);
    vfs.rename(&place.journal, &to).map_err(Error::at(&place.journal))?;
    vfs.sync_dir(place.journal_folder()).map_err(Error::at(place.journal_folder()))?;
    Ok(Recovered { quarantined: Some(to), ..Recovered::default() })
}

fn full(vfs: &dyn Vfs, path: &std::path::Path, needed: u64, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            let free = path.parent().and_then(|folder| vfs.free_space(folder).ok()).unwrap_or(0);
            Error::NoSpace { path: path.to_owned(), needed, free }
        }
        _ => Error::at(path)(error),
    }
}

/// A change whose journal is durable.
struct RedoChange<'a> {
    vfs: &'a dyn Vfs,
    place: &'a JournalPath,
    change: &'a Change,
    files: Vec<Box<dyn File>>,
    journal: Box<dyn File>,
    id: [u8; 16],
}

impl RedoChange<'_> {
    fn files(&self) -> impl Iterator<Item = (&FileChange, &dyn File)> {
        self.change.files.iter().zip(&self.files).map(|(change, file)| (change, &**file))
    }

    /// Allocates space before anything is written, so that a full disk is noticed now.
    fn grow(&self) -> io::Result<()> {
        for (change, file) in self.files() {
            if change.new_size > change.old_size {
                match file.allocate(change.old_size, change.new_size - change.old_size) {
                    Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
                    grown => grown?,
                }
            }
        }
        Ok(())
    }

    /// Undoes [`RedoChange::grow`]; the journal may be removed only once this is durable.
    fn shrink_back(&self) -> io::Result<()> {
        for (change, file) in self.files() {
            if change.new_size > change.old_size {
                file.set_len(change.old_size)?;
                file.sync_all()?;
            }
        }
        Ok(())
    }

    /// Writes all files and makes them durable; returns the number of files.
    fn write(&self) -> io::Result<u64> {
        for (change, file) in self.files() {
            for (write, bytes) in writes(change) {
                file.write_all_at(bytes, write.offset)?;
            }
            if change.new_size < change.old_size {
                file.set_len(change.new_size)?;
            }
        }
        self.files.iter().try_for_each(|file| file.sync_all())?;
        Ok(self.files.len() as u64)
    }

    /// Removes the journal, and drops the pending changes that it names: only once it is certain
    /// that it will never be replayed. Returns the number of barriers.
    fn finish(&self, drop_pending: DropPending<'_>, is_committed: bool) -> io::Result<u64> {
        let mut barriers = 1;
        if let (Some(through), Some(drop_pending)) = (self.change.pending_through, drop_pending) {
            if !is_committed {
                self.journal.write_all_at(&commit_record(&self.id), COMMIT_AT as u64)?;
                self.journal.sync_all()?;
                barriers += 1;
            }
            drop_pending(through).map_err(io::Error::other)?;
        }
        unlink(self.vfs, self.place, &*self.journal)?;
        self.vfs.sync_dir(self.place.journal_folder())?;
        Ok(barriers)
    }

    fn unfinished(&self, error: &io::Error) -> Error {
        self.place.unfinished(error)
    }

    fn full(&self, error: io::Error) -> Error {
        let growth =
            |(change, _): (&FileChange, _)| change.new_size.saturating_sub(change.old_size);
        full(self.vfs, &self.place.mailbox, self.files().map(growth).sum(), error)
    }
}
