//! A server for a first look, for tests and for CI: every folder below a folder is a user.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use barid::vfs::{Host, OsVfs, Vfs};
use barid_auth::base::StaticUsers;
use barid_auth::sasl::SaslService;
use barid_auth::{NameRules, Secret, User};
use tokio::net::TcpListener;

use crate::limits::{CONNECTIONS_MAX, LOGIN_THREADS_MAX};
use crate::listener::Service;
use crate::mail::UserOptions;
use crate::tls::ServerTls;
use crate::users::Users;

/// Options of a server for a first look.
pub struct TryOptions {
    /// The folder; each folder in it is the mail of the user of its name.
    pub dir: PathBuf,
    /// The port for connections in clear; 0 for any. TLS gets any other.
    pub port: u16,
    /// The password of all users; a random one if `None`.
    pub password: Option<String>,
    /// The file to which the certificate is written.
    pub certificate: PathBuf,
    /// Returns the options for the mail in a folder.
    pub options_of: Box<dyn Fn(PathBuf) -> UserOptions + Send + Sync>,
}

/// Addresses and password of a server for a first look.
#[derive(Clone, Debug)]
pub struct TryAddress {
    /// Address for connections in clear, and STARTTLS.
    pub imap: SocketAddr,
    /// Address for TLS.
    pub imaps: SocketAddr,
    /// The certificate, which no authority vouches for.
    pub certificate: PathBuf,
    /// The password.
    pub password: String,
    /// Number of users.
    pub users: usize,
}

/// Serves every folder in a folder to the user of its name, on the loopback interface only, for
/// ever. `announce` is called once the server can be reached.
///
/// # Errors
/// A folder that cannot be read; a port that is in use.
pub fn serve_try(
    options: TryOptions,
    announce: &mut dyn FnMut(&TryAddress) -> io::Result<()>,
) -> io::Result<()> {
    let (vfs, host): (Arc<dyn Vfs>, Arc<dyn Host>) = (Arc::new(OsVfs), Arc::new(OsVfs));
    let users = StaticUsers::of_folder(&*vfs, &options.dir, &NameRules::default());
    let users = users.map_err(io::Error::other)?;
    let count = users.len();
    let password = match options.password {
        Some(password) => Secret::new(password.into_bytes()),
        None => StaticUsers::random_password(&*host).map_err(io::Error::other)?,
    };
    let shown = String::from_utf8_lossy(password.expose()).into_owned();
    let base = StaticUsers::new(users, &password, &*host).map_err(io::Error::other)?;
    let tls = ServerTls::self_signed(&*vfs, &options.certificate)?;
    let options_of = options.options_of;
    let of_user = move |user: &User| match &user.home {
        Some(home) => Ok(options_of(PathBuf::from(home))),
        None => Err(io::Error::other("the user has no folder")),
    };
    let sasl = SaslService::new(Arc::new(base), host);
    let users = Users::new(vfs, Box::new(of_user));
    let service = Arc::new(Service::new(sasl, users, Some(tls)));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        // A session keeps its thread while its client does not read.
        .max_blocking_threads(CONNECTIONS_MAX + LOGIN_THREADS_MAX)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let clear = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
        let encrypted = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        announce(&TryAddress {
            imap: clear.local_addr()?,
            imaps: encrypted.local_addr()?,
            certificate: options.certificate,
            password: shown,
            users: count,
        })?;
        let in_clear = Arc::clone(&service).accept(clear, false);
        tokio::join!(in_clear, service.accept(encrypted, true));
        Ok(())
    })
}
