//! Writing a snapshot as a new file without a log.

use std::sync::Arc;

use crate::base::{Cursor, HeapCursor};
use crate::builder::Builder;
use crate::column::Kind;
use crate::core_row::Place;
use crate::error::Result;
use crate::heap::Record;
use crate::sink::{BuilderSink, NewRow};
use crate::snapshot::{Snapshot, Stored};
use crate::thread_row::{IdHash, ThreadRow};

impl Snapshot {
    /// Writes a new file in place of the one with the long log and reads that from now on; physical
    /// rows are numbered anew. If that fails the file is removed, lest it grow for ever.
    pub(crate) fn compact(&mut self) -> Result<()> {
        let stored = match self.lock() {
            Ok(Some(_lock)) => match self.open_same() {
                Ok(Some(_)) => self.rewrite(),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            },
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match stored {
            Ok(Some(snapshot)) => *self = snapshot,
            Ok(None) => self.stored = Stored::Detached,
            Err(error) if error.is_damage() => return Err(error),
            Err(error) => {
                let _ = self.discard();
                self.stored = Stored::Failed(Arc::new(error));
            }
        }
        Ok(())
    }

    fn rewrite(&self) -> Result<Option<Self>> {
        let builder = Builder::with_seed(Arc::clone(&self.vfs), &self.base.path, self.hash_seed())?;
        let mut sink = BuilderSink::new(&builder, 0);
        let mut threads = Cursor::new(&self.base, Kind::Thread);
        let mut references = Cursor::new(&self.base, Kind::References);
        let (mut names, mut records) = (HeapCursor::bulk(&self.base), HeapCursor::bulk(&self.base));
        let mut ids: Vec<IdHash> = Vec::new();
        let mut cores = self.core_cursor();
        for physical in self.overlay.live(0) {
            let core = cores.get(physical)?;
            ids.clear();
            let (thread, record) = match self.overlay.added(physical) {
                Some(added) => {
                    ids.extend_from_slice(self.overlay.references(added));
                    (added.thread, self.overlay.record(added))
                }
                None => {
                    let thread = ThreadRow::decode(threads.row(physical)?);
                    self.read_references(&thread, &mut references, &mut ids)?;
                    (thread, records.tail(core.heap.block, core.heap.offset)?)
                }
            };
            let record = Record::bytes_of(record).ok_or_else(|| self.bounds())?;
            let name = match (core.place, self.overlay.name(physical)) {
                (Place::Span { .. }, _) => &[],
                (Place::File { .. }, Some(name)) => name,
                (Place::File { .. }, None) => self.name_in(&core, &mut names)?,
            };
            let row = NewRow { core, thread, references: &ids, name };
            let append = |out: &mut Vec<u8>| {
                out.extend_from_slice(record);
                false
            };
            sink.push(row, true, append).map_err(crate::error::Error::at(&self.base.path))?;
        }
        sink.complete();
        builder.replace(&self.meta, self.base.header.id).map(Some)
    }
}
