//! Reading a file where it is changed: mostly forwards, sometimes just a few bytes.

use std::io;

use barid_vfs::File;
use xxhash_rust::xxh3::Xxh3;

use super::limits::READ_LEN_MIN;
use super::unit::Collapse;

/// Reads a file through a buffer. Offsets are those of the file after its collapses.
#[derive(Debug)]
pub(super) struct Source<'a> {
    file: &'a dyn File,
    /// Ranges that are still in the file and are jumped over.
    collapses: Vec<Collapse>,
    buffer: Vec<u8>,
    offset: u64,
    ahead: usize,
    buffer_len: usize,
}

impl<'a> Source<'a> {
    /// Reads at most `buffer_len` bytes at once.
    pub(super) fn new(file: &'a dyn File, buffer_len: usize) -> Self {
        let collapses = Vec::new();
        Self { file, collapses, buffer: Vec::new(), offset: 0, ahead: 0, buffer_len }
    }

    /// Jumps over a range from now on; those of before are in front of it.
    pub(super) fn collapse(&mut self, collapse: Collapse) {
        self.collapses.push(collapse);
        self.forget();
    }

    /// Forgets what was read ahead.
    pub(super) fn forget(&mut self) {
        self.buffer.clear();
        self.ahead = 0;
    }

    /// Visits `len` bytes from `offset` on, piece by piece.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file is shorter, and what reading and `visit` say.
    pub(super) fn visit(
        &mut self,
        mut offset: u64,
        mut len: u64,
        mut visit: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        while len > 0 {
            let skip = offset.wrapping_sub(self.offset);
            if offset < self.offset || skip >= self.buffer.len() as u64 {
                self.fill(offset, len)?;
                continue;
            }
            let bytes = &self.buffer[skip as usize..];
            let taken = bytes.len().min(usize::try_from(len).unwrap_or(usize::MAX));
            visit(&bytes[..taken])?;
            offset += taken as u64;
            len -= taken as u64;
        }
        Ok(())
    }

    /// Hashes `len` bytes from `offset` on.
    pub(super) fn hash(&mut self, offset: u64, len: u64, hash: &mut Xxh3) -> io::Result<()> {
        self.visit(offset, len, |bytes| {
            hash.update(bytes);
            Ok(())
        })
    }

    fn fill(&mut self, offset: u64, wanted: u64) -> io::Result<()> {
        let goes_on = !self.buffer.is_empty() && offset == self.offset + self.buffer.len() as u64;
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let ahead = if goes_on { self.ahead * 2 } else { READ_LEN_MIN };
        self.ahead = ahead.max(wanted).min(self.buffer_len.max(1));
        let (at, left) = self.place(offset);
        let len = self.ahead.min(usize::try_from(left).unwrap_or(usize::MAX));
        self.offset = offset;
        self.buffer.resize(len, 0);
        let result = self.file.read_full_at(&mut self.buffer, at);
        self.buffer.truncate(*result.as_ref().unwrap_or(&0));
        match result? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Where `offset` is in the file as it stands, and how many bytes follow it there before the
    /// next range to jump over.
    fn place(&self, offset: u64) -> (u64, u64) {
        let before = self.collapses.partition_point(|collapse| collapse.offset <= offset);
        let gone: u64 = self.collapses[..before].iter().map(|collapse| collapse.len).sum();
        let next = self.collapses.get(before).map_or(u64::MAX, |collapse| collapse.offset);
        (offset + gone, next - offset)
    }
}

/// XXH3 of the `len` bytes of `file` from `offset` on, which must be there.
pub(super) fn hash_of(
    file: &dyn File,
    offset: u64,
    len: u64,
    buffer_len: usize,
) -> io::Result<u64> {
    let mut hash = Xxh3::new();
    Source::new(file, buffer_len).hash(offset, len, &mut hash)?;
    Ok(hash.digest())
}
