//! Requests to the daemon (`docs/formats/spam-daemon.md`): a line with a verb, lines of fields, an
//! empty line, and as many bytes as the field `Length` gives. Answers have the same form.

use std::io::{self, BufRead, Read, Write};

use crate::limits::{DAEMON_FIELDS_MAX, DAEMON_HEAD_LEN_MAX};

/// Start of the first line of a request or an answer.
const PROTOCOL: &str = "barid-spam/1";

/// A request or an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The verb of a request, or `ok` or `error`.
    pub verb: String,
    /// Names, in lower case, and values.
    pub fields: Vec<(String, Vec<u8>)>,
    /// The content.
    pub body: Vec<u8>,
}

impl Frame {
    /// Creates a frame without fields and body.
    pub fn new(verb: &str) -> Self {
        Self { verb: verb.to_owned(), ..Self::default() }
    }

    /// Adds a field.
    pub fn with(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.fields.push((name.to_owned(), value.into()));
        self
    }

    /// Returns the first value of a field.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice())
    }

    /// Writes the frame.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut bytes = format!("{PROTOCOL} {}\n", self.verb).into_bytes();
        for (name, value) in &self.fields {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            escape(value, &mut bytes);
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(format!("length: {}\n\n", self.body.len()).as_bytes());
        out.write_all(&bytes)?;
        out.write_all(&self.body)?;
        out.flush()
    }

    /// Reads a frame; `None` at the end of the connection.
    ///
    /// # Errors
    /// `InvalidData` for a malformed or too long frame; `UnexpectedEof` for a body that is cut off;
    /// errors of the reader.
    pub fn read(input: &mut impl BufRead, body_len_max: usize) -> io::Result<Option<Self>> {
        let mut head = input.by_ref().take(DAEMON_HEAD_LEN_MAX as u64);
        let Some(line) = read_line(&mut head)? else { return Ok(None) };
        let line = String::from_utf8(line).map_err(|_| invalid("no request"))?;
        let verb = line.strip_prefix(PROTOCOL).and_then(|rest| rest.strip_prefix(' '));
        let is_word = |verb: &&str| verb.bytes().all(|byte| byte.is_ascii_graphic());
        let mut frame = Self::new(verb.filter(is_word).ok_or_else(|| invalid("no request"))?);
        loop {
            let line = read_line(&mut head)?.ok_or_else(|| invalid("a head without an end"))?;
            if line.is_empty() {
                break;
            }
            let at = line.iter().position(|byte| *byte == b':');
            let (name, value) = line.split_at(at.ok_or_else(|| invalid("no field"))?);
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            let value = value[1..].strip_prefix(b" ").unwrap_or(&value[1..]);
            frame.fields.push((name, unescape(value)));
            if frame.fields.len() > DAEMON_FIELDS_MAX {
                return Err(invalid("too many fields"));
            }
        }
        let len = match frame.field("length") {
            None => 0,
            Some(value) => {
                let value = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                value.ok_or_else(|| invalid("no length"))?
            }
        };
        if len > body_len_max {
            return Err(invalid("larger than the limit"));
        }
        let read = input.take(len as u64).read_to_end(&mut frame.body)?;
        if read < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        frame.fields.retain(|(name, _)| name != "length");
        Ok(Some(frame))
    }
}

/// Reads a line without its end; `None` at the end of the input.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            Ok(Some(line))
        }
        Some(_) => Err(invalid("a line without an end")),
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Writes percent signs and control characters as `%` and two hexadecimal digits.
fn escape(value: &[u8], out: &mut Vec<u8>) {
    for &byte in value {
        if byte == b'%' || byte.is_ascii_control() {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(byte);
        }
    }
}

fn unescape(value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let number = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match number.filter(|_| byte == b'%') {
            Some(number) => {
                bytes.push(number);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let frame = Frame {
            body: b"Subject: one\n\ntext\n".to_vec(),
            ..Frame::new("classify").with("name", *b"50 %\n\r\xFF:")
        };
        let mut bytes = Vec::new();
        frame.write(&mut bytes).unwrap();
        let first_len = bytes.len();
        Frame::new("ping").write(&mut bytes).unwrap();
        let mut rest = &bytes[..];
        assert_eq!(Frame::read(&mut rest, 1000).unwrap(), Some(frame));
        assert_eq!(Frame::read(&mut rest, 0).unwrap(), Some(Frame::new("ping")));
        assert_eq!(Frame::read(&mut rest, 0).unwrap(), None);
        for end in 1..first_len {
            assert!(Frame::read(&mut &bytes[..end], 1000).is_err(), "{end}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let check = |text: &str, is_read: bool| {
            let read = Frame::read(&mut text.as_bytes(), 10);
            assert_eq!(matches!(read, Ok(Some(_))), is_read, "{text}");
        };
        check("barid-spam/1 ping\r\n\r\n", true);
        check("barid-spam/1 ping\nLength: 2\n\nab", true);
        check("barid-spam/1 ping\nLength: 11\n\n0123456789a", false);
        check("barid-spam/1 ping\nLength: -1\n\n", false);
        check("barid-spam/2 ping\n\n", false);
        check("barid-spam/1 ping\r\r\n\r\n", false);
        check("barid-spam/1 ping pong\n\n", false);
        check("GET / HTTP/1.0\r\n\r\n", false);
        check("barid-spam/1 ping\nno field\n\n", false);
        check(&format!("barid-spam/1 ping\n{}\n", "a: b\n".repeat(1000)), false);
        check(&"barid-spam/1 ".repeat(1 << 20), false);
    }
}
