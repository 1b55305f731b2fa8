//! The actions of the supervisor when something happens.

use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::listeners::OpenListener;
use super::process::{Ending, Process, Role, spawn};
use super::workers::{Refused, WatcherLinks, WorkerProcess, ids};
use super::{CONTROL, Signals, Supervisor, WAKE};
use crate::config::MailOwner;
use crate::limits::{BEFORE_LOGIN_PART, OWN_WATCHES_MAX, PAM_CHILDREN_MAX, STOP_TIMEOUT};
use crate::server::link::{Link, Polled};
use crate::server::messages::{
    AccountText, AttemptId, AuthSettings, FromAuth, FromFront, FromWorker, FrontSettings, Level,
    LogLine, LostSocket, RefusalCode, SessionId, ToAuth, ToFront, ToWorker, Verified,
    WorkerSettings,
};
use crate::server::setup::Protocol;

/// Messages of one process that are handled at a time, so that one cannot keep the others waiting.
const TURN_LEN: usize = 64;

/// Returns the refusal of a client whose mail cannot be opened now.
fn unavailable() -> Refused {
    let text = "Your mail is not available now, try again later";
    (RefusalCode::Unavailable, text.to_owned())
}

impl Supervisor {
    pub(super) fn handle(&mut self, token: u64) {
        match token {
            WAKE => self.hear_signals(),
            CONTROL => self.accept_control(),
            _ if self.front.process.as_ref().is_some_and(|front| front.token == token) => {
                self.hear_front();
            }
            _ if self.auth.process.as_ref().is_some_and(|auth| auth.token == token) => {
                self.hear_auth();
            }
            _ if self.lmtp.service.process.as_ref().is_some_and(|lmtp| lmtp.token == token) => {
                self.hear_lmtp();
            }
            _ if self.workers.all.contains_key(&token) => self.hear_worker(token),
            _ if self.watchers.has(token) => self.hear_watcher(token),
            _ if self.control.has(token) => self.hear_control(token),
            _ if self.stderr.has(token) => self.hear_stderr(token),
            _ => {}
        }
    }

    fn hear_signals(&mut self) {
        let mut bytes = [0; 64];
        while self.wake.read(&mut bytes).is_ok_and(|len| len > 0) {}
        if Signals::take(&self.signals.stop) {
            self.stop();
        }
        if Signals::take(&self.signals.reload) && self.stopping.is_none() {
            self.reload();
        }
    }

    /// Starts the processes that always run and do not; once the server was ready, one that cannot
    /// be started is tried again later.
    pub(super) fn start_or_wait(&mut self) -> io::Result<()> {
        let Err(error) = self.start_services() else { return Ok(()) };
        if !self.was_ready {
            return Err(error);
        }
        let (now, longest) = (Instant::now(), self.restart_delay());
        for service in [&mut self.front, &mut self.auth, &mut self.lmtp.service] {
            if service.process.is_none() {
                service.restarts.died(now, longest);
            }
        }
        self.log(Level::Error, format!("a process cannot be started: {error}"));
        Ok(())
    }

    /// Starts the processes that always run and do not.
    pub(super) fn start_services(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if self.stopping.is_some() {
            return Ok(());
        }
        let mut has_started = false;
        if self.front.process.is_none() && self.front.restarts.may_start(now) {
            let token = self.token();
            let mut process = Process::start(Role::Front, self.front_account, token)?;
            self.watch_process(&mut process, Role::Front, None)?;
            for tls in &self.tls {
                process.link.send(&ToFront::Certificate(Box::new(tls.clone())), None)?;
            }
            process.link.send(&self.front_settings(), None)?;
            for listener in &self.listeners.all {
                let (id, protocol) = (listener.id, listener.setup.protocol);
                if protocol == Protocol::Lmtp {
                    continue;
                }
                let socket = listener.socket.to_owned()?;
                process.link.send(&ToFront::Listener { id, protocol }, Some(socket))?;
            }
            self.front.process = Some(process);
            (self.front.is_ready, self.front.starts) = (false, self.front.starts + 1);
            has_started = true;
        }
        if self.auth.process.is_none() && self.auth.restarts.may_start(now) {
            let token = self.token();
            let mut process = Process::start(Role::Auth, self.auth_account, token)?;
            self.watch_process(&mut process, Role::Auth, None)?;
            process.link.send(&self.auth_settings(), Some(self.configuration.text()?))?;
            self.auth.process = Some(process);
            (self.auth.is_ready, self.auth.starts) = (false, self.auth.starts + 1);
            has_started = true;
        }
        if has_started {
            self.link_logins()?;
        }
        self.start_lmtp()
    }

