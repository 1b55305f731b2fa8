//! A window that slides over a file: bounded memory, every byte read once.

use std::io;
use std::ops::Range;

use barid_vfs::File;

use super::layout::CONTEXT_LEN;

/// Source of the bytes of a window.
pub(super) trait WindowSource {
    /// Fills `buffer` from `offset` on; returns fewer bytes only at the end.
    fn read_full_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Returns `true` if any offset can be read at the same cost.
    fn is_random_access(&self) -> bool;
}

/// A file up to the size that it had when it was stamped; later bytes are for the next scan.
#[derive(Debug)]
pub(super) struct FileSource<'f> {
    pub(super) file: &'f dyn File,
    pub(super) size: u64,
}

impl WindowSource for FileSource<'_> {
    fn read_full_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buffer.len().min(left);
        self.file.read_full_at(&mut buffer[..len], offset)
    }

    fn is_random_access(&self) -> bool {
        true
    }
}

/// A buffer of consecutive bytes of a source.
pub(super) struct Window<'s> {
    source: Box<dyn WindowSource + 's>,
    buffer: Vec<u8>,
    start: u64,
    len: usize,
    at_end: bool,
    read_len: usize,
    held: Option<Range<u64>>,
    spill: Vec<u8>,
    peeked: Vec<u8>,
    /// Bytes read so far.
    pub(super) bytes_read: u64,
}

impl<'s> Window<'s> {
    pub(super) fn new(source: Box<dyn WindowSource + 's>, read_len: usize) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            start: 0,
            len: 0,
            at_end: false,
            read_len,
            held: None,
            spill: Vec::new(),
            peeked: Vec::new(),
            bytes_read: 0,
        }
    }

    /// Starts with bytes that were read already.
    pub(super) fn preload(&mut self, offset: u64, bytes: Vec<u8>) {
        self.start = offset;
        self.len = bytes.len();
        self.buffer = bytes;
    }

    /// Returns the offset of the end of the window.
    pub(super) fn end(&self) -> u64 {
        self.start + self.len as u64
    }

    /// Returns `true` if no bytes follow those that [`Window::from`] returns for `offset`.
    pub(super) fn is_whole(&self, offset: u64) -> bool {
        self.at_end && offset >= self.start
    }

    /// Returns the bytes of the window from `offset` on; empty if `offset` is outside.
    pub(super) fn from(&self, offset: u64) -> &[u8] {
        match offset.checked_sub(self.start) {
            Some(skip) if skip <= self.len as u64 => &self.buffer[skip as usize..self.len],
            _ => &[],
        }
    }

    /// Returns the bytes of the window in a range.
    pub(super) fn range(&self, range: Range<u64>) -> &[u8] {
        let bytes = self.from(range.start);
        &bytes[..bytes.len().min((range.end - range.start) as usize)]
    }

    /// Reads more and drops everything before `keep` except [`CONTEXT_LEN`] bytes. If `keep` is
    /// outside the window, the window jumps there. Returns `false` at the end of the source.
    pub(super) fn more(&mut self, keep: u64) -> io::Result<bool> {
        let keep = keep.saturating_sub(CONTEXT_LEN);
        let inside = (self.start..=self.end()).contains(&keep);
        if inside && self.at_end {
            return Ok(false);
        }
        self.spill_before(keep);
        let kept = if inside { (self.end() - keep) as usize } else { 0 };
        self.buffer.copy_within(self.len - kept..self.len, 0);
        self.start = keep;
        let wanted = kept + self.read_len.max(CONTEXT_LEN as usize + 1);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        let space = &mut self.buffer[kept..wanted];
        let read = self.source.read_full_at(space, keep + kept as u64)?;
        self.at_end = read < space.len();
        self.len = kept + read;
        self.bytes_read += read as u64;
        Ok(read > 0)
    }

    /// Keeps a copy of a range when the window leaves it.
    pub(super) fn hold(&mut self, range: Range<u64>) {
        self.held = Some(range);
        self.spill.clear();
    }

    /// Drops the copy that [`Window::hold`] asked for.
    pub(super) fn release(&mut self) {
        self.held = None;
    }

    /// Returns the bytes of the range that is held.
    pub(super) fn held(&self) -> &[u8] {
        match &self.held {
            Some(range) if self.spill.is_empty() => self.range(range.clone()),
            Some(_) => &self.spill,
            None => &[],
        }
    }

    fn spill_before(&mut self, keep: u64) {
        if let Some(range) = &self.held
            && range.start < keep
            && self.spill.is_empty()
        {
            let from = (range.start - self.start) as usize;
            let to = (range.end - self.start) as usize;
            self.spill.extend_from_slice(&self.buffer[from..to]);
        }
    }

    /// Returns the offset and the bytes of `offset..offset + len`, or as many as there are, moving
    /// the window only if the source cannot be read at random. Returns `None` if such a source
    /// would have to be read further ahead than `ahead_max` bytes.
    pub(super) fn peek(
        &mut self,
        keep: u64,
        offset: u64,
        len: usize,
        ahead_max: u64,
    ) -> io::Result<Option<(u64, &[u8])>> {
        let end = offset + len as u64;
        if !self.source.is_random_access() {
            if offset.saturating_sub(keep) > ahead_max {
                return Ok(None);
            }
            while self.end() < end && self.more(keep)? {}
        }
        if offset >= self.start && (end <= self.end() || self.at_end) {
            return Ok(Some((offset, self.range(offset..end))));
        }
        self.peeked.resize(len, 0);
        let read = self.source.read_full_at(&mut self.peeked, offset)?;
        self.bytes_read += read as u64;
        Ok(Some((offset, &self.peeked[..read])))
    }
}
