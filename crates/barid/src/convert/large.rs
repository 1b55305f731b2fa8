//! Texts that are too large for memory: read in pieces, once to compare them and again to store
//! them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, io};

use barid_mailbox::{Error as FormatError, MessageRest, ReadAs, TakeRest};
use barid_message::{CrlfPieces, LinePieces};
use sha2::{Digest as _, Sha256};

use super::text::{
    Digest, Form, Lines, TextTreatment, has_from_line, with_lf, without_quotes, write_canonical,
};
use crate::reading::MessageRead;
use crate::{Error, Mailbox, Result};

/// The findings of one reading of a large text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LargeText {
    /// The digest for comparison.
    pub(super) digest: Digest,
    /// As [`TextTreatment::likeness`].
    pub(super) likeness: Option<Digest>,
    /// As [`TextTreatment::is_quoted`].
    pub(super) is_quoted: bool,
    /// Bytes to store after the header.
    pub(super) rest_size: u64,
}

impl TextTreatment {
    /// Returns the digest of a text, in memory or not; `scratch` is overwritten.
    ///
    /// # Errors
    /// Errors of the mailbox.
    pub(super) fn digest_of(
        self,
        mailbox: &Mailbox,
        read: &MessageRead<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<Digest> {
        match read.large {
            None => Ok(self.digest(&read.text, scratch)),
            Some(row) => Ok(self.read_large(mailbox, (row, &read.text), None)?.digest),
        }
    }

    /// Returns the digest by which a text, in memory or not, is compared with texts of the target
    /// ([`TextTreatment::likeness`]); `scratch` is overwritten.
    ///
    /// # Errors
    /// As [`TextTreatment::read_large`].
    pub(super) fn likeness_of(
        self,
        mailbox: &Mailbox,
        read: &MessageRead<'_>,
        scratch: &mut Vec<u8>,
        stop: Option<&AtomicBool>,
    ) -> Result<Digest> {
        if let Some(row) = read.large {
            let large = self.read_large(mailbox, (row, &read.text), stop)?;
            return Ok(large.likeness.unwrap_or(large.digest));
        }
        let likeness = self.likeness(&read.text, scratch);
        Ok(likeness.unwrap_or_else(|| self.digest(&read.text, scratch)))
    }

    /// Reads a large text, whose header is given.
    ///
    /// # Errors
    /// [`FormatError::Stopped`] once `stop` is `true`; errors of the mailbox.
    pub(super) fn read_large(
        self,
        mailbox: &Mailbox,
        (row, header): (u32, &[u8]),
        stop: Option<&AtomicBool>,
    ) -> Result<LargeText> {
        let mut reader = LargeReader::new(self, header);
        let mut is_header = true;
        let mut stopped = false;
        mailbox.row_pieces(row, ReadAs::Message, &mut |piece| {
            if !std::mem::take(&mut is_header) {
                reader.push(piece);
            }
            stopped = is_stopped(stop);
            !stopped
        })?;
        match stopped {
            true => Err(stopped_error(mailbox).into()),
            false => Ok(reader.finish()),
        }
    }
}

fn is_stopped(stop: Option<&AtomicBool>) -> bool {
    stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
}

pub(super) fn stopped_error(mailbox: &Mailbox) -> FormatError {
    FormatError::Stopped { path: mailbox.path().to_owned(), done: 0, total: 1 }
}

/// Reads the body of a large text, piece by piece.
struct LargeReader {
    texts: TextTreatment,
    whole: Compared,
    /// The compared text without the marks of quoting that is not undone.
    unquoted: Compared,
    lines: LinePieces,
    has_quotes: bool,
    is_quoted: bool,
    stored: Stored,
    rest_size: u64,
}

impl LargeReader {
    fn new(texts: TextTreatment, header: &[u8]) -> Self {
        let without = if texts.quotes { without_quotes(header) } else { None };
        Self {
            texts,
            whole: Compared::new(texts.form, header),
            has_quotes: without.is_some(),
            is_quoted: texts.is_quoted(header),
            unquoted: Compared::new(texts.form, without.as_deref().unwrap_or(header)),
            lines: LinePieces::default(),
            stored: Stored::new(texts.lines),
            rest_size: 0,
        }
    }

