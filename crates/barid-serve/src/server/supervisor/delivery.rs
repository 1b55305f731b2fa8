//! The process that speaks LMTP, and the processes that deliver.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use barid::vfs::{Host as _, OsVfs};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::process::{Ending, Process, Role, spawn};
use super::{LastingProcess, Supervisor};
use crate::delivery::{DeliveryError, DeliveryErrorKind};
use crate::limits::{DELIVERIES_MAX, LMTP_QUESTIONS_MAX, STOP_TIMEOUT, USER_DELIVERIES_MAX};
use crate::server::link::{Link, Polled};
use crate::server::messages::{
    DeliveryOrderText, DeliveryOutcome, FromLmtp, Level, LmtpAnswer, LmtpProcessSettings, LogLine,
    LostSocket, RecipientText, ToAuth, ToDelivery, ToLmtp,
};
use crate::server::setup::Protocol;
use crate::shared_folders::create_private;

/// Messages of the process that are handled at a time.
const TURN_LEN: usize = 64;

/// LMTP, as the supervisor knows it.
#[derive(Debug, Default)]
pub(super) struct Lmtp {
    pub(super) service: LastingProcess,
    /// Questions that auth has been asked, by the number of that question.
    questions: HashMap<u64, LmtpQuestion>,
}

/// Counters of deliveries by their ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeliveryCounters {
    pub(super) stored: u64,
    pub(super) duplicate: u64,
    pub(super) deferred: u64,
    pub(super) refused: u64,
}

impl DeliveryCounters {
    fn of(&mut self, end: DeliveryOutcome) -> &mut u64 {
        match end {
            DeliveryOutcome::Stored => &mut self.stored,
            DeliveryOutcome::Duplicate => &mut self.duplicate,
            DeliveryOutcome::Deferred => &mut self.deferred,
            DeliveryOutcome::Refused => &mut self.refused,
        }
    }
}

/// A question of the process that speaks LMTP.
#[derive(Debug)]
struct LmtpQuestion {
    id: u64,
    /// `true` if the recipient is to get a message.
    is_delivery: bool,
}

impl Supervisor {
    /// Returns `true` if the configuration has a listener for LMTP.
    pub(super) fn needs_lmtp(&self) -> bool {
        self.listeners.all.iter().any(|one| one.setup.protocol == Protocol::Lmtp)
    }

    fn lmtp_folder(&self) -> PathBuf {
        self.configuration.config.server.state_dir.join("lmtp")
    }

    pub(super) fn lmtp_settings(&self) -> LmtpProcessSettings {
        let config = &self.configuration.config;
        LmtpProcessSettings {
            hostname: config.server.hostname.clone().unwrap_or_else(|| OsVfs.process().host),
            size_max: config.limits.message_size,
            folder: self.lmtp_folder(),
            timeout: config.delivery.timeout,
        }
    }

    /// Starts the process that speaks LMTP, if there is a listener for it.
    pub(super) fn start_lmtp(&mut self) -> io::Result<()> {
        let service = &self.lmtp.service;
        if service.process.is_some()
            || !service.restarts.may_start(Instant::now())
            || !self.needs_lmtp()
        {
            return Ok(());
        }
        create_private(&OsVfs, &self.lmtp_folder(), self.front_account)?;
        let token = self.token();
        let mut process = Process::start(Role::Lmtp, self.front_account, token)?;
        self.watch_process(&mut process, Role::Lmtp, None)?;
        process.link.send(&ToLmtp::Settings(self.lmtp_settings()), None)?;
        for listener in &self.listeners.all {
            if listener.setup.protocol == Protocol::Lmtp {
                let socket = listener.socket.to_owned()?;
                process.link.send(&ToLmtp::Listener { id: listener.id }, Some(socket))?;
            }
        }
        let service = &mut self.lmtp.service;
        service.process = Some(process);
        (service.is_ready, service.starts) = (false, service.starts + 1);
        self.lmtp.questions.clear();
        Ok(())
    }

    /// Ends the process that speaks LMTP; another is started, if there is a listener for it. Mail
    /// servers send again what got no reply.
    pub(super) fn replace_lmtp(&mut self) {
        if let Some(process) = self.lmtp.service.process.take() {
            self.ending.push(process.end("lmtp".to_owned(), true, Duration::from_secs(5)));
        }
        self.lmtp.service.restarts = super::Restarts::default();
    }

    pub(super) fn hear_lmtp(&mut self) {
        for _ in 0..TURN_LEN {
            let Some(lmtp) = &mut self.lmtp.service.process else { return };
            let message = match lmtp.link.link().poll::<FromLmtp>() {
                Ok(Polled::Nothing) => return,
                Ok(Polled::End) => return self.lmtp_died("its link is closed"),
                Err(error) => return self.lmtp_died(&error.to_string()),
                Ok(Polled::Message((message, _))) => message,
            };
            match message {
                FromLmtp::Ready => {
                    self.lmtp.service.is_ready = true;
                    self.look_if_ready();
                }
                FromLmtp::Log(line) => self.log.line("lmtp", &line),
                FromLmtp::Ended(end) => *self.counters.deliveries.of(end) += 1,
                FromLmtp::Lost(LostSocket::Listener(id)) => {
                    let listener = self.listeners.all.iter().find(|listener| listener.id == id);
                    if let Some(Ok(socket)) = listener.map(|listener| listener.socket.to_owned()) {
                        self.tell_lmtp(&ToLmtp::Listener { id }, Some(socket));
                    }
                }
                FromLmtp::Lost(LostSocket::LoginLink) => {}
                FromLmtp::Recipient { id, address } => self.ask_recipient(id, address, false),
                FromLmtp::Deliver { id, address } => self.ask_recipient(id, address, true),
            }
        }
    }

