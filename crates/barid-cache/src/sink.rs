//! The sink that fills one chunk of a [`Builder`].

use barid_mailbox::{ScanSink, ScannedMessage, SinkError};
use barid_types::Flag;

use crate::builder::{Builder, Writers};
use crate::core_row::{Core, RowLocation, UID_AT, record_number};
use crate::error::{Error, Result, ScanFault};
use crate::parse::{Parsed, Parser, name_of};
use crate::record::put_framed;
use crate::rows::ChunkRows;
use crate::thread_row::{IdHash, ThreadRow};

pub(crate) struct BuilderSink<'a> {
    builder: &'a Builder,
    chunk: u32,
    parser: Parser,
    rows: ChunkRows,
    writers: Writers,
}

impl<'a> BuilderSink<'a> {
    pub(crate) fn new(builder: &'a Builder, chunk: u32) -> Self {
        Self {
            builder,
            chunk,
            parser: Parser::new(builder.seed),
            rows: ChunkRows::default(),
            writers: builder.take_writers(),
        }
    }
}

/// A message on its way into a file.
pub(crate) struct NewRow<'a> {
    pub(crate) core: Core,
    pub(crate) thread: ThreadRow,
    pub(crate) references: &'a [IdHash],
    pub(crate) name: &'a [u8],
}

impl BuilderSink<'_> {
    /// Adds a message. `record` appends its header record, and returns `true` if it was cut.
    pub(crate) fn push(
        &mut self,
        mut row: NewRow<'_>,
        has_uid: bool,
        record: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> Result<()> {
        let (heap, cut) = match &self.builder.kv {
            Some(kv) => kv.put(&mut self.writers.kv, record)?,
            None => {
                let Writers { records, packing, .. } = &mut self.writers;
                let mut target = self.builder.target(packing.as_mut());
                let framed = |out: &mut Vec<u8>| put_framed(out, record);
                records.append(&mut target, framed).map_err(self.builder.error())?
            }
        };
        (row.core.heap, row.core.cut) = (heap, row.core.cut || cut);
        self.push_row(row, has_uid)
    }

    /// Adds a message whose header record is already in the store.
    pub(crate) fn push_row(&mut self, row: NewRow<'_>, has_uid: bool) -> Result<()> {
        let NewRow { mut core, mut thread, references, name } = row;
        if let RowLocation::Name { .. } = core.location {
            let Writers { names, packing, .. } = &mut self.writers;
            let mut target = self.builder.target(packing.as_mut());
            let append = |out: &mut Vec<u8>| out.extend_from_slice(name);
            let appended = names.append(&mut target, append).map_err(self.builder.error())?;
            (core.name, ()) = appended;
            core.name_len = name.len() as u32;
        }
        let mut bytes = core.encode();
        if !has_uid {
            bytes[UID_AT..UID_AT + 4].fill(0);
        }
        self.rows.core.push(&bytes);
        thread.references_start = self.rows.references.rows();
        self.rows.thread.push(&thread.encode());
        for reference in references {
            self.rows.references.push(&reference.encode());
        }
        self.rows.recent += u32::from(core.flags.contains(Flag::Recent));
        self.rows.unseen += u32::from(!core.flags.contains(Flag::Seen));
        Ok(())
    }

    /// Passes the rows to the builder.
    pub(crate) fn complete(mut self) -> Result<()> {
        self.builder.complete(self.chunk, std::mem::take(&mut self.rows))
    }
}

impl Drop for BuilderSink<'_> {
    fn drop(&mut self) {
        if let Some(kv) = &self.builder.kv {
            // The rows of a void sink: their records are never needed.
            kv.delete(self.rows.core.iter().map(record_number));
        }
        // Also those of a void sink: the blocks may contain records of earlier chunks.
        self.builder.keep_writers(std::mem::take(&mut self.writers));
    }
}

impl ScanSink for BuilderSink<'_> {
    fn message(&mut self, message: &ScannedMessage<'_>) -> std::result::Result<(), SinkError> {
        let name = name_of(message).map_err(|_| Error::Scan(ScanFault::NameLen))?;
        let Parsed { record, core, thread } = self.parser.parse(message);
        let references = std::mem::take(&mut self.parser.references);
        let row = NewRow { core, thread, references: &references, name };
        let result = self.push(row, message.uid.is_some(), |out| record.encode(out));
        self.parser.references = references;
        Ok(result?)
    }

    fn finish(self: Box<Self>) -> std::result::Result<(), SinkError> {
        Ok((*self).complete()?)
    }
}
