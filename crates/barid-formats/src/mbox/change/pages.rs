//! Pages of a file that two readers use one after the other, so that it is read once.
//!
//! The planner reads headers, and after it the reader hashes everything. Whichever needs a page
//! first reads it for both. While the reader has nothing else to do it reads ahead of the planner.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use barid_vfs::File;

use super::limits::{PAGE_LEN, PAGES_AHEAD, PAGES_FREE_MAX, PAGES_MAX};

/// A part of a file in memory.
#[derive(Debug)]
pub(super) struct Page {
    /// Its offset in the file.
    pub(super) offset: u64,
    /// Its bytes: fewer than the page length only at the end of the file.
    pub(super) bytes: Vec<u8>,
}

impl Page {
    /// Returns the offset of its end.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// The pages of a file that were read last.
#[derive(Debug)]
pub(super) struct Pages<'a> {
    file: &'a dyn File,
    size: u64,
    page_len: usize,
    state: Mutex<PagesState>,
    /// Signals that a page was read.
    ready: Condvar,
}

#[derive(Debug, Default)]
struct PagesState {
    /// Pages in the order in which they were read.
    pages: VecDeque<Arc<Page>>,
    /// Offsets of the pages that are being read.
    reading: Vec<u64>,
    /// Offset after the planner's page; 0 if it has none.
    next: u64,
    /// Buffers for reuse.
    free: Vec<Vec<u8>>,
}

impl<'a> Pages<'a> {
    /// Creates pages of at most `len_max` bytes for `file`, which has `size` bytes.
    pub(super) fn new(file: &'a dyn File, size: u64, len_max: usize) -> Self {
        let page_len = len_max.clamp(1, PAGE_LEN);
        Self { file, size, page_len, state: Mutex::default(), ready: Condvar::new() }
    }

    /// Returns the length of a page.
    pub(super) fn page_len(&self) -> usize {
        self.page_len
    }

    /// Returns the page of `offset`; it ends before `offset` if the file does.
    pub(super) fn get(&self, offset: u64) -> io::Result<Arc<Page>> {
        let start = offset - offset % self.page_len as u64;
        let mut state = self.lock();
        state.next = start + self.page_len as u64;
        loop {
            if let Some(page) = state.find(start) {
                return Ok(page);
            }
            if !state.reading.contains(&start) {
                return self.read(state, start);
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reads a page that the planner will need; returns `false` if there is none.
    pub(super) fn read_ahead(&self) -> bool {
        let state = self.lock();
        if state.next == 0 {
            return false;
        }
        let mut ahead = (0..PAGES_AHEAD).map(|n| state.next + n * self.page_len as u64);
        let missing = ahead.find(|start| {
            *start < self.size && !state.reading.contains(start) && state.find(*start).is_none()
        });
        missing.is_some_and(|start| self.read(state, start).is_ok())
    }

    /// Returns the page of `offset`, if it is in memory, and drops those before it.
    pub(super) fn last(&self, offset: u64) -> Option<Arc<Page>> {
        let start = offset - offset % self.page_len as u64;
        let mut state = self.lock();
        state.let_go(|page| page.offset < start);
        state.find(start).filter(|page| offset < page.end())
    }

    fn read(&self, mut state: MutexGuard<'_, PagesState>, start: u64) -> io::Result<Arc<Page>> {
        state.reading.push(start);
        let mut bytes = state.free.pop().unwrap_or_default();
        drop(state);
        bytes.resize(self.page_len, 0);
        let read = self.file.read_full_at(&mut bytes, start);
        let mut state = self.lock();
        state.reading.retain(|reading| *reading != start);
        let page = read.map(|len| {
            bytes.truncate(len);
            Arc::new(Page { offset: start, bytes })
        });
        if let Ok(page) = &page {
            let count = state.pages.len();
            if count >= PAGES_MAX {
                let oldest = state.pages[0].offset;
                state.let_go(|page| page.offset == oldest);
            }
            state.pages.push_back(Arc::clone(page));
        }
        drop(state);
        self.ready.notify_all();
        page
    }

    fn lock(&self) -> MutexGuard<'_, PagesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PagesState {
    fn find(&self, start: u64) -> Option<Arc<Page>> {
        self.pages.iter().find(|page| page.offset == start).map(Arc::clone)
    }

    fn let_go(&mut self, is_gone: impl Fn(&Page) -> bool) {
        let Self { pages, free, .. } = self;
        pages.retain_mut(|page| {
            let gone = is_gone(page);
            if gone
                && free.len() < PAGES_FREE_MAX
                && let Some(page) = Arc::get_mut(page)
            {
                free.push(std::mem::take(&mut page.bytes));
            }
            !gone
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use barid_vfs::{CallKind, CountingVfs, MemVfs, OpenOptions, Vfs};

    use super::*;

    #[test]
    fn what_one_has_read_the_other_does_not_read_again() {
        let vfs = CountingVfs::new(MemVfs::new());
        let path = Path::new("/file");
        let bytes: Vec<u8> = (0..1234_u32).map(|n| (n * n) as u8).collect();
        let file = vfs.open(path, OpenOptions::create(0o600)).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        let before = vfs.counts().of(CallKind::Read);
        let pages = Pages::new(&*file, bytes.len() as u64, 100);
        assert!(!pages.read_ahead(), "nobody has asked for anything");
        let (mut at, mut after) = (0, 0);
        while at < bytes.len() as u64 {
            let page = pages.get(at).unwrap();
            assert_eq!(page.bytes, bytes[page.offset as usize..page.end() as usize]);
            let ahead = (0..PAGES_AHEAD + 1).take_while(|_| pages.read_ahead()).count();
            assert!(ahead as u64 <= PAGES_AHEAD);
            // The other is three pages behind.
            while after + 300 < at {
                let page = pages.last(after).unwrap();
                after = page.end();
            }
            at = page.end() + 7;
        }
        assert_eq!(vfs.counts().of(CallKind::Read) - before, 13 + 1, "a short one is read twice");
    }
}
