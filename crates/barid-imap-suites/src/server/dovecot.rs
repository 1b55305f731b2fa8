//! Dovecot with its master process, as an unprivileged user on ports of its own.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use barid_testkit::peers::{
    CertificateKey, DOVECOT_IMAP, DovecotMaster, DovecotSettings, PeerUser,
};
use barid_testkit::{Scratch, disk, skip_or_fail};

use super::{Login, MailFormat, Server, TlsListener};

/// Password of every user.
const PASSWORD: &str = "pass";
/// Most sessions at once.
const SESSIONS_MAX: u32 = 1_000;

/// A Dovecot 2.3 of Debian with everything in a folder of its own. Any user exists, with the same
/// password. Ended when dropped.
#[derive(Debug)]
pub struct DovecotServer {
    name: String,
    format: MailFormat,
    master: DovecotMaster,
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
        if !DovecotMaster::is_installed() {
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
        let scratch = Scratch::new("imap-dovecot")?;
        disk::create_dir(&scratch.path().join("mail"))?;
        let mail = scratch.path().join("mail");
        let mail = mail.display();
        let location = match format {
            MailFormat::Maildir => format!("maildir:{mail}/%u"),
            MailFormat::Nested => format!("maildir:{mail}/%u:LAYOUT=fs:INBOX={mail}/%u/INBOX"),
            // It knows neither mbx nor mix.
            _ => format!("mbox:{mail}/%u:INBOX={mail}/%u/INBOX"),
        };
        let settings = DovecotSettings {
            location,
            password: PASSWORD.to_owned(),
            login_service_count: 0,
            sessions_max: SESSIONS_MAX,
            key: CertificateKey::Rsa,
        };
        let master = DovecotMaster::start(scratch.path(), &settings)?;
        let name = format!("dovecot-{}", format.name());
        Ok(Self { name, format, master, user: PeerUser::get()?, scratch })
    }
}

impl Server for DovecotServer {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> SocketAddr {
        self.master.address()
    }

    fn tls(&self) -> Option<TlsListener> {
        let certificate = Some(self.master.certificate());
        self.master.tls_address().map(|address| TlsListener { address, certificate })
    }

    fn login(&self, user: u32) -> Login {
        Login { name: format!("u{user}"), password: PASSWORD.to_owned() }
    }

    fn stdio(&self, user: u32) -> io::Result<Option<Command>> {
        let mut command = Command::new(DOVECOT_IMAP);
        command.arg("-c").arg(self.master.config());
        self.user.run_as(&mut command, &self.master.home());
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
        let stdio = disk::read_text(&self.scratch.path().join("stdio.log"));
        self.master.log() + &stdio.unwrap_or_default()
    }
}
