//! Turns a draft into units and scripts.
//!
//! A complete unit goes to the [`UnitReader`](super::reader::UnitReader), which reads its old
//! bytes; if there are many, in a thread of its own.

use std::thread::Scope;

use super::draft::Draft;
use super::limits::{
    COLLAPSES_MAX, CONTEXT_LEN, SCRIPT_LEN_MAX, SECTOR_LEN, UNITS_MAX, WritingOptions,
};
use super::reader::{Readers, UnitReader, UnitsRead};
use super::script::{Op, Script};
use super::unit::{Collapse, Unit};
use barid_mailbox::Result;

/// A draft that records units and scripts.
pub(super) struct Drafter<'scope, 'env> {
    readers: Readers<'scope, 'env>,
    unit_len: u64,
    stay_len: u64,
    /// Positions in the old and in the new file.
    old: u64,
    new: u64,
    /// Number of bytes before these positions that stay and are in no unit yet.
    staying: u64,
    collapses: Vec<Collapse>,
    open: Option<Unit>,
    script: Script,
    /// The end of the last run of written bytes of the open unit.
    run_end: Option<u64>,
}

/// Result of a draft.
pub(super) struct Drafted {
    /// The units and scripts.
    pub(super) read: UnitsRead,
    /// Ranges that are collapsed first, ascending.
    pub(super) collapses: Vec<Collapse>,
    /// Size of the old file without the collapsed ranges, in bytes.
    pub(super) base_size: u64,
    /// Size of the new file in bytes.
    pub(super) new_size: u64,
}

impl<'scope, 'env> Drafter<'scope, 'env> {
    /// Creates a drafter of changes to a file of `size` bytes, whose units go to `reader`.
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        reader: UnitReader<'env>,
        size: u64,
        options: &WritingOptions,
    ) -> Self {
        Self {
            readers: Readers::new(scope, reader),
            unit_len: options.unit_len.max(size / UNITS_MAX).max(1),
            stay_len: options.stay_len.max(size / UNITS_MAX),
            old: 0,
            new: 0,
            staying: 0,
            collapses: Vec::new(),
            open: None,
            script: Script::default(),
            run_end: None,
        }
    }

    /// Completes the draft.
    pub(super) fn finish(mut self) -> Result<Drafted> {
        self.close_after()?;
        Ok(Drafted {
            read: self.readers.finish()?,
            collapses: self.collapses,
            base_size: self.old,
            new_size: self.new,
        })
    }

    /// Prepares for a change: opens a unit that reaches to the position, or extends the open one.
    fn begin(&mut self) -> Result<()> {
        if self.is_full() {
            self.close_after()?;
        }
        if self.open.is_some() && self.staying > 0 && self.staying <= self.stay_len {
            let len = std::mem::take(&mut self.staying);
            let (old, new) = (self.old, self.new);
            (self.old, self.new) = (old - len, new - len);
            if len <= 2 * CONTEXT_LEN {
                self.keep(len);
            } else {
                self.keep(CONTEXT_LEN);
                self.script.push(Op::Stay(len - 2 * CONTEXT_LEN));
                (self.old, self.new) = (old - CONTEXT_LEN, new - CONTEXT_LEN);
                self.keep(CONTEXT_LEN);
            }
            return Ok(());
        }
        if self.staying > 0 {
            self.close_after()?;
        }
        if self.open.is_none() {
            let lead = self.staying.min(CONTEXT_LEN);
            self.staying = 0;
            (self.old, self.new) = (self.old - lead, self.new - lead);
            self.open = Some(Unit { old: self.old, new: self.new, ..Unit::default() });
            self.keep(lead);
        }
        Ok(())
    }

    /// Returns `true` if the open unit must end before the next change.
    fn is_full(&self) -> bool {
        let is_long = self.script.len() >= SCRIPT_LEN_MAX;
        self.open.as_ref().is_some_and(|unit| unit.write_len >= self.unit_len || is_long)
    }

    /// Ends the open unit with the first of the bytes that stay after it.
    fn close_after(&mut self) -> Result<()> {
        if self.open.is_none() {
            return Ok(());
        }
        let (old, new, staying) = (self.old, self.new, self.staying);
        let len = staying.min(CONTEXT_LEN);
        (self.old, self.new) = (old - staying, new - staying);
        self.keep(len);
        self.close()?;
        (self.old, self.new, self.staying) = (old, new, staying - len);
        Ok(())
    }

    fn keep(&mut self, len: u64) {
        if len > 0 {
            self.script.push(Op::Keep(len));
            (self.old, self.new) = (self.old + len, self.new + len);
        }
    }

    /// Counts bytes that are written at the new position.
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

    /// Returns how many more bytes the open unit can take; begins a new one if it is full.
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
        self.run_end = None;
        self.readers.unit(unit, self.script.take())
    }
}

impl Draft for Drafter<'_, '_> {
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
            self.script.push(Op::Copy(more));
            self.old += more;
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
        self.old += len;
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
        debug_assert!(self.collapses.len() < COLLAPSES_MAX, "too many ranges");
        let collapse = Collapse { offset: self.old, len };
        self.collapses.push(collapse);
        self.readers.collapse(collapse)
    }

    fn shift(&self) -> i64 {
        self.new as i64 - self.old as i64
    }
}
