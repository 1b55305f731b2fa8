//! Settings of sockets, TLS, limits, and of the process.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::reader::Section;
use super::values::{size, time};
use crate::limits::{CONNECTIONS_MAX, LOGIN_TIMEOUT, RESTART_DELAY_MAX};

/// Settings of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// The name with which the server greets; that of the host if `None`.
    pub hostname: Option<String>,
    /// Folder of the server's own state, and of users without a home.
    pub state_dir: PathBuf,
    /// Folder of the caches of users without a home.
    pub cache_dir: PathBuf,
    /// The user under whom the process runs that clients talk to before they have logged in.
    pub front_user: Option<String>,
    /// The user under whom passwords are verified, who must be able to read passwd-files; that of
    /// the front if `None`.
    pub auth_user: Option<String>,
    /// The socket of `barid admin`.
    pub admin_socket: Option<PathBuf>,
    /// `true` if passwords are accepted on connections that others can read.
    pub clear_logins: bool,
}

impl ServerSettings {
    pub(super) fn read(section: Option<&Section<'_>>) -> Self {
        let path = |key| section.and_then(|section| section.path(key));
        let text = |key| section.and_then(|section| section.text(key));
        Self {
            hostname: text("hostname"),
            state_dir: path("state_dir").unwrap_or_else(|| "/var/lib/barid".into()),
            cache_dir: path("cache_dir").unwrap_or_else(|| "/var/cache/barid".into()),
            front_user: text("front_user"),
            auth_user: text("auth_user"),
            admin_socket: path("admin_socket"),
            clear_logins: section.and_then(|section| section.flag("clear_logins")) == Some(true),
        }
    }
}

/// Protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerProtocol {
    /// IMAP that begins in clear; with STARTTLS if there is a certificate.
    Imap,
    /// IMAP over TLS.
    Imaps,
    /// Delivery by LMTP.
    Lmtp,
}

impl ListenerProtocol {
    /// Returns the name, as in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Imap => "imap",
            Self::Imaps => "imaps",
            Self::Lmtp => "lmtp",
        }
    }
}

/// Address of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// An address and port of TCP.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(UnixAddress),
}

/// The file of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixAddress {
    /// The path.
    pub path: PathBuf,
    /// Its permissions, which decide who can connect.
    pub access: SocketAccess,
}

/// The permissions of the file of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketAccess {
    /// The permission bits.
    pub mode: u32,
    /// The group, by name or number; that of the server if `None`.
    pub group: Option<String>,
}

impl SocketAccess {
    /// Returns the gid of the group, if one is set.
    ///
    /// # Errors
    /// If the system has no such group, or its name service fails.
    pub fn gid(&self) -> io::Result<Option<u32>> {
        let Some(group) = &self.group else { return Ok(None) };
        if let Ok(gid) = group.parse() {
            return Ok(Some(gid));
        }
        let gid = barid_auth::gid_of(group).map_err(io::Error::other)?;
        let none = || io::Error::other(format!("group {group}: the system has no such group"));
        gid.ok_or_else(none).map(Some)
    }
}

impl ListenAddress {
    /// Returns `true` if both are the same address of TCP, or sockets with the same path.
    #[must_use]
    pub fn is_same_endpoint(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(one), Self::Tcp(other)) => one == other,
            (Self::Unix(one), Self::Unix(other)) => one.path == other.path,
            (Self::Tcp(_), Self::Unix(_)) | (Self::Unix(_), Self::Tcp(_)) => false,
        }
    }
}

impl std::fmt::Display for ListenAddress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(out, "{address}"),
            Self::Unix(UnixAddress { path, access: SocketAccess { mode, group } }) => {
                write!(out, "{} (mode {mode:04o}", path.display())?;
                group.iter().try_for_each(|group| write!(out, ", group {group}"))?;
                out.write_str(")")
            }
        }
    }
}

/// A socket that accepts connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The protocol.
    pub protocol: ListenerProtocol,
    /// The address.
    pub address: ListenAddress,
}

/// A certificate and its key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPair {
    /// The certificate, followed by the chain of its authority.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// Names of the server for which the pair is used; those of the certificate if empty.
    pub names: Vec<String>,
}

