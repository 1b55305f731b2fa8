//! PAM in a child process for each attempt.
//!
//! The supervisor starts the child and gives this process the link to it; the child knows nothing
//! of the server but the question.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use barid_auth::base::{Login, PasswordCheck, Refusal};
use barid_auth::pam::{PamService, verify};
use barid_auth::{Error, NameRules, UserName};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::CHILD_TIMEOUT;
use crate::config::PamSettings;
use crate::server::confine;
use crate::server::link::Link;
use crate::server::messages::{FromAuth, PamAnswer, PamQuestion};

/// The children that ask PAM.
pub(super) struct PamChildren {
    supervisor: Arc<Link>,
    service: String,
    rules: NameRules,
    timeout: Duration,
    last: AtomicU64,
    expected: Mutex<HashMap<u64, Sender<Option<OwnedFd>>>>,
}

impl PamChildren {
    pub(super) fn new(supervisor: Arc<Link>, pam: &PamSettings, rules: &NameRules) -> Self {
        let (service, timeout) = (pam.service.clone(), pam.timeout);
        let (last, expected) = (AtomicU64::new(0), Mutex::default());
        Self { supervisor, service, rules: rules.clone(), timeout, last, expected }
    }

    /// Takes a child that was asked for.
    pub(super) fn arrived(&self, id: u64, fd: Option<OwnedFd>) {
        let mut expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = expected.remove(&id) {
            // The one who asked may have given up.
            let _ = sender.send(fd);
        }
    }

    fn child(&self) -> Result<Link, Error> {
        let id = self.last.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = channel();
        self.expected.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        let asked = self.supervisor.send(&FromAuth::PamWanted { id }, None);
        asked.map_err(|error| unavailable(&error.to_string()))?;
        let fd = receiver.recv_timeout(CHILD_TIMEOUT);
        self.expected.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        match fd {
            Ok(Some(fd)) => Ok(Link::from(fd)),
            Ok(None) => Err(unavailable("no child process")),
            Err(_) => Err(unavailable("no child process in time")),
        }
    }
}

impl std::fmt::Debug for PamChildren {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("PamChildren").field("service", &self.service).finish_non_exhaustive()
    }
}

impl PasswordCheck for PamChildren {
    fn check(&self, login: &Login<'_>) -> barid_auth::Result<Result<UserName, Refusal>> {
        let child = self.child()?;
        let question = PamQuestion {
            service: self.service.clone(),
            name_extra: self.rules.extra.clone(),
            is_lower_case: self.rules.lower_case,
            name: login.name.as_str().to_owned(),
            password: login.password.to_vec(),
            peer: login.peer,
        };
        let broken = |error: io::Error| unavailable(&error.to_string());
        child.send(&question, None).map_err(broken)?;
        let timeout = Timespec::try_from(self.timeout).map_err(|_| unavailable("time limit"))?;
        match poll(&mut [PollFd::new(&child, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(unavailable("no answer in time")),
            Ok(_) => {}
            Err(error) => return Err(broken(error.into())),
        }
        let answer = child.receive::<PamAnswer>().map_err(broken)?;
        Ok(match answer.map(|(answer, _)| answer) {
            Some(PamAnswer::Yes { name }) => match self.rules.name(name.as_bytes()) {
                Some(name) => Ok(name),
                None => return Err(unavailable("a user name that is not allowed")),
            },
            Some(PamAnswer::UnknownUser) => Err(Refusal::UnknownUser),
            Some(PamAnswer::WrongPassword) => Err(Refusal::WrongPassword),
            Some(PamAnswer::Locked) => Err(Refusal::Locked),
            Some(PamAnswer::Unavailable { why }) => return Err(unavailable(&why)),
            None => return Err(unavailable("the child process has died")),
        })
    }
}

fn unavailable(why: &str) -> Error {
    Error::Unavailable { what: "PAM".to_owned(), why: why.to_owned() }
}

/// Answers one question, in a process made for it.
///
/// # Errors
/// Errors of the link.
pub(in crate::server) fn run_pam(link: Link) -> io::Result<()> {
    confine::forget_core()?;
    confine::end_with_supervisor()?;
    let Some((question, _)) = link.receive::<PamQuestion>()? else { return Ok(()) };
    let rules = NameRules { extra: question.name_extra, lower_case: question.is_lower_case };
    let Some(name) = rules.name(question.name.as_bytes()) else {
        return link.send(&PamAnswer::UnknownUser, None);
    };
    let service = PamService { name: question.service, folder: None, rules };
    let login = Login { name: &name, password: &question.password, peer: question.peer };
    let answer = match verify(&service, &login) {
        Ok(Ok(name)) => PamAnswer::Yes { name: name.as_str().to_owned() },
        Ok(Err(Refusal::UnknownUser)) => PamAnswer::UnknownUser,
        Ok(Err(Refusal::WrongPassword)) => PamAnswer::WrongPassword,
        Ok(Err(_)) => PamAnswer::Locked,
        Err(error) => PamAnswer::Unavailable { why: error.to_string() },
    };
    link.send(&answer, None)
}