    fn push(&mut self, piece: &[u8]) {
        self.whole.push(piece);
        self.rest_size += self.stored.push(piece).len() as u64;
        if self.texts.quotes {
            let mut lines = std::mem::take(&mut self.lines);
            lines.push(piece, &mut |text, in_line| self.push_lines(text, in_line));
            self.lines = lines;
        }
    }

    /// Adds complete starts of lines, the first of which may have begun before.
    fn push_lines(&mut self, text: &[u8], in_line: bool) {
        let line_end = memchr::memchr(b'\n', text).map_or(text.len(), |end| end + 1);
        let (rest, lines) = text.split_at(if in_line { line_end } else { 0 });
        self.unquoted.push(rest);
        self.is_quoted |= has_from_line(lines);
        match without_quotes(lines) {
            Some(without) => {
                self.has_quotes = true;
                self.unquoted.push(&without);
            }
            None => self.unquoted.push(lines),
        }
    }

    fn finish(mut self) -> LargeText {
        let mut lines = std::mem::take(&mut self.lines);
        lines.finish(&mut |text, in_line| self.push_lines(text, in_line));
        LargeText {
            digest: self.whole.finish(),
            likeness: self.has_quotes.then(|| self.unquoted.finish()),
            is_quoted: self.is_quoted,
            rest_size: self.rest_size + self.stored.finish().len() as u64,
        }
    }
}

/// The digest of a text in pieces, with CRLF for line ends.
struct Compared {
    form: Form,
    hash: Sha256,
    crlf: CrlfPieces,
    last: u8,
    room: Vec<u8>,
}

impl Compared {
    /// Starts with a header that ends with its blank line.
    fn new(form: Form, header: &[u8]) -> Self {
        let mut room = Vec::new();
        let made = write_canonical(form, header, &mut room);
        let hash = Sha256::new_with_prefix(made.of(header, &room));
        Self { form, hash, crlf: CrlfPieces::default(), last: b'\n', room }
    }

    fn push(&mut self, piece: &[u8]) {
        self.room.clear();
        self.crlf.push(piece, &mut self.room);
        self.hash.update(&self.room);
        self.last = piece.last().copied().unwrap_or(self.last);
    }

    fn finish(mut self) -> Digest {
        if self.form == Form::Same && self.last != b'\n' {
            self.hash.update(b"\r\n");
        }
        self.hash.finalize().into()
    }
}

/// The stored form of a body in pieces.
struct Stored {
    lines: Lines,
    crlf: CrlfPieces,
    /// The byte before the next piece.
    before: u8,
    /// `true` if a CR at the end is not processed yet.
    has_cr: bool,
    room: Vec<u8>,
}

impl Stored {
    fn new(lines: Lines) -> Self {
        let crlf = CrlfPieces::default();
        Self { lines, crlf, before: b'\n', has_cr: false, room: Vec::new() }
    }

    fn push<'a>(&'a mut self, piece: &'a [u8]) -> &'a [u8] {
        self.room.clear();
        match self.lines {
            Lines::AsTheyAre => return piece,
            Lines::ToCrlf => self.crlf.push(piece, &mut self.room),
            Lines::ToLf => {
                if self.has_cr {
                    self.room.push(b'\r');
                }
                self.room.extend_from_slice(piece);
                self.has_cr = self.room.last() == Some(&b'\r');
                self.room.truncate(self.room.len() - usize::from(self.has_cr));
                let last = self.room.last().copied().unwrap_or(self.before);
                self.room = with_lf(std::mem::take(&mut self.room), self.before);
                self.before = last;
            }
        }
        &self.room
    }

    fn finish(&self) -> &'static [u8] {
        if self.has_cr { b"\r" } else { b"" }
    }
}

/// The body of a large message of a mailbox, in the form for storing it in another.
pub(crate) struct LargeRest<'m> {
    mailbox: &'m Mailbox,
    row: u32,
    lines: Lines,
    size: u64,
    stop: Option<&'m AtomicBool>,
    failed: Mutex<Option<Error>>,
}

impl fmt::Debug for LargeRest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LargeRest").field("row", &self.row).field("size", &self.size).finish()
    }
}

impl<'m> LargeRest<'m> {
    /// Creates the body of the message of a row, of which `size` bytes are to be stored.
    pub(super) fn new(
        mailbox: &'m Mailbox,
        (row, size): (u32, u64),
        texts: TextTreatment,
        stop: Option<&'m AtomicBool>,
    ) -> Self {
        Self { mailbox, row, lines: texts.lines, size, stop, failed: Mutex::default() }
    }

