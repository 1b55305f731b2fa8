//! Dovecot with its master process, as an unprivileged user on ports of its own.

use std::io::{self, BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{PeerUser, program};
use crate::disk;

/// Dovecot's program for one session.
pub const DOVECOT_IMAP: &str = "/usr/lib/dovecot/imap";

/// Longest wait for the start of a server, and for a greeting.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for the end of a server that was asked to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// Number of pairs of ports that are tried.
const PORTS_MAX: u32 = 5;

/// Settings of a [`DovecotMaster`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DovecotSettings {
    /// The value of `mail_location`, in which `%u` stands for the name of the user.
    pub location: String,
    /// The password of every user, kept as it is.
    pub password: String,
    /// Connections that a login process serves before it ends; 0 for any number.
    pub login_service_count: u32,
    /// Most sessions at once.
    pub sessions_max: u32,
    /// Kind of the key of its certificate.
    pub key: CertificateKey,
}

/// Kind of the key of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateKey {
    /// RSA with 2,048 bits.
    Rsa,
    /// The elliptic curve P-256.
    P256,
}

/// A Dovecot 2.3 of Debian with everything except the mail in a folder of its own. Any user exists.
/// Ended when dropped.
#[derive(Debug)]
pub struct DovecotMaster {
    folder: PathBuf,
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    config: PathBuf,
    process: Child,
}

impl DovecotMaster {
    /// Returns `true` if the program is installed.
    pub fn is_installed() -> bool {
        program("dovecot").is_some() && disk::exists(Path::new(DOVECOT_IMAP))
    }

    /// Starts a server with its files in `folder`, which must exist.
    ///
    /// # Errors
    /// If it does not greet in time; the error has its log.
    pub fn start(folder: &Path, settings: &DovecotSettings) -> io::Result<Self> {
        let mut last = io::Error::other("no port was tried");
        for _ in 0..PORTS_MAX {
            // Another program may take a port before Dovecot does.
            match Self::start_on(folder, settings, free_port()?, free_port()?) {
                Ok(server) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn start_on(
        folder: &Path,
        settings: &DovecotSettings,
        port: u16,
        tls_port: u16,
    ) -> io::Result<Self> {
        let user = PeerUser::get()?;
        for part in ["run", "home"] {
            disk::create_dir_all(&folder.join(part))?;
        }
        let certificate = Certificate::make(folder, settings.key)?;
        let ports = (port, certificate.as_ref().map(|certificate| (tls_port, certificate)));
        let config = folder.join("dovecot.conf");
        let text = configuration(folder, settings, (user, &group_name(user.gid)?), ports);
        disk::write(&config, text.as_bytes())?;
        user.take(folder)?;
        let mut command = Command::new(program("dovecot").unwrap_or_else(|| "dovecot".into()));
        command.arg("-F").arg("-c").arg(&config);
        user.run_as(&mut command, &folder.join("home"));
        let output = disk::open_append(&folder.join("master.out"))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let process = command.spawn()?;
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let mut server = Self {
            folder: folder.to_owned(),
            address: loopback(port),
            tls_address: certificate.map(|_| loopback(tls_port)),
            config,
            process,
        };
        server.wait_until_it_greets()?;
        Ok(server)
    }

    /// Returns the id of the master process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns the address without TLS.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address with TLS; `None` if `openssl`, which makes the certificate, is missing.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls_address
    }

    /// Returns the file of the certificate, for `localhost` and 127.0.0.1.
    pub fn certificate(&self) -> PathBuf {
        Certificate::of(&self.folder).certificate
    }

    /// Returns the file of the configuration.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// Returns the home of its processes.
    pub fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// Returns the log.
    pub fn log(&self) -> String {
        let files = ["master.out", "log"].map(|name| self.folder.join(name));
        files.iter().map(|file| disk::read_text(file).unwrap_or_default()).collect()
    }

    fn wait_until_it_greets(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if self.process.try_wait()?.is_some() || Instant::now() > deadline {
                return Err(io::Error::other(format!("it did not start: {}", self.log())));
            }
            if greets(self.address).unwrap_or(false) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stop(&mut self) -> io::Result<()> {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        if self.process.try_wait()?.is_none()
            && let Some(pid) = pid
        {
            kill_process(pid, Signal::TERM)?;
            let deadline = Instant::now() + STOP_TIMEOUT;
            while self.process.try_wait()?.is_none() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            self.process.kill()?;
            self.process.wait()?;
        }
        Ok(())
    }
}

impl Drop for DovecotMaster {
    fn drop(&mut self) {
        // A process that cannot be ended is litter, not a failure.
        drop(self.stop());
    }
}

/// Returns `true` if a server greets a client.
fn greets(address: SocketAddr) -> io::Result<bool> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(START_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.starts_with("* OK"))
}

/// Returns a port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Returns the name of a group.
fn group_name(gid: u32) -> io::Result<String> {
    let groups = disk::read_text(Path::new("/etc/group"))?;
    let is_wanted = |line: &&str| line.split(':').nth(2) == Some(gid.to_string().as_str());
    let line = groups.lines().find(is_wanted).and_then(|line| line.split(':').next());
    line.map(str::to_owned).ok_or_else(|| io::Error::other(format!("no group {gid}")))
}

/// A certificate for `localhost` and its key.
struct Certificate {
    certificate: PathBuf,
    key: PathBuf,
}

impl Certificate {
    fn of(folder: &Path) -> Self {
        Self { certificate: folder.join("cert.pem"), key: folder.join("key.pem") }
    }

    /// Makes a certificate in a folder with `openssl`; `None` if that is not installed.
    fn make(folder: &Path, key: CertificateKey) -> io::Result<Option<Self>> {
        let Some(openssl) = program("openssl") else { return Ok(None) };
        let made = Self::of(folder);
        let mut command = Command::new(openssl);
        command.args(["req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=localhost"]);
        command.args(match key {
            CertificateKey::Rsa => &["-newkey", "rsa:2048"][..],
            CertificateKey::P256 => {
                &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"][..]
            }
        });
        command.args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]);
        command.arg("-keyout").arg(&made.key).arg("-out").arg(&made.certificate);
        let output = command.stdin(Stdio::null()).output()?;
        if output.status.success() {
            return Ok(Some(made));
        }
        Err(io::Error::other(format!("openssl: {}", String::from_utf8_lossy(&output.stderr))))
    }
}

