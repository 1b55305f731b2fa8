//! A connection to a server.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use barid_testkit::peers::read_imap_response;

use super::response::{Reply, Response};
use super::stream::Stream;
use super::transcript::Transcript;
use crate::limits::{ANSWER_TIMEOUT, STOP_TIMEOUT};

/// A connection to a server. A program that was started for it is killed when this is dropped.
#[derive(Debug)]
pub struct Connection {
    reader: BufReader<Stream>,
    child: Option<Child>,
    next_tag: u32,
    greeting: Vec<u8>,
    transcript: Transcript,
}

impl Connection {
    /// Connects to a port and reads the greeting.
    ///
    /// # Errors
    /// Errors of the network, or a server that does not greet in time.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
        stream.set_nodelay(true)?;
        Self::greeted(Stream::Tcp(stream), None)
    }

    /// Starts a program whose standard input and output are one socket, and reads the greeting.
    ///
    /// # Errors
    /// If the program cannot be started or does not greet in time.
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let output: OwnedFd = theirs.try_clone()?.into();
        let child = command.stdin(OwnedFd::from(theirs)).stdout(output).spawn()?;
        // The command owns the program's end too; until it is dropped, the program's death goes
        // unnoticed.
        drop(command);
        Self::greeted(Stream::Unix(ours), Some(child))
    }

    fn greeted(stream: Stream, child: Option<Child>) -> io::Result<Self> {
        stream.set_timeout(ANSWER_TIMEOUT)?;
        let reader = BufReader::with_capacity(1 << 16, stream);
        let (greeting, transcript) = (Vec::new(), Transcript::default());
        let mut connection = Self { reader, child, next_tag: 1, greeting, transcript };
        match connection.read()? {
            Response::Untagged(line) => connection.greeting = line,
            other => return Err(io::Error::other(format!("not a greeting: {other:?}"))),
        }
        Ok(connection)
    }

    /// Returns the greeting, without `* `.
    pub fn greeting(&self) -> &[u8] {
        &self.greeting
    }

    /// Returns `true` if the server greeted with PREAUTH.
    pub fn is_preauth(&self) -> bool {
        self.greeting.len() >= 7 && self.greeting[..7].eq_ignore_ascii_case(b"PREAUTH")
    }

    /// Returns what was sent and received.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Sets the longest wait for the next bytes of a response.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.reader.get_ref().set_timeout(timeout)
    }

    /// Returns a tag that was not used before.
    pub fn new_tag(&mut self) -> String {
        let tag = format!("t{}", self.next_tag);
        self.next_tag += 1;
        tag
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.transcript.add("C: ", bytes.strip_suffix(b"\r\n").unwrap_or(bytes));
        self.reader.get_mut().write_all(bytes)
    }

    /// Reads the next response.
    ///
    /// # Errors
    /// `UnexpectedEof` if the server has closed the connection; errors of the socket, such as
    /// `WouldBlock` when the wait is over. The connection is then useless, unless no byte of the
    /// response has arrived.
    pub fn read(&mut self) -> io::Result<Response> {
        let line = read_imap_response(&mut self.reader).inspect_err(|error| {
            self.transcript.add("S: ", error.to_string().as_bytes());
        })?;
        self.transcript.add("S: ", &line);
        Ok(Response::of(&line))
    }

    /// Sends a command without tag and CRLF, and reads its answer. Literals in it must be
    /// non-synchronising.
    ///
    /// # Errors
    /// Errors of the connection; NO and BAD are answers.
    pub fn command(&mut self, text: &str) -> io::Result<Reply> {
        self.command_bytes(text.as_bytes())
    }

    /// As [`Connection::command`], for bytes.
    ///
    /// # Errors
    /// As there.
    pub fn command_bytes(&mut self, text: &[u8]) -> io::Result<Reply> {
        let tag = self.new_tag();
        self.send(&[tag.as_bytes(), b" ", text, b"\r\n"].concat())?;
        self.answer(&tag)
    }

    /// Reads the answer to a command that was sent.
    ///
    /// # Errors
    /// Errors of the connection.
    pub fn answer(&mut self, tag: &str) -> io::Result<Reply> {
        let mut untagged = Vec::new();
        loop {
            match self.read()? {
                Response::Untagged(line) => untagged.push(line),
                Response::Continuation(_) => {}
                Response::Tagged { tag: other, rest } if other == tag => {
                    return Ok(Reply { untagged, status: rest });
                }
                Response::Tagged { tag: other, .. } => {
                    return Err(io::Error::other(format!("an answer to {other}, not {tag}")));
                }
            }
        }
    }

    /// As [`Connection::command`], but anything except OK is an error.
    ///
    /// # Errors
    /// Errors of the connection, and NO and BAD.
    pub fn ok(&mut self, text: &str) -> io::Result<Reply> {
        let reply = self.command(text)?;
        if reply.is_ok() {
            return Ok(reply);
        }
        let text: String = text.chars().take(200).collect();
        Err(io::Error::other(format!("{text}: {}", reply.status_text())))
    }

    /// Appends a message; `details` is empty or flags and date as on the wire.
    ///
    /// # Errors
    /// Errors of the connection, and NO and BAD.
    pub fn append(&mut self, mailbox: &str, details: &str, message: &[u8]) -> io::Result<Reply> {
        let gap = if details.is_empty() { "" } else { " " };
        let head = format!("APPEND {mailbox}{gap}{details} {{{}+}}\r\n", message.len());
        let reply = self.command_bytes(&[head.as_bytes(), message].concat())?;
        if reply.is_ok() {
            return Ok(reply);
        }
        Err(io::Error::other(format!("APPEND {mailbox}: {}", reply.status_text())))
    }

    /// Logs out, and waits for the end of a program that was started for this connection.
    ///
    /// # Errors
    /// Errors of the connection, or a program that does not end.
    pub fn logout(mut self) -> io::Result<()> {
        self.command("LOGOUT")?;
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let deadline = Instant::now() + STOP_TIMEOUT;
        while child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                self.child = Some(child);
                return Err(io::Error::other("the server does not end after LOGOUT"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself; it is reaped in both cases.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_talked_to() {
        let mut command = Command::new("sh");
        let program = "printf '* PREAUTH hi\\r\\n'; read tag rest; printf '* 1 EXISTS\\r\\n* X {3}\\r\\n\
                       abc\\r\\n%s OK\\r\\n' $tag; read tag rest; printf '%s NO x\\r\\n' $tag";
        command.args(["-c", program]);
        let mut connection = Connection::spawn(command).unwrap();
        assert!(connection.is_preauth());
        let reply = connection.command("NOOP").unwrap();
        assert_eq!(reply.untagged, [b"1 EXISTS".to_vec(), b"X {3}\r\nabc".to_vec()]);
        assert!(reply.is_ok());
        assert!(connection.ok("X").unwrap_err().to_string().ends_with("NO x"));
        assert_eq!(connection.read().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(connection.transcript().text().contains("C: t1 NOOP\nS: * 1 EXISTS\n"));
    }
}
