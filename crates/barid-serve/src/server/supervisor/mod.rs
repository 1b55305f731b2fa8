//! The supervisor: starts the other processes, and connects them.
//!
//! It is the only process that may be root, so it is small: one thread, one loop, no byte of a
//! client. Everything that it is told by others is looked up in its own tables.

mod admin;
mod control;
mod delivery;
mod events;
mod listeners;
mod log;
mod notify;
mod process;
mod reload;
mod stderr;
mod watchers;
mod workers;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use barid::vfs::{Host as _, OsVfs};
use barid_auth::NameRules;
use rustix::event::{Timespec, epoll};

use self::control::Control;
pub(super) use self::control::Request;
use self::delivery::{DeliveryCounters, Lmtp};
use self::listeners::Listeners;
pub use self::log::OpenStderr;
use self::log::ServerLog;
pub(super) use self::process::Role;
use self::process::{Account, Ending, Process, Restarts};
use self::stderr::{StderrPipes, StderrWriter};
use self::watchers::Watchers;
use self::workers::Workers;
use super::confine;
use super::messages::{Level, LogLine, LoginLinkId, TlsText};
use super::setup::{Configuration, ListenerSetup};
use crate::limits::{BIND_TIMEOUT, STOP_TIMEOUT};
use crate::shared_folders::create_user_folders;

/// Everything that a server is started with.
pub struct ServerStart {
    /// The configuration file, read now and at each reload; an absolute path.
    pub config: PathBuf,
    /// Number of sockets that the service manager has passed, from descriptor 3 on.
    pub sockets: i32,
    /// The socket of the service manager for the state (`NOTIFY_SOCKET`).
    pub notify_socket: Option<OsString>,
    /// Opens standard error for the log.
    pub open_stderr: OpenStderr,
}

/// Tokens of the event loop that are always there; processes and connections have higher ones.
const WAKE: u64 = 0;
const CONTROL: u64 = 1;
const FIRST_TOKEN: u64 = 2;

/// A process that always runs.
#[derive(Debug, Default)]
struct LastingProcess {
    process: Option<Process>,
    restarts: Restarts,
    is_ready: bool,
    /// Number of starts.
    starts: u64,
}

/// Signals that have arrived.
#[derive(Debug, Default)]
struct Signals {
    reload: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

/// Counters for the metrics.
#[derive(Debug, Default)]
struct Counters {
    logins: u64,
    failed: u64,
    refused: u64,
    workers_started: u64,
    workers_died: u64,
    deliveries: DeliveryCounters,
}

struct Supervisor {
    path: PathBuf,
    configuration: Configuration,
    tls: Vec<TlsText>,
    secret: [u8; 32],
    own: (u32, u32),
    front_account: Account,
    auth_account: Account,
    epoll: OwnedFd,
    wake: UnixStream,
    signals: Signals,
    last_token: u64,
    front: LastingProcess,
    auth: LastingProcess,
    lmtp: Lmtp,
    login_link: LoginLinkId,
    workers: Workers,
    watchers: Watchers,
    listeners: Listeners,
    control: Control,
    /// Requests that wait for the auth process, by their number.
    asked: HashMap<u64, u64>,
    ending: Vec<Ending>,
    stderr: StderrPipes,
    log: ServerLog,
    notify_socket: Option<OsString>,
    counters: Counters,
    started: Instant,
    was_ready: bool,
    /// The end of the time that the others have to end.
    stopping: Option<Instant>,
}

/// Runs a server until it is told to end.
///
/// # Errors
/// A configuration that cannot work; errors of the system at the start.
pub fn serve_config(start: ServerStart) -> io::Result<()> {
    // Before anything else opens a descriptor.
    let sockets = crate::ffi::passed::sockets(start.sockets)?;
    confine::forget_core()?;
    confine::raise_descriptors();
    let mut supervisor = Supervisor::new(start, sockets)?;
    let ended = supervisor.run();
    // Whatever happened, nobody finds a socket that leads nowhere.
    if let Some(path) = supervisor.control.path() {
        let _ = barid::vfs::Vfs::remove_file(&OsVfs, path);
    }
    ended
}

impl Supervisor {
    fn new(start: ServerStart, sockets: Vec<OwnedFd>) -> io::Result<Self> {
        let ServerStart { config: path, notify_socket, open_stderr, .. } = start;
        let configuration = Configuration::load(&OsVfs, &path)?;
        let config = &configuration.config;
        let log = ServerLog::open(&config.log, open_stderr)?;
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        reload::check(config, own)?;
        let tls = reload::read_tls(&OsVfs, config)?;
        create_user_folders(&OsVfs, config, own.0)?;
        let secret = reload::secret(&OsVfs, &config.server.state_dir)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (wake, signals) = Signals::register()?;
        let control = Control::bind(&OsVfs, config.server.admin_socket.as_deref())?;
        let mut listeners = Listeners::new(sockets)?;
        bind_first(&mut listeners, &configuration.listeners())?;
        let (front_account, auth_account) = reload::accounts(config, own)?;
        let supervisor = Self {
            front_account,
            auth_account,
            path,
            configuration,
            tls,
            secret,
            own,
            epoll,
            wake,
            signals,
            last_token: FIRST_TOKEN,
            front: LastingProcess::default(),
            auth: LastingProcess::default(),
            lmtp: Lmtp::default(),
            login_link: 0,
            workers: Workers::default(),
            watchers: Watchers::default(),
            listeners,
            control,
            asked: HashMap::new(),
            ending: Vec::new(),
            stderr: StderrPipes::default(),
            log,
            notify_socket,
            counters: Counters::default(),
            started: Instant::now(),
            was_ready: false,
            stopping: None,
        };
        supervisor.watch(&supervisor.wake, WAKE)?;
        if let Some(listener) = supervisor.control.listener() {
            supervisor.watch(listener, CONTROL)?;
        }
        Ok(supervisor)
    }

