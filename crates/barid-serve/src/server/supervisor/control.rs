//! The socket of `barid admin`: requests and answers as lines of JSON.
//!
//! Only root and the user of the supervisor are answered, whatever the permissions of the socket.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use barid::vfs::{File, Vfs};
use serde::{Deserialize, Serialize};

use crate::limits::{CONTROL_CONNECTIONS_MAX, CONTROL_LINE_LEN_MAX};
use crate::socket::{UnixSocket, bind_unix};

/// A request of an administrator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "lowercase")]
pub(in crate::server) enum Request {
    /// The users who have sessions.
    Who,
    /// All sessions.
    Sessions,
    /// Ends sessions of a user, or one session.
    Kick { user: Option<String>, session: Option<u64> },
    /// The last lines of the log.
    Log { lines: usize },
    /// The account of a user, as the server sees it.
    User { name: String },
    /// The processes.
    Status,
}

/// The control socket, and the connections to it.
#[derive(Debug)]
pub(super) struct Control {
    socket: Option<ControlSocket>,
    connections: HashMap<u64, AdminConnection>,
}

#[derive(Debug)]
struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    _lock: Box<dyn File>,
}

#[derive(Debug)]
struct AdminConnection {
    stream: UnixStream,
    received: Vec<u8>,
    /// The rest of the answer, once there is one.
    unsent: Option<VecDeque<u8>>,
    since: Instant,
}

/// The state of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// It is sent, or nobody reads it; the connection is closed.
    Ended,
    /// The rest is sent when the socket takes more.
    InPart,
}

/// Time for a request and its answer.
const PATIENCE: Duration = Duration::from_secs(10);

impl Control {
    /// Makes the socket, if there is to be one; one that a dead server left is replaced.
    ///
    /// # Errors
    /// Another server that answers there; errors of the system.
    pub(super) fn bind(vfs: &dyn Vfs, path: Option<&Path>) -> io::Result<Self> {
        let Some(path) = path else {
            return Ok(Self { socket: None, connections: HashMap::new() });
        };
        let at =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        if let Some(dir) = path.parent() {
            vfs.create_dir_all(dir, 0o755).map_err(at)?;
        }
        let UnixSocket { listener, lock } = bind_unix(path, 0o600)?;
        listener.set_nonblocking(true)?;
        let socket = ControlSocket { listener, path: path.to_owned(), _lock: lock };
        Ok(Self { socket: Some(socket), connections: HashMap::new() })
    }

    pub(super) fn listener(&self) -> Option<&UnixListener> {
        self.socket.as_ref().map(|socket| &socket.listener)
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.socket.as_ref().map(|socket| socket.path.as_path())
    }

    /// Accepts a connection of one who may ask; returns its socket to be watched.
    pub(super) fn accept(&mut self, token: u64) -> Option<&UnixStream> {
        let (stream, _) = self.listener()?.accept().ok()?;
        let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
        let is_allowed = peer.uid.is_root() || peer.uid == rustix::process::geteuid();
        let now = Instant::now();
        self.end_slow(now);
        if !is_allowed || self.connections.len() >= CONTROL_CONNECTIONS_MAX {
            return None;
        }
        stream.set_nonblocking(true).ok()?;
        let (received, unsent) = (Vec::new(), None);
        let connection = AdminConnection { stream, received, unsent, since: now };
        Some(&self.connections.entry(token).insert_entry(connection).into_mut().stream)
    }

    pub(super) fn has(&self, token: u64) -> bool {
        self.connections.contains_key(&token)
    }

    /// Closes the connections whose time is up. There are few, and each has a bounded answer.
    fn end_slow(&mut self, now: Instant) {
        self.connections.retain(|_, one| now.duration_since(one.since) < PATIENCE);
    }

    /// Reads a request, or sends more of an answer; `None` until its line is whole. A connection
    /// that ends, or sends too much, is closed.
    pub(super) fn read(&mut self, token: u64) -> Option<Result<Request, String>> {
        let connection = self.connections.get_mut(&token)?;
        if connection.unsent.is_some() {
            self.send(token);
            return None;
        }
        let mut piece = [0; 1024];
        loop {
            match connection.stream.read(&mut piece) {
                Ok(0) => break,
                Ok(len) => connection.received.extend_from_slice(&piece[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            }
            if let Some(end) = connection.received.iter().position(|byte| *byte == b'\n') {
                let request = serde_json::from_slice(&connection.received[..end]);
                return Some(request.map_err(|error| format!("request: {error}")));
            }
            if connection.received.len() > CONTROL_LINE_LEN_MAX {
                break;
            }
        }
        self.connections.remove(&token);
        None
    }

    /// Sends the lines of an answer as far as the socket takes them. Never waits: this process
    /// serves all others.
    pub(super) fn answer(&mut self, token: u64, lines: &[serde_json::Value]) -> Sent {
        let Some(connection) = self.connections.get_mut(&token) else { return Sent::Ended };
        let mut text = Vec::new();
        for line in lines {
            text.extend_from_slice(line.to_string().as_bytes());
            text.push(b'\n');
        }
        connection.unsent = Some(text.into());
        self.send(token)
    }

    /// Returns the socket of a connection.
    pub(super) fn stream(&self, token: u64) -> Option<&UnixStream> {
        self.connections.get(&token).map(|connection| &connection.stream)
    }

    fn send(&mut self, token: u64) -> Sent {
        let Some(AdminConnection { stream, unsent: Some(unsent), .. }) =
            self.connections.get_mut(&token)
        else {
            return Sent::Ended;
        };
        while !unsent.is_empty() {
            match stream.write(unsent.as_slices().0) {
                Ok(0) => break,
                Ok(len) => drop(unsent.drain(..len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Sent::InPart,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.connections.remove(&token);
        Sent::Ended
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn control() -> (Control, UnixStream) {
        let (stream, client) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let (received, unsent, since) = (Vec::new(), None, Instant::now());
        let connection = AdminConnection { stream, received, unsent, since };
        (Control { socket: None, connections: HashMap::from([(3, connection)]) }, client)
    }

    #[test]
    fn one_who_does_not_read_keeps_nobody_waiting_and_gets_all() {
        let (mut control, mut client) = control();
        client.write_all(b"{\"verb\":\"status\"}\n").unwrap();
        assert!(matches!(control.read(3), Some(Ok(Request::Status))));
        let line = json!({ "text": "x".repeat(3_000_000) });
        assert_eq!(control.answer(3, std::slice::from_ref(&line)), Sent::InPart);
        let (mut answer, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
        loop {
            let len = client.read(&mut piece).unwrap();
            answer.extend_from_slice(&piece[..len]);
            if len == 0 {
                break;
            }
            // The event loop reports that the socket takes more.
            assert!(control.read(3).is_none());
        }
        assert_eq!(String::from_utf8(answer).unwrap(), format!("{line}\n"));
        assert!(!control.has(3));
    }

    #[test]
    fn one_who_never_reads_is_forgotten() {
        let (mut control, client) = control();
        let line = json!({ "text": "x".repeat(3_000_000) });
        assert_eq!(control.answer(3, &[line]), Sent::InPart);
        control.end_slow(Instant::now());
        assert!(control.has(3));
        control.end_slow(Instant::now() + PATIENCE);
        assert!(!control.has(3));
        drop(client);
    }
}
