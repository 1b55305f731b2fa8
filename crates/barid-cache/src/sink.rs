//! The sink that fills one chunk of a [`Builder`].

use barid_formats::{ScanSink, ScannedMessage, SinkError};
use barid_types::Flag;

use crate::builder::{Builder, Writers};
use crate::core_row::{Core, Place, UID_AT};
use crate::error::{Error, ScanFault};
use crate::parse::{Parsed, Parser, name_of};
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
    /// Takes a message whose header record `record` appends, which also tells whether it was cut.
    pub(crate) fn push(
        &mut self,
        row: NewRow<'_>,
        has_uid: bool,
        record: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> std::io::Result<()> {
        let (store, file) = (&self.builder.heap, &*self.builder.file);
        let NewRow { mut core, mut thread, references, name } = row;
        let (heap, cut) = self.writers.records.append(store, file, record)?;
        (core.heap, core.cut) = (heap, core.cut || cut);
        if let Place::File { .. } = core.place {
            let append = |out: &mut Vec<u8>| out.extend_from_slice(name);
            (core.name, ()) = self.writers.names.append(store, file, append)?;
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

    /// Gives the rows to the builder.
    pub(crate) fn complete(mut self) {
        self.builder.complete(self.chunk, std::mem::take(&mut self.rows));
    }
}

impl Drop for BuilderSink<'_> {
    fn drop(&mut self) {
        // Also those of a void sink: the blocks may hold records of chunks before.
        self.builder.keep_writers(std::mem::take(&mut self.writers));
    }
}

impl ScanSink for BuilderSink<'_> {
    fn message(&mut self, message: &ScannedMessage<'_>) -> Result<(), SinkError> {
        let name = name_of(message).map_err(|_| Error::Scan(ScanFault::NameLen))?;
        let Parsed { record, core, thread } = self.parser.parse(message);
        let references = std::mem::take(&mut self.parser.references);
        let row = NewRow { core, thread, references: &references, name };
        let result = self.push(row, message.uid.is_some(), |out| record.encode(out));
        self.parser.references = references;
        Ok(result?)
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        (*self).complete();
        Ok(())
    }
}
