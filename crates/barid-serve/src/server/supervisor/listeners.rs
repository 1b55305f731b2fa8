//! The sockets on which clients arrive.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};

use crate::config::{ListenAddress, UnixAddress};
use crate::server::setup::{ListenerSetup, Protocol};
use crate::socket::{SocketListener, set_access};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// A listener.
#[derive(Debug)]
pub(super) struct OpenListener {
    pub(super) id: u64,
    pub(super) setup: ListenerSetup,
    pub(super) socket: ListeningSocket,
}

impl OpenListener {
    /// Returns `true` if a setup is that of the listener, whatever its permissions.
    fn is_at(&self, setup: &ListenerSetup) -> bool {
        let ListenerSetup { address, protocol } = &self.setup;
        *protocol == setup.protocol && address.is_same_endpoint(&setup.address)
    }

    fn change_access(&mut self, setup: &ListenerSetup) -> io::Result<()> {
        if let ListenAddress::Unix(UnixAddress { path, access }) = &setup.address {
            set_access(path, access.mode, access.gid()?)?;
        }
        self.setup = setup.clone();
        Ok(())
    }
}

/// The socket of a listener.
#[derive(Debug)]
pub(super) enum ListeningSocket {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix socket, whose file is removed with it.
    Unix(SocketListener),
}

impl ListeningSocket {
    /// Returns a descriptor for another process.
    ///
    /// # Errors
    /// Errors of the system.
    pub(super) fn to_owned(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(socket) => socket.as_fd().try_clone_to_owned(),
            Self::Unix(socket) => socket.as_fd().try_clone_to_owned(),
        }
    }

    /// Returns the address, with the actual port, or the path.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Tcp(socket) => match socket.local_addr() {
                Ok(address) => address.to_string(),
                Err(error) => error.to_string(),
            },
            Self::Unix(socket) => socket.place(),
        }
    }
}

/// The listeners, and the sockets that the service manager has passed.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    pub(super) all: Vec<OpenListener>,
    passed: Vec<(SocketAddr, TcpListener)>,
    last: u64,
}

/// The difference between two sets of listeners.
#[derive(Debug, Default)]
pub(super) struct Changed {
    pub(super) closed: Vec<u64>,
    pub(super) opened: Vec<u64>,
}

impl Listeners {
    /// Takes the sockets of the service manager; those that are no TCP listeners are an error.
    ///
    /// # Errors
    /// Errors of the system.
    pub(super) fn new(passed: Vec<OwnedFd>) -> io::Result<Self> {
        let mut listeners = Self::default();
        for fd in passed {
            let socket = TcpListener::from(fd);
            listeners.passed.push((socket.local_addr()?, socket));
        }
        Ok(listeners)
    }

    /// Opens and closes listeners, and changes the permissions of sockets that stay. If one cannot
    /// be opened, nothing is changed; if the permissions of one cannot be changed, those of others
    /// may be changed already.
    ///
    /// # Errors
    /// An address that cannot be used, or a socket whose permissions cannot be changed; the error
    /// names it.
    pub(super) fn change(&mut self, wanted: &[ListenerSetup]) -> io::Result<Changed> {
        let mut opened = Vec::new();
        for setup in wanted {
            if !self.all.iter().any(|listener| listener.is_at(setup)) {
                opened.push((setup.clone(), self.open(setup)?));
            }
        }
        for listener in &mut self.all {
            let is_other = |setup: &&ListenerSetup| listener.setup != **setup;
            let setup = wanted.iter().find(|setup| listener.is_at(setup)).filter(is_other);
            if let Some(setup) = setup {
                listener.change_access(setup)?;
            }
        }
        let mut changed = Changed::default();
        self.all.retain(|listener| {
            let stays = wanted.iter().any(|setup| listener.is_at(setup));
            if !stays {
                changed.closed.push(listener.id);
            }
            stays
        });
        for (setup, socket) in opened {
            self.last += 1;
            changed.opened.push(self.last);
            self.all.push(OpenListener { id: self.last, setup, socket });
        }
        Ok(changed)
    }

    fn open(&self, setup: &ListenerSetup) -> io::Result<ListeningSocket> {
        let address = match &setup.address {
            ListenAddress::Tcp(address) => *address,
            ListenAddress::Unix(UnixAddress { path, access }) => {
                let socket = SocketListener::bind_unix(path, access.mode, access.gid()?)?;
                rustix::net::listen(&socket, BACKLOG)?;
                return Ok(ListeningSocket::Unix(socket));
            }
        };
        let passed = self.passed.iter().find(|(of_passed, _)| is_same(*of_passed, address));
        if let Some((_, socket)) = passed {
            return socket.try_clone().map(ListeningSocket::Tcp);
        }
        let socket = TcpListener::bind(address)
            .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(ListeningSocket::Tcp(socket))
    }

    /// Returns the sockets of the service manager for which the configuration has no listener.
    pub(super) fn unused(&self) -> Vec<SocketAddr> {
        let is_used = |address: SocketAddr| {
            self.all.iter().any(|listener| match &listener.setup.address {
                ListenAddress::Tcp(wanted) => is_same(address, *wanted),
                ListenAddress::Unix(_) => false,
            })
        };
        let addresses = self.passed.iter().map(|(address, _)| *address);
        addresses.filter(|address| !is_used(*address)).collect()
    }
}

/// Returns `true` if a socket serves an address: it is the same, or the socket is for all addresses
/// of the machine, as those of systemd are, and so is the wanted one.
fn is_same(socket: SocketAddr, wanted: SocketAddr) -> bool {
    let is_for_all = socket.ip().is_unspecified() && wanted.ip().is_unspecified();
    socket.port() == wanted.port() && (socket.ip() == wanted.ip() || is_for_all)
}

impl Protocol {
    /// Returns the name for the log.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Imap => "imap",
            Self::Imaps => "imaps",
            Self::Metrics => "metrics",
            Self::Lmtp => "lmtp",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(port: u16, protocol: Protocol) -> ListenerSetup {
        ListenerSetup { address: ListenAddress::Tcp(([127, 0, 0, 1], port).into()), protocol }
    }

    fn address_of(socket: &ListeningSocket) -> SocketAddr {
        socket.place().parse().unwrap()
    }

    #[test]
    fn only_what_changed_is_opened_and_closed() {
        let mut listeners = Listeners::default();
        let (imap, imaps) = (setup(0, Protocol::Imap), setup(0, Protocol::Imaps));
        let changed = listeners.change(&[imap, imaps.clone()]).unwrap();
        assert_eq!((changed.opened, changed.closed), (vec![1, 2], vec![]));
        let port = address_of(&listeners.all[0].socket).port();
        let taken = setup(port, Protocol::Metrics);
        assert!(listeners.change(&[imaps.clone(), taken.clone()]).is_err());
        assert_eq!(listeners.all.len(), 2);
        let changed = listeners.change(std::slice::from_ref(&imaps)).unwrap();
        assert_eq!((changed.opened, changed.closed), (vec![], vec![1]));
        let changed = listeners.change(&[imaps, taken]).unwrap();
        assert_eq!(changed.opened, [3]);
    }

    #[test]
    fn sockets_of_the_service_manager_are_used() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let mut listeners = Listeners::new(vec![socket.into()]).unwrap();
        assert_eq!(listeners.unused(), [address]);
        let wanted = ListenAddress::Tcp(address);
        listeners.change(&[ListenerSetup { address: wanted, protocol: Protocol::Imap }]).unwrap();
        assert_eq!(address_of(&listeners.all[0].socket), address);
        assert_eq!(listeners.unused(), []);
    }
}
