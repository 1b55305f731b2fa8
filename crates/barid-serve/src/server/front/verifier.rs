//! The check of credentials by the auth process, as a connection sees it.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use barid_auth::sasl::Mechanism;
use barid_imap::backend::Refusal;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use crate::connection::{Verdict, Verifier};
use crate::limits::VERDICT_TIMEOUT;
use crate::server::link::Link;
use crate::server::messages::{
    AttemptId, ChannelText, FromLogin, RefusalCode, ToLogin, mechanisms,
};

/// Auth processes that are asked to begin with a client, one after the other.
const BEGIN_TRIES: u32 = 3;

/// An answer to an attempt.
pub(super) enum Answer {
    Offered(Vec<Mechanism>),
    Challenge(Vec<u8>),
    Denied(RefusalCode, String),
    /// The socket of the session.
    Session(OwnedFd),
}

/// The link to the auth process, and the attempts that wait for an answer.
#[derive(Default)]
pub(super) struct Attempts {
    last: AtomicU64,
    link: Mutex<Option<Arc<Link>>>,
    waiting: Mutex<HashMap<AttemptId, oneshot::Sender<Answer>>>,
}

impl Attempts {
    /// Uses a new auth process, and reads its answers on a thread.
    ///
    /// # Errors
    /// Errors of the system.
    pub(super) fn set_link(self: &Arc<Self>, fd: OwnedFd) -> io::Result<()> {
        let link = Arc::new(Link::from(fd));
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&link));
        let attempts = Arc::clone(self);
        std::thread::Builder::new().name("auth".to_owned()).spawn(move || {
            while let Ok(Some((message, _))) = link.receive::<FromLogin>() {
                attempts.heard(message);
            }
            attempts.lost(&link);
        })?;
        Ok(())
    }

    fn heard(&self, message: FromLogin) {
        match message {
            FromLogin::Offered { attempt, mechanisms: names } => {
                self.answer(attempt, Answer::Offered(mechanisms(&names)));
            }
            FromLogin::Challenge { attempt, message } => {
                self.answer(attempt, Answer::Challenge(message));
            }
            FromLogin::Denied { attempt, code, text } => {
                self.answer(attempt, Answer::Denied(code, text));
            }
        }
    }

    /// Forgets an auth process that has ended, and all who wait for it.
    fn lost(&self, link: &Arc<Link>) {
        let mut current = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            *current = None;
            drop(current);
            self.waiting().clear();
        }
    }

    /// Passes an answer on; one that nobody waits for is dropped, and its session with it.
    pub(super) fn answer(&self, attempt: AttemptId, answer: Answer) {
        let waiting = self.waiting().remove(&attempt);
        if let Some(sender) = waiting {
            let _ = sender.send(answer);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<AttemptId, oneshot::Sender<Answer>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message without waiting for the auth process for long.
    async fn send(&self, message: &ToLogin) -> io::Result<()> {
        const TRIES: u32 = 100;
        for _ in 0..TRIES {
            let link = self.link.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let sent = link.map(|link| link.try_send(message));
            match sent {
                Some(Ok(())) => return Ok(()),
                Some(Err(error)) if error.kind() == io::ErrorKind::InvalidInput => {
                    return Err(error);
                }
                // It is busy, or is being started again.
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// The check of the credentials of one connection.
pub(super) struct RemoteVerifier {
    attempts: Arc<Attempts>,
    channel: ChannelText,
    /// The exchange that is under way.
    attempt: Option<AttemptId>,
}

impl RemoteVerifier {
    pub(super) fn new(attempts: Arc<Attempts>, channel: ChannelText) -> Self {
        Self { attempts, channel, attempt: None }
    }

    /// Begins an attempt, with a number of its own: an answer that comes too late means nothing.
    fn begin(&mut self) -> AttemptId {
        self.cancel();
        let attempt = self.attempts.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.attempt = Some(attempt);
        attempt
    }

    fn cancel(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            self.attempts.waiting().remove(&attempt);
            let link = self.attempts.link.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(link) = link {
                // If the message is lost, the exchange takes a place until the front ends.
                let _ = link.try_send(&ToLogin::Cancel { attempt });
            }
        }
    }

    /// Asks the auth process; `None` if it does not answer.
    async fn ask(&mut self, attempt: AttemptId, message: ToLogin) -> Option<Answer> {
        let (sender, receiver) = oneshot::channel();
        self.attempts.waiting().insert(attempt, sender);
        self.attempts.send(&message).await.ok()?;
        timeout(VERDICT_TIMEOUT, receiver).await.ok()?.ok()
    }

    /// Asks the auth process something that begins; another one if it ends meanwhile.
    async fn begin_with(&mut self, message: impl Fn(AttemptId) -> ToLogin) -> Option<Answer> {
        let start = Instant::now();
        for _ in 0..BEGIN_TRIES {
            let attempt = self.begin();
            if let Some(answer) = self.ask(attempt, message(attempt)).await {
                return Some(answer);
            }
            if start.elapsed() >= VERDICT_TIMEOUT {
                break;
            }
        }
        None
    }

    fn verdict(&mut self, answer: Option<Answer>) -> Verdict<OwnedFd> {
        match answer {
            Some(Answer::Challenge(challenge)) => return Verdict::Challenge(challenge),
            Some(Answer::Session(socket)) => {
                self.attempt = None;
                return Verdict::Done(socket);
            }
            Some(Answer::Denied(code, text)) => {
                self.attempt = None;
                return Verdict::Failed(Refusal::new(code.text(), text));
            }
            Some(Answer::Offered(_)) | None => self.cancel(),
        }
        let text = "Authentication is not available now, try again later";
        Verdict::Failed(Refusal::new("UNAVAILABLE", text))
    }
}

impl Drop for RemoteVerifier {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Verifier for RemoteVerifier {
    type Identity = OwnedFd;

    async fn offered(&mut self) -> io::Result<Vec<Mechanism>> {
        let channel = self.channel.clone();
        let message = |attempt| ToLogin::Offered { attempt, channel: channel.clone() };
        let answer = self.begin_with(message).await;
        self.attempt = None;
        match answer {
            Some(Answer::Offered(mechanisms)) => Ok(mechanisms),
            _ => Err(io::Error::other("the auth process does not answer")),
        }
    }

    async fn start(
        &mut self,
        mechanism: Mechanism,
        initial: Option<Vec<u8>>,
    ) -> io::Result<Verdict<OwnedFd>> {
        let channel = self.channel.clone();
        let message = |attempt| {
            let (channel, mechanism) = (channel.clone(), mechanism.name().to_owned());
            ToLogin::Start { attempt, channel, mechanism, initial: initial.clone() }
        };
        let answer = self.begin_with(message).await;
        Ok(self.verdict(answer))
    }

    async fn respond(&mut self, message: Vec<u8>) -> io::Result<Verdict<OwnedFd>> {
        let attempt = self.attempt.ok_or_else(|| io::Error::other("no exchange is under way"))?;
        let answer = self.ask(attempt, ToLogin::Respond { attempt, message }).await;
        Ok(self.verdict(answer))
    }
}