    fn watch(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token);
        Ok(epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN)?)
    }

    /// Watches a process that was just started: its link, and its standard error.
    fn watch_process(
        &mut self,
        process: &mut Process,
        role: Role,
        user: Option<&str>,
    ) -> io::Result<()> {
        self.watch(process.socket(), process.token)?;
        let Some(stderr) = process.stderr.take() else { return Ok(()) };
        self.watch_stderr(stderr, role, process.pid(), user)
    }

    fn watch_stderr(
        &mut self,
        stderr: OwnedFd,
        role: Role,
        pid: u32,
        user: Option<&str>,
    ) -> io::Result<()> {
        let token = self.token();
        self.watch(&stderr, token)?;
        let writer = StderrWriter { role: role.name(), pid, user: user.map(str::to_owned) };
        self.stderr.add(token, stderr, writer);
        Ok(())
    }

    fn hear_stderr(&mut self, token: u64) {
        let Some((writer, lines)) = self.stderr.read(token) else { return };
        let StderrWriter { role, pid, user } = writer;
        for line in lines {
            let text = format!("{role} {pid}: {line}");
            let line = LogLine { user: user.clone(), ..LogLine::new(Level::Warning, text) };
            self.log.line("stderr", &line);
        }
    }

    fn token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    fn log(&mut self, level: Level, text: impl Into<String>) {
        self.log.line("server", &LogLine::new(level, text));
    }

    fn notify(&mut self, state: &str) {
        if let Err(error) = notify::notify(self.notify_socket.as_deref(), state) {
            self.log(Level::Warning, format!("the service manager cannot be told: {error}"));
        }
    }

    fn run(&mut self) -> io::Result<()> {
        for address in self.listeners.unused() {
            let text = format!("no listener of the configuration has the passed socket {address}");
            self.log(Level::Warning, text);
        }
        loop {
            self.start_or_wait()?;
            self.end_idle_workers();
            self.keep_watchers();
            self.flush();
            self.reap()?;
            if self.has_stopped() {
                return Ok(());
            }
            let mut events = Vec::with_capacity(64);
            let timeout = self.timeout().and_then(|time| Timespec::try_from(time).ok());
            let space = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, space, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let data = event.data;
                self.handle(data.u64());
            }
        }
    }

    /// Returns the time after which something is to be done without an event.
    fn timeout(&self) -> Option<Duration> {
        let is_busy = !self.ending.is_empty()
            || self.stopping.is_some()
            || self.front.process.is_none()
            || self.auth.process.is_none()
            || self.lmtp.service.process.is_none() && self.needs_lmtp()
            || self.watchers.has_missing();
        let short = Duration::from_millis(20);
        match is_busy {
            true => Some(short),
            false if self.has_backlog() => Some(short),
            false if self.workers.has_idle() => Some(Duration::from_secs(1)),
            false => None,
        }
    }

    fn has_backlog(&self) -> bool {
        let services = [&self.front, &self.auth, &self.lmtp.service].into_iter();
        let services = services.filter_map(|service| service.process.as_ref());
        let workers = self.workers.all.values().map(|worker| &worker.process);
        services
            .chain(workers)
            .chain(self.watchers.processes())
            .any(|process| process.link.has_backlog())
    }

    /// Sends what others did not take at once; one that fails is noticed by its end.
    fn flush(&mut self) {
        let services = [&mut self.front, &mut self.auth, &mut self.lmtp.service].into_iter();
        let services = services.filter_map(|service| service.process.as_mut());
        let workers = self.workers.all.values_mut().map(|worker| &mut worker.process);
        let all = services.chain(workers).chain(self.watchers.processes_mut());
        for process in all.filter(|process| process.link.has_backlog()) {
            let _ = process.link.flush();
        }
    }

    /// Reports processes that have ended.
    fn reap(&mut self) -> io::Result<()> {
        let mut ended = Vec::new();
        self.ending.retain_mut(|ending| match ending.check() {
            None => true,
            Some(status) => {
                ended.push((ending.name.clone(), ending.is_expected, status));
                false
            }
        });
        for (name, is_expected, status) in ended {
            if !is_expected || !status.success() && self.stopping.is_none() {
                self.log(Level::Error, format!("{name} ended: {status}"));
            }
            if !is_expected && !self.was_ready && ["front", "auth", "lmtp"].contains(&name.as_str())
            {
                return Err(io::Error::other(format!("{name} cannot be started: {status}")));
            }
        }
        Ok(())
    }

    fn has_stopped(&mut self) -> bool {
        let Some(deadline) = self.stopping else { return false };
        if self.workers.all.is_empty() || deadline <= Instant::now() {
            for process in self.watchers.take_all() {
                self.ending.push(process.end("watcher".to_owned(), true, Duration::ZERO));
            }
            // The front relays until the workers have ended.
            for (name, service) in [("front", &mut self.front), ("auth", &mut self.auth)] {
                if let Some(process) = service.process.take() {
                    self.ending.push(process.end(name.to_owned(), true, Duration::from_secs(2)));
                }
            }
            let left: Vec<u64> = self.workers.all.keys().copied().collect();
            for token in left {
                if let Some(worker) = self.workers.remove(token) {
                    let name = format!("worker of {}", worker.account.name);
                    self.ending.push(worker.process.end(name, true, Duration::ZERO));
                }
            }
        }
        self.front.process.is_none() && self.workers.all.is_empty() && self.ending.is_empty()
    }

    /// Begins the end.
    fn stop(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        self.stopping = Some(Instant::now() + STOP_TIMEOUT);
        self.log(Level::Info, "ending");
        self.notify("STOPPING=1");
        self.stop_lmtp();
        if let Some(front) = &mut self.front.process {
            let _ = front.link.send(&super::messages::ToFront::Stop, None);
        }
        for worker in self.workers.all.values_mut() {
            worker.stopping_since = Some(Instant::now());
            let _ = worker.process.link.send(&super::messages::ToWorker::Stop, None);
        }
    }
}

