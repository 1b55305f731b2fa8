//! Sockets: making them, leaving none behind that nobody listens to, and connections of both kinds.

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

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// A socket of the file system.
    Unix(PathBuf),
    /// `HOST:PORT`.
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

/// The longest path of a socket: `sun_path` has a zero byte behind it.
const SOCKET_PATH_LEN_MAX: usize = 107;

/// What is listened to. A socket of the file system goes with it.
#[derive(Debug)]
pub(super) struct Listener {
    kind: Kind,
    /// Held as long as the socket is there.
    _lock: Option<Box<dyn File>>,
    path: Option<PathBuf>,
}

#[derive(Debug)]
enum Kind {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens. A socket that a daemon left behind that was killed is replaced; `PATH.lock` tells
    /// it from one that is in use, and stays.
    ///
    /// To be called before there are threads: they would see another umask.
    pub(super) fn bind(address: &Address, mode: u32) -> anyhow::Result<Self> {
        match address {
            Address::Inet(name) => {
                let listener = TcpListener::bind(name).with_context(|| name.clone())?;
                listener.set_nonblocking(true)?;
                Ok(Self { kind: Kind::Tcp(listener), _lock: None, path: None })
            }
            Address::Unix(path) => {
                let at = || path.display().to_string();
                let len = path.as_os_str().len();
                if len > SOCKET_PATH_LEN_MAX {
                    let message = format!(
                        "{}: {len} bytes, and the path of a socket has at most {SOCKET_PATH_LEN_MAX}",
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
                Ok(Self { kind: Kind::Unix(listener), _lock: Some(lock), path })
            }
        }
    }

    /// A connection; `None` if there is none, or it is gone already.
    pub(super) fn accept(&self) -> io::Result<Option<Stream>> {
        let accepted = match &self.kind {
            Kind::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Kind::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
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

    /// Where it listens, with the port that the system chose.
    pub(super) fn place(&self) -> String {
        match (&self.kind, &self.path) {
            (Kind::Tcp(listener), _) => {
                listener.local_addr().map_or_else(|error| error.to_string(), |at| at.to_string())
            }
            (Kind::Unix(_), path) => {
                path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Unix(listener) => listener.as_fd(),
            Kind::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // What stays behind is replaced by the next daemon.
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
            let message = format!("{}: another daemon listens there", path.display());
            Err(WithHint::error(message, "stop that one first, or name another --socket"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Removes what a daemon left behind, and nothing else.
fn remove_socket(path: &Path) -> anyhow::Result<()> {
    let at = || path.display().to_string();
    match OsVfs.symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(metadata) if matches!(metadata.file_type, FileType::Other) && is_socket(path) => {
            match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    OsVfs.remove_file(path).with_context(at)
                }
                // Whoever listens without a lock is no daemon of ours, and stays.
                Ok(_) => {
                    let message = format!("{}: somebody listens there", path.display());
                    Err(WithHint::error(message, "name another path"))
                }
                Err(error) => Err(error).with_context(at),
            }
        }
        Ok(_) => {
            let message = format!("{}: something else than a socket is there", path.display());
            Err(WithHint::error(message, "name another path"))
        }
        Err(error) => Err(error).with_context(at),
    }
}

/// No device and no pipe.
fn is_socket(path: &Path) -> bool {
    let kind = |stat: rustix::fs::Stat| rustix::fs::FileType::from_raw_mode(stat.st_mode);
    rustix::fs::lstat(path).is_ok_and(|stat| kind(stat).is_socket())
}

/// A connection.
#[derive(Debug)]
pub(super) enum Stream {
    /// Of a socket of the file system.
    Unix(UnixStream),
    /// Of the network.
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

    /// Ends reading and writing that take longer.
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

    /// A second handle.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
        })
    }

    /// Ends what is read or written.
    pub(super) fn shutdown(&self, how: Shutdown) {
        // It may have ended by itself.
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
