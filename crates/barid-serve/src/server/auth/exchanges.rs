//! The exchanges with clients, on threads that may wait.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use barid::vfs::OsVfs;
use barid_auth::UserName;
use barid_auth::sasl::{Exchange, Failure, Identity, Mechanism, Step};

use super::Verification;
use crate::config::ServerConfig;
use crate::delivery::{Recipient, Recipients};
use crate::limits::{EXCHANGE_TIME_MAX, EXCHANGES_MAX, LOGIN_JOBS_MAX};
use crate::server::link::Link;
use crate::server::messages::{
    AccountText, AttemptId, ChannelText, FromAuth, FromLogin, Level, LogLine, LoginLinkId,
    RecipientText, RefusalCode, ToLogin, Verified,
};

/// A message of a front.
pub(super) struct Job {
    pub(super) link: LoginLinkId,
    pub(super) front: Arc<Link>,
    pub(super) message: ToLogin,
}

enum Work {
    Front(Job),
    LookUp { id: u64, name: String },
    FindRecipient { id: u64, address: String },
}

/// An exchange that waits for the client.
struct Waiting {
    exchange: Exchange,
    peer: Option<IpAddr>,
    is_tls: bool,
    since: Instant,
}

/// All exchanges, and the threads that continue them.
pub(super) struct Exchanges {
    shared: Arc<Shared>,
    work: Sender<Work>,
}

struct Shared {
    verification: Arc<Verification>,
    config: ServerConfig,
    supervisor: Arc<Link>,
    waiting: Mutex<HashMap<(LoginLinkId, AttemptId), Waiting>>,
    queued: AtomicUsize,
}

impl Exchanges {
    /// Starts the threads.
    ///
    /// # Errors
    /// Errors of the system.
    pub(super) fn start(
        verification: Arc<Verification>,
        config: ServerConfig,
        supervisor: Arc<Link>,
        threads: usize,
    ) -> io::Result<Self> {
        let (waiting, queued) = (Mutex::default(), AtomicUsize::new(0));
        let shared = Arc::new(Shared { verification, config, supervisor, waiting, queued });
        let (work, todo) = channel();
        let todo = Arc::new(Mutex::new(todo));
        for _ in 0..threads {
            let (shared, todo) = (Arc::clone(&shared), Arc::clone(&todo));
            let builder = std::thread::Builder::new().name("login".to_owned());
            builder.spawn(move || shared.work(&todo))?;
        }
        Ok(Self { shared, work })
    }

    /// Takes a message of a front, or refuses it if too many wait.
    pub(super) fn take(&self, job: Job) {
        if let ToLogin::Cancel { attempt } = job.message {
            self.shared.remove(job.link, attempt);
            return;
        }
        if self.shared.queued.fetch_add(1, Ordering::Relaxed) >= LOGIN_JOBS_MAX {
            self.shared.queued.fetch_sub(1, Ordering::Relaxed);
            let attempt = attempt_of(&job.message);
            let text = "Too many logins at once, try again later".to_owned();
            let code = RefusalCode::Unavailable;
            // A front that is gone needs no answer.
            let _ = job.front.try_send(&FromLogin::Denied { attempt, code, text });
            return;
        }
        // The threads live as long as the process.
        let _ = self.work.send(Work::Front(job));
    }

    /// Looks a user up for the supervisor.
    pub(super) fn look_up(&self, id: u64, name: String) {
        self.shared.queued.fetch_add(1, Ordering::Relaxed);
        let _ = self.work.send(Work::LookUp { id, name });
    }

    /// Looks up the user whom an address means.
    pub(super) fn find_recipient(&self, id: u64, address: String) {
        self.shared.queued.fetch_add(1, Ordering::Relaxed);
        let _ = self.work.send(Work::FindRecipient { id, address });
    }

