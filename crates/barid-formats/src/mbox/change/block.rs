//! The owned fields of a header: their positions and values, and a new block of them.
//!
//! A block is written as c-client writes it, last in the header, with its padding at the end of
//! X-Keywords. Neither c-client nor Dovecot rewrites a file with such blocks
//! (`docs/design/mbox-writing.md`).

use std::io::Write as _;
use std::ops::Range;

use barid_types::{Flag, FlagSet};
use memchr::{memchr, memchr_iter};

use crate::mbox::status::unpadded;

/// Positions and values of the owned fields of a header.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// Their ranges, ascending; adjoining ones are joined.
    pub(super) stretches: Vec<Range<usize>>,
    /// Total length of `stretches`.
    owned_len: usize,
    /// The flags of Status and X-Status, without \Recent.
    pub(super) flags: FlagSet,
    /// `true` if there is an `O`.
    pub(super) is_old: bool,
    /// Unknown letters of Status and of X-Status.
    letters: [Vec<u8>; 2],
    /// The first valid X-UID.
    pub(super) uid: Option<u32>,
    /// Range of the value of X-Keywords.
    pub(super) keywords: Option<Range<usize>>,
    /// Range of the value of X-IMAPbase or X-IMAP.
    pub(super) base: Option<Range<usize>>,
    /// `true` if `base` is X-IMAP.
    pub(super) base_is_pseudo: bool,
    /// Offset of the blank line; the length of the header if there is none.
    pub(super) text_end: usize,
    /// `true` if lines end with CRLF.
    pub(super) is_crlf: bool,
    /// `true` if the header without its owned fields ends in the middle of a line.
    ends_in_line: bool,
}

/// Kind of field that a continuation line belongs to.
#[derive(Clone, Copy, PartialEq)]
enum FieldKind {
    Foreign,
    Owned,
    Keywords,
    Base,
}

impl Fields {
    /// Parses a header, which may end with a blank line.
    pub(super) fn read(&mut self, header: &[u8]) {
        self.clear(header.len());
        let (mut start, mut kind) = (0, FieldKind::Foreign);
        let mut take = |fields: &mut Self, start: usize, end: usize| {
            let line = &header[start..end];
            kind = match line[0] {
                b'\n' => return false,
                b'\r' if line == b"\r\n" => return false,
                b' ' | b'\t' => kind,
                b'S' | b's' | b'X' | b'x' => fields.line(line, start),
                _ => FieldKind::Foreign,
            };
            fields.take(kind, start, end);
            true
        };
        for at in memchr_iter(b'\n', header) {
            if !take(self, start, at + 1) {
                self.text_end = start;
                break;
            }
            start = at + 1;
        }
        if self.text_end == header.len() && start < header.len() {
            take(self, start, header.len());
        }
        let first_end = memchr(b'\n', header);
        self.is_crlf = match self.text_end < header.len() {
            true => header[self.text_end..] == *b"\r\n",
            false => first_end.is_some_and(|at| header[..at].ends_with(b"\r")),
        };
        self.ends_in_line = match self.stretches.last() {
            Some(last) if last.end == self.text_end => false,
            _ => !matches!(header[..self.text_end].last(), None | Some(b'\n')),
        };
    }

    fn clear(&mut self, header_len: usize) {
        self.stretches.clear();
        self.letters.iter_mut().for_each(Vec::clear);
        let (stretches, letters) =
            (std::mem::take(&mut self.stretches), std::mem::take(&mut self.letters));
        *self = Self { stretches, letters, text_end: header_len, ..Self::default() };
    }