    pub(super) fn restart_delay(&self) -> Duration {
        self.configuration.config.limits.restart_delay
    }

    pub(super) fn front_settings(&self) -> ToFront {
        let limits = &self.configuration.config.limits;
        let settings = FrontSettings {
            connections: limits.connections,
            before_login: (limits.connections / BEFORE_LOGIN_PART).max(BEFORE_LOGIN_PART),
            per_address: limits.connections_per_address,
            login_timeout: limits.login_timeout,
        };
        ToFront::Settings(settings, self.configuration.config.disabled_for_all())
    }

    fn auth_settings(&self) -> ToAuth {
        ToAuth::Settings(AuthSettings { path: self.path.clone(), secret: self.secret.to_vec() })
    }

    /// Returns the uid and gid for the mail of a user, as [`ids`].
    pub(super) fn ids_of(&self, user: &AccountText) -> Result<Option<(u32, u32)>, String> {
        ids(user, self.owner(), self.own, self.configuration.config.session_id_min())
    }

    /// Returns the uid and gid of users whose base names none.
    fn owner(&self) -> Option<(u32, u32)> {
        match self.configuration.config.mail.owner {
            Some(MailOwner::Ids(uid, gid)) => Some((uid, gid)),
            // Names were looked up when the configuration was read.
            Some(MailOwner::Name(_)) | None => None,
        }
    }

    /// Connects front and auth by a new link, under a new number.
    fn link_logins(&mut self) -> io::Result<()> {
        let (Some(front), Some(auth)) = (&mut self.front.process, &mut self.auth.process) else {
            return Ok(());
        };
        self.login_link += 1;
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (of_front, of_auth) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        // One that has ended meanwhile is started again, and gets another link.
        let _ = auth.link.send(&ToAuth::LoginLink { id: self.login_link }, Some(of_auth));
        let _ = front.link.send(&ToFront::LoginLink, Some(of_front));
        Ok(())
    }

    fn hear_front(&mut self) {
        for _ in 0..TURN_LEN {
            let Some(front) = &mut self.front.process else { return };
            match front.link.link().poll::<FromFront>() {
                Ok(Polled::Nothing) => return,
                Ok(Polled::End) => return self.front_died("its link is closed"),
                Err(error) => return self.front_died(&error.to_string()),
                Ok(Polled::Message((FromFront::Ready, _))) => {
                    self.front.is_ready = true;
                    self.look_if_ready();
                }
                Ok(Polled::Message((FromFront::Log(line), _))) => self.log.line("front", &line),
                Ok(Polled::Message((FromFront::Lost(lost), _))) => self.send_again(lost),
                Ok(Polled::Message((
                    FromFront::Metrics { id, connections, accepted, refused },
                    _,
                ))) => {
                    let text = self.metrics(connections, accepted, refused);
                    self.tell_front(&ToFront::Metrics { id, text }, None);
                }
            }
        }
    }

    /// Sends a socket again that the front could not take.
    fn send_again(&mut self, lost: LostSocket) {
        let sent = match lost {
            LostSocket::LoginLink => self.link_logins(),
            LostSocket::Listener(id) => {
                let Some(listener) = self.listeners.all.iter().find(|one| one.id == id) else {
                    return;
                };
                let protocol = listener.setup.protocol;
                listener.socket.to_owned().map(|socket| {
                    self.tell_front(&ToFront::Listener { id, protocol }, Some(socket));
                })
            }
        };
        if let Err(error) = sent {
            self.log(Level::Error, format!("a socket for the front: {error}"));
        }
    }

    fn front_died(&mut self, why: &str) {
        if let Some(process) = self.front.process.take() {
            self.log(Level::Error, format!("front is gone: {why}"));
            self.ending.push(process.end("front".to_owned(), false, Duration::ZERO));
            self.front.restarts.died(Instant::now(), self.restart_delay());
        }
    }

