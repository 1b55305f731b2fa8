//! The buffer of text that was decoded and not yet scanned.
//!
//! Lines are added at the end; text that has to be scanned again is pushed back in front. The fill
//! and size of bogofilter's own buffer are simulated, because they determine how much of a line it
//! reads at once.

use super::work;
use crate::limits::{BUFFER_KEPT_LEN, RAW_PIECE_LEN};

/// Free bytes in front for text that is pushed back.
const HEADROOM: usize = 512;
/// Consumed bytes that may stay in front of the text.
const CONSUMED_MAX: usize = 64 * 1024;
/// The size that bogofilter's buffer starts with.
const WINDOW_SIZE: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(super) struct Text {
    bytes: Vec<u8>,
    start: usize,
    /// Bytes ever added at the end.
    added: u64,
    /// Start of bogofilter's simulated buffer in `bytes`, then its fill and its size.
    window_start: i64,
    window_len: usize,
    window_size: usize,
}

impl Text {
    /// Empties the buffer for the next message.
    pub(super) fn reset(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(BUFFER_KEPT_LEN);
        self.bytes.resize(HEADROOM, 0);
        self.start = HEADROOM;
        self.added = 0;
        self.window_start = HEADROOM as i64;
        self.window_len = 0;
        self.window_size = WINDOW_SIZE;
    }

    #[inline]
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<u8> {
        work::note(1);
        self.bytes.get(self.start + index).copied()
    }

    /// Returns `true` if `end` directly precedes the byte at `index`. Consumed bytes count if they
    /// are still in the buffer.
    pub(super) fn is_after(&self, index: usize, end: &[u8]) -> bool {
        self.bytes[..self.start + index].ends_with(end)
    }

    #[inline]
    pub(super) fn consume(&mut self, len: usize) {
        self.start += len;
    }

    /// Returns the place of the byte at `index`: its number among all bytes ever added. Bytes that
    /// were pushed back take the places before the byte that follows them.
    pub(super) fn place(&self, index: usize) -> u64 {
        let after = self.bytes.len().saturating_sub(self.start + index) as u64;
        self.added.saturating_sub(after)
    }

    /// Overwrites the first `len` bytes.
    pub(super) fn fill(&mut self, len: usize, byte: u8) {
        self.bytes[self.start..self.start + len].fill(byte);
    }

    /// Moves the first `len` bytes after the following ones up to `end`.
    pub(super) fn rotate(&mut self, len: usize, end: usize) {
        work::note(end);
        self.note_push_back(self.start + end, end);
        self.bytes[self.start..self.start + end].rotate_left(len);
    }

    /// Puts `text` in front, to be scanned again in place of what was just consumed.
    pub(super) fn push_back(&mut self, text: &[u8]) {
        work::note(text.len());
        self.note_push_back(self.start, text.len());
        if self.start < text.len() {
            let room = text.len() + HEADROOM;
            let old = self.bytes.len();
            work::note(old - self.start);
            self.bytes.resize(old + room, 0);
            self.bytes.copy_within(self.start..old, self.start + room);
            self.start += room;
            self.window_start += room as i64;
        }
        self.start -= text.len();
        self.bytes[self.start..self.start + text.len()].copy_from_slice(text);
    }

    /// Simulates the shift of bogofilter's buffer when `len` bytes are pushed back before `end`.
    fn note_push_back(&mut self, end: usize, len: usize) {
        let lowest = end as i64 - self.window_start - len as i64 + 1;
        if len > 0 && lowest < 2 {
            self.window_start -= self.window_size as i64 - self.window_len as i64;
            self.window_len = self.window_size;
        }
    }

    /// Prepares for adding a line. Returns the bytes that bogofilter's buffer held until now, and
    /// the bytes for which it has room, at most [`RAW_PIECE_LEN`].
    pub(super) fn begin_read(&mut self) -> (usize, usize) {
        let waiting = self.rest().len();
        if waiting == 0 {
            self.bytes.truncate(HEADROOM);
            self.start = HEADROOM;
        } else if self.start > CONSUMED_MAX && self.start > waiting {
            work::note(waiting);
            self.bytes.copy_within(self.start.., HEADROOM);
            self.bytes.truncate(HEADROOM + waiting);
            self.start = HEADROOM;
        }
        let used = self.window_len;
        self.window_start = self.start as i64;
        while waiting + 1 >= self.window_size {
            self.window_size *= 2;
        }
        self.window_len = waiting;
        (used, (self.window_size - waiting - 1).min(RAW_PIECE_LEN))
    }

    /// Returns the buffer to append a line to, between [`Text::begin_read`] and [`Text::end_read`].
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends the adding of a line: `len` bytes were appended.
    pub(super) fn end_read(&mut self, len: usize) {
        self.added += len as u64;
        self.window_len += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushed_back_text_comes_first() {
        let mut text = Text::default();
        text.reset();
        text.begin_read();
        text.end().extend_from_slice(b"one two");
        text.end_read(7);
        text.consume(3);
        assert_eq!(text.place(0), 3);
        text.push_back(&[b'x'; 2000]);
        assert_eq!(text.rest().len(), 2004);
        text.consume(2000);
        assert_eq!((text.rest(), text.place(0)), (&b" two"[..], 3));
        text.rotate(1, 4);
        assert_eq!(text.rest(), b"two ");
    }
}
