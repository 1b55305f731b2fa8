//! The front: everything that reads bytes of clients before they have logged in, and TLS.

mod admission;
mod connection;
mod http;
mod relay;
mod verifier;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustix::net::AddressFamily;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::admission::Admission;
use self::connection::{connection, notice_dead_peer};
use self::verifier::{Answer, Attempts};
use super::confine::{self, Network};
use super::link::Link;
use super::messages::{
    FromFront, FrontSettings, Level, LogLine, LostSocket, RefusalCode, TlsText, ToFront,
};
use super::setup::Protocol;
use super::system_calls;
use crate::limits::{FRONT_DESCRIPTORS, HTTP_CONNECTIONS_MAX, HTTP_TIMEOUT, LOST_SOCKET_DELAY};
use crate::tls::{CertificateChoice, ServerTls};

/// Parts that the connections share.
struct Front {
    link: Arc<Link>,
    attempts: Arc<Attempts>,
    admission: Arc<Admission>,
    tls: RwLock<Option<ServerTls>>,
    /// Capabilities that are offered to nobody.
    disabled: RwLock<Vec<String>>,
    /// Certificates that the next settings put to use.
    certificates: Mutex<Vec<CertificateChoice>>,
    /// Places of requests for metrics.
    http_places: Arc<Semaphore>,
    /// Requests for metrics that wait for the supervisor.
    metrics: Mutex<(u64, HashMap<u64, oneshot::Sender<String>>)>,
}

