//! A connection of a client, from its first byte to the socket of its session.

use std::io;
use std::net::IpAddr;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;

use barid_auth::sasl::Channel;
use barid_imap::wire::Decoder;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use super::Front;
use super::admission::Place;
use super::relay::{RelayEnd, relay};
use super::verifier::RemoteVerifier;
use crate::connection::{LoginEnd, LoginRules, login};
use crate::limits::{DEAD_PEER_TIMEOUT, KEEPALIVE_IDLE, KEEPALIVE_PERIOD, SLOW_READER_TIMEOUT};
use crate::server::messages::{ChannelText, Prelude};
use crate::tls::{ServerTls, binding};

/// The socket of a client.
pub(super) trait ClientStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> ClientStream for S {}

/// The connection of a client.
enum Client<S> {
    Clear(S),
    Tls(Box<TlsStream<S>>),
}

/// A client who has logged in, and the socket of his session.
struct LoggedIn<S> {
    client: Client<S>,
    channel: ChannelText,
    worker: UnixStream,
}

/// Makes the system notice a client's machine that is gone.
///
/// # Errors
/// Errors of the system.
pub(super) fn notice_dead_peer(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_PERIOD)?;
    let millis = u32::try_from(DEAD_PEER_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(stream, millis)?;
    Ok(())
}

/// Serves a connection until somebody has logged in, and starts the relay to his worker. A Unix
/// socket has no `peer`: who may connect to it is on this machine.
///
/// # Errors
/// Errors of the connection.
pub(super) async fn connection<S: ClientStream>(
    front: Arc<Front>,
    mut stream: S,
    peer: Option<IpAddr>,
    with_tls: bool,
) -> io::Result<()> {
    let place = match front.admission.admit(peer) {
        Ok(place) => place,
        Err(text) => {
            if !with_tls {
                stream.write_all(format!("* BYE [UNAVAILABLE] {text}\r\n").as_bytes()).await?;
            }
            return Ok(());
        }
    };
    let (_login_place, mut must_go) = front.admission.before_login();
    let logged_in = tokio::select! {
        logged_in = log_in(&front, stream, peer, with_tls) => logged_in?,
        _ = &mut must_go => None,
    };
    if let Some(logged_in) = logged_in {
        // Another task, because one that began with a login is large.
        tokio::spawn(run_session(front, logged_in, place));
    }
    Ok(())
}

async fn run_session<S: ClientStream>(front: Arc<Front>, logged_in: LoggedIn<S>, place: Place) {
    let LoggedIn { mut client, channel, worker } = logged_in;
    let given_back = match &mut client {
        Client::Clear(stream) => relayed(stream, worker).await,
        Client::Tls(stream) => relayed(stream, worker).await,
    };
    match given_back {
        Ok(Some(unread)) => begin_again(front, (client, channel), unread, place),
        // The client or the worker is gone; the worker reports the end of the session.
        Ok(None) | Err(_) => drop(place),
    }
}

/// Relays a session; returns the unread input of a client who has returned to the state before
/// login (RFC 8437).
async fn relayed<C: AsyncRead + AsyncWrite + Unpin>(
    client: &mut C,
    mut worker: UnixStream,
) -> io::Result<Option<Vec<u8>>> {
    match relay(client, &mut worker, SLOW_READER_TIMEOUT).await? {
        RelayEnd::Ended => Ok(None),
        RelayEnd::GivenBack(frames, kept) => frames.unread(&mut worker, &kept).await.map(Some),
    }
}

/// Serves a connection that was given back until somebody has logged in, by a task of its own.
fn begin_again<S: ClientStream>(
    front: Arc<Front>,
    (client, channel): (Client<S>, ChannelText),
    unread: Vec<u8>,
    place: Place,
) {
    tokio::spawn(async move {
        let (_login_place, mut must_go) = front.admission.before_login();
        let logged_in = tokio::select! {
            logged_in = log_in_again(&front, client, channel, &unread) => logged_in,
            _ = &mut must_go => Ok(None),
        };
        if let Ok(Some(logged_in)) = logged_in {
            tokio::spawn(run_session(Arc::clone(&front), logged_in, place));
        }
    });
}

