//! The sockets of LMTP.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use barid::vfs::{FileType, OsVfs, Vfs as _};
use rustix::fs::Mode;

use crate::config::{ListenAddress, ListenerProtocol, ServerConfig};

/// A listening socket.
pub(super) enum LmtpListener {
    Tcp(TcpListener),
    Unix(UnixListener, String),
}

/// A connection.
pub(super) enum LmtpStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Listens on all LMTP addresses of a configuration. Call it before starting threads: it changes
/// the umask of the process for a moment.
pub(super) fn bind_all(config: &ServerConfig) -> io::Result<Vec<LmtpListener>> {
    let lmtp = |listener: &&crate::config::Listener| listener.protocol == ListenerProtocol::Lmtp;
    let mut bound = Vec::new();
    for listener in config.listeners.iter().filter(lmtp) {
        let at = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", listener.address))
        };
        bound.push(match &listener.address {
            ListenAddress::Tcp(address) => {
                LmtpListener::Tcp(TcpListener::bind(address).map_err(at)?)
            }
            ListenAddress::Unix(path, mode) => {
                let socket = bind_unix(path, *mode).map_err(at)?;
                LmtpListener::Unix(socket, path.display().to_string())
            }
        });
    }
    match bound.is_empty() {
        true => Err(io::Error::other("the configuration has no [[listen]] with the protocol lmtp")),
        false => Ok(bound),
    }
}

fn bind_unix(path: &Path, mode: u32) -> io::Result<UnixListener> {
    // The socket of a server that was killed is in the way, and nobody listens on it.
    let is_socket = OsVfs
        .symlink_metadata(path)
        .is_ok_and(|found| !matches!(found.file_type, FileType::File | FileType::Dir));
    if is_socket && UnixStream::connect(path).is_err() {
        OsVfs.remove_file(path)?;
    }
    let before = rustix::process::umask(Mode::from_raw_mode(0o777 & !mode));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    bound
}

impl LmtpListener {
    pub(super) fn address(&self) -> String {
        match self {
            Self::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| "tcp".to_owned(), |addr| addr.to_string())
            }
            Self::Unix(_, path) => path.clone(),
        }
    }

    pub(super) fn accept(&self) -> io::Result<LmtpStream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(LmtpStream::Tcp(stream))
            }
            Self::Unix(listener, _) => Ok(LmtpStream::Unix(listener.accept()?.0)),
        }
    }
}

impl LmtpStream {
    pub(super) fn set_timeouts(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
        }
    }
}

impl Read for LmtpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for LmtpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
