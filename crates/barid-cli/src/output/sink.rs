//! Standard output behind one large buffer.

use std::io::{self, Write};

use xxhash_rust::xxh3::Xxh3;

use crate::limits::{OUTPUT_BUFFER_LEN, PIPE_LEN};

/// Collects lines and writes them in large pieces.
///
/// A command may be begun again when part of its output is out already ([`Sink::take_back`]): what
/// it then says first must be that part, and is not written twice.
///
/// Writing to a pipe whose reader has gone is an error of kind [`io::ErrorKind::BrokenPipe`], which
/// ends the program quietly (see `exit.rs`).
pub(crate) struct Sink {
    buffer: Vec<u8>,
    discards: bool,
    /// Much is written, and a pipe has been told so.
    is_wide: bool,
    /// What is out.
    written: Said,
    /// What was said again since the command was begun again.
    again: Option<Said>,
}

/// So many bytes, and their hash.
#[derive(Clone, Default)]
struct Said {
    len: u64,
    hash: Xxh3,
}

impl Said {
    fn add(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        self.hash.update(bytes);
    }
}

/// A command that was begun again says something else than the first time.
#[derive(Debug, thiserror::Error)]
#[error("the mailbox has changed since its first lines were printed")]
pub(crate) struct SaidOtherwise;

impl Sink {
    /// A sink that has written nothing.
    pub(crate) fn new() -> Self {
        Self {
            buffer: Vec::new(),
            discards: false,
            is_wide: false,
            written: Said::default(),
            again: None,
        }
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
        let mut buffer = std::mem::take(&mut self.buffer);
        let done = self.write_out(&buffer);
        buffer.clear();
        self.buffer = buffer;
        done
    }

    /// Writes the rest out at the end of the program.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        match &self.again {
            Some(again) if again.len < self.written.len => Err(io::Error::other(SaidOtherwise)),
            _ => Ok(()),
        }
    }

    /// Forgets what is in the buffer, since the command is begun again. Of what it says then, so
    /// much as is out already is not written again.
    pub(crate) fn take_back(&mut self) {
        self.buffer.clear();
        self.again = Some(Said::default());
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

    /// What of `bytes` is not out yet.
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

/// Lets a pipe hold more: who writes and who reads wait for each other less often. What is no pipe,
/// or may not, stays as it is.
fn widen(stdout: &io::StdoutLock<'_>) {
    let _ = rustix::pipe::fcntl_setpipe_size(stdout, PIPE_LEN);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a second saying adds to the first, of which `out` bytes are out.
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
