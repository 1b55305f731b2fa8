//! Dovecot (Debian `dovecot-imapd`), without its master process.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{BarrierLog, Imap, PeerUser, program};
use crate::{Scratch, disk, skip_or_fail};

/// Dovecot's `imap` program, started directly.
const IMAP: &str = "/usr/lib/dovecot/imap";

/// A Dovecot with its configuration in a folder of its own.
///
/// `location` is a `mail_location`, such as `maildir:/path` or `mbox:/dir:INBOX=/dir/box`. An mbox
/// needs a directory: see [`Dovecot::mbox_location`].
#[derive(Debug)]
pub struct Dovecot {
    scratch: Scratch,
    config: PathBuf,
    user: &'static PeerUser,
}

impl Dovecot {
    /// Prepares a Dovecot; `None` after [`skip_or_fail`] if it is not installed.
    ///
    /// # Panics
    ///
    /// With `CI=true` if it is not installed.
    pub fn new() -> Option<Self> {
        if program("doveadm").is_none() || !disk::exists(Path::new(IMAP)) {
            skip_or_fail("Dovecot (Debian package dovecot-imapd)");
            return None;
        }
        match Self::configure() {
            Ok(dovecot) => Some(dovecot),
            Err(error) => {
                skip_or_fail(&format!("Dovecot cannot be set up: {error}"));
                None
            }
        }
    }

    fn configure() -> io::Result<Self> {
        let scratch = Scratch::new("dovecot")?;
        let user = PeerUser::get()?;
        let folder = scratch.path().display();
        let PeerUser { name, uid, gid } = user;
        let text = format!(
            "base_dir = {folder}/run\n\
             state_dir = {folder}/run\n\
             log_path = {folder}/log\n\
             ssl = no\n\
             protocols = imap\n\
             mail_uid = {uid}\n\
             mail_gid = {gid}\n\
             first_valid_uid = 1\n\
             first_valid_gid = 1\n\
             default_internal_user = {name}\n\
             default_login_user = {name}\n\
             stats_writer_socket_path =\n\
             passdb {{\n  driver = static\n  args = nopassword=y\n}}\n\
             userdb {{\n  driver = static\n  args = uid={uid} gid={gid} home={folder}/home\n}}\n"
        );
        let config = scratch.path().join("dovecot.conf");
        disk::write(&config, text.as_bytes())?;
        disk::create_dir(&scratch.path().join("run"))?;
        disk::create_dir(&scratch.path().join("home"))?;
        disk::create_dir(&scratch.path().join("mail"))?;
        scratch.hand_over()?;
        Ok(Self { scratch, config, user })
    }

    /// Returns a folder for mailboxes, removed with this value. Mailboxes may be elsewhere too.
    pub fn folder(&self) -> PathBuf {
        self.scratch.path().join("mail")
    }

    /// Returns the location of an mbox file as INBOX, with the folders that Dovecot needs: its
    /// indexes are in a folder of this value, named after the file.
    pub fn mbox_location(&self, mbox: &Path) -> String {
        let own = self.index_folder(mbox);
        format!(
            "mbox:{own}/dir:INBOX={mbox}:INDEX={own}/index",
            own = own.display(),
            mbox = mbox.display()
        )
    }

    /// Returns the location of a Maildir to which Dovecot writes nothing: its indexes and its UID
    /// list are in a folder of this value, named after the Maildir.
    pub fn maildir_location(&self, maildir: &Path) -> String {
        let own = self.index_folder(maildir);
        let (own, maildir) = (own.display(), maildir.display());
        format!("maildir:{maildir}:INDEX={own}/index:CONTROL={own}/control")
    }

    /// Removes the indexes that belong to [`Dovecot::mbox_location`] or
    /// [`Dovecot::maildir_location`], so that the next session starts without them.
    pub fn clear_indexes(&self, mailbox: &Path) -> io::Result<()> {
        let folder = self.index_folder(mailbox);
        if disk::exists(&folder) { disk::remove_tree(&folder) } else { Ok(()) }
    }

    /// Returns the folder of the indexes that belong to [`Dovecot::mbox_location`] or
    /// [`Dovecot::maildir_location`].
    pub fn index_folder(&self, mailbox: &Path) -> PathBuf {
        let name = mailbox.file_name().unwrap_or_default().to_string_lossy();
        self.scratch.path().join("home").join(format!("{name}.own"))
    }

