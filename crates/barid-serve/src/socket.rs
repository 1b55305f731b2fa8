//! Listening sockets of servers, removal of stale ones, and connections: Unix and TCP.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use barid::vfs::{
    File, FileType, LockError, LockKind, LockMode, OpenOptions, OsVfs, Vfs as _, lock_file,
};
use rustix::fs::{AtFlags, Gid, Mode, OFlags};

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
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
pub const SOCKET_PATH_LEN_MAX: usize = 107;

/// A listening socket cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The path does not fit into the address of a socket.
    #[error(
        "{}: {} bytes, but a socket's path can have at most {SOCKET_PATH_LEN_MAX}",
        .0.display(),
        .0.as_os_str().len()
    )]
    PathTooLong(PathBuf),
    /// Another server of ours has the path.
    #[error("{}: another daemon listens at this path", .0.display())]
    InUse(PathBuf),
    /// A program that does not know the lock has the path.
    #[error("{}: another program listens at this path", .0.display())]
    Foreign(PathBuf),
    /// The path is something else.
    #[error("{}: exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// The lock beside the socket cannot be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// An error of the system.
    #[error("{address}: {error}")]
    Io {
        /// The address or path.
        address: String,
        /// The error.
        error: io::Error,
    },
}

impl SocketError {
    fn at(address: impl std::fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { address: address.to_string(), error }
    }
}