/// Opens the listeners. The front of a killed server ends by itself, but not before the supervisor
/// that is started in its place.
fn bind_first(listeners: &mut Listeners, wanted: &[ListenerSetup]) -> io::Result<()> {
    let start = Instant::now();
    loop {
        match listeners.change(wanted) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && start.elapsed() < BIND_TIMEOUT =>
            {
                OsVfs.sleep(Duration::from_millis(10));
            }
            changed => return changed.map(drop),
        }
    }
}

impl Signals {
    /// Catches SIGHUP, SIGTERM and SIGINT; returns a socket that is ready when one has arrived.
    fn register() -> io::Result<(UnixStream, Self)> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let signals = Self::default();
        let (wake, end) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        for (signal, flag) in
            [(SIGHUP, &signals.reload), (SIGTERM, &signals.stop), (SIGINT, &signals.stop)]
        {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(signal, end.try_clone()?)?;
        }
        Ok((wake, signals))
    }

    fn take(flag: &AtomicBool) -> bool {
        flag.swap(false, Ordering::Relaxed)
    }
}

/// Returns the user and group of a process; none if the supervisor cannot change them.
fn account(user: &str, own: (u32, u32)) -> io::Result<Account> {
    if own.0 != 0 {
        return Ok(None);
    }
    let name = NameRules { lower_case: false, ..NameRules::default() }.name(user.as_bytes());
    let found = name.and_then(|name| barid_auth::system_user(&name).transpose());
    let found = found.transpose().map_err(io::Error::other)?;
    match found.map(|user| (user.uid, user.gid)) {
        Some((Some(uid), Some(gid))) if uid != 0 && gid != 0 => Ok(Some((uid, gid))),
        Some(_) => Err(io::Error::other(format!("user {user}: uid or gid is 0"))),
        None => Err(io::Error::other(format!("user {user}: there is no such user"))),
    }
}