    pub(super) fn tell_front(&mut self, message: &ToFront, fd: Option<OwnedFd>) {
        if let Some(front) = &mut self.front.process
            && let Err(error) = front.link.send(message, fd)
        {
            self.front_died(&error.to_string());
        }
    }

    fn hear_auth(&mut self) {
        for _ in 0..TURN_LEN {
            let Some(auth) = &mut self.auth.process else { return };
            match auth.link.link().poll::<FromAuth>() {
                Ok(Polled::Nothing) => return,
                Ok(Polled::End) => return self.auth_died("its link is closed"),
                Err(error) => return self.auth_died(&error.to_string()),
                Ok(Polled::Message((message, _))) => self.heard_auth(message),
            }
        }
    }

    fn heard_auth(&mut self, message: FromAuth) {
        match message {
            FromAuth::Ready => {
                self.auth.is_ready = true;
                self.look_if_ready();
            }
            FromAuth::Log(line) => self.log.line("auth", &line),
            FromAuth::Failed(line) => {
                self.counters.failed += 1;
                self.log.line("login_failed", &line);
            }
            FromAuth::Verified(verified) => self.verified(*verified),
            FromAuth::PamWanted { id } => {
                let child = self.pam_child();
                if let Err(error) = &child {
                    self.log(Level::Error, format!("no process for PAM: {error}"));
                }
                self.tell_auth(&ToAuth::PamChild { id }, child.ok());
            }
            FromAuth::Found { id, user } => self.found(id, user),
            FromAuth::Recipient { id, found } => self.found_recipient(id, found),
        }
    }

    fn auth_died(&mut self, why: &str) {
        if let Some(process) = self.auth.process.take() {
            self.log(Level::Error, format!("auth is gone: {why}"));
            self.ending.push(process.end("auth".to_owned(), false, Duration::ZERO));
            self.auth.restarts.died(Instant::now(), self.restart_delay());
            self.forget_questions();
        }
    }

    pub(super) fn tell_auth(&mut self, message: &ToAuth, fd: Option<OwnedFd>) {
        if let Some(auth) = &mut self.auth.process
            && let Err(error) = auth.link.send(message, fd)
        {
            self.auth_died(&error.to_string());
        }
    }

    /// Starts a process for one attempt by PAM, which is killed after its time; returns the link to
    /// it for the auth process.
    fn pam_child(&mut self) -> io::Result<OwnedFd> {
        let pam = self.configuration.config.users.pam.as_ref();
        let time = pam.map(|pam| pam.timeout);
        let time = time.ok_or_else(|| io::Error::other("the configuration does not use PAM"))?;
        let children = self.ending.iter().filter(|ending| ending.name == Role::Pam.name());
        if children.count() >= PAM_CHILDREN_MAX {
            return Err(io::Error::other("too many at once"));
        }
        let (here, there) = Link::pair()?;
        let (child, stderr) = spawn(Role::Pam, None, there)?;
        self.watch_stderr(stderr, Role::Pam, child.id(), None)?;
        self.ending.push(Ending::new(child, Role::Pam.name().to_owned(), time));
        Ok(here.into())
    }

    pub(super) fn look_if_ready(&mut self) {
        let has_lmtp = self.lmtp.service.is_ready || !self.needs_lmtp();
        if self.was_ready || !self.front.is_ready || !self.auth.is_ready || !has_lmtp {
            return;
        }
        self.was_ready = true;
        let name = |listener: &OpenListener| {
            format!("{} on {}", listener.setup.protocol.name(), listener.socket.place())
        };
        let listeners: Vec<String> = self.listeners.all.iter().map(name).collect();
        self.log(Level::Info, format!("ready: {}", listeners.join(", ")));
        self.notify("READY=1");
    }

    /// Begins the session of a client whom auth has verified.
    fn verified(&mut self, verified: Verified) {
        if verified.link != self.login_link {
            // The front that asked is gone.
            return;
        }
        self.counters.logins += 1;
        let attempt = verified.attempt;
        if let Err(refused) = self.begin(verified) {
            self.refuse(attempt, refused);
        }
    }

