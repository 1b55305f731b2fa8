//! Listening sockets, removal of stale ones, and connections, of Unix and TCP sockets.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use barid::vfs::{
    File, FileType, LockError, LockKind, LockMode, OpenOptions, OsVfs, Vfs as _, lock_file,
};
use rustix::fs::Mode;

use crate::exit::WithHint;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// Host and port of a TCP socket, as `HOST:PORT`.
    Inet(String),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let inet = text.strip_prefix("inet:");
        match inet {
            Some(inet) => {
                let port = inet.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
                let named = port.map(|_| Self::Inet(inet.to_owned()));
                named.ok_or_else(|| "inet:HOST:PORT, as in inet:127.0.0.1:8893".to_owned())
            }
            None => {
                let path = text.strip_prefix("unix:").or(text.strip_prefix("local:"));
                Ok(Self::Unix(path.unwrap_or(text).into()))
            }
        }
    }
}

/// The longest path of a socket, in bytes: `sun_path` has room for it and a zero byte.
const SOCKET_PATH_LEN_MAX: usize = 107;

/// A listening socket. Dropping it removes a Unix socket from the file system.
#[derive(Debug)]
pub(super) struct Listener {
    kind: ListenerSocket,
    /// The lock of a Unix socket, held as long as the socket exists.
    _lock: Option<Box<dyn File>>,
    path: Option<PathBuf>,
}

#[derive(Debug)]
enum ListenerSocket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Binds the address. The Unix socket of a daemon that was killed is replaced; the lock on
    /// `PATH.lock`, a file that is never removed, shows that it is not in use.
    ///
    /// Call it before starting threads, because it changes the umask of the process for a moment.
    pub(super) fn bind(address: &Address, mode: u32) -> anyhow::Result<Self> {
        match address {
            Address::Inet(name) => {
                let listener = TcpListener::bind(name).with_context(|| name.clone())?;
                listener.set_nonblocking(true)?;
                Ok(Self { kind: ListenerSocket::Tcp(listener), _lock: None, path: None })
            }
            Address::Unix(path) => {
                let at = || path.display().to_string();
                let len = path.as_os_str().len();
                if len > SOCKET_PATH_LEN_MAX {
                    let message = format!(
                        "{}: {len} bytes, but a socket's path can have at most {SOCKET_PATH_LEN_MAX}",
                        path.display()
                    );
                    let hint = "name a shorter path, as with --socket /run/user/1000/barid.sock; \
                                `barid bogofilter` then does without the daemon";
                    return Err(WithHint::error(message, hint));
                }
                let lock = lock(path)?;
                remove_socket(path)?;
                let before = rustix::process::umask(Mode::from_raw_mode(0o777 & !mode));
                let bound = UnixListener::bind(path);
                rustix::process::umask(before);
                let listener = bound.with_context(at)?;
                listener.set_nonblocking(true)?;
                let path = Some(path.clone());
                Ok(Self { kind: ListenerSocket::Unix(listener), _lock: Some(lock), path })
            }
        }
    }

    /// Accepts a connection; `None` if there is none, or it was closed already.
    pub(super) fn accept(&self) -> io::Result<Option<Stream>> {
        let accepted = match &self.kind {
            ListenerSocket::Unix(listener) => {
                listener.accept().map(|(stream, _)| Stream::Unix(stream))
            }
            ListenerSocket::Tcp(listener) => {
                listener.accept().map(|(stream, _)| Stream::Tcp(stream))
            }
        };
        match accepted {
            Ok(stream) => {
                stream.prepare()?;
                Ok(Some(stream))
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Returns the address on which it listens, with the actual port.
    pub(super) fn place(&self) -> String {
        match (&self.kind, &self.path) {
            (ListenerSocket::Tcp(listener), _) => {
                listener.local_addr().map_or_else(|error| error.to_string(), |at| at.to_string())
            }
            (ListenerSocket::Unix(_), path) => {
                path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            ListenerSocket::Unix(listener) => listener.as_fd(),
            ListenerSocket::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // If that fails, the next daemon replaces the socket.
            let _ = OsVfs.remove_file(path);
        }
    }
}

fn lock(path: &Path) -> anyhow::Result<Box<dyn File>> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let at = || name.display().to_string();
    let options = OpenOptions::create(0o600);
    let file = OsVfs.open(&name, options).with_context(at)?;
    let how = (LockKind::Flock, LockMode::Exclusive);
    match lock_file(&OsVfs, &*file, &name, how, Duration::ZERO) {
        Ok(()) => Ok(file),
        Err(LockError::Held { .. }) => {
            let message = format!("{}: another daemon listens at this path", path.display());
            Err(WithHint::error(message, "stop that one first, or name another --socket"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Removes the socket that a daemon left behind; fails if the path is anything else.
fn remove_socket(path: &Path) -> anyhow::Result<()> {
    let at = || path.display().to_string();
    match OsVfs.symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(metadata) if matches!(metadata.file_type, FileType::Other) && is_socket(path) => {
            match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    OsVfs.remove_file(path).with_context(at)
                }
                // A program that listens without the lock is not our daemon; its socket is kept.
                Ok(_) => {
                    let message =
                        format!("{}: another program listens at this path", path.display());
                    Err(WithHint::error(message, "name another path"))
                }
                Err(error) => Err(error).with_context(at),
            }
        }
        Ok(_) => {
            let message = format!("{}: exists and is not a socket", path.display());
            Err(WithHint::error(message, "name another path"))
        }
        Err(error) => Err(error).with_context(at),
    }
}

/// Returns `true` if the path is a socket, not another special file.
fn is_socket(path: &Path) -> bool {
    let kind = |stat: rustix::fs::Stat| rustix::fs::FileType::from_raw_mode(stat.st_mode);
    rustix::fs::lstat(path).is_ok_and(|stat| kind(stat).is_socket())
}

/// A connection.
#[derive(Debug)]
pub(super) enum Stream {
    /// A connection of a Unix socket.
    Unix(UnixStream),
    /// A TCP connection.
    Tcp(TcpStream),
}

impl Stream {
    fn prepare(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_nonblocking(false),
            Self::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)
            }
        }
    }

    /// Sets the timeout of single reads and writes.
    pub(super) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        let timeout = Some(timeout);
        match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
            Self::Tcp(stream) => {
                stream.set_read_timeout(timeout)?;
                stream.set_write_timeout(timeout)
            }
        }
    }

    /// Returns a second handle of the connection.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
        })
    }

    /// Shuts down reading, writing or both.
    pub(super) fn shutdown(&self, how: Shutdown) {
        // The peer may have closed it already.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_postfix() {
        let check = |text: &str, expected: Option<Address>| {
            assert_eq!(text.parse().ok(), expected, "{text}");
        };
        check("/run/x", Some(Address::Unix("/run/x".into())));
        check("unix:/run/x", Some(Address::Unix("/run/x".into())));
        check("inet:localhost:8893", Some(Address::Inet("localhost:8893".into())));
        check("inet:[::1]:0", Some(Address::Inet("[::1]:0".into())));
        check("inet:localhost", None);
        check("inet:localhost:99999", None);
    }
}