/// Returns the configuration: `owner` is the user of everything and the name of the group, `ports`
/// are the port without TLS, and the one with it.
fn configuration(
    folder: &Path,
    settings: &DovecotSettings,
    owner: (&PeerUser, &str),
    ports: (u16, Option<(u16, &Certificate)>),
) -> String {
    let (port, tls) = ports;
    let (PeerUser { name, uid, gid }, group) = owner;
    let folder = folder.display();
    let DovecotSettings { location, password, login_service_count, sessions_max, .. } = settings;
    let (ssl, tls_port) = match tls {
        None => ("ssl = no\n".to_owned(), 0),
        Some((port, Certificate { certificate, key })) => {
            let (certificate, key) = (certificate.display(), key.display());
            (format!("ssl = yes\nssl_cert = <{certificate}\nssl_key = <{key}\n"), port)
        }
    };
    let clients_max = 4 * sessions_max;
    format!(
        "base_dir = {folder}/run\n\
         state_dir = {folder}/run\n\
         log_path = {folder}/log\n\
         protocols = imap\n\
         listen = 127.0.0.1\n\
         {ssl}\
         disable_plaintext_auth = no\n\
         auth_failure_delay = 0\n\
         default_internal_user = {name}\n\
         default_internal_group = {group}\n\
         default_login_user = {name}\n\
         default_client_limit = {clients_max}\n\
         default_process_limit = {sessions_max}\n\
         first_valid_uid = 1\n\
         first_valid_gid = 1\n\
         mail_uid = {uid}\n\
         mail_gid = {gid}\n\
         mail_location = {location}\n\
         mail_attribute_dict = file:{folder}/home/%u.attributes\n\
         mail_max_userip_connections = {sessions_max}\n\
         stats_writer_socket_path =\n\
         mbox_write_locks = dotlock fcntl\n\
         namespace inbox {{\n  inbox = yes\n  separator = /\n\
           mailbox Drafts {{\n    special_use = \\Drafts\n  }}\n\
           mailbox Sent {{\n    special_use = \\Sent\n  }}\n\
           mailbox Trash {{\n    special_use = \\Trash\n  }}\n\
           mailbox Junk {{\n    special_use = \\Junk\n  }}\n\
         }}\n\
         protocol imap {{\n  imap_metadata = yes\n}}\n\
         service anvil {{\n  chroot =\n}}\n\
         service imap {{\n  process_limit = {sessions_max}\n  vsz_limit = 2 G\n}}\n\
         service imap-login {{\n  chroot =\n  service_count = {login_service_count}\n\
           inet_listener imap {{\n    port = {port}\n  }}\n\
           inet_listener imaps {{\n    port = {tls_port}\n    ssl = yes\n  }}\n\
         }}\n\
         passdb {{\n  driver = static\n  args = password={password}\n}}\n\
         userdb {{\n  driver = static\n  args = uid={uid} gid={gid} home={folder}/home\n}}\n"
    )
}
