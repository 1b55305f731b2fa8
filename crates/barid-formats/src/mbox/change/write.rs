//! Writes the draft of a planner.

use std::os::unix::ffi::OsStrExt;

use barid_mailbox::{Error, Result, SyncContext, SyncFigures};
use barid_vfs::{File, Timestamp};

use super::assemble::{assemble, runs};
use super::draft::Draft;
use super::drafter::{Drafted, Drafter};
use super::header::{HEADER_LEN, JournalHeader, Origin, RECORDS_LEN, TailHash};
use super::journal::{JournalFile, Places};
use super::limits::{SECTOR_LEN, TAIL_LEN_MAX, WritingOptions};
use super::pages::Pages;
use super::reader::{UnitReader, UnitsRead};
use super::run::{Stage, renew_times};
use super::source::{BufferedFile, hash_of};
use super::steps::{StepKind, StepParams, Steps};
use super::unit::Unit;
use super::work::{PlannedChange, plan_bytes};
use crate::mbox::MboxMailbox;
use crate::mbox::lock::MboxWriteLocks;

/// Input of a planner.
pub(super) struct PlannerInput<'a, 'd> {
    /// Places of the mailbox and its journals.
    pub(super) places: Places<'a>,
    /// The mailbox file.
    pub(super) file: &'a dyn File,
    /// Pages of the file.
    pub(super) pages: &'d Pages<'a>,
    /// Receiver of the draft.
    pub(super) draft: &'d mut dyn Draft,
}

/// Result of writing a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WriteResult<P> {
    /// Result of the planner.
    pub(super) planned: P,
    /// Cost of the change; in a dry run, an estimate.
    pub(super) figures: SyncFigures,
    /// `true` if anything was written, or in a dry run would be.
    pub(super) is_written: bool,
    /// Modification time that was set, if that was possible.
    pub(super) times: Option<Timestamp>,
}

/// Runs `plan` to draft a change of `file`, and writes it; without locks it is only counted.
///
/// # Errors
/// [`Error::Unfinished`] once the change is begun; before that, the file is unchanged.
pub(super) fn write<'a, P>(
    mailbox: &'a MboxMailbox,
    places: Places<'a>,
    file: &'a dyn File,
    locks: Option<&'a MboxWriteLocks>,
    context: &mut SyncContext<'_>,
    plan: impl FnOnce(PlannerInput<'a, '_>, &mut SyncContext<'_>) -> Result<P>,
) -> Result<WriteResult<P>> {
    let journal = JournalFile::new(mailbox.options.writing.image_len);
    write_with(journal, mailbox, places, file, locks, context, plan)
}

/// Writes a change as [`write`] does, with a given journal.
pub(super) fn write_with<'a, P>(
    mut journal: JournalFile,
    mailbox: &'a MboxMailbox,
    places: Places<'a>,
    file: &'a dyn File,
    locks: Option<&'a MboxWriteLocks>,
    context: &mut SyncContext<'_>,
    plan: impl FnOnce(PlannerInput<'a, '_>, &mut SyncContext<'_>) -> Result<P>,
) -> Result<WriteResult<P>> {
    let options = mailbox.options.writing;
    let size = file.metadata().map_err(Error::at(places.mailbox))?.size;
    let drafting = locks.map(|_| &mut journal);
    let pages = Pages::new(file, size, options.buffer_len);
    let reader = UnitReader::new(places, file, drafting, &pages, &options);
    let drafted = std::thread::scope(|scope| {
        let mut drafter = Drafter::new(scope, reader, size, &options);
        let room = PlannerInput { places, file, pages: &pages, draft: &mut drafter };
        let planned = plan(room, context)?;
        Ok((planned, drafter.finish()?))
    });
    let (planned, drafted) = match drafted {
        Ok(drafted) => drafted,
        Err(error) => {
            journal.discard(places.vfs);
            return Err(error);
        }
    };
    let plan = DraftPlan { drafted, size, options, places, file };
    match plan.write(mailbox, locks, journal, context) {
        Ok((figures, is_written, times)) => Ok(WriteResult { planned, figures, is_written, times }),
        Err(error) => Err(error),
    }
}

/// A complete draft.
struct DraftPlan<'a> {
    drafted: Drafted,
    size: u64,
    options: WritingOptions,
    places: Places<'a>,
    file: &'a dyn File,
}

