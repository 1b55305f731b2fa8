//! The messages of one stream, separated as in bogofilter.
//!
//! The first byte of a stream determines the separator of its messages: `F` a From_ line after an
//! empty line, `#` a line `#! rmail` with the number of bytes that follow it, `M` a line
//! `MAIL FROM:` after a line with a dot. The separator is the first line of its message. Without
//! [`Messages::many`] there is one message; From_ lines then do not separate, but the other
//! separators still do.

use std::io::BufRead;

use memchr::{memmem, memrchr};

use super::{Error, Result};

/// Separator of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Separation {
    /// Nothing.
    #[default]
    None,
    /// From_ lines.
    Mbox,
    /// Lines `#! rmail`.
    Rmail,
    /// Lines `MAIL FROM:`.
    Ant,
}

impl Separation {
    fn line(self) -> &'static [u8] {
        match self {
            Self::None => b"",
            Self::Mbox => b"From ",
            Self::Rmail => b"#! rmail",
            Self::Ant => b"MAIL FROM:",
        }
    }

    fn of_first_byte(byte: Option<u8>) -> Option<Self> {
        match byte {
            Some(b'F') => Some(Self::Mbox),
            Some(b'#') => Some(Self::Rmail),
            Some(b'M') => Some(Self::Ant),
            _ => None,
        }
    }
}

/// The messages of one stream.
#[derive(Debug)]
pub struct Messages<R> {
    input: R,
    separation: Separation,
    many: bool,
    len_max: usize,
    /// `true` until the first separator.
    is_first: bool,
    /// `true` if a separator may follow.
    may_separate: bool,
    /// Remaining bytes of a message of an rmail batch.
    counted: usize,
    /// The separator that ended the previous message.
    saved: Vec<u8>,
    is_begun: bool,
    is_ended: bool,
}

impl<R: BufRead> Messages<R> {
    /// Creates the messages of a stream: all of them with `many`, otherwise one. If the first byte
    /// of the stream is not that of a separator, `before` is used, which bogofilter takes from the
    /// previous stream.
    ///
    /// # Errors
    /// [`Error::Input`].
    pub fn new(mut input: R, many: bool, before: Separation, len_max: usize) -> Result<Self> {
        let first = input.fill_buf().map_err(Error::Input)?.first().copied();
        let separation = match Separation::of_first_byte(first) {
            Some(found) => found,
            None => before,
        };
        // Only the first byte of a stream selects rmail and `MAIL FROM:` batches.
        let is_line_based = matches!(separation, Separation::Rmail | Separation::Ant);
        let separates = many || is_line_based && Separation::of_first_byte(first).is_some();
        let separation = if separates { separation } else { Separation::None };
        Ok(Self { separation, many, ..Self::one(input, len_max) })
    }

    /// Creates a single message, regardless of its first bytes.
    pub fn one(input: R, len_max: usize) -> Self {
        Self {
            input,
            separation: Separation::None,
            many: false,
            len_max,
            is_first: true,
            may_separate: true,
            counted: 0,
            saved: Vec::new(),
            is_begun: false,
            is_ended: false,
        }
    }

    /// Returns the separator of this stream.
    pub fn separation(&self) -> Separation {
        self.separation
    }

    /// Reads the next message and replaces the content of `message`; returns `false` if there is
    /// none. An empty stream contains one message, an empty one.
    ///
    /// # Errors
    /// [`Error::Input`], [`Error::TooLarge`].
    pub fn next(&mut self, message: &mut Vec<u8>) -> Result<bool> {
        message.clear();
        if self.is_begun && (self.is_ended || !self.many) {
            return Ok(false);
        }
        self.is_begun = true;
        message.append(&mut self.saved);
        if self.separation == Separation::None {
            self.is_ended = true;
            let mut limited = std::io::Read::take(&mut self.input, self.len_max as u64 + 1);
            std::io::Read::read_to_end(&mut limited, message).map_err(Error::Input)?;
            return self.checked(message.len()).map(|()| true);
        }
        while !self.is_ended {
            self.lines_between(message)?;
            let start = message.len();
            if self.line(message)? {
                self.saved.extend_from_slice(&message[start..]);
                message.truncate(start);
                return Ok(true);
            }
            self.checked(message.len())?;
        }
        Ok(true)
    }

    fn checked(&self, len: usize) -> Result<()> {
        match len > self.len_max {
            true => Err(Error::TooLarge { len_max: self.len_max }),
            false => Ok(()),
        }
    }

    /// Adds those buffered lines to the message that cannot be From_ lines.
    fn lines_between(&mut self, message: &mut Vec<u8>) -> Result<()> {
        if self.separation != Separation::Mbox || self.is_first {
            return Ok(());
        }
        let bytes = self.input.fill_buf().map_err(Error::Input)?;
        if bytes.starts_with(self.separation.line()) {
            return Ok(());
        }
        let last = memmem::find(bytes, b"\nFrom ").or_else(|| memrchr(b'\n', bytes));
        let Some(last) = last else { return Ok(()) };
        let start = memrchr(b'\n', &bytes[..last]).map_or(0, |end| end + 1);
        self.may_separate = matches!(&bytes[start..=last], b"\n" | b"\r\n");
        message.extend_from_slice(&bytes[..=last]);
        self.input.consume(last + 1);
        self.checked(message.len())
    }

