//! Return paths that contain the receiver's address (VERP): `list-123-user=example.org@host`.

use super::classes::{self, ALNUM, BACK, FRONT, MID};
use super::scan::Scan;

/// The set of states that a match of `word-id-word` may be in: a `-` may end a word or belong to
/// it, so all possibilities are followed at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ways {
    /// In the first word, and where it may end.
    first: bool,
    first_end: bool,
    /// Before the id, in it, after a digit that is not its first byte, and where the id may end.
    id_start: bool,
    id: bool,
    id_digit: bool,
    id_end: bool,
    /// Before the last word, in it, and where it may end.
    last_start: bool,
    last: bool,
    last_end: bool,
}

impl Ways {
    fn step(self, byte: u8) -> Self {
        let is_mid = classes::is(byte, MID);
        let is_back = classes::is(byte, BACK);
        let is_id = classes::is(byte, ALNUM) || matches!(byte, b'#' | b'-');
        let is_dash = byte == b'-';
        let in_id = self.id_start || self.id;
        let starts_last = self.last_start && classes::is(byte, FRONT);
        let last = (self.last && is_mid) || starts_last;
        Self {
            first: self.first && is_mid,
            first_end: self.first && is_back,
            id_start: self.first_end && is_dash,
            id: in_id && is_id,
            id_digit: (self.id || self.id_digit) && byte.is_ascii_digit(),
            id_end: (self.id_digit || self.id_end) && is_id,
            last_start: self.id_end && is_dash,
            last,
            last_end: last && is_back,
        }
    }

    fn is_over(self) -> bool {
        self == Self::default()
    }
}

impl Scan<'_> {
    /// Returns the end of the token, before the `=`, and the end of the whole match. The first
    /// `run` bytes are known to belong to a word.
    pub(super) fn verp(&mut self, run: usize) -> Option<(usize, usize)> {
        let mut ways = Ways { first: true, first_end: true, ..Ways::default() };
        let mut at = 1;
        loop {
            if at >= run && self.no_verp.contains(&self.text.place(at)) {
                return None;
            }
            let Some(byte) = self.peek(at) else {
                self.note_no_verp(at);
                return None;
            };
            if byte == b'=' {
                break;
            }
            ways = ways.step(byte);
            if ways.is_over() {
                // A byte that no match can contain ends the matches from all earlier starts, too.
                if byte != b'#' && !classes::is(byte, MID) {
                    self.note_no_verp(at);
                }
                return None;
            }
            at += 1;
        }
        let end = if ways.last_end { self.verp_end(at) } else { None };
        if end.is_none() {
            self.note_no_verp(at);
        }
        end.map(|end| (at, end))
    }

    /// Records that no match starts before `end`.
    fn note_no_verp(&mut self, end: usize) {
        if self.is_interrupted {
            return;
        }
        self.no_verp = self.text.place(0)..self.text.place(end);
    }

    /// Returns the end of the last word of `=word@word` at `start`.
    fn verp_end(&mut self, start: usize) -> Option<usize> {
        let middle = self.verp_word(start + 1)?;
        if middle.0 != middle.1 || self.peek(middle.1) != Some(b'@') {
            return None;
        }
        self.verp_word(middle.1 + 1).map(|(end, _)| end)
    }

    /// Returns the end of the word at `start`, and of the run of bytes that it is part of.
    fn verp_word(&mut self, start: usize) -> Option<(usize, usize)> {
        let first = self.peek(start)?;
        if !classes::is(first, FRONT) {
            return None;
        }
        let run = self.run(start + 1, MID);
        let text = &self.text.rest()[start..run];
        let back = text.iter().rposition(|&byte| classes::is(byte, BACK)).unwrap_or(0);
        Some((start + back + 1, run))
    }
}

/// Replaces the text between the first and the last `-` of a return path's token by `#`, if it has
/// more than two bytes.
pub(super) fn without_id(token: &mut Vec<u8>) {
    let first = token.iter().position(|&byte| byte == b'-');
    let last = token.iter().rposition(|&byte| byte == b'-');
    if let (Some(first), Some(last)) = (first, last)
        && last - first > 3
    {
        token.drain(first + 1..last);
        token.insert(first + 1, b'#');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_verp(text: &[u8]) -> bool {
        let start = Ways { first: true, first_end: true, ..Ways::default() };
        text[1..].iter().fold(start, |ways, &byte| ways.step(byte)).last_end
    }

    #[test]
    fn the_id_has_a_digit_inside() {
        assert!(is_verp(b"bounce-123-user"));
        assert!(is_verp(b"a.b-c-#1x-y.z"));
        assert!(!is_verp(b"bounce-1-user"));
        assert!(!is_verp(b"bounce-abc-user"));
        assert!(!is_verp(b"bounce-123-"));
        assert!(!is_verp(b"bounce.-123-user"));
    }

    #[test]
    fn the_id_goes() {
        let mut token = b"bounce-123-user".to_vec();
        without_id(&mut token);
        assert_eq!(token, b"bounce-#-user");
        let mut token = b"b-12-u".to_vec();
        without_id(&mut token);
        assert_eq!(token, b"b-12-u");
    }
}