async fn log_in_again<S: ClientStream>(
    front: &Front,
    mut client: Client<S>,
    channel: ChannelText,
    unread: &[u8],
) -> io::Result<Option<LoggedIn<S>>> {
    let mut decoder = Decoder::new();
    decoder.push(unread);
    let (known, of) = (Some(decoder), channel.clone());
    let begun = match &mut client {
        Client::Clear(stream) => session(front, stream, of, false, known).await?,
        Client::Tls(stream) => session(front, &mut **stream, of, false, known).await?,
    };
    match begun {
        Begun::Session(worker) => Ok(Some(LoggedIn { client, channel, worker })),
        Begun::StartTls | Begun::Closed => Ok(None),
    }
}

async fn log_in<S: ClientStream>(
    front: &Front,
    mut stream: S,
    peer: Option<IpAddr>,
    with_tls: bool,
) -> io::Result<Option<LoggedIn<S>>> {
    let tls = front.tls();
    let is_private = peer.is_none_or(|peer| peer.is_loopback());
    let clear = Channel { peer, is_private, ..Channel::default() };
    if !with_tls {
        let channel = ChannelText::new(&clear, false);
        match session(front, &mut stream, channel.clone(), tls.is_some(), None).await? {
            Begun::Session(worker) => {
                let client = Client::Clear(stream);
                return Ok(Some(LoggedIn { client, channel, worker }));
            }
            Begun::StartTls => {}
            Begun::Closed => return Ok(None),
        }
    }
    let tls: ServerTls = tls.ok_or_else(|| io::Error::other("there is no certificate"))?;
    let accept = Box::pin(tls.acceptor.accept(stream));
    let accepted = timeout(front.admission.login_timeout(), accept).await;
    let mut stream = accepted.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let channel = Channel { is_private: true, ..binding(&stream, &tls, clear) };
    let channel = ChannelText::new(&channel, true);
    let known = (!with_tls).then(Decoder::new);
    match session(front, &mut stream, channel.clone(), false, known).await? {
        Begun::Session(worker) => {
            let client = Client::Tls(Box::new(stream));
            Ok(Some(LoggedIn { client, channel, worker }))
        }
        Begun::StartTls | Begun::Closed => Ok(None),
    }
}

/// The end of the state before login.
enum Begun {
    Session(UnixStream),
    StartTls,
    Closed,
}

async fn session<S: AsyncRead + AsyncWrite + Unpin>(
    front: &Front,
    stream: &mut S,
    channel: ChannelText,
    can_start_tls: bool,
    known: Option<Decoder>,
) -> io::Result<Begun> {
    let verifier = RemoteVerifier::new(Arc::clone(&front.attempts), channel);
    let time = front.admission.login_timeout();
    let rules = LoginRules { can_start_tls, disabled: front.disabled(), time };
    let end = login(stream, verifier, rules, known).await?;
    let (tag, socket, mut decoder, mut client_id) = match end {
        LoginEnd::Closed => return Ok(Begun::Closed),
        LoginEnd::StartTls => return Ok(Begun::StartTls),
        LoginEnd::LoggedIn { tag, identity, decoder, client_id } => {
            (tag, identity, decoder, client_id)
        }
    };
    let socket = StdUnixStream::from(socket);
    socket.set_nonblocking(true)?;
    let mut worker = UnixStream::from_std(socket)?;
    // The rest may be longer than a message to the worker.
    client_id.retain(|(field, _)| field.eq_ignore_ascii_case("name"));
    let prelude = serde_json::to_vec(&Prelude { tag, client_id, unread: decoder.take() })?;
    worker.write_u32_le(u32::try_from(prelude.len()).map_err(io::Error::other)?).await?;
    worker.write_all(&prelude).await?;
    Ok(Begun::Session(worker))
}
