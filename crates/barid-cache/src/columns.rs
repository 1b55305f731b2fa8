//! The columns of a cache file, written at the end of a build.

use std::collections::BTreeMap;
use std::path::Path;

use barid_mailbox::ScanReport;
use barid_types::{FlagSet, KeywordMask, ModSeq, Uid};
use barid_vfs::File;
use barid_vfs::le::{u32_at, u64_at};

use crate::builder::{Finish, KeepModSeq};
use crate::column::{ColumnKind, ColumnWriter, Extent, PackedColumns, align};
use crate::core_row::{CORE_ROW_LEN, MODSEQ_AT, UID_AT};
use crate::error::{Error, Result, ScanFault};
use crate::heap::HeapBlock;
use crate::pack::BlockTable;
use crate::rows::ColumnChunk;
use crate::spool::Spool;
use crate::thread_row::{THREAD_ROW_LEN, ThreadRow};

/// The results of writing the core column.
pub(crate) struct Numbered {
    pub(crate) core: Extent,
    pub(crate) first_uids: Vec<Uid>,
    pub(crate) recent: u32,
    pub(crate) unseen: u32,
}

/// A writer of the columns, one after the other, which frees written rows.
pub(crate) struct Columns<'a> {
    pub(crate) file: &'a dyn File,
    pub(crate) generation: u64,
    pub(crate) end: u64,
    pub(crate) path: &'a Path,
    pub(crate) packed: Option<PackedColumns>,
    /// The file for rows that are not in memory.
    pub(crate) spool: Option<&'a Spool>,
}

pub(crate) type Chunks = BTreeMap<u32, ColumnChunk>;

impl Columns<'_> {
    pub(crate) fn write(
        &mut self,
        kind: ColumnKind,
        fill: impl FnOnce(&mut ColumnWriter<'_>) -> Result<()>,
    ) -> Result<Extent> {
        // Packed blocks need no alignment.
        let start = if self.packed.is_some() { self.end } else { align(self.end) };
        let packed = self.packed.as_mut();
        let mut writer = ColumnWriter::new(self.file, self.generation, kind, start, packed);
        fill(&mut writer)?;
        let (extent, end) = writer.finish().map_err(Error::at(self.path))?;
        self.end = end;
        Ok(extent)
    }

    /// Writes the table of packed blocks after the columns; returns its position if they are
    /// packed.
    pub(crate) fn write_table(&mut self) -> Result<Option<u64>> {
        let Some(packed) = &self.packed else { return Ok(None) };
        let table = BlockTable::encode(self.generation, &packed.blocks);
        self.file.write_all_at(&table, self.end).map_err(Error::at(self.path))?;
        let start = self.end;
        self.end += table.len() as u64;
        Ok(Some(start))
    }

    pub(crate) fn write_core(
        &mut self,
        chunks: &mut Chunks,
        numbering: &mut Numbering<'_>,
    ) -> Result<Numbered> {
        let (mut recent, mut unseen, mut rows) = (0, 0, 0u64);
        let mut first_uids = Vec::new();
        let (path, spool) = (self.path, self.spool);
        let core = self.write(ColumnKind::Core, |writer| {
            for chunk in chunks.values_mut() {
                chunk.core.drain(spool, &mut |piece| {
                    for row in piece.chunks_exact_mut(CORE_ROW_LEN) {
                        let uid = numbering.number(row)?;
                        if rows.is_multiple_of(ColumnKind::Core.rows_per_block()) {
                            first_uids.push(uid);
                        }
                        rows += 1;
                    }
                    writer.push_all(piece).map_err(Error::at(path))
                })?;
                recent += chunk.recent;
                unseen += chunk.unseen;
            }
            Ok(())
        })?;
        if rows > u64::from(crate::limits::MESSAGES_MAX) {
            return Err(Error::Scan(ScanFault::TooMany));
        }
        numbering.finish()?;
        Ok(Numbered { core, first_uids, recent, unseen })
    }

    pub(crate) fn write_thread(&mut self, chunks: &mut Chunks) -> Result<Extent> {
        let mut first = 0u32;
        let (path, spool) = (self.path, self.spool);
        self.write(ColumnKind::Thread, |writer| {
            for chunk in chunks.values_mut() {
                chunk.thread.drain(spool, &mut |piece| {
                    for row in piece.chunks_exact_mut(THREAD_ROW_LEN) {
                        ThreadRow::renumber(row, first);
                    }
                    writer.push_all(piece).map_err(Error::at(path))
                })?;
                let count = chunk.references.rows();
                first = first.checked_add(count).ok_or(Error::Scan(ScanFault::TooMany))?;
            }
            Ok(())
        })
    }

    pub(crate) fn write_references(&mut self, chunks: &mut Chunks) -> Result<Extent> {
        let (path, spool) = (self.path, self.spool);
        self.write(ColumnKind::References, |writer| {
            chunks.values_mut().try_for_each(|chunk| {
                let push = &mut |piece: &mut [u8]| writer.push_all(piece).map_err(Error::at(path));
                chunk.references.drain(spool, push)
            })
        })
    }

    pub(crate) fn write_heap(&mut self, blocks: &[HeapBlock]) -> Result<Extent> {
        let path = self.path;
        self.write(ColumnKind::Heap, |writer| {
            blocks
                .iter()
                .try_for_each(|block| writer.push(&block.encode()).map_err(Error::at(path)))
        })
    }

    pub(crate) fn write_first_uids(&mut self, uids: &[Uid]) -> Result<Extent> {
        let path = self.path;
        let row = |uid: &Uid| uid.get().to_le_bytes();
        self.write(ColumnKind::FirstUids, |writer| {
            uids.iter().try_for_each(|uid| writer.push(&row(uid)).map_err(Error::at(path)))
        })
    }
}

