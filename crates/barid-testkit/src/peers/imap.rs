//! A small IMAP client over a socket pair.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::{ANSWER_TIMEOUT_S, BarrierLog};
use crate::usage::{Sampling, Usage, finish};

/// The answer to a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// The untagged responses without `* ` and the final CRLF; literals have their wire form, that
    /// is `{n}`, CRLF and n bytes.
    pub untagged: Vec<Vec<u8>>,
    /// The tagged line without its tag: `OK Select completed`.
    pub status: String,
}

impl Reply {
    /// Returns the rest of the first untagged response that starts with `name` and a space, as
    /// text; `""` for a response that consists of the name only (`* SORT` of an empty result).
    pub fn find(&self, name: &str) -> Option<String> {
        self.untagged.iter().find_map(|line| {
            let text = String::from_utf8_lossy(line);
            let rest = text.strip_prefix(name)?;
            (rest.is_empty() || rest.starts_with(' ')).then(|| rest.trim_start().to_owned())
        })
    }

    /// Returns the number of an untagged response such as `17 EXISTS`.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.untagged.iter().find_map(|line| {
            let text = String::from_utf8_lossy(line);
            let (number, rest) = text.split_once(' ')?;
            (rest == name).then(|| number.parse().ok()).flatten()
        })
    }

    /// Returns the numbers of a `SORT` or `SEARCH` response.
    pub fn numbers(&self, name: &str) -> Option<Vec<u32>> {
        let text = self.find(name)?;
        text.split_ascii_whitespace().map(|word| word.parse().ok()).collect()
    }

    /// Returns the value of a response code in the untagged `OK`s, such as `UIDVALIDITY`.
    pub fn code(&self, name: &str) -> Option<String> {
        self.untagged.iter().find_map(|line| {
            let text = String::from_utf8_lossy(line);
            let rest = text.strip_prefix("OK [")?.strip_prefix(name)?.strip_prefix(' ')?;
            rest.split_once(']').map(|(value, _)| value.to_owned())
        })
    }
}

/// An IMAP session with a server process whose standard input and output are one socket. The
/// process is killed when this is dropped; [`Imap::logout`] ends it properly.
#[derive(Debug)]
pub struct Imap {
    child: Option<Child>,
    started: Instant,
    reader: BufReader<UnixStream>,
    next_tag: u32,
    /// The greeting line.
    pub greeting: String,
    pub(super) log: Option<BarrierLog>,
}

impl Imap {
    /// Starts a server that greets with `* PREAUTH`.
    pub(super) fn start(mut command: Command) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(Duration::from_secs(ANSWER_TIMEOUT_S)))?;
        let output: OwnedFd = theirs.try_clone()?.into();
        let started = Instant::now();
        let child = command.stdin(OwnedFd::from(theirs)).stdout(output).spawn()?;
        // The command owns the server's end too; until it is dropped, the server's death is not
        // noticed.
        drop(command);
        let reader = BufReader::with_capacity(1 << 16, ours);
        let child = Some(child);
        let greeting = String::new();
        let mut imap = Self { child, started, reader, next_tag: 1, greeting, log: None };
        let greeting = String::from_utf8_lossy(&imap.read_response()?).into_owned();
        if !greeting.starts_with("* PREAUTH") {
            return Err(io::Error::other(format!("unexpected greeting: {greeting}")));
        }
        imap.greeting = greeting;
        Ok(imap)
    }

    /// Returns the process id of the server.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Returns the number of the server's barriers so far, if they are counted.
    pub fn barriers(&self) -> Option<u64> {
        self.log.as_ref().map(BarrierLog::count)
    }

    /// Returns the time since the server was started.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Sends a command (no tag, no CRLF) and waits for its end.
    ///
    /// # Errors
    ///
    /// Also if the server answers `NO` or `BAD`: the error contains its text.
    pub fn command(&mut self, text: &str) -> io::Result<Reply> {
        self.command_bytes(text.as_bytes())
    }

    /// Like [`Imap::command`] for bytes, which may contain non-synchronising literals (`{n+}`).
    pub fn command_bytes(&mut self, text: &[u8]) -> io::Result<Reply> {
        let tag = format!("t{}", self.next_tag);
        self.next_tag += 1;
        let line = [tag.as_bytes(), b" ", text, b"\r\n"].concat();
        self.reader.get_mut().write_all(&line)?;
        let mut untagged = Vec::new();
        loop {
            let response = self.read_response()?;
            if let Some(rest) = response.strip_prefix(b"* ") {
                untagged.push(rest.to_vec());
            } else if let Some(rest) = response.strip_prefix(format!("{tag} ").as_bytes()) {
                let status = String::from_utf8_lossy(rest).into_owned();
                if status.starts_with("OK") {
                    return Ok(Reply { untagged, status });
                }
                let text = String::from_utf8_lossy(text).chars().take(200).collect::<String>();
                return Err(io::Error::other(format!("{text}: {status}")));
            }
        }
    }

    /// Like [`Imap::command`], but discards the answer. Returns the number of its bytes.
    ///
    /// # Errors
    ///
    /// As for [`Imap::command`].
    pub fn drain(&mut self, text: &str) -> io::Result<u64> {
        let tag = format!("t{} ", self.next_tag);
        self.next_tag += 1;
        let line = [tag.as_bytes(), text.as_bytes(), b"\r\n"].concat();
        self.reader.get_mut().write_all(&line)?;
        let (mut len, mut line) = (0, Vec::new());
        loop {
            line.clear();
            if self.reader.read_until(b'\n', &mut line)? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server has gone"));
            }
            len += line.len() as u64;
            if let Some(rest) = line.strip_prefix(tag.as_bytes()) {
                let status = String::from_utf8_lossy(rest);
                let failed = || io::Error::other(format!("{text}: {status}"));
                return if status.starts_with("OK") { Ok(len) } else { Err(failed()) };
            }
            let mut left = imap_literal_len(&line).unwrap_or(0);
            len += left as u64;
            while left > 0 {
                let some = self.reader.fill_buf()?.len().min(left);
                if some == 0 {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the server has gone",
                    ));
                }
                self.reader.consume(some);
                left -= some;
            }
        }
    }

    /// APPENDs a message; `details` is empty or flags and date as on the wire
    /// (`(\Seen) "01-Jan-2020 00:00:00 +0000"`).
    pub fn append(&mut self, mailbox: &str, details: &str, message: &[u8]) -> io::Result<Reply> {
        let gap = if details.is_empty() { "" } else { " " };
        let mut text =
            format!("APPEND {mailbox}{gap}{details} {{{}+}}\r\n", message.len()).into_bytes();
        text.extend_from_slice(message);
        self.command_bytes(&text)
    }

    /// Logs out and waits for the server's end. Returns its resource usage.
    pub fn logout(mut self) -> io::Result<Usage> {
        self.command("LOGOUT")?;
        let child = self.child.take().expect("because only this and drop take it");
        let deadline = Duration::from_secs(ANSWER_TIMEOUT_S);
        finish(child, self.started, deadline, Sampling::Off)
    }

    fn read_response(&mut self) -> io::Result<Vec<u8>> {
        read_imap_response(&mut self.reader)
    }
}