/// Bounds of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Connections of one address (IPv6: of one /64).
    pub connections_per_address: usize,
    /// Sessions of one user.
    pub connections_per_user: usize,
    /// Time in which a client must log in.
    pub login_timeout: Duration,
    /// Time without sessions after which the process of a user ends.
    pub worker_idle: Duration,
    /// Longest time before a process that has died again and again is started again.
    pub restart_delay: Duration,
    /// Memory of the process of a user, in bytes.
    pub worker_memory: u64,
    /// Size of a message that is appended or delivered, in bytes.
    pub message_size: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: CONNECTIONS_MAX,
            connections_per_address: 100,
            connections_per_user: 100,
            login_timeout: LOGIN_TIMEOUT,
            worker_idle: Duration::from_secs(5 * 60),
            restart_delay: RESTART_DELAY_MAX,
            worker_memory: 1 << 30,
            message_size: 100 << 20,
        }
    }
}

impl Limits {
    pub(super) fn read(section: Option<&Section<'_>>) -> Self {
        let default = Self::default();
        let Some(section) = section else { return default };
        let count = |key, default: usize| {
            section.number(key, 1..=1_000_000).map_or(default, |count| count as usize)
        };
        let duration = |key, default| section.parsed(key, time).unwrap_or(default);
        let bytes = |key, least: u64, default| {
            let at_least = |text: &str| match size(text)? {
                bytes if bytes < least => Err(format!("must be at least {least} bytes")),
                bytes => Ok(bytes),
            };
            section.parsed(key, at_least).unwrap_or(default)
        };
        Self {
            connections: count("connections", default.connections),
            connections_per_address: count(
                "connections_per_address",
                default.connections_per_address,
            ),
            connections_per_user: count("connections_per_user", default.connections_per_user),
            login_timeout: duration("login_timeout", default.login_timeout),
            worker_idle: duration("worker_idle", default.worker_idle),
            restart_delay: duration("restart_delay", default.restart_delay),
            worker_memory: bytes("worker_memory", 64 << 20, default.worker_memory),
            message_size: bytes("message_size", 64 << 10, default.message_size),
        }
    }
}

pub(super) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("{text:?} is not an address with a port such as \"0.0.0.0:143\" or \"[::]:993\"")
    })
}

pub(super) fn tls_pairs(root: &Section<'_>) -> Vec<TlsPair> {
    let mut pairs = Vec::new();
    for section in root.sections("tls", "tls") {
        let names = section.list("names", |name| match name.is_empty() {
            true => Err("must not be empty"),
            false => Ok(name.to_ascii_lowercase()),
        });
        for key in ["certificate", "key"] {
            if !section.has(key) {
                section.problem_here(format_args!("`{key}` is missing"));
            }
        }
        if let (Some(certificate), Some(key)) = (section.path("certificate"), section.path("key")) {
            pairs.push(TlsPair { certificate, key, names });
        }
    }
    pairs
}

pub(super) fn listeners(root: &Section<'_>, tls: &[TlsPair]) -> Vec<Listener> {
    let mut listeners: Vec<Listener> = Vec::new();
    for section in root.sections("listen", "listen") {
        let protocols = [ListenerProtocol::Imap, ListenerProtocol::Imaps, ListenerProtocol::Lmtp]
            .map(|protocol| (protocol.name(), protocol));
        if !section.has("protocol") {
            section.problem_here("`protocol` is missing: imap, imaps or lmtp");
        }
        let protocol = section.choice("protocol", &protocols);
        let address = match (section.has("address"), section.has("socket")) {
            (true, true) => {
                section.problem("socket", "either `address` or `socket`, not both");
                None
            }
            (false, false) => {
                section.problem_here("`address` or `socket` is missing");
                None
            }
            (true, false) => section.parsed("address", socket_address).map(ListenAddress::Tcp),
            (false, true) => {
                let mode = section.parsed("mode", octal).unwrap_or(0o660);
                let access = SocketAccess { mode, group: section.text("group") };
                let path = section.path("socket");
                path.map(|path| ListenAddress::Unix(UnixAddress { path, access }))
            }
        };
        let (Some(protocol), Some(address)) = (protocol, address) else { continue };
        if protocol == ListenerProtocol::Imaps && tls.is_empty() {
            section.problem("protocol", "imaps needs a certificate: add a section [[tls]]");
        }
        if let (ListenerProtocol::Lmtp, ListenAddress::Tcp(tcp)) = (protocol, &address)
            && !tcp.ip().is_loopback()
        {
            let why = "LMTP has no login: use a socket, or an address of this machine (127.0.0.1)";
            section.problem("address", why);
        }
        // Port 0 is any that is free, and another one each time.
        let is_any = matches!(&address, ListenAddress::Tcp(tcp) if tcp.port() == 0);
        if !is_any && listeners.iter().any(|listener| listener.address.is_same_endpoint(&address)) {
            section.problem_here(format_args!("{address} stands in the file twice"));
        }
        listeners.push(Listener { protocol, address });
    }
    listeners
}

fn octal(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("{text:?} is not a mode such as \"0660\""))
}
