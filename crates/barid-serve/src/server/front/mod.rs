//! The front: everything that reads bytes of clients before they have logged in, and TLS.

mod admission;
mod connection;
mod http;
mod relay;
mod verifier;

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::admission::Admission;
use self::connection::connection;
use self::verifier::{Answer, Attempts};
use super::confine::{self, Network};
use super::link::Link;
use super::messages::{FromFront, FrontSettings, Level, LogLine, TlsText, ToFront};
use super::setup::Protocol;
use super::system_calls;
use crate::limits::HTTP_TIMEOUT;
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
    /// Requests for metrics that wait for the supervisor.
    metrics: Mutex<(u64, HashMap<u64, oneshot::Sender<String>>)>,
}

/// Runs the front until the supervisor ends.
///
/// # Errors
/// Errors of the link; a certificate that cannot be used.
pub(super) fn run_front(link: Link) -> io::Result<()> {
    confine::forget_core()?;
    confine::raise_descriptors();
    let link = Arc::new(link);
    let warn = |text: String| link.send(&FromFront::Log(LogLine::new(Level::Warning, text)), None);
    if let Some(why) = confine::files(&[], Network::None) {
        warn(format!("the front is not confined by Landlock: {why}"))?;
    }
    system_calls::allow_network_only()?;
    let front = Arc::new(Front {
        link: Arc::clone(&link),
        attempts: Arc::default(),
        admission: Arc::new(Admission::new(FrontSettings::default())),
        certificates: Mutex::default(),
        tls: RwLock::new(None),
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
    fn set(&self, settings: FrontSettings, disabled: Vec<String>) -> io::Result<()> {
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
                (ToFront::Stop, _) => {
                    listeners.drain().for_each(|(_, listener)| listener.abort());
                    self.admission.end_logins();
                    Ok(())
                }
                (_, None) => Err(io::Error::other("a message without its descriptor")),
            };
            if let Err(error) = done {
                let line = LogLine::new(Level::Error, format!("front: {error}"));
                // Without a supervisor the front ends.
                let _ = self.link.try_send(&FromFront::Log(line));
            }
        }
    }

    async fn accept(self: Arc<Self>, listener: TcpListener, protocol: Protocol) {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok((stream, peer)) => (stream, peer.ip().to_canonical()),
                Err(_) => {
                    // Out of descriptors, for example: others may end meanwhile.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let front = Arc::clone(&self);
            // The client is gone, or not a client; there is nobody to report it to.
            match protocol {
                Protocol::Imap => drop(tokio::spawn(connection(front, stream, peer, false))),
                Protocol::Imaps => drop(tokio::spawn(connection(front, stream, peer, true))),
                Protocol::Metrics => drop(tokio::spawn(async move {
                    http::answer(stream, async || front.metrics().await).await
                })),
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

fn listener(fd: OwnedFd) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::from(fd);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}
