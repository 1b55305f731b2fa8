//! New columns in an existing file: header records and all other unchanged parts stay in their
//! place.
//!
//! New columns are written after the log, where nobody reads. The commit point is the header page:
//! it overwrites the invalid one of the two pages, and becomes valid when its checksum is complete.
//! Readers with the old page find everything unchanged.

use barid_types::{Flag, Uid};
use barid_vfs::File;

use crate::base::{Base, Cursor};
use crate::builder::write_header;
use crate::column::{ColumnKind, Extent, PackedColumns};
use crate::columns::Columns;
use crate::error::{Error, Result};
use crate::header::Header;
use crate::pack::Packing;
use crate::random::random_u64;
use crate::rewrite::Revision;
use crate::snapshot::Snapshot;

/// Ratio of file length to used length beyond which the file is rewritten.
const WASTE_MAX: u128 = 2;

impl Snapshot {
    /// Returns `true` if new columns suffice for a state with `gone` fewer messages: the log has no
    /// new messages and names, and no records must be removed from a store.
    ///
    /// Each refresh leaves more unused bytes in the file. The used length is estimated as the
    /// file's length when it was built, less the share of messages that are gone since; the file
    /// may be twice as long.
    pub(crate) fn can_refresh(&self, file_len: u64, gone: u32) -> Result<bool> {
        let Header { turn, built_len, built_messages, .. } = self.base.header;
        let rows = u64::from(self.len().saturating_sub(gone));
        let is_shorter = rows < u64::from(self.base_len());
        let fits = self.overlay.is_of_cores() && (!is_shorter || self.base.kv.is_none());
        if !fits || turn == u32::MAX {
            return Ok(false);
        }
        let mut columns_len = self.column_len(ColumnKind::Core)?;
        if is_shorter {
            columns_len += self.column_len(ColumnKind::Thread)?;
        }
        let base_len = u128::from(self.base_len().max(1));
        let end = u128::from(file_len) + u128::from(columns_len) * u128::from(rows) / base_len;
        let used = u128::from(built_len) * u128::from(rows) / u128::from(built_messages.max(1));
        Ok(end <= used * WASTE_MAX)
    }

    /// Returns the length of the blocks of a column in bytes.
    fn column_len(&self, kind: ColumnKind) -> Result<u64> {
        let header = &self.base.header;
        let extent = &header.extents[kind.index()];
        let block_len = |index| match header.table {
            None => Ok(extent.block(kind, index).1 as u64),
            Some(table) => Ok(u64::from(self.base.packed_block(table, kind, index)?.len)),
        };
        (0..extent.blocks(kind)).map(block_len).sum()
    }

    /// Writes new columns after the `file_len` bytes of the file, and the header page that names
    /// them. The caller has the writers' lock and has checked [`Snapshot::can_refresh`].
    pub(crate) fn refreshed(
        &self,
        file: Box<dyn File>,
        file_len: u64,
        revision: &mut dyn Revision,
    ) -> Result<Self> {
        match self.refresh(&*file, file_len, revision) {
            Ok((header, meta)) => {
                let Base { inode, path, .. } = &*self.base;
                let base = Base::new(&self.vfs, file, *inode, path, header);
                Ok(Self::from_new_file(std::sync::Arc::clone(&self.vfs), base, meta))
            }
            Err(error) => {
                // The disk may be full; if truncating fails, the next writer truncates the rest.
                let _ = file.set_len(file_len);
                Err(error)
            }
        }
    }