    fn refuse(&mut self, attempt: AttemptId, (code, text): Refused) {
        self.counters.refused += 1;
        self.tell_front(&ToFront::Refused { attempt, code, text }, None);
    }

    fn begin(&mut self, verified: Verified) -> Result<(), Refused> {
        let user = verified.user.name.clone();
        if self.stopping.is_some() {
            return Err(unavailable());
        }
        self.workers.check(&user, &self.configuration.config.limits)?;
        let account = match self.ids_of(&verified.user) {
            Ok(account) => account,
            Err(why) => {
                let line = LogLine::new(Level::Error, format!("no session: {why}"));
                let line = LogLine { user: Some(user), peer: verified.peer, ..line };
                self.log.line("server", &line);
                let text = "Your mail cannot be served, ask the administrator";
                return Err((RefusalCode::ContactAdmin, text.to_owned()));
            }
        };
        let current = self.workers.by_user.get(&user).copied();
        let current = current.and_then(|token| Some((token, self.workers.all.get_mut(&token)?)));
        let running = match current {
            Some((_, worker)) if worker.stopping_since.is_some() => {
                // It has no sessions any more; the next worker begins after its end.
                worker.waiting.push(verified);
                return Ok(());
            }
            Some((token, worker)) if worker.account == verified.user && !worker.is_old => {
                Some(token)
            }
            _ => None,
        };
        // A worker may have died just now, and its end not have been noticed.
        if running.is_some_and(|token| self.connect(token, &verified).is_ok()) {
            return Ok(());
        }
        let started = self.start_worker(&verified, account);
        started.and_then(|token| self.connect(token, &verified)).map_err(|error| {
            self.log(Level::Error, format!("no worker: {error}"));
            unavailable()
        })
    }

    fn start_worker(&mut self, verified: &Verified, account: super::Account) -> io::Result<u64> {
        let token = self.token();
        let mut process = Process::start(Role::Worker, account, token)?;
        self.watch_process(&mut process, Role::Worker, Some(&verified.user.name))?;
        let (path, user) = (self.path.clone(), verified.user.clone());
        let shares_watcher = self.workers.of_account(account) >= OWN_WATCHES_MAX;
        let settings = ToWorker::Settings(Box::new(WorkerSettings { path, user, shares_watcher }));
        process.link.send(&settings, Some(self.configuration.text()?))?;
        self.counters.workers_started += 1;
        let worker = WorkerProcess {
            process,
            ids: account,
            shares_watcher,
            watcher_links: WatcherLinks::default(),
            account: verified.user.clone(),
            sessions: std::collections::BTreeSet::new(),
            waiting: Vec::new(),
            offered: std::collections::BTreeMap::new(),
            idle_since: Some(Instant::now()),
            stopping_since: None,
            is_old: false,
        };
        self.workers.all.insert(token, worker);
        self.workers.by_user.insert(verified.user.name.clone(), token);
        if shares_watcher {
            self.link_watcher(account, token);
        }
        Ok(token)
    }

    /// Gives one end of a new socket to a worker; the front gets the other one when the worker has
    /// taken it.
    fn connect(&mut self, token: u64, verified: &Verified) -> io::Result<()> {
        let (kind, flags) = (SocketType::STREAM, SocketFlags::CLOEXEC);
        let (of_front, of_worker) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        let session = self.workers.begin(token, verified);
        let Some(worker) = self.workers.all.get_mut(&token) else { return Ok(()) };
        let sent = worker.process.link.send(&ToWorker::Session { session }, Some(of_worker));
        if let Err(error) = sent {
            self.worker_died(token);
            return Err(error);
        }
        worker.offered.insert(session, (verified.clone(), of_front));
        Ok(())
    }

    fn session_began(&mut self, token: u64, session: SessionId) {
        let Some(worker) = self.workers.all.get_mut(&token) else { return };
        let Some((verified, of_front)) = worker.offered.remove(&session) else { return };
        let pid = worker.process.pid();
        let user = verified.user.name;
        let acting = match verified.login == user {
            true => String::new(),
            false => format!(" as {}", verified.login),
        };
        let tls = if verified.is_tls { "TLS" } else { "clear" };
        let text = format!("login{acting} by {} over {tls}, worker {pid}", verified.mechanism);
        let line = LogLine::new(Level::Info, text);
        let (user, peer) = (Some(user), verified.peer);
        self.log.line("login", &LogLine { user, peer, session: Some(session), ..line });
        // The numbers of a front that has died mean nothing to the next one.
        if verified.link == self.login_link {
            self.tell_front(&ToFront::Session { attempt: verified.attempt }, Some(of_front));
        }
    }

