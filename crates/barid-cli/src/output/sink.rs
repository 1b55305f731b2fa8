//! Standard output behind one large buffer.

use std::cell::Cell;
use std::io::{self, Write};

use crate::limits::OUTPUT_BUFFER_LEN;

/// Collects lines and writes them in large pieces.
///
/// Writing to a pipe whose reader has gone is an error of kind [`io::ErrorKind::BrokenPipe`], which
/// ends the program quietly (see `exit.rs`).
pub(crate) struct Sink {
    buffer: Vec<u8>,
    discards: bool,
    has_written: Cell<bool>,
}

impl Sink {
    /// A sink that has written nothing.
    pub(crate) fn new() -> Self {
        Self { buffer: Vec::new(), discards: false, has_written: Cell::new(false) }
    }

    /// A sink that writes to nowhere, to measure what comes before.
    pub(crate) fn discarding() -> Self {
        Self { discards: true, ..Self::new() }
    }

    /// The buffer to append to; [`Sink::settle`] is due after every line or so.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Writes the buffer out if it is full.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        if self.buffer.len() < OUTPUT_BUFFER_LEN { Ok(()) } else { self.flush() }
    }

    /// Writes the buffer out.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.write_out(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Forgets what is in the buffer; `false`, and nothing is forgotten, if some of the output is
    /// out already.
    pub(crate) fn take_back(&mut self) -> bool {
        let nothing_is_out = !self.has_written.get();
        if nothing_is_out {
            self.buffer.clear();
        }
        nothing_is_out
    }

    /// Appends a line of text.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        self.buffer.extend_from_slice(text.as_bytes());
        self.buffer.push(b'\n');
        self.settle()
    }

    /// Writes a block that was collected elsewhere, after what the buffer holds.
    pub(crate) fn block(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.flush()?;
        self.write_out(bytes)
    }

    fn write_out(&self, bytes: &[u8]) -> io::Result<()> {
        if self.discards {
            return Ok(());
        }
        self.has_written.set(true);
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }
}
