//! The walk from message to message: the one definition of where messages begin and end.
//!
//! A message begins at a From_ line at the start of a line. Its header ends with a blank line or
//! before the next From_ line. Its body ends where `Content-Length` says if a From_ line or the end
//! of the file is there (Dovecot's rule), else at the next From_ line. The blank line before a
//! From_ line belongs to the separator, and so does one at the end of the file.
//!
//! The separators of MMDF come in pairs around each message; a From_ line may follow the first.

use std::io;
use std::ops::Range;

use memchr::memmem::Finder;

use super::from_line::{self, FromDate};
use super::layout::{
    FROM_LINE_LEN_MAX, LEADING_SPACE_MAX, MMDF_SEPARATOR, PEEK_LEN, STREAM_LENGTH_MAX,
};
use super::status::{self, HeadEnd, Owned, Separators};
use super::window::Window;

/// The separator before a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Separator {
    /// Offset of its first byte.
    pub(super) offset: u64,
    /// Its length in bytes.
    pub(super) len: u32,
    /// Its date, if one can be read.
    pub(super) date: Option<FromDate>,
}

/// End of a message: another message or the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The separator of the next one.
    Message(Separator),
    /// The end of the file.
    End,
}

/// A message as the walker found it.
pub(super) struct Walked<'w> {
    /// The separator before it.
    pub(super) separator: Separator,
    /// Its header, blank line included.
    pub(super) header: &'w [u8],
    /// End of the header.
    pub(super) head_end: HeadEnd,
    /// Values of the fields that mailboxes own.
    pub(super) owned: Owned,
    /// Length of its body, in bytes.
    pub(super) body_len: u64,
    /// `true` if the message has a `Content-Length` that does not lead to a separator.
    pub(super) length_lies: bool,
    /// `true` if a blank line follows the body and belongs to no message.
    pub(super) blank_after: bool,
}

/// Walks from message to message over a file.
pub(super) struct MboxWalker<'s> {
    /// Window over the file.
    pub(super) window: Window<'s>,
    separators: Separators,
    finder: Finder<'static>,
}

/// End of a body.
struct BodyEnd {
    len: u64,
    blank_after: bool,
    next: Next,
}

impl<'s> MboxWalker<'s> {
    pub(super) fn new(window: Window<'s>, separators: Separators) -> Self {
        let finder = match separators {
            Separators::From(_) => Finder::new(b"\nFrom "),
            Separators::Mmdf => Finder::new(MMDF_SEPARATOR),
        };
        Self { window, separators, finder }
    }

    /// Returns the separator of the first message. Before it there may be white space that ends
    /// with a line end (c-client's `unix_isvalid_fd`), or NULs, which a crash may have left with a
    /// delivery after them. Returns `None` if anything else is there.
    pub(super) fn first(&mut self) -> io::Result<Option<Next>> {
        while self.window.end() < LEADING_SPACE_MAX as u64 && self.window.more(0)? {}
        let bytes = self.window.range(0..LEADING_SPACE_MAX as u64);
        let space = bytes.iter().take_while(|byte| b"\r\n \t\0".contains(byte)).count();
        if space == bytes.len() {
            return Ok(self.window.is_whole(0).then_some(Next::End));
        }
        if space > 0 && !matches!(bytes[space - 1], b'\n' | 0) {
            return Ok(None);
        }
        Ok(self.separator_at(space as u64)?.map(Next::Message))
    }

    /// Returns the separator at `offset`, if there is one; a line must start there.
    pub(super) fn separator_at(&mut self, offset: u64) -> io::Result<Option<Separator>> {
        loop {
            let bytes = self.window.from(offset);
            match separator_in(bytes, self.window.is_whole(offset), self.separators) {
                Some(found) => {
                    return Ok(found.map(|(len, date)| Separator { offset, len, date }));
                }
                None if self.window.more(offset)? => {}
                None => return Ok(None),
            }
        }
    }

