//! A worker: all sessions of one user, under the user's uid.

mod remote_watch;

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use barid::vfs::{FileType, Host as _, OsVfs, Vfs};
use barid::{Cancel, WatchSource};
use barid_auth::User;
use barid_folders::Layout;
use barid_imap::session::{DisabledForClient, Session, SessionSettings};
use barid_imap::wire::Decoder;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use self::remote_watch::{NextWatcher, RemoteWatch};
use super::confine::{self, Access, Network};
use super::handover::WorkerEnd;
use super::link::Link;
use super::messages::{FromWorker, Level, LogLine, Prelude, SessionId, ToWorker};
use super::setup::handed_over;
use super::system_calls;
use super::user_folders::{Missing, UserFolders};
use crate::config::{DisabledCapabilities, ImapSettings, ServerConfig};
use crate::connection::{SessionEnd, StopRequest, serve_logged};
use crate::limits::{
    ORPHAN_TIMEOUT, PRELUDE_LEN_MAX, PRELUDE_TIMEOUT, RAWLOG_LEN_MAX, WORKER_STACK_LEN,
    WORKER_THREADS_MAX,
};
use crate::log::{RawDirection, RawLog};
use crate::mail::{SessionAccount, UserMail, UserOptions};
use crate::server_id;

const KICKED: &str = "Ended by the administrator";
const STOPPED: &str = "The server is shutting down, connect again later";

/// Folders that every worker may read: libraries of stores, time zones, names of the system.
const READABLE: [&str; 7] =
    ["/usr", "/lib", "/lib64", "/etc", "/proc/self", "/proc/sys/kernel", "/sys/fs/cgroup"];

