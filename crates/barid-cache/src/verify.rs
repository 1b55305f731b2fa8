//! Verification of a whole cache.

use std::path::Path;
use std::sync::Arc;

use barid_types::Uid;
use barid_vfs::Vfs;
use barid_vfs::le::u32_at;

use crate::base::{Cursor, HeapCursor};
use crate::column::ColumnKind;
use crate::core_row::{CORE_ROW_LEN, Core, RowLocation};
use crate::error::{Damage, Error, Result};
use crate::limits::{FAULTS_LISTED_MAX, REWRITE_ROWS};
use crate::record::Record;
use crate::snapshot::{Opened, Snapshot};
use crate::thread_row::ThreadRow;

/// The result of [`verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Number of messages.
    pub messages: u32,
    /// Number of column and heap blocks read.
    pub blocks: u64,
    /// Number of valid log records.
    pub log_records: u64,
    /// Number of bytes after the last of them: an interrupted record. Not damage.
    pub torn_bytes: u64,
    /// The damage: why the cache cannot be opened, or the first damage found.
    pub damage: Option<String>,
    /// Header records that differ from what was written, in the order of rows, up to
    /// [`FAULTS_LISTED_MAX`].
    pub faults: Vec<RecordFault>,
    /// Number of all such records.
    pub faulty_records: u64,
    /// Number of those that are missing.
    pub missing_records: u64,
    /// Number of those whose dictionary is missing.
    pub undecodable_records: u64,
    /// Number of records of messages that are gone; compaction of the log removes them. Not damage.
    pub stale_records: u64,
    /// The ids of the dictionaries.
    pub dictionaries: Vec<u8>,
}

/// A header record that differs from what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFault {
    /// The row of its message.
    pub row: u32,
    /// The UID.
    pub uid: Uid,
    /// The kind of damage.
    pub kind: Damage,
}

/// Verifies every block, every reference between them, every header record and every log record of
/// the cache at `path`. Reads the whole cache.
///
/// # Errors
/// Returns an error of the file system, also for a missing file; [`Error::Store`].
pub fn verify(vfs: Arc<dyn Vfs>, path: &Path) -> Result<VerifyReport> {
    let snapshot = match Snapshot::open_any(Arc::clone(&vfs), path)? {
        Opened::Fresh(snapshot) => snapshot,
        Opened::Absent => return Err(Error::at(path)(std::io::ErrorKind::NotFound.into())),
        Opened::Discarded { reason, .. } => {
            return Ok(VerifyReport { damage: Some(reason.to_owned()), ..Default::default() });
        }
    };
    let file_len = snapshot.base.file.metadata().map_err(Error::at(path))?.size;
    let mut report = VerifyReport {
        messages: snapshot.len(),
        log_records: snapshot.link.sequence,
        torn_bytes: file_len.saturating_sub(snapshot.log_end),
        ..VerifyReport::default()
    };
    let checks = [check_blocks, check_rows, check_records, check_store];
    for check in checks {
        match check(&snapshot, &mut report) {
            Err(error) if error.is_damage() => {
                report.damage.get_or_insert_with(|| error.to_string());
            }
            result => result?,
        }
    }
    if let (Some(first), None) = (report.faults.first(), &report.damage) {
        let count = report.faulty_records;
        let path = snapshot.base.kv.as_ref().map_or(path, |kv| kv.store.path());
        report.damage = Some(format!(
            "{}: damaged header records: {count}, the first of UID {}: {}",
            path.display(),
            first.uid.get(),
            first.kind
        ));
    }
    Ok(report)
}

fn check_blocks(snapshot: &Snapshot, report: &mut VerifyReport) -> Result<()> {
    let base = &snapshot.base;
    let mut block = Vec::new();
    for kind in ColumnKind::ALL {
        for index in 0..base.header.extents[kind.index()].blocks(kind) {
            base.read_block(kind, index, &mut block)?;
            report.blocks += 1;
        }
    }
    for number in 0..base.header.extents[ColumnKind::Heap.index()].rows {
        base.read_heap_block(number as u32, &mut block)?;
        report.blocks += 1;
    }
    Ok(())
}

