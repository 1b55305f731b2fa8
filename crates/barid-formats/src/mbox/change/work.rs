//! A change in progress: the mailbox, its journal, and the writes that are not synced yet.

use std::io;

use barid_mailbox::{Error, Result};
use barid_vfs::{File, Timestamp};
use xxhash_rust::xxh3::Xxh3;

use super::header::{HEADER_LEN, JournalHeader, JournalRecord, RecordKind};
use super::journal::{ATTRIBUTE, JournalFile, Places};
use super::limits::{SCRIPT_RAW_MAX, WritingOptions};
use super::source::BufferedFile;
use super::steps::Steps;
use super::unit::{Collapse, Unit};
use crate::mbox::MboxMailbox;
use crate::mbox::lock::MboxWriteLocks;

/// A planned change.
pub(super) struct PlannedChange<'a> {
    pub(super) mailbox: &'a MboxMailbox,
    pub(super) locks: &'a MboxWriteLocks,
    pub(super) places: Places<'a>,
    pub(super) options: WritingOptions,
    pub(super) journal: JournalFile,
    pub(super) header: JournalHeader,
    pub(super) units: Vec<Unit>,
    pub(super) collapses: Vec<Collapse>,
    pub(super) steps: Steps,
    /// Number of fsync calls.
    pub(super) barriers: u64,
    /// `true` if bytes of the mailbox were written that no barrier covers yet.
    pub(super) is_unsynced: bool,
    /// Modification time that was set at the end.
    pub(super) times: Option<Timestamp>,
    /// The step whose window is in the journal.
    pub(super) window: Option<usize>,
    /// Bytes written to the mailbox by steps.
    pub(super) bytes_done: u64,
    pub(super) decompressor: Option<zstd::bulk::Decompressor<'static>>,
}

/// Returns the places of the journals of a mailbox.
pub(super) fn places_of<'a>(
    mailbox: &'a MboxMailbox,
    locks: &'a MboxWriteLocks,
    state_dir: Option<&'a std::path::Path>,
) -> Places<'a> {
    Places { vfs: &*mailbox.vfs, mailbox: locks.path(), state_dir }
}

