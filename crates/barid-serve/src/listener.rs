//! Connections of the network.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use barid::Cancel;
use barid_auth::sasl::{Channel, SaslService};
use barid_imap::session::{Session, SessionSettings};
use barid_imap::wire::Decoder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::connection::{
    LocalVerifier, LoginEnd, LoginRules, SessionEnd, StopRequest, login, serve,
};
use crate::limits::{CONNECTIONS_MAX, LOGIN_TIMEOUT};
use crate::mail::SessionAccount;
use crate::server_id;
use crate::tls::{ServerTls, binding};
use crate::users::Users;

/// Parts that the connections of a server share.
pub(crate) struct Service {
    pub(crate) sasl: Arc<SaslService>,
    pub(crate) users: Users,
    pub(crate) tls: Option<ServerTls>,
    connections: Arc<Semaphore>,
}

impl Service {
    pub(crate) fn new(sasl: SaslService, users: Users, tls: Option<ServerTls>) -> Self {
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        Self { sasl: Arc::new(sasl), users, tls, connections }
    }

    /// Accepts connections for ever; those of `with_tls` begin with TLS.
    pub(crate) async fn accept(self: Arc<Self>, listener: TcpListener, with_tls: bool) {
        loop {
            let Ok(permit) = Arc::clone(&self.connections).acquire_owned().await else { return };
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(_) => {
                    // Out of descriptors, for example: others may end meanwhile.
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    continue;
                }
            };
            let service = Arc::clone(&self);
            tokio::spawn(async move {
                // The client is gone, or not a client; there is nobody to report it to.
                let _ = service.connection(stream, peer, with_tls).await;
                drop(permit);
            });
        }
    }

    async fn connection(
        &self,
        mut stream: TcpStream,
        peer: SocketAddr,
        with_tls: bool,
    ) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let clear = Channel {
            peer: Some(peer.ip()),
            is_private: peer.ip().is_loopback(),
            ..Channel::default()
        };
        let Some(tls) = &self.tls else {
            return self.sessions(&mut stream, clear, false, false).await.map(drop);
        };
        if !with_tls && !self.sessions(&mut stream, clear.clone(), true, false).await? {
            return Ok(());
        }
        let accepted = timeout(LOGIN_TIMEOUT, Box::pin(tls.acceptor.accept(stream))).await;
        let mut stream = accepted.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let channel = Channel { is_private: true, ..binding(&stream, tls, clear) };
        self.sessions(&mut stream, channel, false, !with_tls).await.map(drop)
    }

    /// Serves a connection until its end, usually one session; returns `true` if the client begins
    /// TLS.
    async fn sessions<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        channel: Channel,
        can_start_tls: bool,
        is_greeted: bool,
    ) -> io::Result<bool> {
        let mut known = is_greeted.then(Decoder::new);
        loop {
            let verifier = LocalVerifier::new(Arc::clone(&self.sasl), channel.clone());
            let before = known.take();
            let rules = LoginRules { can_start_tls, disabled: Vec::new(), time: LOGIN_TIMEOUT };
            let end = login(stream, verifier, rules, before).await?;
            let (tag, identity, decoder, client_id) = match end {
                LoginEnd::Closed => return Ok(false),
                LoginEnd::StartTls => return Ok(true),
                LoginEnd::LoggedIn { tag, identity, decoder, client_id } => {
                    (tag, identity, decoder, client_id)
                }
            };
            // Opening may wait for the disk, but not for other users.
            let mail = tokio::task::block_in_place(|| self.users.open(&identity.user))?;
            let (cancel, kept) = (Cancel::new(), Arc::clone(&mail));
            let account = SessionAccount::new(mail, cancel.clone());
            let settings = SessionSettings {
                can_compress: true,
                can_unauthenticate: true,
                id: server_id(),
                ..SessionSettings::default()
            };
            let mut session = Box::new(Session::new(account, settings, *decoder));
            session.set_client_id(client_id);
            let never = StopRequest::never();
            let end = serve(&mut *stream, session, Some(tag), cancel, never).await;
            if kept.is_reading() {
                // Whoever logs in meanwhile need not begin again.
                tokio::task::spawn_blocking(move || kept.wait_until_read());
            }
            match end? {
                SessionEnd::Closed => return Ok(false),
                SessionEnd::Unauthenticated(decoder) => known = Some(*decoder),
            }
        }
    }
}