impl<'a> DraftPlan<'a> {
    fn write(
        self,
        mailbox: &'a MboxMailbox,
        locks: Option<&'a MboxWriteLocks>,
        journal: JournalFile,
        context: &mut SyncContext<'_>,
    ) -> Result<(SyncFigures, bool, Option<Timestamp>)> {
        let Drafted { read: UnitsRead { units, .. }, collapses, base_size, new_size } =
            &self.drafted;
        let collapsed: u64 = collapses.iter().map(|collapse| collapse.len).sum();
        debug_assert_eq!(base_size + collapsed, self.size, "the draft covers the whole file");
        let params = StepParams {
            window_len: self.options.window_len,
            direct_len_min: self.options.direct_len_min,
            direct_len_max: self.options.direct_len_max,
        };
        let steps = Steps::of(units, params);
        let header = self.header(&steps, params, context);
        let mut figures = figures(&header, &steps, units, collapsed);
        if units.is_empty() && collapses.is_empty() && base_size == new_size {
            return Ok((SyncFigures { barriers: 0, bytes_journaled: 0, ..figures }, false, None));
        }
        let sector = match header.is_in_place && header.pending_through.is_none() {
            true => sector(units, &journal, locks.is_none()).map_err(self.at())?,
            false => false,
        };
        if sector {
            (figures.barriers, figures.bytes_journaled) = (1, 0);
        }
        let Some(locks) = locks else { return Ok((figures, true, None)) };
        if sector {
            let times = self.write_sector(&journal, locks)?;
            return Ok((figures, true, times));
        }
        let id = journal.given_id();
        let header =
            match self.fingerprints(header, id).and_then(|h| self.check_space(&h).map(|()| h)) {
                Ok(header) => header,
                Err(error) => {
                    journal.discard(self.places.vfs);
                    return Err(error);
                }
            };
        let work = PlannedChange {
            mailbox,
            locks,
            places: self.places,
            options: self.options,
            journal,
            header,
            units: self.drafted.read.units,
            collapses: self.drafted.collapses,
            steps,
            barriers: 0,
            is_unsynced: false,
            times: None,
            window: None,
            bytes_done: 0,
            decompressor: None,
        };
        let work = work.begin()?.run(Stage::default(), context)?;
        figures.barriers = work.barriers;
        figures.bytes_journaled = work.journal.bytes_written;
        Ok((figures, true, work.times))
    }

    fn at(&self) -> impl FnOnce(std::io::Error) -> Error {
        Error::at(self.places.mailbox)
    }

    fn header(
        &self,
        steps: &Steps,
        params: StepParams,
        context: &SyncContext<'_>,
    ) -> JournalHeader {
        let Drafted { read, collapses, base_size, new_size } = &self.drafted;
        let UnitsRead { units, scripts_len, scripts_hash } = read;
        let window_len = |members: Vec<u32>| -> u64 {
            let units = members.iter().map(|unit| &units[*unit as usize]);
            units.map(|unit| unit.write_len + unit.pieces * super::apply::PIECE_LEN).sum()
        };
        let windows = steps.iter().filter(|step| step.kind == StepKind::Window);
        JournalHeader {
            id: [0; 16],
            origin: Origin::of(0, b""),
            old_size: self.size,
            base_size: *base_size,
            new_size: *new_size,
            pending_through: context.pending_through,
            is_in_place: collapses.is_empty()
                && base_size == new_size
                && units.iter().all(Unit::is_in_place),
            scripts_len: *scripts_len,
            units: units.len() as u64,
            collapses: collapses.len() as u64,
            plan_hash: plan_bytes(units, collapses, scripts_hash.clone()).1,
            window_cap: windows.map(|step| window_len(steps.units(step))).max().unwrap_or(0),
            tail: TailHash::default(),
            cut: TailHash::default(),
            params,
        }
    }

    /// Completes a header with the id, identity and fingerprints, which need the file.
    fn fingerprints(
        &self,
        header: JournalHeader,
        given_id: Option<[u8; 16]>,
    ) -> Result<JournalHeader> {
        let mut id = given_id.unwrap_or_default();
        if given_id.is_none() {
            self.places.vfs.random(&mut id).map_err(self.at())?;
        }
        let gone: u64 = self.drafted.collapses.iter().map(|collapse| collapse.len).sum();
        let last = self.drafted.collapses.last();
        let tail = match last {
            Some(last) => self.tail(self.size, self.size - (last.offset + gone))?,
            None => TailHash::default(),
        };
        let cut_len = header.base_size.saturating_sub(header.new_size);
        // The bytes that are cut off must still be there when everything is collapsed.
        let after = last.map_or(u64::MAX, |last| header.base_size - last.offset);
        let cut = self.tail(self.size, cut_len.min(after))?;
        let inode = self.file.metadata().map_err(self.at())?.inode;
        let origin = Origin::of(inode, self.places.mailbox.as_os_str().as_bytes());
        Ok(JournalHeader { id, origin, tail, cut, ..header })
    }

    fn tail(&self, end: u64, len_max: u64) -> Result<TailHash> {
        let len = len_max.min(TAIL_LEN_MAX);
        let hash = hash_of(self.file, end - len, len, self.options.buffer_len);
        Ok(TailHash { len, hash: hash.map_err(self.at())? })
    }