/// Runs a worker until the supervisor ends it.
///
/// # Errors
/// Errors of the link, and of the mail of the user.
pub(super) fn run_worker(link: Link) -> io::Result<()> {
    confine::forget_core()?;
    confine::raise_descriptors();
    let Some((ToWorker::Settings(settings), text)) = link.receive()? else { return Ok(()) };
    let link = Arc::new(link);
    let log = |level, text: String| link.send(&FromWorker::Log(LogLine::new(level, text)), None);
    let config = handed_over(&settings.path, text)?;
    let user = settings.user.user(&config.users.rules);
    let user = user.ok_or_else(|| io::Error::other("the user's name is not allowed"))?;
    let next_watcher = NextWatcher::default();
    let shared = (Arc::clone(&next_watcher), Arc::clone(&link));
    let shared = settings.shares_watcher.then_some(shared);
    let rawlog = rawlog_folder(&config, &user);
    let opened = prepare(&config, &user, rawlog.as_deref(), shared, &log);
    let mail = match opened {
        Ok(mail) => mail,
        Err(error) => {
            log(Level::Error, format!("mail cannot be opened: {error}"))?;
            return Err(error);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(WORKER_THREADS_MAX)
        .thread_stack_size(WORKER_STACK_LEN)
        .enable_all()
        .build()?;
    let (sender, orders) = mpsc::unbounded_channel();
    let heard = Arc::clone(&link);
    // The link is read by a thread of its own, so that it is read whatever the sessions do.
    std::thread::Builder::new().name("link".to_owned()).spawn(move || {
        while let Ok(Some((message, fd))) = heard.receive::<ToWorker>() {
            if let ToWorker::Watcher { number } = message {
                let mut next = next_watcher.lock().unwrap_or_else(PoisonError::into_inner);
                *next = fd.map(|fd| (number, Link::from(fd)));
            } else if sender.send((message, fd)).is_err() {
                return;
            }
        }
        drop(sender);
        // Without a supervisor nobody ends a worker that hangs.
        OsVfs.sleep(ORPHAN_TIMEOUT);
        std::process::exit(1);
    })?;
    let (disable, name) = (config.disable.clone(), user.name.as_str().to_owned());
    let disabled = disabled(&disable, &name, None);
    let by_client = move |client: &str| self::disabled(&disable, &name, Some(client));
    let disabled_for = DisabledForClient::new(by_client);
    let (imap, stops) = (config.imap, Mutex::default());
    let worker = Worker { link, mail, rawlog, disabled, disabled_for, imap, stops };
    runtime.block_on(Arc::new(worker).run(orders));
    Ok(())
}

/// Confines the process, and opens the mail.
fn prepare(
    config: &ServerConfig,
    user: &User,
    rawlog: Option<&Path>,
    shared: Option<(NextWatcher, Arc<Link>)>,
    log: &dyn Fn(Level, String) -> io::Result<()>,
) -> io::Result<Arc<UserMail>> {
    let options = confine_to_user(config, user, rawlog, &mut |text| log(Level::Warning, text))?;
    // Landlock knows no UDP, no Unix sockets and no programs; this does.
    system_calls::allow_network_and_files()?;
    let source = shared.map(|(next, link)| {
        let watch = move || RemoteWatch::new(Arc::clone(&next), Arc::clone(&link));
        WatchSource::new(move || Ok(Box::new(watch())))
    });
    // The kernel gives a uid so many instances of inotify; mailboxes are polled then.
    if source.is_none()
        && let Err(error) = OsVfs.watch()
    {
        let text = format!("changes of other programs are looked for every second: {error}");
        log(Level::Warning, text)?;
    }
    let mail = UserMail::open_watched(Arc::new(OsVfs), options, source);
    Ok(Arc::new(mail.map_err(io::Error::other)?))
}

/// Confines the process to the folders of a user, which are created if they are missing, and to
/// `more`, if it exists; returns the options for his mail.
///
/// # Errors
/// A user without a folder, or a folder behind a link that the user may have placed; errors of the
/// file system.
pub(super) fn confine_to_user(
    config: &ServerConfig,
    user: &User,
    more: Option<&Path>,
    warn: &mut dyn FnMut(String) -> io::Result<()>,
) -> io::Result<UserOptions> {
    confine::limit_memory(config.limits.worker_memory)?;
    let options = config.user_options(user)?;
    let folders = UserFolders::new(config, &options);
    let mut writable = folders.open_all()?;
    match more.map(|more| folders.open(more, Missing::Fail)) {
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => warn(error.to_string())?,
        opened => writable.extend(opened.and_then(Result::ok)),
    }
    let mut allowed = Vec::from(READABLE.map(|path| (path.into(), Access::Read)));
    allowed.push(("/dev/null".into(), Access::ReadFile));
    if locks_in_tmp(&options) {
        allowed.push(("/tmp".into(), Access::Locks));
    }
    if let Some(why) = confine::files(&allowed, writable, Network::None) {
        warn(format!("the process of a user is not confined by Landlock: {why}"))?;
    }
    Ok(options)
}

/// Returns the folder of the protocol logs of a user, if he has made it. A link is not followed:
/// the worker may write where it leads.
fn rawlog_folder(config: &ServerConfig, user: &User) -> Option<PathBuf> {
    // A user without a home has no folder in it.
    let folder = config.rawlog.as_ref()?.expand(&user.name, user.home.as_deref()).ok()?;
    let found = OsVfs.symlink_metadata(Path::new(&folder)).ok()?;
    (found.file_type == FileType::Dir).then(|| folder.into())
}

/// Returns `true` if the mailboxes may be of the formats of c-client, whose programs lock a mailbox
/// by a file in `/tmp`. Maildirs are not.
fn locks_in_tmp(options: &UserOptions) -> bool {
    match options.folders.layout {
        Some(layout) => matches!(layout, Layout::Files(_)),
        None => OsVfs.metadata(&options.folders.root.join("cur")).is_err(),
    }
}

struct Worker {
    link: Arc<Link>,
    mail: Arc<UserMail>,
    /// The folder of the protocol logs, if the user has made it.
    rawlog: Option<PathBuf>,
    disabled: Vec<String>,
    disabled_for: DisabledForClient,
    imap: ImapSettings,
    stops: Mutex<HashMap<SessionId, watch::Sender<Option<&'static str>>>>,
}

type Order = (ToWorker, Option<OwnedFd>);

impl Worker {
    async fn run(self: Arc<Self>, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut sessions = tokio::task::JoinSet::new();
        loop {
            let order = tokio::select! {
                order = orders.recv() => order,
                Some(_) = sessions.join_next() => continue,
            };
            match order {
                Some((ToWorker::Session { session }, Some(fd))) => {
                    // Without a supervisor the worker ends by itself.
                    let _ = self.link.send(&FromWorker::Began { session }, None);
                    let (sender, stop) = StopRequest::new();
                    self.stops().insert(session, sender);
                    let worker = Arc::clone(&self);
                    sessions.spawn(async move {
                        let end = worker.session(session, fd, stop).await;
                        worker.end(session, end);
                    });
                }
                Some((ToWorker::Kick { session }, _)) => {
                    if let Some(stop) = self.stops().get(&session) {
                        stop.send_replace(Some(KICKED));
                    }
                }
                Some((ToWorker::Session { session }, None)) => {
                    let _ = self.link.send(&FromWorker::Refused { session }, None);
                }
                Some((ToWorker::Settings(_) | ToWorker::Watcher { .. }, _)) => {}
                // The supervisor ends workers, and they end with it.
                Some((ToWorker::Stop, _)) | None => break,
            }
        }
        for stop in self.stops().values() {
            stop.send_replace(Some(STOPPED));
        }
        while sessions.join_next().await.is_some() {}
    }

    fn stops(
        &self,
    ) -> std::sync::MutexGuard<'_, HashMap<SessionId, watch::Sender<Option<&'static str>>>> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn session(&self, session: SessionId, fd: OwnedFd, stop: StopRequest) -> io::Result<()> {
        let stream = StdUnixStream::from(fd);
        stream.set_nonblocking(true)?;
        let mut stream = UnixStream::from_std(stream)?;
        let prelude = timeout(PRELUDE_TIMEOUT, read_prelude(&mut stream)).await;
        let prelude = prelude.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let mut decoder = Decoder::new();
        decoder.push(&prelude.unread);
        let cancel = Cancel::new();
        let account = SessionAccount::new(Arc::clone(&self.mail), cancel.clone());
        let settings = SessionSettings {
            can_compress: true,
            can_unauthenticate: self.imap.unauthenticate,
            disabled: self.disabled.clone(),
            disabled_for: self.disabled_for.clone(),
            offers_uid_only: self.imap.uid_only,
            message_limit: self.imap.message_limit,
            id: server_id(),
        };
        let rawlog = self.rawlog(session, &prelude.unread);
        let mut session = Box::new(Session::new(account, settings, decoder));
        session.set_client_id(prelude.client_id);
        let mut stream = WorkerEnd::new(stream);
        let tag = Some(prelude.tag);
        match serve_logged(&mut stream, session, tag, cancel, stop, rawlog).await? {
            SessionEnd::Closed => Ok(()),
            SessionEnd::Unauthenticated(mut decoder) => stream.give_back(decoder.take()).await,
        }
    }

    /// Begins the protocol log of a session, if the user wants one.
    fn rawlog(&self, session: SessionId, unread: &[u8]) -> Option<RawLog> {
        let folder = self.rawlog.as_deref()?;
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        let log = RawLog::create(&vfs, folder, &format!("session-{session}"), RAWLOG_LEN_MAX);
        let log = log.and_then(|log| {
            log.map(|mut log| log.write(RawDirection::In, unread).map(|()| log)).transpose()
        });
        log.unwrap_or_else(|error| {
            let text = format!("no protocol log: {}: {error}", folder.display());
            let line = LogLine { session: Some(session), ..LogLine::new(Level::Warning, text) };
            // Without a supervisor the worker ends by itself.
            let _ = self.link.send(&FromWorker::Log(line), None);
            None
        })
    }

    fn end(&self, session: SessionId, end: io::Result<()>) {
        self.stops().remove(&session);
        if let Err(error) = end {
            let text = format!("session ended: {error}");
            let line = LogLine { session: Some(session), ..LogLine::new(Level::Info, text) };
            let _ = self.link.send(&FromWorker::Log(line), None);
        }
        // Without a supervisor the worker ends by itself.
        let _ = self.link.send(&FromWorker::Ended { session }, None);
    }
}

/// Returns the capabilities that are disabled for a user with a client.
fn disabled(disable: &[DisabledCapabilities], user: &str, client: Option<&str>) -> Vec<String> {
    let applying = disable.iter().filter(|one| one.applies(user, client));
    applying.flat_map(|one| one.capabilities.iter().cloned()).collect()
}

async fn read_prelude(stream: &mut UnixStream) -> io::Result<Prelude> {
    let len = stream.read_u32_le().await? as usize;
    if len > PRELUDE_LEN_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a prelude that is too long"));
    }
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).await?;
    Ok(serde_json::from_slice(&bytes)?)
}
