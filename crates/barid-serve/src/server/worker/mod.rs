//! A worker: all sessions of one user, under the user's uid.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use barid::Cancel;
use barid::vfs::{OsVfs, Vfs};
use barid_auth::User;
use barid_imap::session::{DisabledForClient, Session, SessionSettings};
use barid_imap::wire::Decoder;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::confine::{self, Access, Network};
use super::link::Link;
use super::messages::{FromWorker, Level, LogLine, Prelude, SessionId, ToWorker};
use super::setup::handed_over;
use crate::config::{DisabledCapabilities, ImapSettings, ServerConfig};
use crate::connection::{StopRequest, serve};
use crate::limits::{LINK_MESSAGE_LEN_MAX, PRELUDE_TIMEOUT, WORKER_STACK_LEN, WORKER_THREADS_MAX};
use crate::mail::{SessionAccount, UserMail, UserOptions};
use crate::server_id;

const KICKED: &str = "Ended by the administrator";
const STOPPED: &str = "The server is shutting down, connect again later";

/// Folders that every worker may read: libraries of stores, time zones, names of the system.
const READABLE: [&str; 6] = ["/usr", "/lib", "/lib64", "/etc", "/proc/self", "/proc/sys/kernel"];

/// Runs a worker until the supervisor ends it.
///
/// # Errors
/// Errors of the link, and of the mail of the user.
pub(super) fn run_worker(link: Link) -> io::Result<()> {
    confine::forget_core()?;
    confine::raise_descriptors();
    let Some((ToWorker::Settings(settings), text)) = link.receive()? else { return Ok(()) };
    let log = |level, text: String| link.send(&FromWorker::Log(LogLine::new(level, text)), None);
    let config = handed_over(&settings.path, text)?;
    let user = settings.user.user(&config.users.rules);
    let user = user.ok_or_else(|| io::Error::other("the user's name is not allowed"))?;
    let opened = prepare(&config, &user, &log);
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
    let link = Arc::new(link);
    let (sender, orders) = mpsc::unbounded_channel();
    let heard = Arc::clone(&link);
    // The link is read by a thread of its own, so that it is read whatever the sessions do.
    std::thread::Builder::new().name("link".to_owned()).spawn(move || {
        while let Ok(Some((message, fd))) = heard.receive::<ToWorker>() {
            if sender.send((message, fd)).is_err() {
                return;
            }
        }
    })?;
    let (disable, name) = (config.disable.clone(), user.name.as_str().to_owned());
    let disabled = disabled(&disable, &name, None);
    let by_client = move |client: &str| self::disabled(&disable, &name, Some(client));
    let disabled_for = DisabledForClient::new(by_client);
    let (imap, stops) = (config.imap, Mutex::default());
    let worker = Worker { link, mail, disabled, disabled_for, imap, stops };
    runtime.block_on(Arc::new(worker).run(orders));
    Ok(())
}

/// Confines the process, and opens the mail.
fn prepare(
    config: &ServerConfig,
    user: &User,
    log: &dyn Fn(Level, String) -> io::Result<()>,
) -> io::Result<Arc<UserMail>> {
    confine::limit_memory(config.limits.worker_memory)?;
    let options = config.user_options(user)?;
    let mut allowed = folders(&options);
    for (dir, _) in &allowed {
        // While their parents may still be written.
        OsVfs
            .create_dir_all(dir, 0o700)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", dir.display())))?;
    }
    allowed.extend(READABLE.map(|path| (path.into(), Access::Read)));
    allowed.push(("/dev/null".into(), Access::ReadFile));
    if let Some(why) = confine::files(&allowed, Network::None) {
        log(Level::Warning, format!("the worker is not confined by Landlock: {why}"))?;
    }
    // The kernel gives a uid so many watches; mailboxes are polled then.
    if let Err(error) = OsVfs.watch() {
        let text = format!("changes of other programs are looked for every second: {error}");
        log(Level::Warning, text)?;
    }
    let mail = UserMail::open(Arc::new(OsVfs), options);
    Ok(Arc::new(mail.map_err(io::Error::other)?))
}

/// Returns the folders of a user.
fn folders(options: &UserOptions) -> Vec<(PathBuf, Access)> {
    let mut all = vec![options.folders.root.clone(), options.open.state_dir.clone()];
    all.extend(options.open.cache_dir.clone());
    // Locks are made beside an mbox.
    let inbox = options.folders.inbox.as_ref();
    all.extend(inbox.and_then(|inbox| Some(inbox.path.parent()?.to_owned())));
    all.into_iter().map(|path| (path, Access::Write)).collect()
}

struct Worker {
    link: Arc<Link>,
    mail: Arc<UserMail>,
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
                Some((ToWorker::Settings(_) | ToWorker::Session { .. }, _)) => {}
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
            // The front cannot take a connection back.
            can_unauthenticate: false,
            disabled: self.disabled.clone(),
            disabled_for: self.disabled_for.clone(),
            offers_uid_only: self.imap.uid_only,
            message_limit: self.imap.message_limit,
            id: server_id(),
        };
        let _ = session;
        let mut session = Session::new(account, settings, decoder);
        session.set_client_id(prelude.client_id);
        serve(stream, session, Some(prelude.tag), cancel, stop).await.map(drop)
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
    if len > LINK_MESSAGE_LEN_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a prelude that is too long"));
    }
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).await?;
    Ok(serde_json::from_slice(&bytes)?)
}
