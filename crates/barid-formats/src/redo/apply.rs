//! Doing what a journal says, at first and after a crash.

use std::io;

use barid_vfs::{File, OpenOptions, Vfs};
use xxhash_rust::xxh3::xxh3_64;

use super::change::{Change, FileChange, Write};
use super::encode::{COMMIT_AT, Journal, Parsed, commit_record, encode, parse};
use super::limits::{BODY_LEN_MAX, SECTOR_LEN};
use super::place::{Found, Place, is_missing};
use crate::{Error, Recovered, Result};

/// Drops the pending changes up to the one given ([`crate::SyncContext::drop_pending`]).
pub(crate) type DropPending<'a> = Option<&'a mut dyn FnMut(u64) -> Result<()>>;

/// What a change cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// How often was waited for the disk.
    pub(crate) barriers: u64,
    /// Bytes of the journal.
    pub(crate) bytes_journaled: u64,
}

/// Makes a change: all of it, or nothing, whenever the power fails. All is durable when this
/// returns. `mode` is that of the journal, less what lets others write it.
///
/// Wants the locks of the mailbox, and that [`recover`] has left no journal. Costs three barriers
/// and one for each file; one in all where the change lies in one sector of one file.
///
/// # Errors
/// [`Error::Unfinished`] once the change is begun; before that nothing was changed:
/// [`Error::NoSpace`], [`Error::Io`], and [`Error::Unsupported`] if the change is larger than
/// `BODY_LEN_MAX`.
pub(crate) fn apply(
    vfs: &dyn Vfs,
    place: &Place,
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
    let work = Work { vfs, place, change, files, journal, id };
    if let Err(error) = work.grow() {
        work.shrink_back().map_err(|_| work.unfinished(&error))?;
        discard(vfs, place, &*work.journal);
        return Err(work.full(error));
    }
    let barriers = work.write().and_then(|synced| Ok(synced + work.finish(drop_pending, false)?));
    let barriers = barriers.map_err(|error| work.unfinished(&error))?;
    Ok(Cost { barriers: barriers + 2, bytes_journaled: bytes.len() as u64 })
}

/// The names of the files that a journal is about; none if there is none that is whole. May be
/// asked without locks.
pub(crate) fn names(vfs: &dyn Vfs, place: &Place) -> Result<Vec<Vec<u8>>> {
    if place.look(vfs)? != Found::Redo {
        return Ok(Vec::new());
    }
    let bytes = match vfs.read(&place.journal, BODY_LEN_MAX + 4096) {
        Ok(bytes) => bytes,
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        Err(error) => return Err(Error::at(&place.journal)(error)),
    };
    Ok(match parse(&bytes) {
        Parsed::Whole(journal) => journal.change.files.into_iter().map(|file| file.name).collect(),
        Parsed::Incomplete | Parsed::Unusable(_) => Vec::new(),
    })
}

/// Completes what the journal says, if there is one and it is whole. Wants the locks of the
/// mailbox. May be interrupted and done again.
///
/// # Errors
/// [`Error::Unrecoverable`] if the journal is another user's or not to be understood;
/// [`Error::Unfinished`] if the change is begun and still not complete.
pub(crate) fn recover(
    vfs: &dyn Vfs,
    place: &Place,
    drop_pending: DropPending<'_>,
) -> Result<Recovered> {
    let at = || Error::at(&place.journal);
    match place.look(vfs)? {
        Found::Nothing | Found::Other => return Ok(Recovered::default()),
        Found::Redo => {}
        Found::Strange => {
            let what = "is another user's, or open to others: it is not followed";
            return Err(place.unrecoverable(format!("{} {what}", place.journal.display())));
        }
    }
    let options = OpenOptions { no_follow: true, ..OpenOptions::WRITE };
    let journal = vfs.open(&place.journal, options).map_err(at())?;
    let metadata = journal.metadata().map_err(at())?;
    if !place.trusts(vfs, &metadata)? || metadata.size > BODY_LEN_MAX + 4096 {
        let what = "was exchanged, or is larger than any";
        return Err(place.unrecoverable(format!("{} {what}", place.journal.display())));
    }
    let mut bytes = vec![0; metadata.size as usize];
    journal.read_exact_at(&mut bytes, 0).map_err(at())?;
    let Journal { id, change, is_committed } = match parse(&bytes) {
        Parsed::Whole(journal) => journal,
        Parsed::Incomplete => {
            discard(vfs, place, &*journal);
            return Ok(Recovered::default());
        }
        Parsed::Unusable(what) => {
            return Err(place.unrecoverable(format!("{} {what}", place.journal.display())));
        }
    };
    drop(bytes);
    let pending_through = change.pending_through;
    let files = match is_committed {
        true => Some(Vec::new()),
        false => find_files(vfs, place, &change)?,
    };
    let Some(files) = files else { return put_aside(vfs, place, &id) };
    // What was read may be in memory only.
    journal.sync_all().map_err(at())?;
    vfs.sync_dir(place.journal_folder()).map_err(at())?;
    let work = Work { vfs, place, change: &change, files, journal, id };
    if !is_committed {
        work.grow().and_then(|()| work.write()).map_err(|error| work.unfinished(&error))?;
    }
    work.finish(drop_pending, is_committed).map_err(|error| work.unfinished(&error))?;
    Ok(Recovered { completed: true, pending_through, ..Recovered::default() })
}

