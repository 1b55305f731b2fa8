//! The sink that fills one chunk of a [`Builder`].

use barid_formats::{ScanSink, ScannedMessage, SinkError};
use barid_types::Flag;

use crate::builder::{Builder, Writers};
use crate::core_row::UID_AT;
use crate::error::{Error, ScanFault};
use crate::parse::{Parser, name_of};
use crate::rows::ChunkRows;

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

impl ScanSink for BuilderSink<'_> {
    fn message(&mut self, message: &ScannedMessage<'_>) -> Result<(), SinkError> {
        let (store, file) = (&self.builder.heap, &*self.builder.file);
        let name = name_of(message).map_err(|_| Error::Scan(ScanFault::NameLen))?;
        let mut parsed = self.parser.parse(message);
        let (heap, cut) =
            self.writers.records.append(store, file, |out| parsed.record.encode(out))?;
        (parsed.core.heap, parsed.core.cut) = (heap, cut);
        if let Some(name) = name {
            let (heap, ()) =
                self.writers.names.append(store, file, |out| out.extend_from_slice(name))?;
            parsed.core.name = heap;
        }
        let mut row = parsed.core.encode();
        if message.uid.is_none() {
            row[UID_AT..UID_AT + 4].fill(0);
        }
        self.rows.core.push(&row);
        parsed.thread.references_start = self.rows.references.rows();
        self.rows.thread.push(&parsed.thread.encode());
        for reference in &self.parser.references {
            self.rows.references.push(&reference.encode());
        }
        self.rows.recent += u32::from(message.flags.contains(Flag::Recent));
        self.rows.unseen += u32::from(!message.flags.contains(Flag::Seen));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        self.builder.complete(self.chunk, self.rows, self.writers);
        Ok(())
    }
}