impl Drop for Imap {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself; it is reaped in both cases.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Longest response of a server, in bytes.
const RESPONSE_LEN_MAX: usize = 256 << 20;

/// Reads a response of an IMAP server without its final CRLF. Literals have their wire form.
///
/// # Errors
/// `UnexpectedEof` if the server is gone; a response of more than 256 MiB; errors of the stream.
pub fn read_imap_response(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut response = Vec::new();
    loop {
        let limit = (RESPONSE_LEN_MAX - response.len()) as u64;
        if reader.by_ref().take(limit).read_until(b'\n', &mut response)? == 0 {
            let text = match response.len() {
                RESPONSE_LEN_MAX => return Err(io::Error::other("a response is too long")),
                0 => "the server has gone",
                _ => "the server has gone within a response",
            };
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        let Some(len) = imap_literal_len(&response) else { break };
        let start = response.len();
        if len > RESPONSE_LEN_MAX - start {
            return Err(io::Error::other("a response is too long"));
        }
        response.resize(start + len, 0);
        reader.read_exact(&mut response[start..])?;
    }
    let end = response.strip_suffix(b"\r\n").map_or(response.len(), <[u8]>::len);
    response.truncate(end);
    Ok(response)
}

/// Returns the length of the literal that a line announces at its end.
pub fn imap_literal_len(line: &[u8]) -> Option<usize> {
    let line = line.strip_suffix(b"}\r\n")?;
    let open = line.iter().rposition(|byte| *byte == b'{')?;
    std::str::from_utf8(&line[open + 1..]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_seen_at_the_end_of_a_line() {
        assert_eq!(imap_literal_len(b"* 1 FETCH (BODY[] {12}\r\n"), Some(12));
        assert_eq!(imap_literal_len(b"* OK {x}\r\n"), None);
        assert_eq!(imap_literal_len(b"* OK\r\n"), None);
    }

    #[test]
    fn a_reply_is_taken_apart() {
        let lines = ["3 EXISTS", "OK [UIDVALIDITY 17] ok", "SORT 3 1 2", "THREAD"];
        let untagged = lines.map(|line| line.as_bytes().to_vec()).to_vec();
        let reply = Reply { untagged, status: "OK".into() };
        assert_eq!(reply.number("EXISTS"), Some(3));
        assert_eq!(reply.code("UIDVALIDITY").as_deref(), Some("17"));
        assert_eq!(reply.numbers("SORT"), Some(vec![3, 1, 2]));
        assert_eq!(reply.find("THREAD").as_deref(), Some(""));
        assert_eq!(reply.find("SEARCH"), None);
    }
}
