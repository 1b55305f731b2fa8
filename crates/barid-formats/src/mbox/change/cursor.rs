//! The known messages, one by one, and the headers in the file.

use std::io;
use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{Error, Extent, Known, Result, sink_error};
use barid_state::MessageKey;
use barid_types::{FlagSet, KeywordMask, Uid};
use barid_vfs::File;

use super::pages::{Page, Pages};
use crate::mbox::layout::{BATCH_MAX, HEADERS_GAP_MAX, HEADERS_READ_LEN};

/// A known message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CursorMessage {
    pub(super) uid: Uid,
    pub(super) flags: FlagSet,
    pub(super) keywords: KeywordMask,
    pub(super) key: MessageKey,
    /// Offset of its separator.
    pub(super) offset: u64,
    pub(super) separator_len: u32,
    pub(super) header_len: u32,
    pub(super) body_len: u64,
}

impl CursorMessage {
    /// Returns the offset of its header.
    pub(super) fn header(&self) -> u64 {
        self.offset + u64::from(self.separator_len)
    }

    /// Returns the offset of its body.
    pub(super) fn body(&self) -> u64 {
        self.header() + u64::from(self.header_len)
    }

    /// Returns the offset of the end of its body.
    pub(super) fn end(&self) -> u64 {
        self.body().saturating_add(self.body_len)
    }
}

/// Reads the known messages in batches.
pub(super) struct KnownCursor<'k> {
    known: &'k dyn Known,
    path: &'k Path,
    len: u32,
    batch: Vec<CursorMessage>,
    first: u32,
    /// Number of messages in the next batch.
    ahead: usize,
}

impl<'k> KnownCursor<'k> {
    pub(super) fn new(known: &'k dyn Known, path: &'k Path) -> Self {
        Self { known, path, len: known.len(), batch: Vec::new(), first: 0, ahead: 0 }
    }

    /// Returns the number of messages.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the message at `index`; `None` after the last.
    pub(super) fn get(&mut self, index: u32) -> Result<Option<CursorMessage>> {
        if index >= self.len {
            return Ok(None);
        }
        let inside = |cursor: &Self| {
            let at = index.checked_sub(cursor.first)? as usize;
            cursor.batch.get(at).copied()
        };
        if let Some(item) = inside(self) {
            return Ok(Some(item));
        }
        self.load(index)?;
        inside(self).map(Some).ok_or_else(|| Error::Changed { path: self.path.to_owned() })
    }

    fn load(&mut self, index: u32) -> Result<()> {
        let follows = index as usize == self.first as usize + self.batch.len();
        self.ahead = if follows { (self.ahead * 4).clamp(8, BATCH_MAX) } else { 8 };
        self.first = index;
        self.batch.clear();
        let (batch, ahead) = (&mut self.batch, self.ahead);
        sink_error(self.known.visit(index, &mut |message| {
            let Some(Extent { offset, separator_len, header_len, body_len }) =
                message.location.extent()
            else {
                return false;
            };
            batch.push(CursorMessage {
                uid: message.uid,
                flags: message.flags,
                keywords: message.keywords,
                key: message.key,
                offset,
                separator_len,
                header_len,
                body_len,
            });
            batch.len() < ahead
        }))
    }
}

/// Reads headers: one by one if few are needed, in large pieces if one after the other is.
pub(super) struct Headers<'f> {
    file: &'f dyn File,
    path: &'f Path,
    size: u64,
    /// Pages shared with the reader that follows, for sequential reading.
    pages: Option<&'f Pages<'f>>,
    /// Page in use in place of the buffer.
    page: Option<Arc<Page>>,
    buffer: Vec<u8>,
    start: u64,
    len: usize,
    ahead: usize,
}

impl<'f> Headers<'f> {
    pub(super) fn new(file: &'f dyn File, path: &'f Path, size: u64) -> Self {
        let (pages, page) = (None, None);
        Self { file, path, size, pages, page, buffer: Vec::new(), start: 0, len: 0, ahead: 0 }
    }

    /// Reads large pieces page by page from now on.
    pub(super) fn share(&mut self, pages: Option<&'f Pages<'f>>) {
        self.pages = pages;
    }

    /// Returns the bytes of a range; fewer only at the end of the file.
    pub(super) fn get_some(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let len = len.min(usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX));
        let end = self.start + self.len as u64;
        if offset < self.start || offset + len as u64 > end {
            self.load(offset, len)?;
        }
        let skip = (offset - self.start) as usize;
        let bytes = self.page.as_ref().map_or(&self.buffer, |page| &page.bytes);
        Ok(&bytes[skip.min(self.len)..(skip + len).min(self.len)])
    }

    fn load(&mut self, offset: u64, len: usize) -> Result<()> {
        let end = self.start + self.len as u64;
        let is_near = self.len > 0 && offset >= self.start && offset <= end + HEADERS_GAP_MAX;
        let ahead = (self.ahead * 4).clamp(HEADERS_READ_LEN / 16, HEADERS_READ_LEN);
        self.ahead = if is_near { ahead } else { 0 };
        if let Some(pages) = self.pages.filter(|pages| self.ahead >= pages.page_len()) {
            return self.load_page(pages, offset, len).map_err(Error::at(self.path));
        }
        self.page = None;
        let left = usize::try_from(self.size - offset).unwrap_or(usize::MAX);
        let wanted = len.max(self.ahead).min(left);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        let read = self.file.read_full_at(&mut self.buffer[..wanted], offset);
        (self.start, self.len) = (offset, read.map_err(Error::at(self.path))?);
        Ok(())
    }

    /// Uses the page that contains a range, or copies the range if it crosses pages.
    fn load_page(&mut self, pages: &Pages<'_>, offset: u64, len: usize) -> io::Result<()> {
        let page = pages.get(offset)?;
        if offset + len as u64 <= page.end() {
            (self.start, self.len) = (page.offset, page.bytes.len());
            self.page = Some(page);
            return Ok(());
        }
        self.buffer.clear();
        let mut page = page;
        let (mut at, end) = (offset, offset + len as u64);
        while at < end && at < page.end() {
            let skip = (at - page.offset) as usize;
            let taken = (end.min(page.end()) - at) as usize;
            self.buffer.extend_from_slice(&page.bytes[skip..skip + taken]);
            at += taken as u64;
            if at < end {
                page = pages.get(at)?;
            }
        }
        self.page = None;
        (self.start, self.len) = (offset, self.buffer.len());
        Ok(())
    }

    /// Returns all bytes of a range; fails if the file is shorter.
    pub(super) fn get(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let path = self.path;
        let bytes = self.get_some(offset, len)?;
        if bytes.len() == len { Ok(bytes) } else { Err(Error::Changed { path: path.to_owned() }) }
    }
}
