//! Dovecot with its master process, as an unprivileged user on ports of its own.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use barid_testkit::peers::{PeerUser, program};
use barid_testkit::{Scratch, disk, skip_or_fail};
use rustix::process::{Pid, Signal, kill_process};

use super::certificate::Certificate;
use super::{Login, MailFormat, Server, TlsListener};
use crate::limits::{PORTS_MAX, START_TIMEOUT, STOP_TIMEOUT};
use crate::wire::Connection;

/// Dovecot's `imap` program.
const IMAP: &str = "/usr/lib/dovecot/imap";
/// Password of every user.
const PASSWORD: &str = "pass";

/// A Dovecot 2.3 of Debian with everything in a folder of its own. Any user exists, with the same
/// password. Ended when dropped.
#[derive(Debug)]
pub struct DovecotServer {
    name: String,
    format: MailFormat,
    address: SocketAddr,
    tls: Option<TlsListener>,
    config: PathBuf,
    master: Child,
    user: &'static PeerUser,
    // Removed after the master has ended.
    scratch: Scratch,
}

impl DovecotServer {
    /// Starts a Dovecot; `None` after [`skip_or_fail`] if it is not installed.
    ///
    /// # Panics
    /// If Dovecot does not know the format. With `CI=true` if it is not installed or does not
    /// start.
    pub fn start(format: MailFormat) -> Option<Self> {
        assert!(
            !matches!(format, MailFormat::Mbx | MailFormat::Mix),
            "Dovecot knows no {format:?}"
        );
        if program("dovecot").is_none() || !disk::exists(Path::new(IMAP)) {
            skip_or_fail("Dovecot (Debian package dovecot-imapd)");
            return None;
        }
        match Self::try_start(format) {
            Ok(server) => Some(server),
            Err(error) => {
                skip_or_fail(&format!("Dovecot cannot be started: {error}"));
                None
            }
        }
    }

    fn try_start(format: MailFormat) -> io::Result<Self> {
        let mut last = io::Error::other("no port was tried");
        for _ in 0..PORTS_MAX {
            // Another program may take a port before Dovecot does.
            match Self::start_on(format, free_port()?, free_port()?) {
                Ok(server) => return Ok(server),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn start_on(format: MailFormat, port: u16, tls_port: u16) -> io::Result<Self> {
        let scratch = Scratch::new("imap-dovecot")?;
        let user = PeerUser::get()?;
        for folder in ["run", "home", "mail"] {
            disk::create_dir(&scratch.path().join(folder))?;
        }
        let certificate = Certificate::make(scratch.path())?;
        let config = scratch.path().join("dovecot.conf");
        let ports = (port, certificate.as_ref().map(|certificate| (tls_port, certificate)));
        let text = configuration(scratch.path(), format, (user, &group_name(user.gid)?), ports);
        disk::write(&config, text.as_bytes())?;
        scratch.hand_over()?;
        let mut command = Command::new(program("dovecot").unwrap_or_else(|| "dovecot".into()));
        command.arg("-F").arg("-c").arg(&config);
        user.run_as(&mut command, &scratch.path().join("home"));
        let output = disk::open_append(&scratch.path().join("master.out"))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let master = command.spawn()?;
        let tls = certificate.map(|certificate| TlsListener {
            address: SocketAddr::from(([127, 0, 0, 1], tls_port)),
            certificate: Some(certificate.certificate),
        });
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let name = format!("dovecot-{}", format.name());
        let mut server = Self { name, format, address, tls, config, master, user, scratch };
        server.wait_until_it_greets()?;
        Ok(server)
    }

    fn wait_until_it_greets(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if self.master.try_wait()?.is_some() || Instant::now() > deadline {
                return Err(io::Error::other(format!("it did not start: {}", self.log())));
            }
            if Connection::connect(self.address).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stop(&mut self) -> io::Result<()> {
        let pid = i32::try_from(self.master.id()).ok().and_then(Pid::from_raw);
        if self.master.try_wait()?.is_none()
            && let Some(pid) = pid
        {
            kill_process(pid, Signal::TERM)?;
            let deadline = Instant::now() + STOP_TIMEOUT;
            while self.master.try_wait()?.is_none() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            self.master.kill()?;
            self.master.wait()?;
        }
        Ok(())
    }
}

impl Server for DovecotServer {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    fn tls(&self) -> Option<TlsListener> {
        self.tls.clone()
    }

    fn login(&self, user: u32) -> Login {
        Login { name: format!("u{user}"), password: PASSWORD.to_owned() }
    }

    fn stdio(&self, user: u32) -> io::Result<Option<Command>> {
        let mut command = Command::new(IMAP);
        command.arg("-c").arg(&self.config);
        self.user.run_as(&mut command, &self.scratch.path().join("home"));
        let name = self.login(user).name;
        command.env("USER", &name).env("LOGNAME", &name);
        // Without a master process it logs to its standard error.
        command.stderr(disk::open_append(&self.scratch.path().join("stdio.log"))?);
        Ok(Some(command))
    }

    fn mail_dir(&self, user: u32) -> PathBuf {
        self.scratch.path().join("mail").join(self.login(user).name)
    }

    fn format(&self) -> MailFormat {
        self.format
    }

    fn log(&self) -> String {
        let files = ["master.out", "log", "stdio.log"].map(|name| self.scratch.path().join(name));
        files.iter().map(|file| disk::read_text(file).unwrap_or_default()).collect()
    }
}

impl Drop for DovecotServer {
    fn drop(&mut self) {
        // A process that cannot be ended is litter, not a failure.
        drop(self.stop());
    }
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

/// Returns the configuration: `owner` is the user of everything and the name of the group, `ports`
/// are the port without TLS, and the one with it.
fn configuration(
    folder: &Path,
    format: MailFormat,
    owner: (&PeerUser, &str),
    ports: (u16, Option<(u16, &Certificate)>),
) -> String {
    let (port, tls) = ports;
    let (user, group) = owner;
    let folder = folder.display();
    let PeerUser { name, uid, gid } = user;
    let location = match format {
        MailFormat::Maildir => format!("maildir:{folder}/mail/%u"),
        MailFormat::Nested => {
            format!("maildir:{folder}/mail/%u:LAYOUT=fs:INBOX={folder}/mail/%u/INBOX")
        }
        // It knows neither mbx nor mix.
        _ => format!("mbox:{folder}/mail/%u:INBOX={folder}/mail/%u/INBOX"),
    };
    let (ssl, tls_port) = match tls {
        None => ("ssl = no\n".to_owned(), 0),
        Some((port, Certificate { certificate, key })) => {
            let (certificate, key) = (certificate.display(), key.display());
            (format!("ssl = yes\nssl_cert = <{certificate}\nssl_key = <{key}\n"), port)
        }
    };
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
         first_valid_uid = 1\n\
         first_valid_gid = 1\n\
         mail_uid = {uid}\n\
         mail_gid = {gid}\n\
         mail_location = {location}\n\
         mail_attribute_dict = file:{folder}/home/%u.attributes\n\
         mail_max_userip_connections = 1000\n\
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
         service imap {{\n  process_limit = 1000\n}}\n\
         service imap-login {{\n  chroot =\n  service_count = 0\n\
           inet_listener imap {{\n    port = {port}\n  }}\n\
           inet_listener imaps {{\n    port = {tls_port}\n    ssl = yes\n  }}\n\
         }}\n\
         passdb {{\n  driver = static\n  args = password={PASSWORD}\n}}\n\
         userdb {{\n  driver = static\n  args = uid={uid} gid={gid} home={folder}/home\n}}\n"
    )
}
