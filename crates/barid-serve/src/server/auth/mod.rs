//! The auth process: verifies users, and tells the supervisor whom.

mod chain;
mod exchanges;
mod fetch;
mod limited_token_check;
mod pam;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use barid::vfs::{Host, OsVfs, Vfs};
use barid_auth::base::{PasswdFile, PasswdFileOptions, SystemUsers, UserBase};
use barid_auth::limiter::{LimiterOptions, SharedLimiter};
use barid_auth::oauth::{Introspection, IntrospectionOptions, Jwks, JwksOptions, TokenCheck};
use barid_auth::sasl::SaslService;
use barid_auth::{NameRules, Secret, ServerSecret};
use rustix::event::{PollFd, PollFlags, poll};

use self::chain::UserChain;
use self::exchanges::{Exchanges, Job};
use self::fetch::HttpClient;
use self::limited_token_check::LimitedTokenCheck;
use self::pam::PamChildren;
pub(super) use self::pam::run_pam;
use super::confine::{self, Access, Network};
use super::link::{Link, Polled};
use super::messages::{AuthSettings, FromAuth, Level, LogLine, LoginLinkId, ToAuth, ToLogin};
use super::setup::handed_over;
use crate::config::{OauthCheck, OauthSettings, PasswdFileSettings, ServerConfig, UserSettings};
use crate::limits::{LOGIN_THREADS, SECRET_LEN_MAX};

/// Runs the auth process until the supervisor ends.
///
/// # Errors
/// Errors of the link, and users that cannot be read.
pub(super) fn run_auth(link: Link) -> io::Result<()> {
    confine::forget_core()?;
    confine::end_with_supervisor()?;
    let link = Arc::new(link);
    let Some((ToAuth::Settings(settings), text)) = link.receive()? else { return Ok(()) };
    let config = handed_over(&settings.path, text)?;
    let log = |level, text: String| link.send(&FromAuth::Log(LogLine::new(level, text)), None);
    let users = &config.users;
    if let Some(why) = confine::files(&readable(users), Vec::new(), network(users)) {
        log(Level::Warning, format!("auth is not confined by Landlock: {why}"))?;
    }
    let pam = users.pam.as_ref();
    let pam = pam.map(|pam| Arc::new(PamChildren::new(Arc::clone(&link), pam, &users.rules)));
    let made =
        Verification::new(&settings, &config, pam.clone(), &mut |text| log(Level::Warning, text));
    let verification = match made {
        Ok((verification, keys)) => {
            keys.map(|keys| fetch_keys(keys, Arc::clone(&link))).transpose()?;
            verification
        }
        Err(error) => {
            log(Level::Error, format!("users: {error}"))?;
            return Err(error);
        }
    };
    let cores = barid::vfs::cores().clamp(2, LOGIN_THREADS);
    let waits = pam.is_some() || users.oauth.is_some();
    let threads = if waits { LOGIN_THREADS } else { cores };
    let exchanges = Exchanges::start(Arc::new(verification), config, Arc::clone(&link), threads)?;
    link.send(&FromAuth::Ready, None)?;
    Server { link, pam, exchanges, front: None }.run()
}

/// Fetches the keys of the issuer of tokens on a thread, so that a mistake shows at once.
fn fetch_keys(keys: Arc<Jwks>, link: Arc<Link>) -> io::Result<()> {
    let fetch = move || {
        if let Err(error) = keys.refresh() {
            let line = LogLine::new(Level::Warning, format!("keys of tokens: {error}"));
            // Without a supervisor the process ends.
            let _ = link.send(&FromAuth::Log(line), None);
        }
    };
    std::thread::Builder::new().name("keys".to_owned()).spawn(fetch).map(drop)
}

/// Returns the ports to which the process may connect: that of the issuer of tokens, and that of
/// name servers; the modules of PAM may connect to any.
fn network(users: &UserSettings) -> Network {
    match (&users.pam, &users.oauth) {
        (Some(_), _) => Network::Any,
        (None, Some(oauth)) => {
            let ports = fetch::port_of(oauth.check.url().as_str()).into_iter();
            Network::Connect(ports.chain([NAME_SERVER_PORT]).collect())
        }
        (None, None) => Network::None,
    }
}