/// The files of a change; `None` if one is missing or holds what is neither old nor new.
fn find_files(vfs: &dyn Vfs, place: &Place, change: &Change) -> Result<Option<Vec<Box<dyn File>>>> {
    let files = match open_files(vfs, place, change) {
        Ok(files) => files,
        Err(Error::Io { source, .. }) if is_missing(&source) => return Ok(None),
        Err(error) => return Err(error),
    };
    for (file, is) in change.files.iter().zip(&files) {
        let found = is_old_or_new(file, &**is).map_err(Error::at(&place.file(&file.name)))?;
        if !found {
            return Ok(None);
        }
    }
    Ok(Some(files))
}

fn open_files(vfs: &dyn Vfs, place: &Place, change: &Change) -> Result<Vec<Box<dyn File>>> {
    let open = |file: &FileChange| {
        let path = place.file(&file.name);
        let options = OpenOptions { no_follow: true, ..OpenOptions::WRITE };
        vfs.open(&path, options).map_err(Error::at(&path))
    };
    change.files.iter().map(open).collect()
}

/// Whether every sector of a file that is written holds what was there or what is to be there.
fn is_old_or_new(change: &FileChange, file: &dyn File) -> io::Result<bool> {
    let size = file.metadata()?.size;
    let (old_size, new_size) = (change.old_size, change.new_size);
    // To a file that stays as long as it is others may append.
    let is_possible = match old_size.cmp(&new_size) {
        std::cmp::Ordering::Equal => size >= old_size,
        std::cmp::Ordering::Less => (old_size..=new_size).contains(&size),
        std::cmp::Ordering::Greater if size == old_size => {
            let mut cut = vec![0; change.cut_len as usize];
            file.read_exact_at(&mut cut, old_size - change.cut_len)?;
            xxh3_64(&cut) == change.cut_hash
        }
        std::cmp::Ordering::Greater => size == new_size,
    };
    if !is_possible {
        return Ok(false);
    }
    let (mut hashes, mut bytes) = (change.hashes.iter(), change.bytes.as_slice());
    let mut found = Vec::new();
    for write in &change.writes {
        // A write may reach behind the end, as long as the file has not grown.
        let len = size.saturating_sub(write.offset).min(u64::from(write.len)) as usize;
        found.resize(len, 0);
        file.read_exact_at(&mut found, write.offset)?;
        let new = match write.is_evidence {
            true => &[][..],
            false => {
                let (own, rest) = bytes.split_at(write.len as usize);
                bytes = rest;
                own
            }
        };
        for ((at, len), hash) in write.pieces().zip(hashes.by_ref()) {
            let from = (at - write.offset) as usize;
            let piece = &found[from.min(found.len())..(from + len).min(found.len())];
            let old_len = old_size.saturating_sub(at).min(len as u64) as usize;
            if !is_piece_known(piece, old_len, *hash, new.get(from..from + len)) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Whether what is found in a piece of a sector is its old bytes, with nothing or zeros behind what
/// there was, or its new bytes, as far as these have come.
fn is_piece_known(found: &[u8], old_len: usize, old_hash: u64, new: Option<&[u8]>) -> bool {
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let is_old = found
        .split_at_checked(old_len)
        .is_some_and(|(old, behind)| xxh3_64(old) == old_hash && is_zero(behind));
    let is_new = |new: &[u8]| {
        let common = found.iter().zip(new).take_while(|(found, new)| found == new).count();
        common >= old_len && is_zero(&found[common..])
    };
    is_old || new.is_some_and(is_new)
}

/// The writes of a change that lies in one sector of one file: where they begin and end.
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

/// Writes a change that lies in one sector, which is written whole or not at all.
fn write_sector(change: &Change, file: &dyn File, (from, end): (u64, u64)) -> io::Result<()> {
    let mut bytes = vec![0; (end - from) as usize];
    file.read_exact_at(&mut bytes, from)?;
    for (write, new) in writes(&change.files[0]) {
        let at = (write.offset - from) as usize;
        bytes[at..at + new.len()].copy_from_slice(new);
    }
    let written = file.write_all_at(&bytes, from);
    // Whatever became of that, it is to be on the disk.
    let synced = file.sync_all();
    written.and(synced)
}

/// The writes of a file with their bytes.
fn writes(change: &FileChange) -> impl Iterator<Item = (&Write, &[u8])> {
    let mut bytes = change.bytes.as_slice();
    change.writes.iter().filter(|write| !write.is_evidence).map(move |write| {
        let (own, rest) = bytes.split_at(write.len as usize);
        bytes = rest;
        (write, own)
    })
}

/// Writes a journal and makes it durable.
fn write_journal(vfs: &dyn Vfs, place: &Place, bytes: &[u8], mode: u32) -> Result<Box<dyn File>> {
    let options = OpenOptions::create_new(mode & 0o644 | 0o600);
    let journal = vfs.open(&place.journal, options);
    let journal = journal.map_err(|error| full(vfs, &place.journal, bytes.len() as u64, error))?;
    let written = journal
        .write_all_at(bytes, 0)
        .and_then(|()| journal.sync_all())
        .and_then(|()| vfs.sync_dir(place.journal_folder()));
    match written {
        Ok(()) => Ok(journal),
        Err(error) => {
            discard(vfs, place, &*journal);
            Err(full(vfs, &place.journal, bytes.len() as u64, error))
        }
    }
}

/// Removes a journal of what was never begun, so that it is not found whole later. There is an
/// error already that matters more than any of this.
fn discard(vfs: &dyn Vfs, place: &Place, journal: &dyn File) {
    let _ = journal.set_len(0);
    let _ = unlink(vfs, place, journal).and_then(|()| vfs.sync_dir(place.journal_folder()));
}

/// Takes the name of a journal away, if that is still its own.
fn unlink(vfs: &dyn Vfs, place: &Place, journal: &dyn File) -> io::Result<()> {
    match vfs.symlink_metadata(&place.journal) {
        Ok(found) if found.inode == journal.metadata()?.inode => vfs.remove_file(&place.journal),
        Ok(_) => Ok(()),
        Err(error) if is_missing(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Puts aside what another program has made obsolete.
fn put_aside(vfs: &dyn Vfs, place: &Place, id: &[u8; 16]) -> Result<Recovered> {
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
struct Work<'a> {
    vfs: &'a dyn Vfs,
    place: &'a Place,
    change: &'a Change,
    files: Vec<Box<dyn File>>,
    journal: Box<dyn File>,
    id: [u8; 16],
}

impl Work<'_> {
    fn files(&self) -> impl Iterator<Item = (&FileChange, &dyn File)> {
        self.change.files.iter().zip(&self.files).map(|(change, file)| (change, &**file))
    }

    /// Makes room before anything is written: a full disk is to be noticed now.
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

    /// Undoes [`Work::grow`]; no sooner than that is durable may the journal go.
    fn shrink_back(&self) -> io::Result<()> {
        for (change, file) in self.files() {
            if change.new_size > change.old_size {
                file.set_len(change.old_size)?;
                file.sync_all()?;
            }
        }
        Ok(())
    }

    /// Writes all files and makes them durable; returns how many they are.
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

    /// Takes the journal away, and drops the pending changes that it speaks of: not before it is
    /// certain that it will never be followed again. Returns how often it waited for the disk.
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
        Error::Unfinished {
            path: self.place.mailbox.clone(),
            journal: self.place.journal.clone(),
            what: error.to_string(),
        }
    }

    fn full(&self, error: io::Error) -> Error {
        let growth =
            |(change, _): (&FileChange, _)| change.new_size.saturating_sub(change.old_size);
        full(self.vfs, &self.place.mailbox, self.files().map(growth).sum(), error)
    }
}
