//! Packets of the milter protocol, version 6: a big-endian length of four bytes, a command letter,
//! and its data (sendmail's `libmilter/mfdef.h`).

/// Bits of actions that a milter may take (`SMFIF_*`).
pub(super) mod actions {
    pub(crate) const ADD_HEADERS: u32 = 0x01;
    pub(crate) const CHANGE_HEADERS: u32 = 0x10;
    pub(crate) const QUARANTINE: u32 = 0x20;
}

/// Bits of protocol steps that the mail server leaves out or changes (`SMFIP_*`).
pub(super) mod steps {
    pub(crate) const NO_CONNECT: u32 = 0x01;
    pub(crate) const NO_HELO: u32 = 0x02;
    pub(crate) const NO_RECIPIENT: u32 = 0x08;
    pub(crate) const NO_REPLY_HEADER: u32 = 0x80;
    pub(crate) const NO_UNKNOWN: u32 = 0x100;
    pub(crate) const NO_DATA: u32 = 0x200;
    pub(crate) const SKIP: u32 = 0x400;
    pub(crate) const NO_REPLY_CONNECT: u32 = 0x1000;
    pub(crate) const NO_REPLY_HELO: u32 = 0x2000;
    pub(crate) const NO_REPLY_MAIL: u32 = 0x4000;
    pub(crate) const NO_REPLY_RECIPIENT: u32 = 0x8000;
    pub(crate) const NO_REPLY_DATA: u32 = 0x1_0000;
    pub(crate) const NO_REPLY_UNKNOWN: u32 = 0x2_0000;
    pub(crate) const NO_REPLY_END_OF_HEADER: u32 = 0x4_0000;
    pub(crate) const LEADING_SPACE: u32 = 0x10_0000;
}

/// The protocol version that we offer.
pub(super) const VERSION: u32 = 6;
/// The oldest supported version: the first in which a milter can change header fields.
pub(super) const VERSION_MIN: u32 = 2;

/// A command of the mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MilterCommand<'a> {
    /// Option negotiation, with what the server supports.
    Negotiate {
        version: u32,
        actions: u32,
        steps: u32,
    },
    /// Macros for the next command.
    Macros,
    Connect,
    Helo,
    /// `MAIL FROM`: the sender in angle brackets.
    Mail(&'a [u8]),
    Recipient,
    Data,
    /// A header field: its name, and its value with folding.
    Header(&'a [u8], &'a [u8]),
    EndOfHeader,
    Body(&'a [u8]),
    /// The end of the message, with the rest of the body.
    EndOfMessage(&'a [u8]),
    /// The message was aborted.
    Abort,
    Quit,
    /// The client has quit, and the connection to the milter is reused for another one.
    QuitNew,
    /// An SMTP command that the server does not know.
    Unknown,
}

impl MilterCommand<'_> {
    /// Returns the phase of a message in which the command is sent, in ascending order; `None` for
    /// commands that may come at any time.
    pub(super) fn phase(&self) -> Option<u8> {
        match self {
            Self::Negotiate { .. } => Some(1),
            Self::Connect => Some(2),
            Self::Helo => Some(3),
            Self::Mail(_) => Some(4),
            Self::Recipient => Some(5),
            Self::Data => Some(6),
            Self::Header(..) | Self::EndOfHeader | Self::Body(_) | Self::EndOfMessage(_) => Some(7),
            Self::Macros | Self::Abort | Self::Quit | Self::QuitNew | Self::Unknown => None,
        }
    }
}

/// The error of a malformed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl<'a> MilterCommand<'a> {
    /// Parses a packet without its length.
    pub(super) fn parse(packet: &'a [u8]) -> Result<Self, Malformed> {
        let (letter, data) = packet.split_first().ok_or(Malformed)?;
        Ok(match letter {
            b'O' => {
                let number = |at: usize| -> Result<u32, Malformed> {
                    let bytes = data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
                    bytes.map(u32::from_be_bytes).ok_or(Malformed)
                };
                Self::Negotiate { version: number(0)?, actions: number(4)?, steps: number(8)? }
            }
            b'D' => Self::Macros,
            b'C' => Self::Connect,
            b'H' => Self::Helo,
            b'M' => Self::Mail(string(data)?.0),
            b'R' => Self::Recipient,
            b'T' => Self::Data,
            b'L' => {
                let (name, rest) = string(data)?;
                let (value, _) = string(rest)?;
                Self::Header(name, value)
            }
            b'N' => Self::EndOfHeader,
            b'B' => Self::Body(data),
            b'E' => Self::EndOfMessage(data),
            b'A' => Self::Abort,
            b'Q' => Self::Quit,
            b'K' => Self::QuitNew,
            b'U' => Self::Unknown,
            _ => return Err(Malformed),
        })
    }
}

/// Splits off a string that ends with a NUL; returns it and the rest.
fn string(data: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let end = data.iter().position(|byte| *byte == 0).ok_or(Malformed)?;
    Ok((&data[..end], &data[end + 1..]))
}

/// Appends a packet.
pub(super) fn write(out: &mut Vec<u8>, letter: u8, parts: &[&[u8]]) {
    let len: usize = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let len = u32::try_from(len).expect("because what is said is short");
    out.extend_from_slice(&len.to_be_bytes());
    out.push(letter);
    for part in parts {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read() {
        let check = |packet: &[u8], expected| {
            assert_eq!(MilterCommand::parse(packet), expected, "{}", packet.escape_ascii());
        };
        let negotiate = MilterCommand::Negotiate { version: 6, actions: 0x1FF, steps: 0x1F_FFFF };
        check(b"O\0\0\0\x06\0\0\x01\xFF\0\x1F\xFF\xFF", Ok(negotiate));
        check(b"O\0\0\0\x06\0\0\x01\xFF\0\x1F\xFF", Err(Malformed));
        check(b"M<a@b>\0SIZE=7\0", Ok(MilterCommand::Mail(b"<a@b>")));
        check(b"M<a@b>", Err(Malformed));
        check(b"LSubject\0 one\n two\0", Ok(MilterCommand::Header(b"Subject", b" one\n two")));
        check(b"LSubject\0one", Err(Malformed));
        check(b"L", Err(Malformed));
        check(b"E", Ok(MilterCommand::EndOfMessage(b"")));
        check(b"Ka", Ok(MilterCommand::QuitNew));
        check(b"z", Err(Malformed));
        check(b"", Err(Malformed));
    }
}