impl<'a> PlannedChange<'a> {
    /// Returns the mailbox file.
    pub(super) fn file(&self) -> &'a dyn File {
        self.locks.file()
    }

    /// Returns a converter of errors of the mailbox.
    pub(super) fn at(&self) -> impl FnOnce(io::Error) -> Error {
        Error::at(self.places.mailbox)
    }

    /// Returns a converter of errors of the journal.
    pub(super) fn at_journal(&self) -> impl FnOnce(io::Error) -> Error {
        Error::at(self.journal.path().unwrap_or(self.places.mailbox))
    }

    /// Syncs bytes and size of the mailbox.
    pub(super) fn sync_data(&mut self) -> Result<()> {
        self.barriers += 1;
        self.is_unsynced = false;
        self.file().sync_data().map_err(self.at())
    }

    /// Syncs the mailbox with all metadata.
    pub(super) fn sync_all(&mut self) -> Result<()> {
        self.barriers += 1;
        self.is_unsynced = false;
        self.file().sync_all().map_err(self.at())
    }

    /// Syncs the mailbox if bytes were written since the last time.
    pub(super) fn flush(&mut self) -> Result<()> {
        match self.is_unsynced {
            true => self.sync_data(),
            false => Ok(()),
        }
    }

    /// Syncs the journal.
    pub(super) fn sync_journal(&mut self) -> Result<()> {
        self.barriers += 1;
        let synced = self.journal.file().map_or(Ok(()), File::sync_data);
        synced.map_err(self.at_journal())
    }

    /// Syncs the folder of the journal, and so its name.
    pub(super) fn sync_journal_dir(&mut self) -> Result<()> {
        let Some(dir) = self.journal.path().and_then(std::path::Path::parent) else {
            return Ok(());
        };
        self.barriers += 1;
        self.places.vfs.sync_dir(dir).map_err(Error::at(dir))
    }

    /// Writes to the journal.
    pub(super) fn write_journal(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        self.journal.write(&self.places, bytes, offset)
    }

    /// Writes a record to the journal; it counts once the journal is synced.
    pub(super) fn put_record(&mut self, kind: RecordKind, words: [u64; 4]) -> Result<()> {
        let bytes = JournalRecord { kind, words }.to_bytes(&self.header.id);
        self.write_journal(&bytes, self.header.records_at() + kind.offset())
    }

    /// Writes a record to the journal and syncs it.
    pub(super) fn record(&mut self, kind: RecordKind, words: [u64; 4]) -> Result<()> {
        self.put_record(kind, words)?;
        self.sync_journal()
    }

    /// Returns `true` if the mailbox must name the journal.
    pub(super) fn wants_attribute(&self) -> bool {
        !self.header.is_in_place || self.journal.path() != Some(&*self.places.beside())
    }

    /// Sets the attribute that names the journal; returns `true` if it must be synced.
    ///
    /// # Errors
    /// Errors of the file system, unless the journal is found without the attribute.
    pub(super) fn set_attribute(&mut self) -> Result<bool> {
        let Some(path) = self.journal.path().filter(|_| self.wants_attribute()) else {
            return Ok(false);
        };
        let value = self.places.attribute_of_change(path, &self.header.id);
        if self.file().xattr(ATTRIBUTE).map_err(self.at())?.as_ref() == Some(&value) {
            return Ok(false);
        }
        match self.file().set_xattr(ATTRIBUTE, &value) {
            Ok(()) => Ok(true),
            Err(_) if path == self.places.beside() => Ok(false),
            Err(error) => Err(self.at()(error)),
        }
    }

    /// Removes the attribute, and syncs that.
    pub(super) fn remove_attribute(&mut self) -> Result<()> {
        if self.file().xattr(ATTRIBUTE).map_err(self.at())?.is_some() {
            self.file().remove_xattr(ATTRIBUTE).map_err(self.at())?;
            self.sync_all()?;
        }
        Ok(())
    }

    /// Returns the script of a unit.
    pub(super) fn script(&mut self, unit: u32) -> Result<Vec<u8>> {
        let unit = self.units[unit as usize];
        self.read_script(&unit).map_err(self.at_journal())
    }

    fn read_script(&mut self, unit: &Unit) -> io::Result<Vec<u8>> {
        decompressed(&self.journal, unit, &mut self.decompressor)
    }

    /// Returns a buffered reader of the mailbox.
    pub(super) fn source(&self) -> BufferedFile<'a> {
        BufferedFile::new(self.file(), self.options.buffer_len)
    }

    /// Returns the error for a file that another program has changed.
    pub(super) fn changed(&self) -> Error {
        Error::Changed { path: self.places.mailbox.to_owned() }
    }

    /// Returns the number of bytes that all steps write.
    pub(super) fn bytes_total(&self) -> u64 {
        self.units.iter().map(|unit| unit.write_len).sum()
    }
}

/// Reads the script of a unit from a journal.
pub(super) fn decompressed(
    journal: &JournalFile,
    unit: &Unit,
    decompressor: &mut Option<zstd::bulk::Decompressor<'static>>,
) -> io::Result<Vec<u8>> {
    let mut stored = vec![0; unit.script_len as usize];
    journal.read(&mut stored, HEADER_LEN + unit.script_at)?;
    let mut script = Vec::new();
    decompress(&stored, unit, decompressor, &mut script)?;
    Ok(script)
}

/// Decodes the script of a unit, stored as `stored`, into `script`.
pub(super) fn decompress(
    stored: &[u8],
    unit: &Unit,
    decompressor: &mut Option<zstd::bulk::Decompressor<'static>>,
    script: &mut Vec<u8>,
) -> io::Result<()> {
    let raw_len = unit.script_raw_len as usize;
    script.clear();
    if unit.script_len == unit.script_raw_len {
        script.extend_from_slice(stored);
        return Ok(());
    }
    if raw_len > SCRIPT_RAW_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    script.reserve(raw_len);
    let done = match decompressor {
        Some(decompressor) => decompressor.decompress_to_buffer(stored, script),
        none => none.insert(zstd::bulk::Decompressor::new()?).decompress_to_buffer(stored, script),
    };
    match done.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
        len if len == raw_len => Ok(()),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Returns the bytes of the plan after the scripts, and the hash of all of it.
pub(super) fn plan_bytes(units: &[Unit], collapses: &[Collapse], mut hash: Xxh3) -> (Vec<u8>, u64) {
    let mut bytes = Vec::with_capacity(units.len() * Unit::LEN + collapses.len() * Collapse::LEN);
    units.iter().for_each(|unit| bytes.extend(unit.to_bytes()));
    collapses.iter().for_each(|collapse| bytes.extend(collapse.to_bytes()));
    hash.update(&bytes);
    (bytes, hash.digest())
}
