//! The drafter: takes a draft down as units and scripts.
//!
//! Everything that is to be read of the old file for the plan is read here once, in the order of
//! the file, and hashed. Scripts go to the journal as they come; only the units are kept, of which
//! there are not many however large the file is.

use std::io;

use barid_vfs::File;
use xxhash_rust::xxh3::Xxh3;

use super::draft::Draft;
use super::header::HEADER_LEN;
use super::journal::{JournalFile, Places};
use super::limits::{
    COLLAPSES_MAX, CONTEXT_LEN, SCRIPT_COMPRESSED_MIN, SCRIPT_LEN_MAX, SCRIPT_LEVEL, SECTOR_LEN,
    SKIP_HASHED_MAX, UNITS_MAX, WritingOptions,
};
use super::script::{Op, Script};
use super::source::Source;
use super::unit::{Collapse, Unit};
use crate::{Error, Result};

/// Where the drafter puts scripts.
pub(super) struct Scripts<'a> {
    /// The journal.
    pub(super) journal: &'a mut JournalFile,
    /// Where it goes.
    pub(super) places: Places<'a>,
}

/// See the module's text.
pub(super) struct Drafter<'a> {
    places: Places<'a>,
    source: Source<'a>,
    /// `None`: nothing is read, hashed or written, only counted.
    scripts: Option<Scripts<'a>>,
    scripts_len: u64,
    scripts_hash: Xxh3,
    compressor: Option<zstd::bulk::Compressor<'static>>,
    unit_len: u64,
    stay_len: u64,
    /// The places in the old and in the new file.
    old: u64,
    new: u64,
    /// How many of the bytes before these places stay and are in no unit yet.
    staying: u64,
    units: Vec<Unit>,
    open: Option<Unit>,
    script: Script,
    hash: Xxh3,
    skip_hash: Xxh3,
    /// The end of the last run of written bytes of the open unit.
    run_end: Option<u64>,
}

/// What a draft comes to.
pub(super) struct Drafted {
    /// The units, ascending.
    pub(super) units: Vec<Unit>,
    /// What is collapsed first, ascending.
    pub(super) collapses: Vec<Collapse>,
    /// Bytes of the old file without what is collapsed.
    pub(super) base_size: u64,
    /// Bytes of the new file.
    pub(super) new_size: u64,
    /// Bytes of all scripts.
    pub(super) scripts_len: u64,
    /// The hash of the scripts, which the rest of the plan is still to be added to.
    pub(super) scripts_hash: Xxh3,
}

impl<'a> Drafter<'a> {
    /// A drafter of changes to `file`, which has `size` bytes. Without `journal` it counts only.
    pub(super) fn new(
        places: Places<'a>,
        file: &'a dyn File,
        size: u64,
        journal: Option<&'a mut JournalFile>,
        options: &WritingOptions,
    ) -> Self {
        Self {
            places,
            source: Source::new(file, options.buffer_len),
            scripts: journal.map(|journal| Scripts { journal, places }),
            scripts_len: 0,
            scripts_hash: Xxh3::new(),
            compressor: None,
            unit_len: options.unit_len.max(size / UNITS_MAX).max(1),
            stay_len: options.stay_len.max(size / UNITS_MAX),
            old: 0,
            new: 0,
            staying: 0,
            units: Vec::new(),
            open: None,
            script: Script::default(),
            hash: Xxh3::new(),
            skip_hash: Xxh3::new(),
            run_end: None,
        }
    }

    /// The draft is complete.
    pub(super) fn finish(mut self) -> Result<Drafted> {
        self.close_behind()?;
        Ok(Drafted {
            units: self.units,
            collapses: self.source.collapses().to_vec(),
            base_size: self.old,
            new_size: self.new,
            scripts_len: self.scripts_len,
            scripts_hash: self.scripts_hash,
        })
    }

    /// Before a change: sees to it that a unit is open that reaches to the place.
    fn begin(&mut self) -> Result<()> {
        if self.is_full() {
            self.close_behind()?;
        }
        if self.open.is_some() && self.staying > 0 && self.staying <= self.stay_len {
            let len = std::mem::take(&mut self.staying);
            let (old, new) = (self.old, self.new);
            (self.old, self.new) = (old - len, new - len);
            if len <= 2 * CONTEXT_LEN {
                return self.keep(len);
            }
            self.keep(CONTEXT_LEN)?;
            self.script.push(Op::Stay(len - 2 * CONTEXT_LEN));
            (self.old, self.new) = (old - CONTEXT_LEN, new - CONTEXT_LEN);
            return self.keep(CONTEXT_LEN);
        }
        if self.staying > 0 {
            self.close_behind()?;
        }
        if self.open.is_none() {
            let lead = self.staying.min(CONTEXT_LEN);
            self.staying = 0;
            (self.old, self.new) = (self.old - lead, self.new - lead);
            self.open = Some(Unit { old: self.old, new: self.new, ..Unit::default() });
            self.keep(lead)?;
        }
        Ok(())
    }

    /// Whether the open unit is to end before the next change.
    fn is_full(&self) -> bool {
        let is_long = self.script.len() >= SCRIPT_LEN_MAX;
        self.open.as_ref().is_some_and(|unit| unit.write_len >= self.unit_len || is_long)
    }

