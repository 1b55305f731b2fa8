//! Standard output behind one large buffer.

use std::io::{self, Write};

use xxhash_rust::xxh3::Xxh3;

use crate::limits::{OUTPUT_BUFFER_LEN, PIPE_LEN};

/// Collects lines and writes them in large pieces.
///
/// A command may be restarted after part of its output was written ([`Sink::take_back`]): its new
/// output must begin with that part, which is not written again.
///
/// Writing to a closed pipe is an error of kind [`io::ErrorKind::BrokenPipe`], which ends the
/// program quietly (see `exit.rs`).
pub(crate) struct Sink {
    buffer: Vec<u8>,
    discards: bool,
    /// `true` if a pipe was enlarged for large output.
    is_wide: bool,
    /// The output written so far.
    written: OutputHash,
    /// The output repeated since the command was restarted.
    again: Option<OutputHash>,
}

/// Length and hash of some output.
#[derive(Clone, Default)]
struct OutputHash {
    len: u64,
    hash: Xxh3,
}

impl OutputHash {
    fn add(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        self.hash.update(bytes);
    }
}

/// The error of a restarted command whose output differs from the first.
#[derive(Debug, thiserror::Error)]
#[error("the mailbox has changed since its first lines were printed")]
pub(crate) struct SaidOtherwise;

impl Sink {
    /// Creates a sink without output.
    pub(crate) fn new() -> Self {
        Self {
            buffer: Vec::new(),
            discards: false,
            is_wide: false,
            written: OutputHash::default(),
            again: None,
        }
    }

    /// Creates a sink that discards its output, for measuring.
    pub(crate) fn discarding() -> Self {
        Self { discards: true, ..Self::new() }
    }

    /// Returns the buffer to append to; [`Sink::settle`] should follow after about every line.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Writes the buffer if it is full.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        if self.buffer.len() < OUTPUT_BUFFER_LEN { Ok(()) } else { self.flush() }
    }

    /// Writes the buffer.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let done = self.write_out(&buffer);
        buffer.clear();
        self.buffer = buffer;
        done
    }

    /// Writes the rest at the end of the program.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        match &self.again {
            Some(again) if again.len < self.written.len => Err(io::Error::other(SaidOtherwise)),
            _ => Ok(()),
        }
    }

    /// Clears the buffer, since the command is restarted. The part of its output that was written
    /// already is not written again.
    pub(crate) fn take_back(&mut self) {
        self.buffer.clear();
        self.again = Some(OutputHash::default());
    }

    /// Appends a line of text.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        self.buffer.extend_from_slice(text.as_bytes());
        self.buffer.push(b'\n');
        self.settle()
    }

    /// Writes the buffer, then a block that was collected elsewhere.
    pub(crate) fn block(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.flush()?;
        self.write_out(bytes)
    }

    fn write_out(&mut self, bytes: &[u8]) -> io::Result<()> {
        let new = self.new_part(bytes)?;
        if self.discards || new.is_empty() {
            return Ok(());
        }
        self.written.add(new);
        let mut stdout = io::stdout().lock();
        if new.len() >= OUTPUT_BUFFER_LEN && !self.is_wide {
            self.is_wide = true;
            widen(&stdout);
        }
        stdout.write_all(new)?;
        stdout.flush()
    }

    /// Returns the part of `bytes` that is not written yet.
    fn new_part<'a>(&mut self, bytes: &'a [u8]) -> io::Result<&'a [u8]> {
        let Some(again) = &mut self.again else { return Ok(bytes) };
        let left = self.written.len.saturating_sub(again.len);
        let out = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (old, new) = bytes.split_at(out);
        again.add(old);
        if again.len < self.written.len {
            return Ok(new);
        }
        let same = again.hash.digest() == self.written.hash.digest();
        self.again = None;
        if same { Ok(new) } else { Err(io::Error::other(SaidOtherwise)) }
    }
}

/// Enlarges a pipe, so that reader and writer wait for each other less often. Ignores errors and
/// streams that are not pipes.
fn widen(stdout: &io::StdoutLock<'_>) {
    let _ = rustix::pipe::fcntl_setpipe_size(stdout, PIPE_LEN);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks what repeated output adds to the first, of which `out` bytes were written.
    fn check(first: &[u8], out: usize, pieces: &[&[u8]], expected: Option<&[u8]>) {
        let mut sink = Sink::new();
        sink.written.add(&first[..out]);
        sink.take_back();
        let mut found = Vec::new();
        let done = pieces.iter().try_for_each(|piece| {
            let new = sink.new_part(piece)?;
            sink.written.add(if sink.again.is_none() { new } else { b"" });
            found.extend_from_slice(new);
            io::Result::Ok(())
        });
        let done = done.and_then(|()| sink.finish());
        assert_eq!(done.ok().map(|()| &found[..]), expected, "{pieces:?}");
    }

    #[test]
    fn what_is_out_is_not_said_twice() {
        check(b"one two", 0, &[b"one two"], Some(b"one two"));
        check(b"one two", 4, &[b"one two"], Some(b"two"));
        check(b"one two", 4, &[b"on", b"e ", b"two", b" three"], Some(b"two three"));
        check(b"one two", 7, &[b"one two"], Some(b""));
        check(b"one two", 4, &[b"One two"], None);
        check(b"one two", 4, &[b"one"], None);
    }
}
