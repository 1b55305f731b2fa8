//! The configuration of a server, as its processes hand it over.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use barid::vfs::Vfs;
use rustix::fs::{MemfdFlags, SealFlags};
use serde::{Deserialize, Serialize};

use crate::config::{ListenAddress, Listener, ListenerProtocol, MailOwner, ServerConfig};
use crate::limits::CONFIG_SIZE_MAX;

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Protocol {
    /// IMAP in clear, with STARTTLS if there is a certificate.
    Imap,
    /// IMAP over TLS.
    Imaps,
    /// Metrics and health over HTTP.
    Metrics,
    /// Delivery by mail servers.
    Lmtp,
}

/// An address with the protocol that is spoken there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListenerSetup {
    pub(super) address: ListenAddress,
    pub(super) protocol: Protocol,
}

/// A configuration that was read, and its text in memory: the other processes parse the same
/// bytes, whatever becomes of the file.
#[derive(Debug)]
pub(super) struct Configuration {
    pub(super) config: ServerConfig,
    text: OwnedFd,
}

impl Configuration {
    /// Reads a file.
    ///
    /// # Errors
    /// All problems of the file.
    pub(super) fn load(vfs: &dyn Vfs, path: &Path) -> io::Result<Self> {
        let (mut config, text) =
            ServerConfig::load_with_text(vfs, path).map_err(io::Error::other)?;
        if let Some(owner) = &config.mail.owner {
            // Looked up once, and not at each login.
            let (uid, gid) = owner.ids()?;
            config.mail.owner = Some(MailOwner::Ids(uid, gid));
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = rustix::fs::memfd_create("configuration", flags)?;
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let len = rustix::io::write(&memory, rest)?;
            rest = &rest[len..];
        }
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&memory, seals)?;
        Ok(Self { config, text: memory })
    }

    /// Returns the text for another process.
    ///
    /// # Errors
    /// Errors of the system.
    pub(super) fn text(&self) -> io::Result<OwnedFd> {
        self.text.try_clone()
    }

    /// Returns the addresses.
    pub(super) fn listeners(&self) -> Vec<ListenerSetup> {
        let setup = |listener: &Listener| {
            let protocol = match listener.protocol {
                ListenerProtocol::Imap => Protocol::Imap,
                ListenerProtocol::Imaps => Protocol::Imaps,
                ListenerProtocol::Lmtp => Protocol::Lmtp,
            };
            ListenerSetup { address: listener.address.clone(), protocol }
        };
        let metrics = self.config.metrics.map(|address| ListenerSetup {
            address: ListenAddress::Tcp(address),
            protocol: Protocol::Metrics,
        });
        self.config.listeners.iter().map(setup).chain(metrics).collect()
    }
}

/// Reads the configuration that the supervisor has handed over.
///
/// # Errors
/// No descriptor; errors of the system.
pub(super) fn handed_over(path: &Path, text: Option<OwnedFd>) -> io::Result<ServerConfig> {
    let text = text.ok_or_else(|| io::Error::other("no configuration was handed over"))?;
    let mut bytes = Vec::new();
    let mut piece = vec![0; 16 * 1024];
    while (bytes.len() as u64) < CONFIG_SIZE_MAX {
        let len = rustix::io::pread(text.as_fd(), piece.as_mut_slice(), bytes.len() as u64)?;
        if len == 0 {
            break;
        }
        bytes.extend_from_slice(&piece[..len]);
    }
    let bytes = String::from_utf8(bytes).map_err(io::Error::other)?;
    ServerConfig::parse(path, &bytes).map_err(io::Error::other)
}
