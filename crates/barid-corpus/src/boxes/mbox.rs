//! Writing mbox files.

use std::io::{self, Write};
use std::path::Path;

use barid_types::Flag;
use barid_vfs::{File, OpenOptions, OsVfs, Vfs as _};

use crate::calendar::Calendar;
use crate::corpus::GeneratedMessage;

/// The rule that separates messages in one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MboxVariant {
    /// Lines that start with `From ` get a `>`; it is lost which lines already had one.
    #[default]
    Mboxo,
    /// Lines of any number of `>` and `From ` get one more.
    Mboxrd,
    /// Like mboxo, with `Content-Length`.
    Mboxcl,
    /// Nothing is quoted; `Content-Length` determines the end.
    Mboxcl2,
    /// Messages between lines of four ^A.
    Mmdf,
}

impl MboxVariant {
    /// All variants.
    pub const ALL: [Self; 5] = [Self::Mboxo, Self::Mboxrd, Self::Mboxcl, Self::Mboxcl2, Self::Mmdf];

    /// Returns the name in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mboxo => "mboxo",
            Self::Mboxrd => "mboxrd",
            Self::Mboxcl => "mboxcl",
            Self::Mboxcl2 => "mboxcl2",
            Self::Mmdf => "mmdf",
        }
    }

    /// Returns the variant with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.name() == name)
    }

    fn has_content_length(self) -> bool {
        matches!(self, Self::Mboxcl | Self::Mboxcl2)
    }

    /// Returns `true` if the variant quotes a line that starts with `From ` after `quotes` times
    /// `>`.
    fn quotes(self, quotes: usize) -> bool {
        match self {
            Self::Mboxo | Self::Mboxcl => quotes == 0,
            Self::Mboxrd => true,
            Self::Mboxcl2 | Self::Mmdf => false,
        }
    }
}

/// The options for writing messages to an mbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MboxOptions {
    /// The variant.
    pub variant: MboxVariant,
    /// Write `Status` and `X-Status`, which contain the flags; otherwise readers treat every
    /// message as new.
    pub status: bool,
    /// End lines with CRLF.
    pub crlf: bool,
}

impl MboxOptions {
    /// Returns the options of a variant with flags and LF.
    pub const fn new(variant: MboxVariant) -> Self {
        Self { variant, status: true, crlf: false }
    }

    /// Appends a message, separators included. A message whose last line is not ended gets an LF.
    pub fn render(&self, message: &GeneratedMessage, out: &mut Vec<u8>) {
        if self.crlf {
            let mut lf = Vec::with_capacity(message.bytes.len() + 256);
            Self { crlf: false, ..*self }.render(message, &mut lf);
            for line in lf.split_inclusive(|byte| *byte == b'\n') {
                let text = line.strip_suffix(b"\n").unwrap_or(line);
                out.extend_from_slice(text.strip_suffix(b"\r").unwrap_or(text));
                out.extend_from_slice(b"\r\n");
            }
            return;
        }
        let (header, body) = split(&message.bytes);
        let mmdf = self.variant == MboxVariant::Mmdf;
        if mmdf {
            out.extend_from_slice(b"\x01\x01\x01\x01\n");
        }
        let sender = if message.sender.is_empty() { "MAILER-DAEMON" } else { &message.sender };
        put(out, format_args!("From {sender} {}\n", Calendar::asctime(message.date)));
        self.quote(header, out);
        end_line(out);
        self.own_headers(message, body, out);
        out.push(b'\n');
        self.quote(body, out);
        end_line(out);
        out.extend_from_slice(if mmdf { b"\x01\x01\x01\x01\n" } else { b"\n" });
    }

    fn own_headers(&self, message: &GeneratedMessage, body: &[u8], out: &mut Vec<u8>) {
        let has = |flag| message.flags.contains(flag);
        if self.status && !has(Flag::Recent) {
            put(out, format_args!("Status: {}O\n", if has(Flag::Seen) { "R" } else { "" }));
        }
        let letters =
            [(Flag::Answered, 'A'), (Flag::Deleted, 'D'), (Flag::Flagged, 'F'), (Flag::Draft, 'T')];
        let held: String =
            letters.iter().filter(|(flag, _)| has(*flag)).map(|(_, letter)| letter).collect();
        if self.status && !held.is_empty() {
            put(out, format_args!("X-Status: {held}\n"));
        }
        if self.variant.has_content_length() {
            let mut quoted = Vec::with_capacity(body.len() + 64);
            self.quote(body, &mut quoted);
            if !body.is_empty() {
                end_line(&mut quoted);
            }
            put(out, format_args!("Content-Length: {}\n", quoted.len()));
        }
    }

    /// Appends lines, quoting those that the variant quotes.
    fn quote(&self, mut bytes: &[u8], out: &mut Vec<u8>) {
        const FROM: &[u8] = b"From ";
        // Copies up to each such line; they are rare.
        let mut search = 0;
        while let Some(found) = find(&bytes[search..], FROM).map(|at| at + search) {
            let line =
                bytes[..found].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let quotes = found - line;
            let only_quotes = bytes[line..found].iter().all(|byte| *byte == b'>');
            if only_quotes && self.variant.quotes(quotes) {
                out.extend_from_slice(&bytes[..line]);
                out.push(b'>');
                out.extend_from_slice(&bytes[line..found + FROM.len()]);
                bytes = &bytes[found + FROM.len()..];
                search = 0;
            } else {
                search = found + FROM.len();
            }
        }
        out.extend_from_slice(bytes);
    }
}