    /// Records an owned line; `kind` is the field that it belongs to.
    fn take(&mut self, kind: FieldKind, start: usize, end: usize) {
        let text = match kind {
            FieldKind::Foreign => return,
            FieldKind::Owned => None,
            FieldKind::Keywords => self.keywords.as_mut(),
            FieldKind::Base => self.base.as_mut(),
        };
        if let Some(text) = text {
            text.end = end;
        }
        self.owned_len += end - start;
        match self.stretches.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => self.stretches.push(start..end),
        }
    }

    fn line(&mut self, line: &[u8], offset: usize) -> FieldKind {
        let Some(colon) = memchr(b':', line) else { return FieldKind::Foreign };
        let (name, value) = (line[..colon].trim_ascii_end(), &line[colon + 1..]);
        let text = offset + colon + 1..offset + line.len();
        let is = |expected: &[u8]| name.eq_ignore_ascii_case(expected);
        match name.len() {
            6 if is(b"Status") => self.letters(value, 0),
            8 if is(b"X-Status") => self.letters(value, 1),
            5 if is(b"X-UID") => {
                self.uid = self.uid.or_else(|| unpadded(value));
                FieldKind::Owned
            }
            10 if is(b"X-Keywords") && self.keywords.is_none() => {
                self.keywords = Some(text);
                FieldKind::Keywords
            }
            6 if is(b"X-IMAP") => self.note_base(text, true),
            10 if is(b"X-IMAPbase") => self.note_base(text, false),
            10 if is(b"X-Keywords") => FieldKind::Owned,
            _ => FieldKind::Foreign,
        }
    }

    fn note_base(&mut self, text: Range<usize>, pseudo: bool) -> FieldKind {
        if self.base.is_some() {
            return FieldKind::Owned;
        }
        self.base = Some(text);
        self.base_is_pseudo = pseudo;
        FieldKind::Base
    }

    fn letters(&mut self, value: &[u8], field: usize) -> FieldKind {
        for letter in value {
            let flag = match letter {
                b'R' => Flag::Seen,
                b'D' => Flag::Deleted,
                b'F' => Flag::Flagged,
                b'A' => Flag::Answered,
                b'T' => Flag::Draft,
                b'O' => {
                    self.is_old = true;
                    continue;
                }
                letter => {
                    if letter.is_ascii_graphic() && !self.letters[field].contains(letter) {
                        self.letters[field].push(*letter);
                    }
                    continue;
                }
            };
            self.flags = self.flags.with(flag);
        }
        FieldKind::Owned
    }

    /// Returns the number of bytes that are not owned, without the blank line.
    pub(super) fn foreign_len(&self) -> usize {
        self.text_end - self.owned_len
    }

    /// Returns the place for a block; `None` if there is none.
    pub(super) fn place(&self, header: &[u8]) -> Option<BlockRange> {
        if !self.ends_in_line {
            return Some(BlockRange::Last);
        }
        let first = match self.stretches.first() {
            Some(owned) if owned.start == 0 => header.get(owned.end),
            _ => header.first(),
        };
        (!matches!(first, Some(b' ' | b'\t'))).then_some(BlockRange::First)
    }

    /// Writes the bytes of `header` from `from` to the blank line that are not owned.
    pub(super) fn write_foreign(&self, header: &[u8], from: usize, out: &mut Vec<u8>) {
        let mut from = from;
        for owned in &self.stretches {
            if owned.end > from {
                out.extend_from_slice(&header[from..owned.start.max(from)]);
                from = owned.end;
            }
        }
        out.extend_from_slice(&header[from..self.text_end]);
    }
}

/// Place of a block in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockRange {
    /// Before the blank line.
    Last,
    /// Before everything else, because the header ends in the middle of a line.
    First,
}

/// A block of owned fields to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldBlock<'a> {
    /// The value of X-IMAPbase, or of X-IMAP.
    pub(super) base: Option<&'a [u8]>,
    /// `true` for the pseudo message, which gets only X-IMAP and Status.
    pub(super) is_pseudo: bool,
    /// The present fields: their unknown letters and line ends are kept.
    pub(super) fields: &'a Fields,
    /// The flags.
    pub(super) flags: FlagSet,
    /// `true` if the message is not \Recent.
    pub(super) is_old: bool,
    /// The keywords, a space before each.
    pub(super) keywords: &'a [u8],
    /// The UID.
    pub(super) uid: Option<u32>,
}

const STATUS_LETTERS: [(Flag, u8); 1] = [(Flag::Seen, b'R')];
const X_STATUS_LETTERS: [(Flag, u8); 4] =
    [(Flag::Deleted, b'D'), (Flag::Flagged, b'F'), (Flag::Answered, b'A'), (Flag::Draft, b'T')];

