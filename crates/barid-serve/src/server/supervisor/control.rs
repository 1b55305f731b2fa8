//! The socket of `barid admin`: requests and answers as lines of JSON.
//!
//! Only root and the user of the supervisor are answered, whatever the permissions of the socket.

use std::collections::HashMap;
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
    since: Instant,
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
        self.connections.retain(|_, one| now.duration_since(one.since) < PATIENCE);
        if !is_allowed || self.connections.len() >= CONTROL_CONNECTIONS_MAX {
            return None;
        }
        stream.set_nonblocking(true).ok()?;
        let connection = AdminConnection { stream, received: Vec::new(), since: now };
        Some(&self.connections.entry(token).insert_entry(connection).into_mut().stream)
    }

    pub(super) fn has(&self, token: u64) -> bool {
        self.connections.contains_key(&token)
    }

    /// Reads a request; `None` until its line is whole. A connection that ends, or sends too much,
    /// is closed.
    pub(super) fn read(&mut self, token: u64) -> Option<Result<Request, String>> {
        let connection = self.connections.get_mut(&token)?;
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

    /// Sends the lines of an answer, and ends the connection. One who does not read gets less.
    pub(super) fn answer(&mut self, token: u64, lines: &[serde_json::Value]) {
        let Some(AdminConnection { mut stream, .. }) = self.connections.remove(&token) else {
            return;
        };
        let mut text = String::new();
        for line in lines {
            text.push_str(&line.to_string());
            text.push('\n');
        }
        // Waiting is bounded, because this process serves all others.
        let sent = stream.set_nonblocking(false);
        let sent = sent.and_then(|()| stream.set_write_timeout(Some(Duration::from_secs(1))));
        let _ = sent.and_then(|()| stream.write_all(text.as_bytes()));
    }
}
