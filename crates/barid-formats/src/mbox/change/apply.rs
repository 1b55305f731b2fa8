//! Runs the steps of a change.

use std::io;

use barid_mailbox::{Error, Result, SyncContext};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::assemble::{assemble, chunks, pieces, runs};
use super::header::RecordKind;
use super::journal::JournalFile;
use super::source::BufferedFile;
use super::steps::{StepKind, WriteStep};
use super::work::PlannedChange;

/// Bytes of the hash of a piece: written bytes within one sector.
pub(super) const PIECE_LEN: u64 = 4;

/// Returns the hash of a piece of a sector.
pub(super) fn piece_hash(bytes: &[u8]) -> [u8; PIECE_LEN as usize] {
    (xxh3_64(bytes) as u32).to_le_bytes()
}

impl PlannedChange<'_> {
    /// Runs the steps from `first` on; the last bytes written may not be synced on return.
    ///
    /// Costs one barrier of the mailbox between two steps that depend on each other, and one of the
    /// journal for each window.
    pub(super) fn apply_steps(&mut self, first: usize, context: &SyncContext<'_>) -> Result<()> {
        let total = self.bytes_total();
        let mut index = first;
        while index < self.steps.len() {
            let step = self.steps.get(index);
            if step.kind == StepKind::Direct {
                let rest = index..self.steps.len();
                let is_direct = |index: &usize| self.steps.get(*index).kind == StepKind::Direct;
                let end = index + rest.take_while(is_direct).count();
                self.apply_direct(index, end, context)?;
                index = end;
                continue;
            }
            if context.is_stopped() {
                self.flush()?;
                return Err(self.stopped(&self.journal));
            }
            self.locks.touch()?;
            if self.window != Some(index) {
                // The bytes of the previous window may still be needed.
                self.flush()?;
                self.fill_window(index)?;
                self.sync_journal()?;
            }
            self.flush()?;
            self.apply_window(step)?;
            self.bytes_done += self.steps.write_len(step, &self.units);
            context.report(self.bytes_done, total);
            index += 1;
        }
        Ok(())
    }

    /// Returns the error for a change that was stopped, and is continued later.
    pub(super) fn stopped(&self, journal: &JournalFile) -> Error {
        Error::Unfinished {
            path: self.places.mailbox.to_owned(),
            journal: journal.path().unwrap_or(self.places.mailbox).to_owned(),
            what: "stopped".to_owned(),
        }
    }

    /// Writes the new bytes of a step to the journal, with hashes of the bytes that they replace.
    pub(super) fn fill_window(&mut self, index: usize) -> Result<()> {
        let units = self.steps.units(self.steps.get(index));
        let mut window =
            WindowOut { bytes: Vec::new(), offset: self.header.window_at(), hash: Xxh3::new() };
        let mut source = self.source();
        for index in &units {
            let script = self.script(*index)?;
            let unit = self.units[*index as usize];
            let hash = assemble(&unit, &script, &mut source, |_, bytes| window.put(self, bytes));
            if hash.map_err(self.at())? != unit.hash {
                return Err(self.changed());
            }
            self.locks.touch()?;
        }
        let payload_len = window.offset + window.bytes.len() as u64 - self.header.window_at();
        source.forget();
        let size = self.file().metadata().map_err(self.at())?.size;
        let mut piece = Vec::new();
        for index in &units {
            let script = self.script(*index)?;
            let unit = self.units[*index as usize];
            let hashed = runs(&unit, &script, |at, len| {
                pieces(at, len, |at, len| {
                    read_or_zeros(&mut source, size, at, len, &mut piece)?;
                    window.put(self, &piece_hash(&piece))
                })
            });
            hashed.map_err(self.at())?;
        }
        window.flush(self).map_err(self.at_journal())?;
        let len = window.offset - self.header.window_at();
        let words = [index as u64, payload_len, len, window.hash.digest()];
        self.put_record(RecordKind::Window, words)?;
        self.window = Some(index);
        Ok(())
    }

    /// Writes the window in the journal, which is that of `step`, to the mailbox.
    pub(super) fn apply_window(&mut self, step: WriteStep) -> Result<()> {
        let file = self.file();
        let mut offset = self.header.window_at();
        let mut bytes = Vec::new();
        for index in self.steps.units(step) {
            let script = self.script(index)?;
            let unit = self.units[index as usize];
            let Some(journal) = self.journal.file() else { return Err(self.changed()) };
            let mut source = BufferedFile::new(journal, self.options.buffer_len);
            let written = runs(&unit, &script, |at, len| {
                chunks(at, len, self.options.buffer_len as u64, |at, len| {
                    read_or_zeros(&mut source, u64::MAX, offset, len, &mut bytes)?;
                    offset += len;
                    file.write_all_at(&bytes, at)
                })
            });
            written.map_err(self.at())?;
            self.is_unsynced = true;
            self.locks.touch()?;
        }
        Ok(())
    }
}

/// Reads `len` bytes, with zeros beyond the end of the file.
pub(super) fn read_or_zeros(
    source: &mut BufferedFile<'_>,
    size: u64,
    at: u64,
    len: u64,
    bytes: &mut Vec<u8>,
) -> io::Result<()> {
    bytes.clear();
    let there = len.min(size.saturating_sub(at));
    source.visit(at, there, |part| {
        bytes.extend_from_slice(part);
        Ok(())
    })?;
    bytes.resize(len as usize, 0);
    Ok(())
}

/// Buffer of the bytes of a window.
struct WindowOut {
    bytes: Vec<u8>,
    offset: u64,
    hash: Xxh3,
}

impl WindowOut {
    fn put(&mut self, work: &mut PlannedChange<'_>, bytes: &[u8]) -> io::Result<()> {
        if self.bytes.len() + bytes.len() > work.options.buffer_len {
            self.flush(work)?;
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self, work: &mut PlannedChange<'_>) -> io::Result<()> {
        self.hash.update(&self.bytes);
        let written = work.write_journal(&self.bytes, self.offset);
        self.offset += self.bytes.len() as u64;
        self.bytes.clear();
        written.map_err(|error| match error {
            barid_mailbox::Error::Io { source, .. } => source,
            error => io::Error::other(error),
        })
    }
}
