//! Passing a message through, with the result in its header.
//!
//! The message is processed in the pieces in which bogofilter reads it: lines, and long lines in
//! parts. Header lines of our own are removed, also those that another run wrote earlier.

use barid_bayes::limits::{LINE_PIECE_LEN, RAW_PIECE_LEN};
use barid_bayes::{Facts, Status, WordEncoding};

use super::Settings;

/// Start of the field whose value is tagged.
const SUBJECT: &[u8] = b"Subject:";

/// Writes a message with `line` and `stats` at the end of its header, or at
/// [`Settings::header_place`].
pub(super) fn pass(
    settings: &Settings,
    facts: &Facts,
    message: &[u8],
    status: Status,
    info: (&[u8], &[u8]),
    to: &mut Vec<u8>,
) {
    let piece_len = match settings.encoding {
        Some(WordEncoding::Raw) => RAW_PIECE_LEN,
        _ => LINE_PIECE_LEN,
    };
    let pieces = Pieces { message, at: 0, piece_len, own: &facts.own_lines };
    let mut passing = Passing { settings, facts, pieces, info, eol: None, to };
    let tag = settings.subject_tag(status);
    let is_tagged = passing.header(tag);
    let eol = passing.eol.unwrap_or(b"\n");
    if let Some(tag) = tag.filter(|_| !is_tagged) {
        for part in [SUBJECT, b" ", tag, eol] {
            passing.to.extend_from_slice(part);
        }
    }
    passing.body(eol);
}

struct Passing<'a, 'b> {
    settings: &'a Settings,
    facts: &'a Facts,
    pieces: Pieces<'a>,
    /// The line with the result, and the statistics.
    info: (&'a [u8], &'a [u8]),
    eol: Option<&'static [u8]>,
    to: &'b mut Vec<u8>,
}

impl<'a> Passing<'a, '_> {
    /// Writes the header and the result. Returns `true` if a subject was tagged.
    fn header(&mut self, tag: Option<&[u8]>) -> bool {
        let place = &self.settings.header_place[..];
        let (mut is_ended, mut is_tagged, mut is_placed) = (true, false, false);
        while let Some(mut piece) = self.pieces.next() {
            if self.eol.is_none() {
                self.eol = eol_of(piece);
            }
            if self.is_own(piece) {
                match self.after_own() {
                    Some(next) => piece = next,
                    None => break,
                }
            }
            if !is_placed && !place.is_empty() && piece.starts_with(place) {
                is_placed = true;
                self.write_info();
            }
            if self.ends_header(piece) {
                break;
            }
            if let Some(tag) = tag.filter(|_| !is_tagged)
                && piece.get(..SUBJECT.len()).is_some_and(|name| name.eq_ignore_ascii_case(SUBJECT))
            {
                is_tagged = true;
                self.write_subject(piece, tag);
                continue;
            }
            is_ended = piece.ends_with(b"\n");
            self.to.extend_from_slice(piece);
        }
        if !is_placed {
            self.write_info();
        }
        if !is_ended {
            self.to.extend_from_slice(self.eol.unwrap_or(b"\n"));
        }
        is_tagged
    }

    fn is_own(&self, piece: &[u8]) -> bool {
        let own = self.settings.tokens.spam_header_name.as_bytes();
        !own.is_empty() && piece.starts_with(own)
    }

    /// Returns the piece after our own header lines and their continuation lines.
    fn after_own(&mut self) -> Option<&'a [u8]> {
        loop {
            let piece = self.pieces.next()?;
            if !matches!(piece.first(), Some(b' ' | b'\t')) && !self.is_own(piece) {
                return Some(piece);
            }
        }
    }

    /// Returns `true` for an empty line, and for a line of blanks if the header does not end with
    /// an empty line.
    fn ends_header(&self, piece: &[u8]) -> bool {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r' | 8);
        matches!(piece, b"\n" | b"\r\n") || !self.facts.has_body && piece.iter().all(is_blank)
    }

    fn write_subject(&mut self, piece: &[u8], tag: &[u8]) {
        let (name, value) = piece.split_at(SUBJECT.len());
        self.to.extend_from_slice(name);
        self.to.push(b' ');
        self.to.extend_from_slice(tag);
        if value.first() != Some(&b' ') {
            self.to.push(b' ');
        }
        self.to.extend_from_slice(value);
    }

    fn write_info(&mut self) {
        let eol = *self.eol.get_or_insert(b"\n");
        self.to.extend_from_slice(self.info.0);
        self.to.extend_from_slice(eol);
        self.to.extend_from_slice(self.info.1);
    }

    /// Writes the rest of the message after an empty line, and completes its last line.
    fn body(mut self, eol: &[u8]) {
        self.to.extend_from_slice(eol);
        let mut is_ended = true;
        while let Some(part) = self.pieces.rest() {
            self.to.extend_from_slice(part);
            is_ended = part.ends_with(b"\n");
        }
        if !is_ended {
            self.to.extend_from_slice(eol);
        }
    }
}

fn eol_of(piece: &[u8]) -> Option<&'static [u8]> {
    match () {
        () if piece.ends_with(b"\r\n") => Some(b"\r\n"),
        () if piece.ends_with(b"\n") => Some(b"\n"),
        () => None,
    }
}

/// A message in pieces, without our own lines.
struct Pieces<'a> {
    message: &'a [u8],
    at: usize,
    piece_len: usize,
    own: &'a [std::ops::Range<usize>],
}

impl<'a> Pieces<'a> {
    /// Returns the end of the part that can be taken at once from here.
    fn end(&mut self) -> usize {
        while let Some((first, others)) = self.own.split_first() {
            if first.start > self.at {
                return first.start.min(self.message.len());
            }
            self.at = self.at.max(first.end);
            self.own = others;
        }
        self.message.len()
    }

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.end();
        let rest = self.message.get(self.at..end)?;
        let rest = &rest[..rest.len().min(self.piece_len)];
        let len = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        self.at += len;
        (len > 0).then_some(&rest[..len])
    }

    /// Returns the part that can be taken at once.
    fn rest(&mut self) -> Option<&'a [u8]> {
        let end = self.end();
        let rest = self.message.get(self.at..end)?;
        self.at = end;
        (!rest.is_empty()).then_some(rest)
    }
}