    fn ask_recipient(&mut self, id: u64, address: String, is_delivery: bool) {
        if self.auth.process.is_none() || self.lmtp.questions.len() >= LMTP_QUESTIONS_MAX {
            return self.refuse_lmtp(id, busy());
        }
        let number = self.token();
        self.lmtp.questions.insert(number, LmtpQuestion { id, is_delivery });
        self.tell_auth(&ToAuth::FindRecipient { id: number, address }, None);
    }

    /// Answers all questions that auth has taken with it.
    pub(super) fn forget_questions(&mut self) {
        for question in std::mem::take(&mut self.lmtp.questions).into_values() {
            self.refuse_lmtp(question.id, busy());
        }
    }

    /// Handles the answer of auth.
    pub(super) fn found_recipient(
        &mut self,
        number: u64,
        found: Result<RecipientText, (DeliveryErrorKind, String)>,
    ) {
        let Some(LmtpQuestion { id, is_delivery }) = self.lmtp.questions.remove(&number) else {
            return;
        };
        match found {
            Err((kind, text)) => self.refuse_lmtp(id, DeliveryError { kind, text }),
            Ok(_) if !is_delivery => {
                self.tell_lmtp(&ToLmtp::Answer { id, answer: LmtpAnswer::Recipient }, None);
            }
            Ok(recipient) => match self.start_delivery(recipient) {
                Ok(stream) => {
                    let answer = ToLmtp::Answer { id, answer: LmtpAnswer::Stream };
                    self.tell_lmtp(&answer, Some(stream));
                }
                Err(error) => self.refuse_lmtp(id, error),
            },
        }
    }

    /// Returns the recipient of each delivery that runs.
    pub(super) fn deliveries(&self) -> impl Iterator<Item = &str> {
        self.ending.iter().filter_map(|one| one.recipient.as_deref())
    }

    /// Starts a process that delivers to a user; returns the stream to it.
    fn start_delivery(&mut self, recipient: RecipientText) -> Result<OwnedFd, DeliveryError> {
        let RecipientText { user, detail } = recipient;
        if self.deliveries().count() >= DELIVERIES_MAX || self.stopping.is_some() {
            return Err(busy());
        }
        // A user whose mail cannot be written must not delay the mail of others.
        let of_user = self.deliveries().filter(|recipient| *recipient == user.name);
        if of_user.count() >= USER_DELIVERIES_MAX {
            let text = format!("user {}: too many deliveries at once, try again", user.name);
            return Err(DeliveryError::temporary(text));
        }
        let ids = self.ids_of(&user).map_err(|why| {
            let line = LogLine::new(Level::Error, format!("no delivery: {why}"));
            self.log.line("server", &LogLine { user: Some(user.name.clone()), ..line });
            let text = format!("user {}: the mail cannot be delivered", user.name);
            DeliveryError::new(DeliveryErrorKind::Forbidden, text)
        })?;
        let (here, there) = Link::pair()?;
        let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
        let (of_lmtp, of_child) = socketpair(AddressFamily::UNIX, kind, flags, None)
            .map_err(|error| DeliveryError::from(io::Error::from(error)))?;
        let (child, stderr) = spawn(Role::Delivery, ids, there)?;
        let pid = child.id();
        let time = self.configuration.config.delivery.timeout;
        // It is killed when its time is up.
        self.ending.push(Ending::of_delivery(child, &user.name, time));
        self.watch_stderr(stderr, Role::Delivery, pid, Some(&user.name))?;
        let order = DeliveryOrderText { path: self.path.clone(), user, detail };
        let text = self.configuration.text()?;
        here.send(&ToDelivery::Order(Box::new(order)), Some(text.as_fd()))?;
        here.send(&ToDelivery::Message, Some(of_child.as_fd()))?;
        Ok(of_lmtp)
    }

    fn refuse_lmtp(&mut self, id: u64, DeliveryError { kind, text }: DeliveryError) {
        let answer = LmtpAnswer::Failed { kind, text };
        self.tell_lmtp(&ToLmtp::Answer { id, answer }, None);
    }

    fn tell_lmtp(&mut self, message: &ToLmtp, fd: Option<OwnedFd>) {
        if let Some(lmtp) = &mut self.lmtp.service.process
            && let Err(error) = lmtp.link.send(message, fd)
        {
            self.lmtp_died(&error.to_string());
        }
    }

    fn lmtp_died(&mut self, why: &str) {
        if let Some(process) = self.lmtp.service.process.take() {
            self.log(Level::Error, format!("lmtp is gone: {why}"));
            self.ending.push(process.end("lmtp".to_owned(), false, Duration::ZERO));
            let longest = self.restart_delay();
            self.lmtp.service.restarts.died(Instant::now(), longest);
        }
    }

    /// Ends LMTP with the server: nothing new is accepted, and deliveries have a last time.
    pub(super) fn stop_lmtp(&mut self) {
        if let Some(process) = self.lmtp.service.process.take() {
            self.ending.push(process.end("lmtp".to_owned(), true, STOP_TIMEOUT));
        }
        let deadline = Instant::now() + STOP_TIMEOUT;
        self.ending.iter_mut().for_each(|ending| ending.end_by(deadline));
    }
}

fn busy() -> DeliveryError {
    DeliveryError::temporary("the server is busy, or being started again")
}
