//! LMTP in a server of many users: one process without privileges speaks the protocol, and each
//! message is delivered by a process under the user's uid.
//!
//! The protocol's process knows no users and reads no files but those in which it keeps large
//! messages meanwhile. It asks the supervisor for each recipient, which asks auth; and, for each
//! delivery, for a stream to a process that delivers to that recipient and nobody else.

mod backend;
mod deliver;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use barid::vfs::{Host as _, OsVfs};
use barid_lmtp::LmtpSettings;
use rustix::event::{PollFd, PollFlags, poll};

use self::backend::RemoteBackend;
pub(super) use self::deliver::run_deliver;
use super::confine::{self, Access, Network};
use super::link::Link;
use super::messages::{
    DeliveryOutcome, FromLmtp, Level, LmtpAnswer, LmtpProcessSettings, LogLine, LostSocket, ToLmtp,
};
use super::system_calls;
use crate::delivery::DeliveryError;
use crate::limits::{DELIVERY_WARNINGS_MAX, LOST_SOCKET_DELAY};
use crate::lmtp::{Connections, serve_session};
use crate::socket::{SocketListener, Stream};

/// Parts that the connections share.
struct LmtpProcess {
    supervisor: Arc<Link>,
    settings: LmtpProcessSettings,
    connections: Arc<Connections>,
    sessions: AtomicU64,
    questions: Questions,
    warned: Mutex<BTreeSet<String>>,
}

/// Questions to the supervisor that wait for an answer.
#[derive(Default)]
struct Questions {
    last: AtomicU64,
    waiting: Mutex<HashMap<u64, Sender<Answered>>>,
}

/// An answer, and the stream that came with it.
type Answered = (LmtpAnswer, Option<OwnedFd>);

impl LmtpProcess {
    /// Asks the supervisor; `None` if there is no answer in time.
    fn ask(&self, question: impl FnOnce(u64) -> FromLmtp, timeout: Duration) -> Option<Answered> {
        let id = self.questions.last.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = channel();
        let waiting = || self.questions.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting().insert(id, sender);
        let asked = self.supervisor.send(&question(id), None).ok();
        let answer = asked.and_then(|()| receiver.recv_timeout(timeout).ok());
        waiting().remove(&id);
        answer
    }

    fn log(&self, line: LogLine) {
        // Without a supervisor the process ends.
        let _ = self.supervisor.send(&FromLmtp::Log(line), None);
    }

    /// Logs a warning of a process that delivers, once.
    fn warn_once(&self, text: &str) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.len() < DELIVERY_WARNINGS_MAX && warned.insert(text.to_owned()) {
            self.log(LogLine::new(Level::Warning, format!("delivery: {text}")));
        }
    }

    fn count(&self, end: DeliveryOutcome) {
        // Without a supervisor the process ends.
        let _ = self.supervisor.send(&FromLmtp::Ended(end), None);
    }

    fn accept(self: &Arc<Self>, listener: &SocketListener) {
        // A client may be gone between the report of its arrival and the call.
        let Ok(()) = listener.set_nonblocking(true) else { return };
        loop {
            match poll(&mut [PollFd::new(listener, PollFlags::IN)], None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            match listener.accept() {
                Ok(Some(stream)) => self.begin(stream),
                Ok(None) => {}
                // Out of descriptors, for example: others may end meanwhile.
                Err(_) => OsVfs.sleep(Duration::from_millis(100)),
            }
        }
    }

    fn begin(self: &Arc<Self>, mut stream: Stream) {
        use io::Write as _;
        let Some(slot) = self.connections.open() else {
            let _ = stream.write_all(b"421 4.3.2 too many connections\r\n");
            return;
        };
        let session = self.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        let process = Arc::clone(self);
        let spawned = std::thread::Builder::new().name("lmtp".to_owned()).spawn(move || {
            let LmtpProcessSettings { hostname, size_max, .. } = &process.settings;
            let settings = LmtpSettings { hostname: hostname.clone(), size_max: *size_max };
            let mut backend = RemoteBackend::new(&process, session);
            // The mail server is gone; it sends again what got no reply.
            let _ = serve_session(&mut stream, settings, &mut backend);
            drop(slot);
        });
        if let Err(error) = spawned {
            self.log(LogLine::new(Level::Warning, format!("no thread: {error}")));
        }
    }
}

/// Runs the process of the protocol until the supervisor ends.
///
/// # Errors
/// Errors of the link.
pub(super) fn run_lmtp(link: Link) -> io::Result<()> {
    confine::forget_core()?;
    confine::end_with_supervisor()?;
    confine::raise_descriptors();
    let Some((ToLmtp::Settings(settings), _)) = link.receive()? else { return Ok(()) };
    let warn = |text: String| link.send(&FromLmtp::Log(LogLine::new(Level::Warning, text)), None);
    let allowed = [(settings.folder.clone(), Access::Write)];
    if let Some(why) = confine::files(&allowed, Vec::new(), Network::None) {
        warn(format!("lmtp is not confined by Landlock: {why}"))?;
    }
    system_calls::allow_network_and_files()?;
    let process = Arc::new(LmtpProcess {
        supervisor: Arc::new(link),
        settings,
        connections: Arc::default(),
        sessions: AtomicU64::new(0),
        questions: Questions::default(),
        warned: Mutex::default(),
    });
    process.supervisor.send(&FromLmtp::Ready, None)?;
    while let Some((message, fd)) = process.supervisor.receive::<ToLmtp>()? {
        match (message, fd) {
            (ToLmtp::Listener { .. }, Some(fd)) => {
                let listener = SocketListener::received(fd)?;
                let process = Arc::clone(&process);
                let accept = move || process.accept(&listener);
                std::thread::Builder::new().name("accept".to_owned()).spawn(accept)?;
            }
            (ToLmtp::Listener { id }, None) => {
                OsVfs.sleep(LOST_SOCKET_DELAY);
                process.supervisor.send(&FromLmtp::Lost(LostSocket::Listener(id)), None)?;
            }
            (ToLmtp::Answer { id, answer }, fd) => {
                let mut waiting =
                    process.questions.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(sender) = waiting.remove(&id) {
                    // The one who asked may have given up.
                    let _ = sender.send((answer, fd));
                }
            }
            (ToLmtp::Settings(_), _) => {}
        }
    }
    Ok(())
}

/// Returns the error of a server in which a part does not answer.
fn unavailable() -> DeliveryError {
    DeliveryError::temporary("the server is busy, or being started again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_deliveries_are_logged_once() {
        let (supervisor, end) = Link::pair().unwrap();
        let settings = LmtpProcessSettings {
            hostname: "h".to_owned(),
            size_max: 1,
            folder: "/".into(),
            timeout: Duration::ZERO,
        };
        let process = LmtpProcess {
            supervisor: Arc::new(Link::from(end)),
            settings,
            connections: Arc::default(),
            sessions: AtomicU64::new(0),
            questions: Questions::default(),
            warned: Mutex::default(),
        };
        for number in 0..1000 {
            process.warn_once("no Landlock");
            process.warn_once(&number.to_string());
        }
        drop(process);
        let mut lines = Vec::new();
        while let Some((FromLmtp::Log(line), _)) = supervisor.receive().unwrap() {
            lines.push(line.text);
        }
        assert_eq!(lines[..2], ["delivery: no Landlock", "delivery: 0"]);
        assert_eq!(lines.len(), DELIVERY_WARNINGS_MAX);
    }
}
