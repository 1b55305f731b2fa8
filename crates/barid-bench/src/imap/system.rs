//! The servers.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use barid_testkit::disk;
use barid_testkit::peers::{
    CertificateKey, DOVECOT_IMAP, DovecotMaster, DovecotSettings, PeerUser,
};

use rustix::process::{Pid, Signal, kill_process};

use super::client::Client;
use super::material::{USER, hand_over};
use super::step::{MailFormat, Side};
use crate::lab::fresh_folder;
use crate::limits::DAEMON_DEADLINE;
use crate::systems::barid::in_folder;

/// The password of all users.
pub(crate) const PASSWORD: &str = "secret";

/// A server that can be started on one folder of users.
#[derive(Debug)]
pub(crate) struct System {
    pub(crate) side: Side,
    pub(crate) program: PathBuf,
    /// The folder of this side: `mail`, caches, configuration.
    pub(crate) folder: PathBuf,
    pub(crate) sessions_max: u32,
}

/// A running server.
pub(crate) struct Running {
    process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) tls_address: Option<SocketAddr>,
}

enum Process {
    Barid(Child),
    Dovecot(DovecotMaster),
}

impl System {
    /// Returns the folder of the users.
    pub(crate) fn mail(&self) -> PathBuf {
        self.folder.join("mail")
    }

    /// Removes all that was derived from the mail.
    pub(crate) fn forget(&self, format: MailFormat) -> Result<()> {
        if self.side == Side::Barid {
            fresh_folder(&self.folder.join("cache"))?;
            fresh_folder(&self.folder.join("state"))?;
            return hand_over(&self.folder);
        }
        let mut waiting = vec![self.mail()];
        while let Some(folder) = waiting.pop() {
            for path in disk::list(&folder).with_context(|| folder.display().to_string())? {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if name.starts_with("dovecot") {
                    disk::remove_file(&path)?;
                } else if name == ".imap" && format == MailFormat::Mbox {
                    disk::remove_tree(&path)?;
                } else if !["cur", "new", "tmp"].contains(&&*name) && !disk::is_file(&path) {
                    waiting.push(path);
                }
            }
        }
        Ok(())
    }

    fn settings(&self, format: MailFormat) -> DovecotSettings {
        let mail = self.mail();
        let mail = mail.display();
        DovecotSettings {
            location: match format {
                MailFormat::Maildir => format!("maildir:{mail}/%u"),
                MailFormat::Mbox => format!("mbox:{mail}/%u:INBOX={mail}/%u/INBOX"),
            },
            password: format!("{{PLAIN}}{PASSWORD}"),
            login_service_count: u32::from(self.side != Side::DovecotKept),
            sessions_max: self.sessions_max,
            key: CertificateKey::P256,
        }
    }

    /// Starts the server.
    pub(crate) fn start(&self, format: MailFormat) -> Result<Running> {
        if self.side == Side::Barid {
            return self.start_barid();
        }
        let folder = self.folder.join("server");
        fresh_folder(&folder)?;
        let master = DovecotMaster::start(&folder, &self.settings(format))?;
        let (address, tls_address) = (master.address(), master.tls_address());
        Ok(Running { process: Process::Dovecot(master), address, tls_address })
    }

    /// Returns the command of the server, as far as it is a program with arguments.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        in_folder(&mut command, &self.folder);
        command.arg("serve").arg("--try").arg(self.mail());
        command.args(["--port", "0", "--password", PASSWORD]);
        command
    }

    fn start_barid(&self) -> Result<Running> {
        let mut command = self.command();
        PeerUser::get()?.run_as(&mut command, &self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("barid serve")?;
        let output = child.stdout.take().context("no standard output")?;
        // Owns the process from here on: it is ended on every way out.
        let mut running = Running {
            process: Process::Barid(child),
            address: ([127, 0, 0, 1], 0).into(),
            tls_address: None,
        };
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            // Nobody listens after the first line.
            BufReader::new(output).lines().map_while(Result::ok).for_each(|line| {
                drop(sender.send(line));
            });
        });
        let line = lines.recv_timeout(DAEMON_DEADLINE).context("barid serve printed no address")?;
        let part = |name: &str| line.split(", ").find_map(|part| part.strip_prefix(name));
        let address = part("imap on ").and_then(|address| address.parse().ok());
        running.address = address.with_context(|| format!("no address in {line:?}"))?;
        running.tls_address = part("imaps on ").and_then(|address| address.parse().ok());
        Ok(running)
    }

    /// Starts a process for one session over standard input and output. The server must have been
    /// started before, and have ended.
    pub(crate) fn stdio(&self) -> Result<(Client, Child)> {
        let mut command = match self.side {
            Side::Barid => {
                let mut command = Command::new(&self.program);
                in_folder(&mut command, &self.folder);
                command.args(["serve", "--stdio", "--mail"]).arg(self.mail().join(USER));
                command
            }
            Side::Dovecot | Side::DovecotKept => {
                let mut command = Command::new(DOVECOT_IMAP);
                command.arg("-c").arg(self.folder.join("server/dovecot.conf"));
                command
            }
        };
        PeerUser::get()?.run_as(&mut command, &self.folder);
        command.env("USER", USER).env("LOGNAME", USER).stderr(Stdio::null());
        Client::spawn(command)
    }
}

impl Running {
    /// Returns the id of the process above all others.
    pub(crate) fn pid(&self) -> u32 {
        match &self.process {
            Process::Barid(child) => child.id(),
            Process::Dovecot(master) => master.pid(),
        }
    }

    /// Connects and logs in.
    pub(crate) fn session(&self, user: &str) -> Result<Client> {
        let mut client = Client::connect(self.address)?;
        client.login(user, PASSWORD).map_err(|error| self.explained(error))?;
        Ok(client)
    }

    /// Connects and logs in with TLS.
    pub(crate) fn tls(&self) -> Result<SocketAddr> {
        match self.tls_address {
            Some(address) => Ok(address),
            None => bail!("no TLS: the program openssl is missing"),
        }
    }

    /// Adds the log of the server to an error.
    pub(crate) fn explained(&self, error: anyhow::Error) -> anyhow::Error {
        match &self.process {
            Process::Barid(_) => error,
            Process::Dovecot(master) => {
                let log = master.log();
                let last: Vec<&str> = log.lines().rev().take(3).collect();
                error.context(format!("its log ends with {last:?}"))
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Process::Barid(child) = &mut self.process {
            if let Some(pid) = Pid::from_raw(child.id() as i32) {
                // It may have ended already.
                let _ = kill_process(pid, Signal::TERM);
            }
            for _ in 0..100 {
                if !matches!(child.try_wait(), Ok(None)) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            drop(child.kill());
            drop(child.wait());
        }
    }
}