    /// Ends the open unit with the first of the bytes that stay behind it.
    fn close_behind(&mut self) -> Result<()> {
        if self.open.is_none() {
            return Ok(());
        }
        let (old, new, staying) = (self.old, self.new, self.staying);
        let len = staying.min(CONTEXT_LEN);
        (self.old, self.new) = (old - staying, new - staying);
        self.keep(len)?;
        self.close()?;
        (self.old, self.new, self.staying) = (old, new, staying - len);
        Ok(())
    }

    fn keep(&mut self, len: u64) -> Result<()> {
        if len > 0 {
            self.read(len, false)?;
            self.script.push(Op::Keep(len));
            self.new += len;
        }
        Ok(())
    }

    /// Reads and hashes old bytes, which are new bytes, too, unless they are skipped.
    fn read(&mut self, len: u64, are_skipped: bool) -> Result<()> {
        let hash = if are_skipped { &mut self.skip_hash } else { &mut self.hash };
        let read = match self.scripts.is_some() {
            true => self.source.hash(self.old, len, hash),
            false => Ok(()),
        };
        self.old += len;
        read.map_err(self.at())
    }

    fn at(&self) -> impl FnOnce(io::Error) -> Error {
        let path = self.places.mailbox.to_owned();
        move |source| match source.kind() {
            // It is shorter than what is known of it says.
            io::ErrorKind::UnexpectedEof => Error::Changed { path },
            _ => Error::Io { path, source },
        }
    }

    /// Counts bytes that are written at the new place.
    fn written(&mut self, len: u64) {
        let (from, to) = (self.new, self.new + len);
        let Some(unit) = &mut self.open else { return };
        if len > 0 {
            let last = (to - 1) / SECTOR_LEN;
            unit.pieces += match self.run_end == Some(from) {
                true => last - (from - 1) / SECTOR_LEN,
                false => last - from / SECTOR_LEN + 1,
            };
            self.run_end = Some(to);
        }
        unit.write_len += len;
        self.new = to;
    }

    /// How many more bytes the open unit takes; a new one is begun when it is full.
    fn room(&mut self) -> Result<u64> {
        if self.is_full() {
            self.close()?;
            self.open = Some(Unit { old: self.old, new: self.new, ..Unit::default() });
        }
        let used = self.open.as_ref().map_or(0, |unit| unit.write_len);
        Ok(self.unit_len.saturating_sub(used).max(1))
    }

    fn close(&mut self) -> Result<()> {
        let Some(mut unit) = self.open.take() else { return Ok(()) };
        unit.old_len = self.old - unit.old;
        unit.new_len = self.new - unit.new;
        unit.hash = self.hash.digest();
        unit.skip_hash = self.skip_hash.digest();
        unit.script_at = self.scripts_len;
        (self.hash, self.skip_hash, self.run_end) = (Xxh3::new(), Xxh3::new(), None);
        self.store_script(&mut unit)?;
        self.units.push(unit);
        Ok(())
    }

    fn store_script(&mut self, unit: &mut Unit) -> Result<()> {
        let Some(scripts) = &mut self.scripts else {
            self.script.clear();
            return Ok(());
        };
        let raw = self.script.bytes();
        let stored = match &mut self.compressor {
            _ if raw.len() < SCRIPT_COMPRESSED_MIN => None,
            Some(compressor) => compressor.compress(raw).ok(),
            compressor => zstd::bulk::Compressor::new(SCRIPT_LEVEL)
                .and_then(|new| compressor.insert(new).compress(raw))
                .ok(),
        };
        let stored = stored.as_deref().filter(|stored| stored.len() < raw.len()).unwrap_or(raw);
        unit.script_len = stored.len() as u32;
        unit.script_raw_len = raw.len() as u32;
        self.scripts_hash.update(stored);
        let offset = HEADER_LEN + self.scripts_len;
        scripts.journal.write(&scripts.places, stored, offset)?;
        self.scripts_len += stored.len() as u64;
        self.script.clear();
        Ok(())
    }
}

impl Draft for Drafter<'_> {
    fn stay(&mut self, len: u64) -> Result<()> {
        debug_assert!(self.old == self.new || len == 0, "what is shifted cannot stay");
        self.old += len;
        self.new += len;
        self.staying += len;
        Ok(())
    }

    fn copy(&mut self, len: u64) -> Result<()> {
        if self.old == self.new {
            return self.stay(len);
        }
        self.begin()?;
        let mut left = len;
        while left > 0 {
            let more = left.min(self.room()?);
            self.read(more, false)?;
            self.script.push(Op::Copy(more));
            self.written(more);
            left -= more;
        }
        Ok(())
    }

    fn skip(&mut self, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        self.begin()?;
        match len <= SKIP_HASHED_MAX {
            true => self.read(len, true)?,
            false => self.old += len,
        }
        self.script.push(Op::Skip(len));
        Ok(())
    }

    fn insert(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.begin()?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let more = rest.len().min(usize::try_from(self.room()?).unwrap_or(usize::MAX));
            let (now, later) = rest.split_at(more);
            self.script.push(Op::Insert(now));
            self.written(now.len() as u64);
            rest = later;
        }
        Ok(())
    }

    fn collapse(&mut self, len: u64) -> Result<()> {
        debug_assert!(self.source.collapses().len() < COLLAPSES_MAX, "too many ranges");
        let offset = self.old;
        self.source.collapse(Collapse { offset, len });
        Ok(())
    }

    fn shift(&self) -> i64 {
        self.new as i64 - self.old as i64
    }
}