    /// Adds a line to the message. Returns `true` if it is the first of the next message.
    fn line(&mut self, message: &mut Vec<u8>) -> Result<bool> {
        let start = message.len();
        let most = match self.counted {
            0 => self.len_max + 1,
            counted => counted.min(self.len_max + 1),
        };
        let mut limited = std::io::Read::take(&mut self.input, most as u64);
        let len = limited.read_until(b'\n', message).map_err(Error::Input)?;
        if len == 0 {
            self.is_ended = true;
            return Ok(false);
        }
        let line = &message[start..];
        if self.counted > 0 {
            self.counted -= len;
            return Ok(false);
        }
        let is_separator = line.starts_with(self.separation.line())
            && (self.may_separate || self.is_first && self.separation == Separation::Mbox);
        match self.separation {
            Separation::Mbox => self.may_separate = matches!(line, b"\n" | b"\r\n"),
            Separation::Ant if is_separator => self.may_separate = false,
            Separation::Ant => self.may_separate |= matches!(line, b".\n" | b".\r\n" | b".\r"),
            Separation::Rmail if is_separator => self.counted = count_of(line),
            Separation::Rmail | Separation::None => {}
        }
        let is_next = is_separator && !self.is_first;
        self.is_first &= !is_separator;
        Ok(is_next)
    }
}

/// Returns the number of bytes that follow a line `#! rmail`.
fn count_of(line: &[u8]) -> usize {
    let digits = line[Separation::Rmail.line().len()..].iter();
    let digits =
        digits.filter(|byte| !byte.is_ascii_whitespace()).take_while(|byte| byte.is_ascii_digit());
    digits.fold(0_usize, |count, digit| {
        count.saturating_mul(10).saturating_add(usize::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], many: bool, expected: &[&[u8]]) {
        let mut messages = Messages::new(input, many, Separation::None, 1_000).unwrap();
        let (mut found, mut message) = (Vec::new(), Vec::new());
        while messages.next(&mut message).unwrap() {
            found.push(message.clone());
        }
        let shown = found.iter().map(|text| text.escape_ascii().to_string()).collect::<Vec<_>>();
        assert_eq!(found, expected, "{shown:?}");
    }

    #[test]
    fn what_separates_messages() {
        let mbox: &[u8] = b"From a\nb\nFrom c\n\nFrom d\ne\n\r\nFrom f\n";
        let parts = [&b"From a\nb\nFrom c\n\n"[..], b"From d\ne\n\r\n", b"From f\n"];
        check(mbox, true, &parts);
        check(mbox, false, &[mbox]);
        check(b"", true, &[b""]);
        check(b"", false, &[b""]);
        check(b"a\n\nFrom b\n", true, &[b"a\n\nFrom b\n"]);
        let rmail: &[u8] = b"#! rmail 3\na\n\n#! rmail\nb\n";
        check(rmail, true, &[b"#! rmail 3\na\n\n", b"#! rmail\nb\n"]);
        check(rmail, false, &[b"#! rmail 3\na\n\n"]);
        let ant: &[u8] = b"MAIL FROM:<a>\nMAIL FROM:\n.\nMAIL FROM:<b>\nc\n";
        check(ant, true, &[b"MAIL FROM:<a>\nMAIL FROM:\n.\n", b"MAIL FROM:<b>\nc\n"]);
        check(b"Message-ID: 1\n\n.\nMAIL FROM:\n", false, &[b"Message-ID: 1\n\n.\nMAIL FROM:\n"]);
    }

    #[test]
    fn what_is_in_memory_does_not_matter() {
        let mut random = fastrand::Rng::with_seed(3);
        let parts = ["From ", "From a\n", "\n", "\r\n", "a\n", "Fr", "om ", " From b\n"];
        let read = |text: &[u8], memory: usize| {
            let input = std::io::BufReader::with_capacity(memory, text);
            let mut messages = Messages::new(input, true, Separation::None, 1_000).unwrap();
            let (mut found, mut message) = (Vec::new(), Vec::new());
            while messages.next(&mut message).unwrap() {
                found.push(String::from_utf8(message.clone()).unwrap());
            }
            found
        };
        for _ in 0..3_000 {
            let text: String =
                (0..random.usize(0..30)).map(|_| parts[random.usize(0..8)]).collect();
            let text = format!("From {text}");
            let expected = read(text.as_bytes(), 1);
            assert_eq!(expected.concat(), text);
            for memory in [5, 16, 4_096] {
                assert_eq!(read(text.as_bytes(), memory), expected, "{memory}");
            }
        }
    }

    #[test]
    fn messages_are_bounded() {
        for many in [false, true] {
            let mut messages =
                Messages::new(&b"From a\nbcd\n"[..], many, Separation::None, 8).unwrap();
            let error = messages.next(&mut Vec::new()).unwrap_err();
            assert!(matches!(error, Error::TooLarge { .. }));
        }
    }
}