fn check_rows(snapshot: &Snapshot, _: &mut VerifyReport) -> Result<()> {
    let base = &snapshot.base;
    let wrong =
        |kind: ColumnKind| base.damaged(base.header.extents[kind.index()].start, Damage::Bounds);
    let mut cores = Cursor::new(base, ColumnKind::Core);
    let mut threads = Cursor::new(base, ColumnKind::Thread);
    let mut firsts = Cursor::new(base, ColumnKind::FirstUids);
    let mut names = HeapCursor::bulk(base);
    let references = base.header.extents[ColumnKind::References.index()].rows;
    let mut last_uid = 0;
    for row in 0..base.rows() {
        let mut bytes = [0; CORE_ROW_LEN];
        bytes.copy_from_slice(cores.row(row)?);
        let core = Core::decode(&bytes).ok_or_else(|| wrong(ColumnKind::Core))?;
        let uid = core.uid.get();
        let per_block = ColumnKind::Core.rows_per_block() as u32;
        let first_differs = row % per_block == 0 && u32_at(firsts.row(row / per_block)?, 0) != uid;
        if uid <= last_uid || first_differs {
            return Err(wrong(ColumnKind::FirstUids));
        }
        last_uid = uid;
        if let RowLocation::Name { .. } = core.location {
            snapshot.name_in(&core, &mut names)?;
        }
        let thread = ThreadRow::decode(threads.row(row)?);
        let end = u64::from(thread.references_start) + u64::from(thread.references_count);
        if end > references {
            return Err(wrong(ColumnKind::Thread));
        }
    }
    Ok(())
}

/// Returns the live rows, with their cores if those can be read.
fn live_cores(snapshot: &Snapshot) -> impl Iterator<Item = (u32, u32, Core)> {
    let mut cores = snapshot.core_cursor();
    let rows = (0..).zip(snapshot.physical_rows(0));
    rows.filter_map(move |(row, physical)| {
        let core = cores.get(physical).ok()?;
        Some((row, physical, core))
    })
}

/// Finds all damaged records.
fn check_records(snapshot: &Snapshot, report: &mut VerifyReport) -> Result<()> {
    let store = snapshot.base.records();
    let mut rows = live_cores(snapshot);
    loop {
        let (mut stored, mut items) = (Vec::new(), Vec::new());
        let mut seen = 0;
        for (row, physical, core) in rows.by_ref().take(REWRITE_ROWS) {
            seen += 1;
            match snapshot.overlay.added(physical) {
                None => {
                    stored.push(core.heap);
                    items.push((row, core.uid));
                }
                Some(added) if Record::decode(&added.record).is_some() => {}
                Some(_) => report.note(RecordFault { row, uid: core.uid, kind: Damage::Bounds }),
            }
        }
        let mut faults = Vec::new();
        store.check(&stored, &mut |index, kind| {
            let (row, uid) = items[index];
            faults.push(RecordFault { row, uid, kind });
        })?;
        faults.sort_unstable_by_key(|fault| fault.row);
        faults.into_iter().for_each(|fault| report.note(fault));
        if seen < REWRITE_ROWS {
            return Ok(());
        }
    }
}

/// Compares the content of a store with the records and dictionaries that the cache needs.
fn check_store(snapshot: &Snapshot, report: &mut VerifyReport) -> Result<()> {
    let contents = snapshot.base.records().contents()?;
    report.dictionaries = contents.dictionaries;
    if contents.numbers.is_empty() {
        return Ok(());
    }
    let base_len = snapshot.base_len();
    let stored = live_cores(snapshot).filter(|(_, physical, _)| *physical < base_len);
    let mut named: Vec<u32> = stored.map(|(_, _, core)| core.heap.block).collect();
    named.sort_unstable();
    let is_stale = |number: &&u32| named.binary_search(number).is_err();
    report.stale_records = contents.numbers.iter().filter(is_stale).count() as u64;
    Ok(())
}

impl VerifyReport {
    fn note(&mut self, fault: RecordFault) {
        self.faulty_records += 1;
        match fault.kind {
            Damage::Missing => self.missing_records += 1,
            Damage::Dictionary => self.undecodable_records += 1,
            _ => {}
        }
        if self.faults.len() < FAULTS_LISTED_MAX {
            self.faults.push(fault);
        }
    }
}
