//! Servers that the suites are run against.

mod configured;
mod dovecot;
mod mail;
mod program;

pub use configured::ConfiguredServer;
pub use dovecot::DovecotServer;
pub use mail::MailFormat;
pub use program::{ProgramArgs, ProgramServer};

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use barid_testkit::peers::PeerUser;

use crate::wire::Connection;

/// Name and password of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The name, without characters that need quotes.
    pub name: String,
    /// The password, without characters that need quotes.
    pub password: String,
}

/// Port with implicit TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsListener {
    /// The address.
    pub address: SocketAddr,
    /// The file with the certificate, valid for `localhost` and 127.0.0.1, if there is one.
    pub certificate: Option<PathBuf>,
}

/// A way to reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A connection to its port, and LOGIN.
    Tcp,
    /// A process for each session, which greets with PREAUTH.
    Stdio,
}

/// A running server whose users are numbered from 1.
pub trait Server: Send + Sync {
    /// Returns the name for reports.
    fn name(&self) -> &str;

    /// Returns the address of the port without TLS.
    fn address(&self) -> SocketAddr;

    /// Returns the port with implicit TLS, if there is one.
    fn tls(&self) -> Option<TlsListener>;

    /// Returns the name and the password of a user.
    fn login(&self, user: u32) -> Login;

    /// Returns the command of a session over standard input and output, if the server has that.
    ///
    /// # Errors
    /// Errors of the preparation.
    fn stdio(&self, user: u32) -> io::Result<Option<Command>>;

    /// Returns the folder with the mail of a user: a Maildir whose folders are in it as Maildir++
    /// has them, or a folder of mbox files with one named `INBOX`.
    fn mail_dir(&self, user: u32) -> PathBuf;

    /// Returns the format of the mailboxes.
    fn format(&self) -> MailFormat;

    /// Returns the log, as far as the server writes one.
    fn log(&self) -> String;

    /// Returns the path of a mailbox.
    fn mailbox_path(&self, user: u32, name: &str) -> PathBuf {
        self.format().mailbox_path(&self.mail_dir(user), name)
    }

    /// Empties the mail of a user, who must have no session, and fills it: `fill` writes to the
    /// folder, which then belongs to the user of the server.
    ///
    /// # Errors
    /// Errors of the file system.
    fn prepare(&self, user: u32, fill: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        let dir = self.mail_dir(user);
        self.format().empty(&dir)?;
        fill(&dir)?;
        PeerUser::get()?.take(&dir)
    }
}

/// The sessions that end because of a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Killed {
    /// All: the server is gone.
    Server,
    /// All: the process is gone that has the connections.
    Front,
    /// The sessions of a user.
    Worker(u32),
    /// None.
    Nothing,
}

/// A server that can crash.
pub trait MortalServer: Server {
    /// Kills one of the processes of the server, or all of them, as `choice` says.
    ///
    /// # Errors
    /// Errors of the system.
    fn kill_part(&self, _choice: u64) -> io::Result<Killed> {
        self.kill().map(|()| Killed::Server)
    }

    /// Returns when the server is whole again after [`MortalServer::kill_part`], and nothing of
    /// what clients had begun before can happen any more.
    ///
    /// # Errors
    /// If it does not become whole.
    fn revive(&self, _killed: Killed) -> io::Result<()> {
        self.restart()
    }

    /// Kills all processes of the server at once with SIGKILL. They are gone when this returns.
    ///
    /// # Errors
    /// Errors of the system.
    fn kill(&self) -> io::Result<()>;

    /// Kills the server if it runs, and starts it again with the same mail; its address may be
    /// another one.
    ///
    /// # Errors
    /// If it does not start.
    fn restart(&self) -> io::Result<()>;

    /// Removes all that the server can make again from the mail and its records.
    ///
    /// # Errors
    /// Errors of the file system.
    fn remove_cache(&self) -> io::Result<()>;
}

/// Opens a session of a user, logged in.
///
/// # Errors
/// Errors of the connection; a login that is refused; a server without this transport.
pub fn open(server: &dyn Server, user: u32, transport: Transport) -> io::Result<Connection> {
    match transport {
        Transport::Tcp => {
            let mut connection = Connection::connect(server.address())?;
            let login = server.login(user);
            connection.ok(&format!("LOGIN {} {}", login.name, login.password))?;
            Ok(connection)
        }
        Transport::Stdio => {
            let command = server.stdio(user)?;
            let none = || io::Error::other(format!("{} has no --stdio", server.name()));
            let connection = Connection::spawn(command.ok_or_else(none)?)?;
            if connection.is_preauth() {
                return Ok(connection);
            }
            Err(io::Error::other(format!("no PREAUTH: {:?}", connection.greeting())))
        }
    }
}
