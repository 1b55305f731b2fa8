//! Reading a file that is being changed: mostly forwards, sometimes just a few bytes.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use barid_vfs::File;
use xxhash_rust::xxh3::Xxh3;

use super::limits::READ_LEN_MIN;
use super::pages::{Page, Pages};
use super::unit::Collapse;

/// Reads a file through a buffer. Offsets are those of the file after its collapses.
#[derive(Debug)]
pub(super) struct BufferedFile<'a> {
    file: &'a dyn File,
    /// Ranges that are still in the file and are skipped.
    collapses: Vec<Collapse>,
    buffer: Vec<u8>,
    offset: u64,
    ahead: usize,
    buffer_len: usize,
    /// Pages that others have read.
    pages: Option<&'a Pages<'a>>,
    /// Page in use in place of the buffer.
    page: Option<Arc<Page>>,
    /// Range announced by [`BufferedFile::expect`].
    expected: Range<u64>,
}

impl<'a> BufferedFile<'a> {
    /// Creates a source that reads at most `buffer_len` bytes at once.
    pub(super) fn new(file: &'a dyn File, buffer_len: usize) -> Self {
        let collapses = Vec::new();
        let expected = 0..0;
        let (pages, page) = (None, None);
        let buffer = Vec::new();
        Self { file, collapses, buffer, offset: 0, ahead: 0, buffer_len, pages, page, expected }
    }

    /// Creates a source that does not read again the bytes in `pages`.
    pub(super) fn sharing(file: &'a dyn File, buffer_len: usize, pages: &'a Pages<'a>) -> Self {
        Self { pages: Some(pages), ..Self::new(file, buffer_len) }
    }

    fn bytes(&self) -> &[u8] {
        self.page.as_ref().map_or(&self.buffer, |page| &page.bytes)
    }

    /// Skips a range from now on; it follows all ranges added before.
    pub(super) fn collapse(&mut self, collapse: Collapse) {
        self.collapses.push(collapse);
        self.forget();
    }

    /// Announces that the range from `from` to `to` is read next, and nothing after it.
    pub(super) fn expect(&mut self, from: u64, to: u64) {
        self.expected = from..to;
    }

    /// Drops the bytes that were read ahead.
    pub(super) fn forget(&mut self) {
        self.buffer.clear();
        self.page = None;
        self.ahead = 0;
    }

    /// Visits `len` bytes from `offset` on, in pieces.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file is shorter; errors of reading and of `visit`.
    pub(super) fn visit(
        &mut self,
        mut offset: u64,
        mut len: u64,
        mut visit: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        while len > 0 {
            let skip = offset.wrapping_sub(self.offset);
            if offset < self.offset || skip >= self.bytes().len() as u64 {
                self.fill(offset, len)?;
                continue;
            }
            let bytes = &self.bytes()[skip as usize..];
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
        let len = self.bytes().len() as u64;
        let goes_on = len > 0 && offset == self.offset + len;
        self.page = match self.pages {
            Some(pages) if self.collapses.is_empty() => pages.last(offset),
            _ => None,
        };
        if let Some(page) = &self.page {
            self.offset = page.offset;
            return Ok(());
        }
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let ahead = if goes_on { self.ahead * 2 } else { READ_LEN_MIN };
        self.ahead = ahead.max(wanted).min(self.buffer_len.max(1));
        if self.expected.contains(&offset) {
            let left = usize::try_from(self.expected.end - offset).unwrap_or(usize::MAX);
            self.ahead = left.min(self.buffer_len.max(1));
        }
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

    /// Returns the present offset in the file of `offset`, and the number of bytes up to the next
    /// range to skip.
    fn place(&self, offset: u64) -> (u64, u64) {
        let before = self.collapses.partition_point(|collapse| collapse.offset <= offset);
        let gone: u64 = self.collapses[..before].iter().map(|collapse| collapse.len).sum();
        let next = self.collapses.get(before).map_or(u64::MAX, |collapse| collapse.offset);
        (offset + gone, next - offset)
    }
}

/// Returns the XXH3 of the `len` bytes of `file` from `offset` on, which must exist.
pub(super) fn hash_of(
    file: &dyn File,
    offset: u64,
    len: u64,
    buffer_len: usize,
) -> io::Result<u64> {
    let mut hash = Xxh3::new();
    BufferedFile::new(file, buffer_len).hash(offset, len, &mut hash)?;
    Ok(hash.digest())
}