    /// Returns the version, as Dovecot prints it.
    pub fn version(&self) -> String {
        let dovecot = program("dovecot").unwrap_or_else(|| "dovecot".into());
        let output = Command::new(dovecot).arg("--version").output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&text).trim().to_owned()
    }

    /// Starts an IMAP session; `options` are settings such as `("mbox_lazy_writes", "no")`.
    ///
    /// If the test runs as root, the mailbox's owner is first changed to the peers' user.
    pub fn imap(&self, location: &str, options: &[(&str, &str)]) -> io::Result<Imap> {
        self.imap_when(location, options, &mut || Ok(()))
    }

    /// Like [`Dovecot::imap`]; calls `ready` after all preparations, just before the server is
    /// started.
    pub fn imap_when(
        &self,
        location: &str,
        options: &[(&str, &str)],
        ready: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<Imap> {
        let mut command = Command::new(IMAP);
        self.prepare(&mut command, location, options)?;
        ready()?;
        // Without a master process it logs to its standard error, whatever `log_path` says.
        command.stderr(disk::open_append(&self.log_path())?);
        Imap::start(command)
    }

    /// Like [`Dovecot::imap`]; strace counts the server's barriers ([`Imap::barriers`]), which
    /// slows it down.
    pub fn imap_counted(&self, location: &str, options: &[(&str, &str)]) -> io::Result<Imap> {
        let log = BarrierLog::create(self.scratch.path())?;
        let mut command = log.command(Path::new(IMAP));
        self.prepare(&mut command, location, options)?;
        command.stderr(disk::open_append(&self.log_path())?);
        let mut imap = Imap::start(command)?;
        imap.log = Some(log);
        Ok(imap)
    }

    /// Runs `doveadm` with `args` and returns what it prints.
    ///
    /// # Errors
    ///
    /// Also if it fails; the error contains its output.
    pub fn doveadm(
        &self,
        location: &str,
        options: &[(&str, &str)],
        args: &[&str],
    ) -> io::Result<String> {
        let output = self.doveadm_command(location, options, args)?.output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("doveadm {args:?}: {said}")));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns the command `doveadm` with `args`.
    ///
    /// # Errors
    ///
    /// If the owner of the mailbox cannot be changed to the user that it runs as.
    pub fn doveadm_command(
        &self,
        location: &str,
        options: &[(&str, &str)],
        args: &[&str],
    ) -> io::Result<Command> {
        let mut command = Command::new(program("doveadm").unwrap_or_else(|| "doveadm".into()));
        self.prepare(&mut command, location, options)?;
        command.args(args);
        Ok(command)
    }

    /// Returns Dovecot's log.
    pub fn log(&self) -> String {
        disk::read_text(&self.log_path()).unwrap_or_default()
    }

    fn log_path(&self) -> PathBuf {
        self.scratch.path().join("log")
    }

    fn prepare(
        &self,
        command: &mut Command,
        location: &str,
        options: &[(&str, &str)],
    ) -> io::Result<()> {
        command.arg("-c").arg(&self.config);
        command.arg("-o").arg(format!("mail_location={location}"));
        for (name, value) in options {
            command.arg("-o").arg(format!("{name}={value}"));
        }
        self.user.run_as(command, &self.scratch.path().join("home"));
        self.scratch.hand_over()?;
        for path in paths_of(location) {
            if disk::exists(&path) {
                self.user.take(&path)?;
            }
        }
        Ok(())
    }
}

/// Returns the absolute paths in a `mail_location`.
fn paths_of(location: &str) -> impl Iterator<Item = PathBuf> {
    let values = location.split(':').map(|part| part.split_once('=').map_or(part, |(_, v)| v));
    values.filter(|value| value.len() > 1 && value.starts_with('/')).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_of_a_location_are_found() {
        let paths: Vec<_> = paths_of("mbox:/a/dir:INBOX=/b/box:INDEX=MEMORY").collect();
        assert_eq!(paths, [PathBuf::from("/a/dir"), PathBuf::from("/b/box")]);
    }
}