/// An iterator that assigns UIDs and modseqs to rows; the default leaves those that they have.
#[derive(Default)]
pub(crate) struct Numbering<'a> {
    new_uids: std::slice::Iter<'a, Uid>,
    previous: u32,
    modseq: Option<ModSeq>,
    pub(crate) highest: ModSeq,
    keep: Option<KeepModSeq<'a>>,
    unchanged: Option<ModSeq>,
    /// `true` once a message did not keep its modseq.
    has_changed: bool,
    /// Ascending UIDs of an earlier snapshot from the next one on.
    earlier: std::slice::Iter<'a, Uid>,
    /// UIDs of the earlier snapshot that no message has.
    pub(crate) vanished: Vec<Uid>,
}

impl<'a> Numbering<'a> {
    pub(crate) fn new(report: &'a ScanReport, finish: &Finish<'a>, earlier: &'a [Uid]) -> Self {
        Self {
            earlier: earlier.iter(),
            new_uids: report.new_uids.iter(),
            modseq: Some(finish.modseq),
            keep: finish.keep,
            unchanged: finish.unchanged,
            ..Self::default()
        }
    }

    fn number(&mut self, row: &mut [u8]) -> Result<Uid> {
        let uid = match Uid::new(u32_at(row, UID_AT)) {
            Some(uid) => uid,
            None => *self.new_uids.next().ok_or(Error::Scan(ScanFault::UidCount))?,
        };
        if uid.get() <= self.previous {
            return Err(Error::Scan(ScanFault::UidOrder));
        }
        self.previous = uid.get();
        while let [next, ..] = self.earlier.as_slice()
            && *next <= uid
        {
            self.earlier.next();
            self.vanished.extend((*next < uid).then_some(*next));
        }
        row[UID_AT..UID_AT + 4].copy_from_slice(&uid.get().to_le_bytes());
        if let Some(modseq) = self.modseq {
            let (flags, keywords) = (FlagSet::from_bits(row[4]), KeywordMask(u64_at(row, 32)));
            let kept = self.keep.and_then(|keep| keep(uid, flags, keywords));
            self.has_changed |= kept.is_none();
            let modseq = kept.unwrap_or(modseq);
            self.highest = self.highest.max(modseq);
            row[MODSEQ_AT..MODSEQ_AT + 8].copy_from_slice(&modseq.get().to_le_bytes());
        }
        Ok(uid)
    }

    /// Returns [`Finish::unchanged`] if every message kept its modseq and none has vanished.
    pub(crate) fn unchanged(&self) -> Option<ModSeq> {
        self.unchanged.filter(|_| !self.has_changed && self.vanished.is_empty())
    }

    fn finish(&mut self) -> Result<()> {
        self.vanished.extend(self.earlier.by_ref());
        match self.new_uids.next() {
            Some(_) => Err(Error::Scan(ScanFault::UidCount)),
            None => Ok(()),
        }
    }
}