    fn refresh(
        &self,
        file: &dyn File,
        file_len: u64,
        revision: &mut dyn Revision,
    ) -> Result<(Header, crate::meta::Meta)> {
        let (old, path) = (&self.base.header, &self.base.path);
        let generation = random_u64();
        let packed = old.options.packing().map(|packing| PackedColumns::new(Packing::new(packing)));
        let end = file_len.max(self.log_end);
        let mut columns = Columns { file, generation, end, path, packed, spool: None };
        let mut live = Live::of(self);
        let cores = self.write_cores(&mut columns, &mut live, revision)?;
        let thread = match live.rows == self.base_len() {
            true => self.keep_column(&mut columns, ColumnKind::Thread)?,
            false => self.write_threads(&mut columns, &live)?,
        };
        let extents = [
            cores.extent,
            thread,
            self.keep_column(&mut columns, ColumnKind::References)?,
            self.keep_column(&mut columns, ColumnKind::Heap)?,
            columns.write_first_uids(&cores.first_uids)?,
        ];
        let header = Header {
            turn: old.turn + 1,
            generation,
            messages: live.rows,
            extents,
            table: columns.write_table()?,
            ..old.clone()
        };
        let mut meta = revision.finish(&self.meta)?;
        (meta.recent, meta.unseen) = (cores.recent, cores.unseen);
        meta.generation = generation;
        let header = write_header(file, header, &meta, columns.end).map_err(Error::at(path))?;
        Ok((header, meta))
    }

    fn write_cores(
        &self,
        columns: &mut Columns<'_>,
        live: &mut Live,
        revision: &mut dyn Revision,
    ) -> Result<Cores> {
        let mut written = Cores::default();
        let mut cores = self.core_cursor();
        let path = columns.path;
        let Cores { first_uids, recent, unseen, .. } = &mut written;
        let extent = columns.write(ColumnKind::Core, |writer| {
            for physical in self.overlay.live(0) {
                let mut core = cores.get(physical)?;
                if !revision.revise(&mut core)? {
                    live.remove(physical);
                    continue;
                }
                if u64::from(live.rows).is_multiple_of(ColumnKind::Core.rows_per_block()) {
                    first_uids.push(core.uid);
                }
                live.rows += 1;
                *recent += u32::from(core.flags.contains(Flag::Recent));
                *unseen += u32::from(!core.flags.contains(Flag::Seen));
                writer.push(&core.encode()).map_err(Error::at(path))?;
            }
            Ok(())
        })?;
        Ok(Cores { extent, ..written })
    }

    fn write_threads(&self, columns: &mut Columns<'_>, live: &Live) -> Result<Extent> {
        let mut threads = Cursor::new(&self.base, ColumnKind::Thread);
        let path = columns.path;
        columns.write(ColumnKind::Thread, |writer| {
            for physical in (0..self.base_len()).filter(|physical| live.has(*physical)) {
                writer.push(threads.row(physical)?).map_err(Error::at(path))?;
            }
            Ok(())
        })
    }

    /// Reuses a column in its place.
    fn keep_column(&self, columns: &mut Columns<'_>, kind: ColumnKind) -> Result<Extent> {
        let header = &self.base.header;
        let extent = header.extents[kind.index()];
        if let (Some(packed), Some(table)) = (&mut columns.packed, header.table) {
            for index in 0..extent.blocks(kind) {
                packed.blocks.push(self.base.packed_block(table, kind, index)?);
            }
        }
        Ok(extent)
    }
}

/// The core column, and the results of writing it.
#[derive(Default)]
struct Cores {
    extent: Extent,
    first_uids: Vec<Uid>,
    recent: u32,
    unseen: u32,
}

/// The rows that are not expunged, as a bit set of the others, and their number.
struct Live {
    gone: Vec<u64>,
    rows: u32,
}

impl Live {
    /// Returns the rows that the log leaves; their number starts at 0.
    fn of(snapshot: &Snapshot) -> Self {
        let words = snapshot.base_len().div_ceil(u64::BITS) as usize;
        let mut live = Self { gone: vec![0; words], rows: 0 };
        snapshot.expunged_rows().iter().for_each(|physical| live.remove(*physical));
        live
    }

    fn remove(&mut self, physical: u32) {
        if let Some(word) = self.gone.get_mut((physical / u64::BITS) as usize) {
            *word |= 1 << (physical % u64::BITS);
        }
    }

    fn has(&self, physical: u32) -> bool {
        let word = self.gone.get((physical / u64::BITS) as usize);
        word.is_some_and(|word| word >> (physical % u64::BITS) & 1 == 0)
    }
}
