//! Bytes that have arrived and are not read yet.

/// Bytes in front of the unread ones that are kept at most before the buffer is moved together.
const READ_LEN_KEPT: usize = 64 * 1024;

/// Bytes of memory that a buffer without unread bytes keeps.
pub(super) const IDLE_LEN_KEPT: usize = 4096;

/// A queue of bytes that remembers up to where it was searched for a line end.
#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// Start of the unread bytes.
    at: usize,
    /// Unread bytes before this place contain no LF.
    searched: usize,
}

/// A line, or the reason why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InputLine<'a> {
    /// A line without its LF or CRLF.
    Line(&'a [u8]),
    /// The end of the line has not arrived.
    More,
    /// The line is longer than allowed; none of it is taken.
    TooLong,
}

impl Input {
    /// Appends bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.at == self.bytes.len() {
            self.bytes.clear();
            (self.at, self.searched) = (0, 0);
        } else if self.at >= READ_LEN_KEPT && self.at >= self.bytes.len() / 2 {
            self.bytes.drain(..self.at);
            self.searched -= self.at;
            self.at = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Frees the memory of a buffer that was long, if all of it is read.
    pub(super) fn release(&mut self) {
        if self.len() == 0 && self.bytes.capacity() > IDLE_LEN_KEPT {
            *self = Self::default();
        }
    }

    /// Returns the number of unread bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Returns the unread bytes.
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Takes all unread bytes.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let rest = self.bytes.split_off(self.at);
        *self = Self::default();
        rest
    }

    /// Takes at most `max` bytes.
    pub(super) fn bytes(&mut self, max: usize) -> &[u8] {
        let start = self.at;
        self.at += max.min(self.len());
        self.searched = self.at;
        &self.bytes[start..self.at]
    }

    /// Takes a line of at most `max` bytes, its end not counted.
    pub(super) fn line(&mut self, max: usize) -> InputLine<'_> {
        let start = self.at;
        let Some(found) = memchr::memchr(b'\n', &self.bytes[self.searched..]) else {
            self.searched = self.bytes.len();
            // One byte more may be the CR of the line end.
            let is_long = self.len() > max.saturating_add(1);
            return if is_long { InputLine::TooLong } else { InputLine::More };
        };
        let end = self.searched + found;
        let line = &self.bytes[start..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > max {
            return InputLine::TooLong;
        }
        (self.at, self.searched) = (end + 1, end + 1);
        InputLine::Line(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_lf_or_crlf() {
        let mut input = Input::default();
        input.push(b"a\r\nb\n\r\nc\rd");
        assert_eq!(input.line(9), InputLine::Line(b"a"));
        assert_eq!(input.line(9), InputLine::Line(b"b"));
        assert_eq!(input.line(9), InputLine::Line(b""));
        assert_eq!(input.line(9), InputLine::More);
        assert_eq!(input.line(1), InputLine::TooLong);
        input.push(b"\n");
        assert_eq!(input.line(2), InputLine::TooLong);
        assert_eq!(input.line(3), InputLine::Line(b"c\rd"));
        assert_eq!(input.len(), 0);
    }

    #[test]
    fn a_long_line_is_searched_once_and_its_limit_does_not_count_the_end() {
        let mut input = Input::default();
        for _ in 0..5 {
            input.push(b"x");
            assert_eq!(input.line(5), InputLine::More);
            assert_eq!(input.searched, input.bytes.len());
        }
        input.push(b"\r");
        assert_eq!(input.line(5), InputLine::More);
        input.push(b"\n");
        assert_eq!(input.line(5), InputLine::Line(b"xxxxx"));
    }

    #[test]
    fn bytes_that_were_read_are_dropped() {
        let mut input = Input::default();
        for round in 0..100_u8 {
            input.push(&[round; 10_000]);
            assert_eq!(input.bytes(9_999).len(), 9_999);
        }
        assert_eq!(input.len(), 100);
        assert!(input.bytes.len() < 4 * READ_LEN_KEPT);
        assert_eq!(input.bytes(99).len(), 99);
        input.release();
        assert_eq!(input.take().len(), 1);
        assert_eq!(input.len(), 0);
        input.push(&[0; 10_000]);
        input.bytes(10_000);
        input.release();
        assert_eq!(input.bytes.capacity(), 0);
    }
}