    /// Creates the body of the message of a row as it is read. If the format undoes quoting, the
    /// message is read once for its size.
    pub(crate) fn as_read(
        mailbox: &'m Mailbox,
        row: u32,
        stop: Option<&'m AtomicBool>,
    ) -> Result<Self> {
        let core = mailbox.snapshot.core(row)?;
        let mut size = core.size.saturating_sub(core.header_len.into());
        let (mut is_header, mut stopped) = (true, false);
        if mailbox.storage.is_quoted(b">From ") {
            size = 0;
            mailbox.row_pieces(row, ReadAs::Message, &mut |piece| {
                if !std::mem::take(&mut is_header) {
                    size += piece.len() as u64;
                }
                stopped = is_stopped(stop);
                !stopped
            })?;
        }
        if stopped {
            return Err(stopped_error(mailbox).into());
        }
        let lines = Lines::AsTheyAre;
        Ok(Self { mailbox, row, lines, size, stop, failed: Mutex::default() })
    }

    /// Returns the error of the source that ended a reading.
    pub(super) fn into_error(self) -> Option<Error> {
        self.failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Records an error of the source, and returns one that the target passes on.
    fn fail(&self, error: Error) -> FormatError {
        let path = self.mailbox.path().to_owned();
        let source = io::Error::other(error.to_string());
        *self.failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(error);
        FormatError::Io { path, source }
    }
}

impl MessageRest for LargeRest<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, take: &mut TakeRest<'_>) -> barid_mailbox::Result<()> {
        let mut stored = Stored::new(self.lines);
        let (mut is_header, mut taken, mut size) = (true, Ok(()), 0);
        let read = self.mailbox.row_pieces(self.row, ReadAs::Message, &mut |piece| {
            if std::mem::take(&mut is_header) {
                return true;
            }
            if is_stopped(self.stop) {
                taken = Err(stopped_error(self.mailbox));
                return false;
            }
            let piece = stored.push(piece);
            size += piece.len() as u64;
            taken = take(piece);
            taken.is_ok()
        });
        taken?;
        read.map_err(|error| self.fail(error))?;
        let end = stored.finish();
        if size + end.len() as u64 != self.size {
            let path = self.mailbox.path().to_owned();
            return Err(self.fail(Error::KeepsChanging { path }));
        }
        if end.is_empty() { Ok(()) } else { take(end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::format_named;

    #[test]
    fn pieces_are_taken_as_the_whole() {
        let formats = ["mboxo", "mboxrd", "maildir", "mh", "mbx"].map(format_named);
        let parts = ["\n", "\r\n", "\r", "x", "From y", ">From z", ">", "Fro", "m "];
        let headers = ["A: b\n\n", "A: b\r\nX-UID: 1\r\n\r\n", "From x\nStatus: R\n\n", "\n"];
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..5000 {
            let header = *rng.choice(&headers).unwrap();
            let body: String = (0..rng.usize(..10)).map(|_| *rng.choice(&parts).unwrap()).collect();
            let text = format!("{header}{body}");
            for source in formats {
                for target in formats {
                    let texts = TextTreatment::between(source, target);
                    let mut reader = LargeReader::new(texts, header.as_bytes());
                    let mut out = texts.to_store(header.as_bytes());
                    let header_len = out.len();
                    let mut stored = Stored::new(texts.lines);
                    let mut rest = body.as_bytes();
                    while !rest.is_empty() {
                        let (piece, after) = rest.split_at(rng.usize(..=rest.len()));
                        reader.push(piece);
                        out.extend_from_slice(stored.push(piece));
                        rest = after;
                    }
                    out.extend_from_slice(stored.finish());
                    let (text, mut scratch) = (text.as_bytes(), Vec::new());
                    let expected = LargeText {
                        digest: texts.digest(text, &mut scratch),
                        likeness: texts.likeness(text, &mut scratch),
                        is_quoted: texts.is_quoted(text),
                        rest_size: (out.len() - header_len) as u64,
                    };
                    let context = format!("{:?} {source:?} {target:?}", text.escape_ascii());
                    assert_eq!(reader.finish(), expected, "{context}");
                    assert_eq!(out, texts.to_store(text), "{context}");
                }
            }
        }
    }
}