    fn hear_worker(&mut self, token: u64) {
        for _ in 0..TURN_LEN {
            let Some(worker) = self.workers.all.get(&token) else { return };
            match worker.process.link.link().poll::<FromWorker>() {
                Ok(Polled::Nothing) => return,
                Ok(Polled::End) | Err(_) => return self.worker_died(token),
                Ok(Polled::Message((FromWorker::Log(line), _))) => {
                    // A worker speaks of its own user only.
                    let user = Some(worker.account.name.clone());
                    self.log.line("worker", &LogLine { user, peer: None, ..line });
                }
                Ok(Polled::Message((FromWorker::WatcherLost { number }, _))) => {
                    self.watcher_lost(token, number);
                }
                Ok(Polled::Message((FromWorker::Began { session }, _))) => {
                    self.session_began(token, session);
                }
                Ok(Polled::Message((FromWorker::Refused { session }, _))) => {
                    self.session_refused(token, session);
                }
                Ok(Polled::Message((FromWorker::Ended { session }, _))) => {
                    self.session_ended(token, session);
                }
            }
        }
    }

    /// Refuses a client whose session the worker could not take.
    fn session_refused(&mut self, token: u64, session: SessionId) {
        let Some(worker) = self.workers.all.get_mut(&token) else { return };
        let Some((verified, _)) = worker.offered.remove(&session) else { return };
        self.workers.end(token, session);
        let line = LogLine::new(Level::Error, "no session: the worker has no free descriptor");
        let (user, peer) = (Some(verified.user.name), verified.peer);
        self.log.line("server", &LogLine { user, peer, session: Some(session), ..line });
        if verified.link == self.login_link {
            self.refuse(verified.attempt, unavailable());
        }
    }

    fn session_ended(&mut self, token: u64, session: SessionId) {
        let Some(info) = self.workers.end(token, session) else { return };
        let text = format!("session ended after {} s", info.since.elapsed().as_secs());
        let (user, peer) = (Some(info.user), info.peer);
        let line =
            LogLine { user, peer, session: Some(session), ..LogLine::new(Level::Info, text) };
        self.log.line("logout", &line);
    }

    fn worker_died(&mut self, token: u64) {
        let Some(worker) = self.workers.remove(token) else { return };
        let WorkerProcess { process, account, sessions, waiting, offered, stopping_since, .. } =
            worker;
        let is_stopping = stopping_since.is_some();
        let time = if is_stopping { STOP_TIMEOUT } else { Duration::ZERO };
        if !is_stopping {
            self.counters.workers_died += 1;
            self.workers.died(&account.name, self.restart_delay());
            let age = process.started.elapsed().as_secs();
            let text = format!("worker died after {age} s with {} sessions", sessions.len());
            let line =
                LogLine { user: Some(account.name.clone()), ..LogLine::new(Level::Error, text) };
            self.log.line("server", &line);
        }
        let name = format!("worker of {}", account.name);
        self.ending.push(process.end(name, is_stopping, time));
        let offered = offered.into_values().map(|(verified, _)| verified);
        for verified in waiting.into_iter().chain(offered) {
            let attempt = verified.attempt;
            if verified.link == self.login_link
                && let Err(refused) = self.begin(verified)
            {
                self.refuse(attempt, refused);
            }
        }
    }

    /// Ends the workers that have been without sessions for long, and kills those that hang.
    pub(super) fn end_idle_workers(&mut self) {
        for token in self.workers.hanging() {
            self.worker_died(token);
        }
        for token in self.workers.idle(self.configuration.config.limits.worker_idle) {
            if let Some(worker) = self.workers.all.get_mut(&token) {
                worker.stopping_since = Some(Instant::now());
                // One that has ended by itself is noticed by its end.
                let _ = worker.process.link.send(&ToWorker::Stop, None);
            }
        }
    }
}