/// The port of name servers (RFC 1035).
const NAME_SERVER_PORT: u16 = 53;

/// Returns what the process may read.
fn readable(users: &UserSettings) -> Vec<(PathBuf, Access)> {
    let mut all = vec![("/etc".into(), Access::Read)];
    for file in &users.passwd_files {
        // A new file may be renamed into the place of the old one.
        all.push((file.path.parent().unwrap_or(&file.path).to_owned(), Access::Read));
    }
    if let Some(oauth) = &users.oauth {
        let secret = match &oauth.check {
            OauthCheck::Introspection { client_secret_file, .. } => Some(client_secret_file),
            OauthCheck::Jwks { .. } => None,
        };
        let files = secret.into_iter().chain(&oauth.ca_file);
        all.extend(files.map(|file| (file.parent().unwrap_or(file).to_owned(), Access::Read)));
    }
    // Name services load libraries and read what they are configured to.
    if users.pam.is_some() || users.oauth.is_some() {
        let folders = ["/usr", "/lib", "/lib64", "/run", "/var/lib"];
        all.extend(folders.map(|folder| (folder.into(), Access::Read)));
    }
    all
}

/// The means to verify users.
pub(super) struct Verification {
    pub(super) sasl: Arc<SaslService>,
    pub(super) limiter: Arc<SharedLimiter>,
    pub(super) rules: NameRules,
}

impl Verification {
    fn new(
        settings: &AuthSettings,
        config: &ServerConfig,
        pam: Option<Arc<PamChildren>>,
        warn: &mut dyn FnMut(String) -> io::Result<()>,
    ) -> io::Result<(Self, Option<Arc<Jwks>>)> {
        let (vfs, host): (Arc<dyn Vfs>, Arc<dyn Host>) = (Arc::new(OsVfs), Arc::new(OsVfs));
        let users = &config.users;
        let rules = users.rules.clone();
        let mut bases: Vec<Arc<dyn UserBase>> = Vec::new();
        for PasswdFileSettings { path, default_scheme } in &users.passwd_files {
            let secret = <&[u8; 32]>::try_from(settings.secret.as_slice());
            let secret = ServerSecret::new(secret.map_err(io::Error::other)?);
            let (rules, default_scheme) = (rules.clone(), *default_scheme);
            let options =
                PasswdFileOptions { rules, default_scheme, ..PasswdFileOptions::default() };
            let file = PasswdFile::open(Arc::clone(&vfs), path, options, secret);
            let file = file.map_err(io::Error::other)?;
            for problem in file.problems().0 {
                warn(format!("{}: {problem}", path.display()))?;
            }
            bases.push(Arc::new(file));
        }
        if let (Some(children), Some(pam)) = (pam, &users.pam) {
            bases.push(Arc::new(SystemUsers::new(children, pam.uid_min)));
        }
        let limiter = SharedLimiter::new(LimiterOptions::default(), Arc::clone(&host));
        let limiter = Arc::new(limiter);
        let mut sasl = SaslService::new(Arc::new(UserChain(bases)), Arc::clone(&host));
        sasl.rules = rules.clone();
        sasl.gate = Some(Arc::clone(&limiter) as _);
        sasl.allows_clear = config.server.clear_logins;
        sasl.disabled = users.disabled_mechanisms.clone();
        sasl.masters = users.masters.clone();
        let mut keys = None;
        if let Some(oauth) = &users.oauth {
            let (check, of_check) = tokens(oauth, &*vfs, &host)?;
            (sasl.tokens, keys) = (Some(Arc::new(LimitedTokenCheck::new(check)) as _), of_check);
        }
        Ok((Self { sasl: Arc::new(sasl), limiter, rules }, keys))
    }
}

/// A check of tokens, and the keys that it fetches, if it does.
type Tokens = (Arc<dyn TokenCheck>, Option<Arc<Jwks>>);