impl From<SocketError> for io::Error {
    fn from(error: SocketError) -> Self {
        let kind = match &error {
            SocketError::Io { error, .. } => error.kind(),
            SocketError::InUse(_) | SocketError::Foreign(_) => io::ErrorKind::AddrInUse,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// A listening socket. Dropping it removes a Unix socket from the file system.
#[derive(Debug)]
pub struct SocketListener {
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

impl SocketListener {
    /// Binds an address; `mode` is the permission bits of a Unix socket. One that a server which
    /// was killed has left is replaced.
    ///
    /// Call it before starting threads, because it changes the umask of the process for a moment.
    ///
    /// # Errors
    /// A path that is too long, in use, or not a socket; errors of the system.
    pub fn bind(address: &Address, mode: u32) -> Result<Self, SocketError> {
        match address {
            Address::Inet(name) => {
                let listener = TcpListener::bind(name).map_err(SocketError::at(name))?;
                Ok(Self { kind: ListenerSocket::Tcp(listener), _lock: None, path: None })
            }
            Address::Unix(path) => {
                let UnixSocket { listener, lock } = bind_unix(path, mode)?;
                let path = Some(path.clone());
                Ok(Self { kind: ListenerSocket::Unix(listener), _lock: Some(lock), path })
            }
        }
    }

    /// Binds a Unix socket as [`SocketListener::bind`], and gives it to a group.
    ///
    /// # Errors
    /// As [`SocketListener::bind`]; a group to which this process may not give a file.
    pub fn bind_unix(path: &Path, mode: u32, gid: Option<u32>) -> Result<Self, SocketError> {
        let address = Address::Unix(path.to_owned());
        if gid.is_none() {
            return Self::bind(&address, mode);
        }
        // Nobody else can connect before the group is the right one.
        let socket = Self::bind(&address, 0o600)?;
        set_access(path, mode, gid)?;
        Ok(socket)
    }

    /// Uses a listening socket that another process has made, which also removes its file.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn received(fd: OwnedFd) -> io::Result<Self> {
        let kind = match rustix::net::getsockname(&fd)?.address_family() {
            rustix::net::AddressFamily::UNIX => ListenerSocket::Unix(fd.into()),
            _ => ListenerSocket::Tcp(fd.into()),
        };
        Ok(Self { kind, _lock: None, path: None })
    }

    /// Sets whether [`SocketListener::accept`] waits for a connection.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        match &self.kind {
            ListenerSocket::Unix(listener) => listener.set_nonblocking(is_nonblocking),
            ListenerSocket::Tcp(listener) => listener.set_nonblocking(is_nonblocking),
        }
    }

    /// Accepts a connection; `None` if there is none, or it was closed already.
    ///
    /// # Errors
    /// Errors of the system, such as no free descriptor.
    pub fn accept(&self) -> io::Result<Option<Stream>> {
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
    pub fn place(&self) -> String {
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

impl AsFd for SocketListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            ListenerSocket::Unix(listener) => listener.as_fd(),
            ListenerSocket::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // If that fails, the next daemon replaces the socket.
            let _ = OsVfs.remove_file(path);
        }
    }
}

/// A listening Unix socket with its lock.
pub(crate) struct UnixSocket {
    pub(crate) listener: UnixListener,
    /// Held as long as the socket is in use.
    pub(crate) lock: Box<dyn File>,
}

/// Binds a Unix socket. That of a server that was killed is replaced; the lock on `PATH.lock`, a
/// file that is never removed, shows that it is not in use.
///
/// Call it before starting threads, because it changes the umask of the process for a moment.
///
/// # Errors
/// A path that is too long, in use, or not a socket; errors of the system.
pub(crate) fn bind_unix(path: &Path, mode: u32) -> Result<UnixSocket, SocketError> {
    if path.as_os_str().len() > SOCKET_PATH_LEN_MAX {
        return Err(SocketError::PathTooLong(path.to_owned()));
    }
    let lock = lock(path)?;
    remove_socket(path)?;
    let before = rustix::process::umask(Mode::from_raw_mode(0o777 & !mode));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    Ok(UnixSocket { listener: bound.map_err(SocketError::at(path.display()))?, lock })
}

/// Changes the mode and the group of a Unix socket; without `gid`, to the group of this process.
///
/// # Errors
/// A path that is not a socket; errors of the system.
pub(crate) fn set_access(path: &Path, mode: u32, gid: Option<u32>) -> Result<(), SocketError> {
    let at = |error: rustix::io::Errno| SocketError::at(path.display())(error.into());
    // Not by the path, which may refer to another file at each call.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(at)?;
    let kind = rustix::fs::fstat(&file).map_err(at)?.st_mode;
    if !rustix::fs::FileType::from_raw_mode(kind).is_socket() {
        return Err(SocketError::NotASocket(path.to_owned()));
    }
    let gid = gid.map_or_else(rustix::process::getegid, Gid::from_raw);
    rustix::fs::chownat(&file, "", None, Some(gid), AtFlags::EMPTY_PATH).map_err(at)?;
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::chmod(name, Mode::from_raw_mode(mode)).map_err(at)
}

fn lock(path: &Path) -> Result<Box<dyn File>, SocketError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let options = OpenOptions::create(0o600);
    let file = OsVfs.open(&name, options).map_err(SocketError::at(name.display()))?;
    let how = (LockKind::Flock, LockMode::Exclusive);
    match lock_file(&OsVfs, &*file, &name, how, Duration::ZERO) {
        Ok(()) => Ok(file),
        Err(LockError::Held { .. }) => Err(SocketError::InUse(path.to_owned())),
        Err(error) => Err(error.into()),
    }
}

/// Removes the socket that a server left behind; fails if the path is anything else.
fn remove_socket(path: &Path) -> Result<(), SocketError> {
    let at = || SocketError::at(path.display());
    match OsVfs.symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(metadata) if matches!(metadata.file_type, FileType::Other) && is_socket(path) => {
            match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    OsVfs.remove_file(path).map_err(at())
                }
                // A program that listens without the lock is not ours; its socket is kept.
                Ok(_) => Err(SocketError::Foreign(path.to_owned())),
                Err(error) => Err(at()(error)),
            }
        }
        Ok(_) => Err(SocketError::NotASocket(path.to_owned())),
        Err(error) => Err(at()(error)),
    }
}

/// Returns `true` if the path is a socket, not another special file.
fn is_socket(path: &Path) -> bool {
    let kind = |stat: rustix::fs::Stat| rustix::fs::FileType::from_raw_mode(stat.st_mode);
    rustix::fs::lstat(path).is_ok_and(|stat| kind(stat).is_socket())
}

/// A connection.
#[derive(Debug)]
pub enum Stream {
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
    ///
    /// # Errors
    /// Errors of the system.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
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
    ///
    /// # Errors
    /// Errors of the system.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
        })
    }

    /// Shuts down reading, writing or both.
    pub fn shutdown(&self, how: Shutdown) {
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