    /// Returns the first separator that starts in `from..limit`.
    pub(super) fn search(&mut self, from: u64, limit: u64) -> io::Result<Option<Separator>> {
        let lead = match self.separators {
            Separators::From(_) => 1,
            Separators::Mmdf => 0,
        };
        let overlap = self.finder.needle().len() as u64 - 1;
        let mut at = from.saturating_sub(lead);
        if from == 0
            && let Some(separator) = self.separator_at(0)?
        {
            return Ok(Some(separator));
        }
        loop {
            match self.finder.find(self.window.from(at)) {
                Some(skip) => {
                    let offset = at + skip as u64 + lead;
                    if offset >= limit {
                        return Ok(None);
                    }
                    if let Some(separator) = self.separator_at(offset)? {
                        return Ok(Some(separator));
                    }
                    at = offset;
                }
                None => {
                    at = at.max(self.window.end().saturating_sub(overlap));
                    if at + lead >= limit || !self.window.more(at)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Returns the range of the header after `separator`, and its owned fields.
    pub(super) fn head(&mut self, separator: &Separator) -> io::Result<(Range<u64>, Owned)> {
        self.head_and_end(separator).map(|(head, _, owned)| (head, owned))
    }

    fn head_and_end(&mut self, separator: &Separator) -> io::Result<(Range<u64>, HeadEnd, Owned)> {
        let start = separator.offset + u64::from(separator.len);
        let mut owned = Owned::default();
        loop {
            let bytes = self.window.from(start);
            let whole = self.window.is_whole(start);
            if let Some((len, end)) = status::head(bytes, whole, self.separators, &mut owned) {
                return Ok((start..start + len as u64, end, owned));
            }
            self.window.more(start)?;
        }
    }

    /// Walks over the message after `separator`, passes it to `visit`, and returns what follows
    /// it.
    pub(super) fn message<E: From<io::Error>>(
        &mut self,
        separator: Separator,
        visit: impl FnOnce(&Walked<'_>) -> Result<(), E>,
    ) -> Result<Next, E> {
        let (head, head_end, owned) = self.head_and_end(&separator)?;
        let body_offset = head.end;
        self.window.hold(head);
        let hinted = match owned.content_length {
            Some(len) if head_end == HeadEnd::Blank => self.hinted_end(body_offset, len)?,
            _ => None,
        };
        let length_lies = owned.content_length.is_some() && hinted.is_none();
        let body_end = match hinted {
            Some(body_end) => body_end,
            None => self.searched_end(body_offset, head_end)?,
        };
        visit(&Walked {
            separator,
            header: self.window.held(),
            head_end,
            owned,
            body_len: body_end.len,
            length_lies,
            blank_after: body_end.blank_after,
        })?;
        self.window.release();
        Ok(body_end.next)
    }

    /// Returns the end of the body by `Content-Length`, if a separator or the end of the file is
    /// there.
    fn hinted_end(&mut self, body_offset: u64, len: u64) -> io::Result<Option<BodyEnd>> {
        let Separators::From(_) = self.separators else { return Ok(None) };
        let Some(end) = body_offset.checked_add(len).filter(|end| *end < u64::MAX / 2) else {
            return Ok(None);
        };
        let from = end.saturating_sub(3).max(body_offset);
        let separators = self.separators;
        let peeked = self.window.peek(body_offset, from, PEEK_LEN, STREAM_LENGTH_MAX)?;
        let Some((from, bytes)) = peeked else { return Ok(None) };
        let Some((body, rest)) = bytes.split_at_checked((end - from) as usize) else {
            return Ok(None);
        };
        let ends_line = body.ends_with(b"\n") || len == 0;
        let whole = bytes.len() < PEEK_LEN;
        for line_end in [&b""[..], b"\n", b"\r\n"] {
            let Some(after) = rest.strip_prefix(line_end) else { continue };
            let next = match separator_in(after, true, separators).flatten() {
                Some((len, date)) if ends_line || !line_end.is_empty() => {
                    let offset = end + line_end.len() as u64;
                    Next::Message(Separator { offset, len, date })
                }
                _ if whole && after.is_empty() => Next::End,
                _ => continue,
            };
            let blank = if line_end.is_empty() { blank_line_len(body, len) } else { 0 };
            let blank_after = blank > 0 || !line_end.is_empty();
            return Ok(Some(BodyEnd { len: len - blank, blank_after, next }));
        }
        Ok(None)
    }

    /// Returns the end of the body at the next separator.
    fn searched_end(&mut self, body_offset: u64, head_end: HeadEnd) -> io::Result<BodyEnd> {
        if head_end == HeadEnd::Eof {
            return Ok(BodyEnd { len: 0, blank_after: false, next: Next::End });
        }
        if self.separators == Separators::Mmdf {
            return self.mmdf_end(body_offset);
        }
        let found = match head_end {
            HeadEnd::Separator => self.separator_at(body_offset)?,
            _ => self.search(body_offset, u64::MAX)?,
        };
        let end = found.map_or(self.window.end(), |separator| separator.offset);
        let len = end.saturating_sub(body_offset);
        let blank = blank_line_len(self.window.range(end - len.min(3)..end), len);
        let next = found.map_or(Next::End, Next::Message);
        Ok(BodyEnd { len: len - blank, blank_after: blank > 0, next })
    }

    /// Returns the end of a body at the closing separator. The opening one of the next message
    /// follows; if it is missing, the closing one counts as both.
    fn mmdf_end(&mut self, body_offset: u64) -> io::Result<BodyEnd> {
        let closing = self.search(body_offset, u64::MAX)?.map(|separator| separator.offset);
        let end = closing.unwrap_or_else(|| self.window.end());
        let len = end - body_offset;
        let Some(closing) = closing else {
            return Ok(BodyEnd { len, blank_after: false, next: Next::End });
        };
        let after = closing + MMDF_SEPARATOR.len() as u64;
        let next = match self.separator_at(after)? {
            Some(opening) => Some(opening),
            None if self.window.from(after).is_empty() => None,
            None => self.separator_at(closing)?,
        };
        let next = next.map_or(Next::End, Next::Message);
        Ok(BodyEnd { len, blank_after: true, next })
    }
}

/// Returns the length of a blank line at the end of a body of `len` bytes that ends with `tail`.
fn blank_line_len(tail: &[u8], len: u64) -> u64 {
    let blank = if tail.ends_with(b"\r\n") {
        2
    } else if tail.ends_with(b"\n") {
        1
    } else {
        return 0;
    };
    let before = &tail[..tail.len() - blank];
    if len == blank as u64 || before.ends_with(b"\n") { blank as u64 } else { 0 }
}

/// Returns the length and date of the separator that `bytes` starts with, or `Some(None)` if it
/// starts with none. Returns `None` if more bytes are needed; `whole` means that there are no more.
#[expect(clippy::option_option, reason = "not yet known, known to be none, known")]
pub(super) fn separator_in(
    bytes: &[u8],
    whole: bool,
    separators: Separators,
) -> Option<Option<(u32, Option<FromDate>)>> {
    let profile = match separators {
        Separators::From(profile) => profile,
        Separators::Mmdf => return mmdf_separator_in(bytes, whole),
    };
    let prefix = b"From ";
    if !bytes.starts_with(&prefix[..bytes.len().min(prefix.len())]) {
        return Some(None);
    }
    let bounded = &bytes[..bytes.len().min(FROM_LINE_LEN_MAX)];
    match memchr::memchr(b'\n', bounded) {
        Some(line_end) => {
            let line = &bounded[..line_end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let date = from_line::parse(line, profile);
            Some(date.map(|date| (line_end as u32 + 1, date)))
        }
        None if whole || bounded.len() == FROM_LINE_LEN_MAX => Some(None),
        None => None,
    }
}

/// Parses MMDF's opening separator, with the From_ line that may follow it, as [`separator_in`]
/// does.
#[expect(clippy::option_option, reason = "not yet known, known to be none, known")]
fn mmdf_separator_in(bytes: &[u8], whole: bool) -> Option<Option<(u32, Option<FromDate>)>> {
    let len = bytes.len().min(MMDF_SEPARATOR.len());
    if bytes[..len] != MMDF_SEPARATOR[..len] {
        return Some(None);
    }
    if len < MMDF_SEPARATOR.len() {
        return whole.then_some(None);
    }
    let profile = Separators::From(super::FromProfile::Union);
    let from_line = separator_in(&bytes[len..], whole, profile)?;
    let (from_len, date) = from_line.unwrap_or((0, None));
    Some(Some((len as u32 + from_len, date)))
}