    /// Checks that there is space for the growth of the file, and for the journal.
    fn check_space(&self, header: &JournalHeader) -> Result<()> {
        let growth = header.new_size.saturating_sub(header.base_size);
        self.places.check_space(growth + header.foreign_at())
    }

    /// Writes a change within one sector, which a disk writes whole or not at all.
    fn write_sector(
        &self,
        journal: &JournalFile,
        locks: &MboxWriteLocks,
    ) -> Result<Option<Timestamp>> {
        let mut source = BufferedFile::new(self.file, self.options.buffer_len);
        let (mut from, mut bytes) = (None, Vec::new());
        for unit in &self.drafted.read.units {
            let script = script_in_memory(unit, journal).map_err(self.at())?;
            let mut kept = Vec::new();
            assemble(unit, &script, &mut source, |at, new| {
                let from = *from.get_or_insert(at);
                let there = from + bytes.len() as u64;
                kept.resize((at - there) as usize, 0);
                self.file.read_exact_at(&mut kept, there)?;
                bytes.extend_from_slice(&kept);
                bytes.extend_from_slice(new);
                Ok(())
            })
            .map_err(self.at())?;
        }
        let Some(from) = from else { return Ok(None) };
        let written = self.file.write_all_at(&bytes, from);
        // Whatever the write did must be on the disk; the time matters less.
        let times = renew_times(self.places.vfs, self.file, locks.modified(), false);
        let synced = self.file.sync_all();
        written.and(synced).map_err(self.at())?;
        Ok(times.unwrap_or(None))
    }
}

fn script_in_memory(unit: &Unit, journal: &JournalFile) -> std::io::Result<Vec<u8>> {
    let mut stored = vec![0; unit.script_len as usize];
    journal.read(&mut stored, HEADER_LEN + unit.script_at)?;
    match unit.script_len == unit.script_raw_len {
        true => Ok(stored),
        false => zstd::bulk::decompress(&stored, unit.script_raw_len as usize),
    }
}

/// Returns `true` if all bytes that units write in place lie in one sector of the disk. A dry run
/// has no scripts, and decides by the units alone.
fn sector(units: &[Unit], journal: &JournalFile, is_dry: bool) -> std::io::Result<bool> {
    let writers = || units.iter().filter(|unit| unit.write_len > 0);
    if is_dry {
        return Ok(writers().count() == 1 && writers().all(|unit| unit.pieces == 1));
    }
    let pieces: u64 = writers().map(|unit| unit.pieces).sum();
    if pieces > SECTOR_LEN || journal.path().is_some() {
        return Ok(false);
    }
    let (mut first, mut last) = (u64::MAX, 0);
    for unit in writers() {
        runs(unit, &script_in_memory(unit, journal)?, |at, len| {
            first = first.min(at);
            last = last.max(at + len - 1);
            Ok(())
        })?;
    }
    Ok(first / SECTOR_LEN == last / SECTOR_LEN)
}

/// Returns the estimated cost of a change; measured figures replace it later.
fn figures(header: &JournalHeader, steps: &Steps, units: &[Unit], collapsed: u64) -> SyncFigures {
    let bytes = |is_in_place: bool| {
        let units = units.iter().filter(|unit| unit.is_in_place() == is_in_place);
        units.map(|unit| unit.write_len).sum()
    };
    let mut journaled = header.plan_end() + RECORDS_LEN;
    for step in steps.iter().filter(|step| step.kind == StepKind::Window) {
        journaled += steps.write_len(step, units);
    }
    SyncFigures {
        bytes_in_place: bytes(true),
        bytes_moved: bytes(false),
        bytes_collapsed: collapsed,
        bytes_journaled: journaled,
        barriers: barriers(header, steps),
        size_before: header.old_size,
        size_after: header.new_size,
        ..SyncFigures::default()
    }
}

/// Returns the number of barriers of a change; `run.rs` lists them.
fn barriers(header: &JournalHeader, steps: &Steps) -> u64 {
    let (grows, shrinks) = (header.new_size > header.base_size, header.new_size < header.base_size);
    let mut count = 2;
    count += u64::from(header.collapses > 0) + 2 * header.collapses;
    count += match (grows, header.is_in_place || header.collapses > 0) {
        (true, _) => 2,
        (false, true) => 0,
        (false, false) => 1,
    };
    let windows = steps.iter().filter(|step| step.kind == StepKind::Window).count() as u64;
    let is_prepared =
        header.collapses == 0 && steps.len() > 0 && steps.get(0).kind == StepKind::Window;
    count += windows - u64::from(is_prepared);
    count += match shrinks {
        true => steps.len() as u64 + 1,
        false => (steps.len() as u64).saturating_sub(1),
    };
    // The last fsync, COMMIT, the attribute, the folder of the journal.
    count + 3 + u64::from(!header.is_in_place)
}