/// A new mbox file.
#[derive(Debug)]
pub struct MboxWriter {
    file: Box<dyn File>,
    /// Length of the file when it was opened.
    start: u64,
    options: MboxOptions,
    buffer: Vec<u8>,
    written: u64,
}

impl MboxWriter {
    /// Bytes that are buffered before they are written.
    const BUFFER_LEN: usize = 1 << 20;

    /// Creates the file or empties it.
    pub fn create(path: &Path, options: MboxOptions) -> io::Result<Self> {
        let truncated = OpenOptions { truncate: true, ..OpenOptions::create(0o666) };
        Self::open(path, truncated, options)
    }

    /// Adds to a file, which is created if it is missing.
    pub fn append_to(path: &Path, options: MboxOptions) -> io::Result<Self> {
        Self::open(path, OpenOptions::create(0o666), options)
    }

    fn open(path: &Path, how: OpenOptions, options: MboxOptions) -> io::Result<Self> {
        let file = OsVfs.open(path, how)?;
        let start = file.metadata()?.size;
        Ok(Self { file, start, options, buffer: Vec::new(), written: 0 })
    }

    /// Adds a message.
    pub fn append(&mut self, message: &GeneratedMessage) -> io::Result<()> {
        self.options.render(message, &mut self.buffer);
        if self.buffer.len() >= Self::BUFFER_LEN { self.flush() } else { Ok(()) }
    }

    /// Writes the buffered bytes. Returns the number of bytes written in all.
    pub fn finish(mut self) -> io::Result<u64> {
        self.flush()?;
        Ok(self.written)
    }

    /// Appends the output of [`MboxOptions::render`].
    pub(super) fn write_rendered(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.start + self.written)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        self.write_rendered(&buffer)?;
        self.buffer = buffer;
        self.buffer.clear();
        Ok(())
    }
}

/// Returns the header with its last line's LF, and the body.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    if let Some(body) = bytes.strip_prefix(b"\n") {
        return (b"", body);
    }
    match find(bytes, b"\n\n") {
        Some(at) => (&bytes[..=at], &bytes[at + 2..]),
        None => (bytes, b""),
    }
}

fn end_line(out: &mut Vec<u8>) {
    if !out.ends_with(b"\n") {
        out.push(b'\n');
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("because writing to memory does not fail");
}

/// Returns the offset of `needle`.
fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variant: MboxVariant, expected: &str) {
        let bytes = b"Subject: x\n\nFrom a\n>From b\nno From c\n".to_vec();
        let flags = [Flag::Seen, Flag::Flagged].into_iter().collect();
        let message = GeneratedMessage { bytes, date: 0, flags, sender: "a@b".into() };
        let mut out = Vec::new();
        MboxOptions::new(variant).render(&message, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    const FROM: &str = "From a@b Thu Jan  1 00:00:00 1970\nSubject: x\nStatus: RO\nX-Status: F\n";

    #[test]
    fn each_variant_quotes_its_way() {
        check(MboxVariant::Mboxo, &format!("{FROM}\n>From a\n>From b\nno From c\n\n"));
        check(MboxVariant::Mboxrd, &format!("{FROM}\n>From a\n>>From b\nno From c\n\n"));
        let length = "Content-Length: 26\n";
        check(MboxVariant::Mboxcl, &format!("{FROM}{length}\n>From a\n>From b\nno From c\n\n"));
        let length = "Content-Length: 25\n";
        check(MboxVariant::Mboxcl2, &format!("{FROM}{length}\nFrom a\n>From b\nno From c\n\n"));
        let sep = "\x01\x01\x01\x01\n";
        check(MboxVariant::Mmdf, &format!("{sep}{FROM}\nFrom a\n>From b\nno From c\n{sep}"));
    }

    #[test]
    fn no_body_has_no_length() {
        let message = GeneratedMessage { bytes: b"Subject: x\n".to_vec(), ..Default::default() };
        for variant in [MboxVariant::Mboxcl, MboxVariant::Mboxcl2] {
            let mut out = Vec::new();
            MboxOptions { status: false, ..MboxOptions::new(variant) }.render(&message, &mut out);
            assert!(out.ends_with(b"Subject: x\nContent-Length: 0\n\n\n"));
        }
    }

    #[test]
    fn a_bare_message_is_completed() {
        let message = GeneratedMessage { bytes: b"Subject: x".to_vec(), ..Default::default() };
        let mut out = Vec::new();
        let options = MboxOptions { variant: MboxVariant::Mboxo, status: false, crlf: true };
        options.render(&message, &mut out);
        let expected = "From MAILER-DAEMON Thu Jan  1 00:00:00 1970\r\nSubject: x\r\n\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
