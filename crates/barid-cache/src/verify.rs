//! Reading a whole cache file to see whether every part of it is what was written.

use std::path::Path;
use std::sync::Arc;

use barid_vfs::Vfs;

use crate::base::{Cursor, HeapCursor};
use crate::codec::u32_at;
use crate::column::Kind;
use crate::core_row::{CORE_ROW_LEN, Core, Place};
use crate::error::{Damage, Error, Result};
use crate::snapshot::{Opened, Snapshot};
use crate::thread_row::ThreadRow;

/// What [`verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Messages.
    pub messages: u32,
    /// Column and heap blocks read.
    pub blocks: u64,
    /// Log records that count.
    pub log_records: u64,
    /// Bytes behind the last of them: a record that was interrupted. No damage.
    pub torn_bytes: u64,
    /// What is wrong: why the file cannot be opened, or the first damage found.
    pub damage: Option<String>,
}

/// Checks every block, every reference from one to another, and every log record of the cache file
/// at `path`. Costs a read of the whole file.
///
/// # Errors
/// What the file system says, a missing file included.
pub fn verify(vfs: Arc<dyn Vfs>, path: &Path) -> Result<VerifyReport> {
    let snapshot = match Snapshot::open_any(Arc::clone(&vfs), path)? {
        Opened::Fresh(snapshot) => snapshot,
        Opened::Absent => return Err(Error::at(path)(std::io::ErrorKind::NotFound.into())),
        Opened::Discarded { reason } => {
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
    let checked = check_blocks(&snapshot, &mut report).and_then(|()| check_rows(&snapshot));
    match checked {
        Err(error) if error.is_damage() => report.damage = Some(error.to_string()),
        result => result?,
    }
    Ok(report)
}

fn check_blocks(snapshot: &Snapshot, report: &mut VerifyReport) -> Result<()> {
    let base = &snapshot.base;
    let mut block = Vec::new();
    for kind in Kind::ALL {
        for index in 0..base.header.extents[kind.index()].blocks(kind) {
            base.read_block(kind, index, &mut block)?;
            report.blocks += 1;
        }
    }
    for number in 0..base.header.extents[Kind::Heap.index()].rows {
        base.read_heap_block(number as u32, &mut block)?;
        report.blocks += 1;
    }
    Ok(())
}

fn check_rows(snapshot: &Snapshot) -> Result<()> {
    let base = &snapshot.base;
    let wrong = |kind: Kind| base.damaged(base.header.extents[kind.index()].start, Damage::Bounds);
    let mut cores = Cursor::new(base, Kind::Core);
    let mut threads = Cursor::new(base, Kind::Thread);
    let mut firsts = Cursor::new(base, Kind::FirstUids);
    let mut names = HeapCursor::bulk(base);
    let references = base.header.extents[Kind::References.index()].rows;
    let mut last_uid = 0;
    for row in 0..base.rows() {
        let mut bytes = [0; CORE_ROW_LEN];
        bytes.copy_from_slice(cores.row(row)?);
        let core = Core::decode(&bytes).ok_or_else(|| wrong(Kind::Core))?;
        let uid = core.uid.get();
        let per_block = Kind::Core.rows_per_block() as u32;
        let first_differs = row % per_block == 0 && u32_at(firsts.row(row / per_block)?, 0) != uid;
        if uid <= last_uid || first_differs {
            return Err(wrong(Kind::FirstUids));
        }
        last_uid = uid;
        if let Place::File { .. } = core.place {
            snapshot.name_in(&core, &mut names)?;
        }
        let thread = ThreadRow::decode(threads.row(row)?);
        let end = u64::from(thread.references_start) + u64::from(thread.references_count);
        if end > references {
            return Err(wrong(Kind::Thread));
        }
    }
    Ok(())
}