fn tokens(oauth: &OauthSettings, vfs: &dyn Vfs, host: &Arc<dyn Host>) -> io::Result<Tokens> {
    let (fetcher, host) = (Arc::new(HttpClient::new(vfs, oauth)?), Arc::clone(host));
    let rules = oauth.rules.clone();
    match &oauth.check {
        OauthCheck::Jwks { url, algorithms } => {
            let algorithms = algorithms.clone();
            let options = JwksOptions { algorithms, ..JwksOptions::new(url.clone(), rules) };
            let keys = Arc::new(Jwks::new(options, fetcher, host));
            Ok((Arc::clone(&keys) as _, Some(keys)))
        }
        OauthCheck::Introspection { url, client_id, client_secret_file } => {
            let secret = vfs.read(client_secret_file, SECRET_LEN_MAX).map_err(|error| {
                let text = format!("{}: {error}", client_secret_file.display());
                io::Error::new(error.kind(), text)
            })?;
            let client_secret = Secret::new(secret.trim_ascii_end().to_vec());
            let (url, client_id) = (url.clone(), client_id.clone());
            let options = IntrospectionOptions { url, client_id, client_secret, rules };
            Ok((Arc::new(Introspection::new(options, fetcher, host)), None))
        }
    }
}

/// The thread that reads messages; it never waits for anything else.
struct Server {
    link: Arc<Link>,
    pam: Option<Arc<PamChildren>>,
    exchanges: Exchanges,
    front: Option<(LoginLinkId, Arc<Link>)>,
}

impl Server {
    fn run(mut self) -> io::Result<()> {
        loop {
            let mut fds = vec![PollFd::new(&*self.link, PollFlags::IN)];
            if let Some((_, front)) = &self.front {
                fds.push(PollFd::new(&**front, PollFlags::IN));
            }
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => continue,
                result => result?,
            };
            let is_ready = |fd: &PollFd| !fd.revents().is_empty();
            let ready = [fds.first().is_some_and(is_ready), fds.get(1).is_some_and(is_ready)];
            if ready[0] && !self.hear_supervisor()? {
                return Ok(());
            }
            if ready[1] {
                self.hear_front();
            }
        }
    }

    /// Handles a message of the supervisor; `false` at its end.
    fn hear_supervisor(&mut self) -> io::Result<bool> {
        match self.link.poll::<ToAuth>()? {
            Polled::End => return Ok(false),
            Polled::Nothing => {}
            Polled::Message((ToAuth::LoginLink { id }, Some(fd))) => {
                self.exchanges.forget_all();
                self.front = Some((id, Arc::new(Link::from(fd))));
            }
            Polled::Message((ToAuth::PamChild { id }, fd)) => {
                if let Some(pam) = &self.pam {
                    pam.arrived(id, fd);
                }
            }
            Polled::Message((ToAuth::LookUp { id, name }, _)) => self.exchanges.look_up(id, name),
            Polled::Message((ToAuth::FindRecipient { id, address }, _)) => {
                self.exchanges.find_recipient(id, address);
            }
            Polled::Message((ToAuth::LoginLink { .. }, None)) => {
                // The supervisor starts another process, and links it anew.
                return Err(io::Error::other("no free descriptor for the link to the front"));
            }
            // Other settings come with another process.
            Polled::Message((ToAuth::Settings(_), _)) => {}
        }
        Ok(true)
    }

    fn hear_front(&mut self) {
        let Some((id, front)) = &self.front else { return };
        match front.poll::<ToLogin>() {
            Ok(Polled::Message((message, _))) => {
                self.exchanges.take(Job { link: *id, front: Arc::clone(front), message });
            }
            Ok(Polled::Nothing) => {}
            // The supervisor sends the link to the next front.
            Ok(Polled::End) | Err(_) => self.front = None,
        }
    }
}

/// Time for a child of the supervisor to arrive.
pub(super) const CHILD_TIMEOUT: Duration = Duration::from_secs(5);