impl FieldBlock<'_> {
    fn line_end(&self) -> &'static [u8] {
        if self.fields.is_crlf { b"\r\n" } else { b"\n" }
    }

    fn x_status_len(&self) -> usize {
        let own = X_STATUS_LETTERS.iter().filter(|(flag, _)| self.flags.contains(*flag)).count();
        self.fields.letters[1].len() + own
    }

    fn base_len(&self) -> usize {
        let name = if self.is_pseudo { "X-IMAP: " } else { "X-IMAPbase: " };
        self.base.map_or(0, |base| name.len() + base.len() + self.line_end().len())
    }

    fn status_len(&self) -> usize {
        let own = usize::from(self.flags.contains(Flag::Seen)) + usize::from(self.is_old);
        b"Status: ".len() + self.fields.letters[0].len() + own + self.line_end().len()
    }

    /// Returns its length without padding.
    pub(super) fn full_len(&self) -> usize {
        if self.is_pseudo {
            return self.compact_len();
        }
        let line_end = self.line_end().len();
        let x_status = b"X-Status: ".len() + self.x_status_len() + line_end;
        let x_keywords = b"X-Keywords:".len() + self.keywords.len() + line_end;
        self.base_len() + self.status_len() + x_status + x_keywords + self.uid_len()
    }

    /// Returns its least length: without padding and empty fields.
    pub(super) fn compact_len(&self) -> usize {
        let line_end = self.line_end().len();
        let field = |name: &[u8], len: usize| match len {
            0 => 0,
            len => name.len() + len + line_end,
        };
        if self.is_pseudo {
            return self.base_len() + self.status_len();
        }
        let x_status = field(b"X-Status: ", self.x_status_len());
        let x_keywords = field(b"X-Keywords:", self.keywords.len());
        self.base_len() + self.status_len() + x_status + x_keywords + self.uid_len()
    }

    fn uid_len(&self) -> usize {
        let digits = |uid: u32| uid.checked_ilog10().unwrap_or(0) as usize + 1;
        self.uid.map_or(0, |uid| b"X-UID: ".len() + digits(uid) + self.line_end().len())
    }

    /// Writes it with padding up to `len` bytes, which must be at least
    /// [`FieldBlock::compact_len`]. The padding is at the end of X-Keywords, else of X-UID,
    /// else of the field before; in the pseudo message, of X-IMAP.
    pub(super) fn write(&self, len: usize, out: &mut Vec<u8>) {
        let is_compact = self.is_pseudo || len < self.full_len();
        let mut padding = match is_compact {
            true => len.saturating_sub(self.compact_len()),
            false => len - self.full_len(),
        };
        let line_end = self.line_end();
        let mut end = |out: &mut Vec<u8>, is_padded: bool| {
            if is_padded {
                out.resize(out.len() + std::mem::take(&mut padding), b' ');
            }
            out.extend_from_slice(line_end);
        };
        let has_x_status = !self.is_pseudo && (!is_compact || self.x_status_len() > 0);
        let has_x_keywords = !self.is_pseudo && (!is_compact || !self.keywords.is_empty());
        let is_padded_status = !has_x_keywords && self.uid.is_none();
        if let Some(base) = self.base {
            out.extend_from_slice(if self.is_pseudo { b"X-IMAP: " } else { b"X-IMAPbase: " });
            out.extend_from_slice(base);
            end(out, self.is_pseudo);
        }
        out.extend_from_slice(b"Status: ");
        out.extend_from_slice(&self.fields.letters[0]);
        self.write_letters(&STATUS_LETTERS, out);
        if self.is_old {
            out.push(b'O');
        }
        end(out, is_padded_status && !has_x_status);
        if has_x_status {
            out.extend_from_slice(b"X-Status: ");
            out.extend_from_slice(&self.fields.letters[1]);
            self.write_letters(&X_STATUS_LETTERS, out);
            end(out, is_padded_status);
        }
        if has_x_keywords {
            out.extend_from_slice(b"X-Keywords:");
            out.extend_from_slice(self.keywords);
            end(out, true);
        }
        if let Some(uid) = self.uid {
            write!(out, "X-UID: {uid}").expect("because writing to a Vec cannot fail");
            end(out, !has_x_keywords);
        }
    }

    fn write_letters(&self, letters: &[(Flag, u8)], out: &mut Vec<u8>) {
        let held = letters.iter().filter(|(flag, _)| self.flags.contains(*flag));
        out.extend(held.map(|(_, letter)| *letter));
    }
}