    /// Forgets the exchanges of a front that is gone.
    pub(super) fn forget_all(&self) {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Shared {
    fn work(&self, todo: &Mutex<Receiver<Work>>) {
        loop {
            let next = todo.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(work) = next else { return };
            // A panic costs one login, not the thread.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match work {
                Work::Front(job) => self.run(job),
                Work::LookUp { id, name } => self.find(id, &name),
                Work::FindRecipient { id, address } => self.find_recipient(id, &address),
            }));
            self.queued.fetch_sub(1, Ordering::Relaxed);
            if done.is_err() {
                let line = LogLine::new(Level::Error, "a login has failed by an internal error");
                let _ = self.supervisor.send(&FromAuth::Log(line), None);
            }
        }
    }

    fn find(&self, id: u64, name: &str) {
        let name = self.verification.rules.name(name.as_bytes());
        let user = name.and_then(|name| self.verification.sasl.base.user(&name, None).ok());
        let user = user.and_then(Result::ok).map(|user| AccountText::from(&user));
        let _ = self.supervisor.send(&FromAuth::Found { id, user }, None);
    }

    fn find_recipient(&self, id: u64, address: &str) {
        let recipients = Recipients::new(&self.config, Arc::new(OsVfs));
        let found = recipients.find(address).map(|Recipient { user, detail }| RecipientText {
            user: AccountText::from(&user),
            detail,
        });
        let found = found.map_err(|error| (error.kind, error.text));
        let _ = self.supervisor.send(&FromAuth::Recipient { id, found }, None);
    }

    fn run(&self, job: Job) {
        let Job { link, front, message } = job;
        let attempt = attempt_of(&message);
        let answer = match message {
            ToLogin::Cancel { .. } => None,
            ToLogin::Offered { channel, .. } => {
                let offered = self.verification.sasl.offered(&channel.channel());
                let mechanisms = offered.iter().map(|one| one.name().to_owned()).collect();
                Some(FromLogin::Offered { attempt, mechanisms })
            }
            ToLogin::Start { channel, mechanism, initial, .. } => {
                self.begin(link, attempt, channel, &mechanism, initial.as_deref())
            }
            ToLogin::Respond { message, .. } => match self.remove(link, attempt) {
                None => Some(denied(attempt, &Failure::Malformed("nothing that was asked"))),
                Some(mut waiting) => {
                    let step = waiting.exchange.respond(&message);
                    self.answer(link, attempt, waiting, step)
                }
            },
        };
        if let Some(answer) = answer {
            // A front that is gone needs no answer.
            let _ = front.send(&answer, None);
        }
    }

    fn remove(&self, link: LoginLinkId, attempt: AttemptId) -> Option<Waiting> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&(link, attempt))
    }

    fn begin(
        &self,
        link: LoginLinkId,
        attempt: AttemptId,
        channel: ChannelText,
        mechanism: &str,
        initial: Option<&[u8]>,
    ) -> Option<FromLogin> {
        let is_tls = channel.is_tls();
        let channel = channel.channel();
        let peer = channel.peer;
        let delay = self.verification.limiter.delay(peer, None);
        if delay > Duration::ZERO {
            return Some(self.failed(attempt, peer, None, &Failure::Delayed(delay)));
        }
        let Some(mechanism) = Mechanism::named(mechanism) else {
            return Some(denied(attempt, &Failure::NotOffered));
        };
        let sasl = Arc::clone(&self.verification.sasl);
        let (exchange, step) = Exchange::start(sasl, channel, mechanism, initial);
        self.answer(link, attempt, Waiting { exchange, peer, is_tls, since: Instant::now() }, step)
    }

    /// Returns the answer to the front, if it gets one from here.
    fn answer(
        &self,
        link: LoginLinkId,
        attempt: AttemptId,
        waiting: Waiting,
        step: Step,
    ) -> Option<FromLogin> {
        let peer = waiting.peer;
        match step {
            Step::Challenge(message) => {
                let mut all = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                if all.len() >= EXCHANGES_MAX {
                    // The end of a client may have overtaken its beginning.
                    all.retain(|_, waiting| waiting.since.elapsed() < EXCHANGE_TIME_MAX);
                }
                if all.len() >= EXCHANGES_MAX {
                    let text = "Too many logins at once, try again later".to_owned();
                    let code = RefusalCode::Unavailable;
                    return Some(FromLogin::Denied { attempt, code, text });
                }
                all.insert((link, attempt), waiting);
                Some(FromLogin::Challenge { attempt, message })
            }
            Step::Failed(failure) => {
                Some(self.failed(attempt, peer, waiting.exchange.name(), &failure))
            }
            Step::Done(identity) => {
                self.verification.limiter.succeeded(peer, &identity.login);
                let Identity { user, login, mechanism } = &*identity;
                let verified = Box::new(Verified {
                    link,
                    attempt,
                    peer,
                    is_tls: waiting.is_tls,
                    user: AccountText::from(user),
                    login: login.as_str().to_owned(),
                    mechanism: mechanism.name().to_owned(),
                });
                match self.supervisor.send(&FromAuth::Verified(verified), None) {
                    Ok(()) => None,
                    Err(_) => Some(FromLogin::Denied {
                        attempt,
                        code: RefusalCode::Unavailable,
                        text: "The account has too many fields".to_owned(),
                    }),
                }
            }
        }
    }

    fn failed(
        &self,
        attempt: AttemptId,
        peer: Option<IpAddr>,
        name: Option<&UserName>,
        failure: &Failure,
    ) -> FromLogin {
        if failure.is_guess() {
            self.verification.limiter.failed(peer, name);
        }
        let level = match failure {
            Failure::Unavailable(_) => Level::Error,
            _ => Level::Info,
        };
        let user = name.map(|name| name.as_str().to_owned());
        let line = LogLine { peer, user, ..LogLine::new(level, failure.to_string()) };
        let _ = self.supervisor.send(&FromAuth::Failed(line), None);
        denied(attempt, failure)
    }
}

fn denied(attempt: AttemptId, failure: &Failure) -> FromLogin {
    let (code, text) = failure.response();
    FromLogin::Denied { attempt, code: RefusalCode::of(code), text: text.to_owned() }
}

fn attempt_of(message: &ToLogin) -> AttemptId {
    match message {
        ToLogin::Offered { attempt, .. }
        | ToLogin::Start { attempt, .. }
        | ToLogin::Respond { attempt, .. }
        | ToLogin::Cancel { attempt } => *attempt,
    }
}