/// Runs the front until the supervisor ends.
///
/// # Errors
/// Errors of the link; a certificate that cannot be used.
pub(super) fn run_front(link: Link) -> io::Result<()> {
    confine::forget_core()?;
    confine::end_with_supervisor()?;
    confine::raise_descriptors();
    let link = Arc::new(link);
    let warn = |text: String| link.send(&FromFront::Log(LogLine::new(Level::Warning, text)), None);
    if let Some(why) = confine::files(&[], Vec::new(), Network::None) {
        warn(format!("the front is not confined by Landlock: {why}"))?;
    }
    system_calls::allow_network_only()?;
    let front = Arc::new(Front {
        link: Arc::clone(&link),
        attempts: Arc::default(),
        admission: Arc::new(Admission::new(FrontSettings::default())),
        certificates: Mutex::default(),
        tls: RwLock::new(None),
        http_places: Arc::new(Semaphore::new(HTTP_CONNECTIONS_MAX)),
        disabled: RwLock::default(),
        metrics: Mutex::default(),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_io()
        .enable_time()
        .build()?;
    let (sender, orders) = mpsc::unbounded_channel();
    std::thread::Builder::new().name("link".to_owned()).spawn(move || {
        while let Ok(Some(order)) = link.receive::<ToFront>() {
            if sender.send(order).is_err() {
                return;
            }
        }
    })?;
    runtime.block_on(front.run(orders));
    runtime.shutdown_background();
    Ok(())
}

impl Front {
    /// Uses new settings, for connections that begin from now on.
    fn set(&self, mut settings: FrontSettings, disabled: Vec<String>) -> io::Result<()> {
        let connections = connections_max(confine::descriptors());
        if settings.connections > connections {
            let wanted = settings.connections;
            let text = format!(
                "limits.connections is {wanted}, and the limit of open files (LimitNOFILE) suffices \
                 for {connections}"
            );
            self.link.try_send(&FromFront::Log(LogLine::new(Level::Warning, text)))?;
            settings.connections = connections;
        }
        self.admission.set_limits(settings);
        *self.disabled.write().unwrap_or_else(PoisonError::into_inner) = disabled;
        let certificates = {
            let mut all = self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *all)
        };
        let tls = match certificates.is_empty() {
            true => None,
            false => Some(ServerTls::choosing(certificates)?),
        };
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = tls;
        Ok(())
    }

    /// Keeps a certificate for the next settings.
    fn add(&self, text: TlsText) -> io::Result<()> {
        let TlsText { names, certificate, key } = text;
        let certificate = CertificateChoice::from_pem(names, &certificate, &key)?;
        self.certificates.lock().unwrap_or_else(PoisonError::into_inner).push(certificate);
        Ok(())
    }

    fn disabled(&self) -> Vec<String> {
        self.disabled.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tls(&self) -> Option<ServerTls> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn run(self: Arc<Self>, mut orders: mpsc::UnboundedReceiver<(ToFront, Option<OwnedFd>)>) {
        let mut listeners: HashMap<u64, JoinHandle<()>> = HashMap::new();
        while let Some((order, fd)) = orders.recv().await {
            let done = match (order, fd) {
                (ToFront::Certificate(text), _) => self.add(*text),
                (ToFront::Settings(settings, disabled), _) => self.set(settings, disabled),
                (ToFront::Listener { id, protocol }, Some(fd)) => listener(fd).map(|listener| {
                    let accept = Arc::clone(&self).accept(listener, protocol);
                    listeners.insert(id, tokio::spawn(accept));
                }),
                (ToFront::CloseListener { id }, _) => {
                    listeners.remove(&id).iter().for_each(JoinHandle::abort);
                    Ok(())
                }
                (ToFront::LoginLink, Some(fd)) => {
                    let linked = self.attempts.set_link(fd);
                    linked.and_then(|()| self.link.try_send(&FromFront::Ready))
                }
                (ToFront::Session { attempt }, Some(fd)) => {
                    self.attempts.answer(attempt, Answer::Session(fd));
                    Ok(())
                }
                (ToFront::Refused { attempt, code, text }, _) => {
                    self.attempts.answer(attempt, Answer::Denied(code, text));
                    Ok(())
                }
                (ToFront::Metrics { id, text }, _) => {
                    let mut metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(sender) = metrics.1.remove(&id) {
                        let _ = sender.send(text);
                    }
                    Ok(())
                }
                // Without a free descriptor only this client is refused.
                (ToFront::Session { attempt }, None) => {
                    let text = "Too many connections, try again later".to_owned();
                    self.attempts.answer(attempt, Answer::Denied(RefusalCode::Unavailable, text));
                    Err(io::Error::other("no free descriptor for a session"))
                }
                (ToFront::Listener { id, .. }, None) => {
                    self.ask_again(LostSocket::Listener(id));
                    Err(io::Error::other("no free descriptor for a listener"))
                }
                (ToFront::LoginLink, None) => {
                    self.ask_again(LostSocket::LoginLink);
                    Err(io::Error::other("no free descriptor for the link to auth"))
                }
                (ToFront::Stop, _) => {
                    listeners.drain().for_each(|(_, listener)| listener.abort());
                    self.admission.end_logins();
                    Ok(())
                }
            };
            if let Err(error) = done {
                let line = LogLine::new(Level::Error, format!("front: {error}"));
                // Without a supervisor the front ends.
                let _ = self.link.try_send(&FromFront::Log(line));
            }
        }
    }

    /// Asks the supervisor for a socket again, after a time in which connections may end.
    fn ask_again(&self, lost: LostSocket) {
        let link = Arc::clone(&self.link);
        tokio::spawn(async move {
            tokio::time::sleep(LOST_SOCKET_DELAY).await;
            // Without a supervisor the front ends.
            let _ = link.try_send(&FromFront::Lost(lost));
        });
    }

    async fn accept(self: Arc<Self>, listener: FrontListener, protocol: Protocol) {
        loop {
            let Ok(accepted) = listener.accept().await else {
                // Out of descriptors, for example: others may end meanwhile.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let front = Arc::clone(&self);
            // The client is gone, or not a client; there is nobody to report it to.
            match (protocol, accepted) {
                (Protocol::Metrics, Accepted::Tcp(stream, _)) => {
                    let permit = Arc::clone(&front.http_places).try_acquire_owned();
                    // Who asks too often is not answered, so that descriptors are left for mail.
                    let Ok(permit) = permit else { continue };
                    drop(tokio::spawn(async move {
                        let answered = http::answer(stream, async || front.metrics().await).await;
                        drop(permit);
                        answered
                    }));
                }
                (Protocol::Imap | Protocol::Imaps, Accepted::Tcp(stream, peer)) => {
                    let with_tls = protocol == Protocol::Imaps;
                    let peer = peer.ip().to_canonical();
                    drop(tokio::spawn(async move {
                        notice_dead_peer(&stream)?;
                        connection(front, stream, Some(peer), with_tls).await
                    }));
                }
                (Protocol::Imap | Protocol::Imaps, Accepted::Unix(stream)) => {
                    let with_tls = protocol == Protocol::Imaps;
                    drop(tokio::spawn(connection(front, stream, None, with_tls)));
                }
                // The supervisor sends neither.
                (Protocol::Metrics, Accepted::Unix(_)) | (Protocol::Lmtp, _) => {}
            }
        }
    }

    /// Asks the supervisor for the text of the metrics.
    async fn metrics(&self) -> Option<String> {
        let (sender, receiver) = oneshot::channel();
        let id = {
            let mut metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
            metrics.0 += 1;
            let id = metrics.0;
            metrics.1.insert(id, sender);
            id
        };
        let (connections, accepted, refused) = self.admission.counts();
        let asked = FromFront::Metrics { id, connections, accepted, refused };
        let text = match self.link.try_send(&asked) {
            Ok(()) => timeout(HTTP_TIMEOUT, receiver).await.ok().and_then(Result::ok),
            Err(_) => None,
        };
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&id);
        text
    }
}

/// Returns the connections for which descriptors suffice: each has one, and one for its session.
fn connections_max(descriptors: u64) -> usize {
    let left = descriptors.saturating_sub(FRONT_DESCRIPTORS) / 2;
    usize::try_from(left).unwrap_or(usize::MAX).max(1)
}

/// The socket of a listener.
enum FrontListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection of a client.
enum Accepted {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl FrontListener {
    async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(listener) => {
                listener.accept().await.map(|(stream, peer)| Accepted::Tcp(stream, peer))
            }
            Self::Unix(listener) => {
                listener.accept().await.map(|(stream, _)| Accepted::Unix(stream))
            }
        }
    }
}

fn listener(fd: OwnedFd) -> io::Result<FrontListener> {
    if rustix::net::getsockname(&fd)?.address_family() == AddressFamily::UNIX {
        let listener = std::os::unix::net::UnixListener::from(fd);
        listener.set_nonblocking(true)?;
        return UnixListener::from_std(listener).map(FrontListener::Unix);
    }
    let listener = std::net::TcpListener::from(fd);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener).map(FrontListener::Tcp)
}
