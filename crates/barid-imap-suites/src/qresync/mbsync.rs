//! mbsync, which carries changes of a Maildir of its own to the mailbox and back.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use barid_testkit::peers::PeerUser;
use barid_testkit::{Scratch, disk};
use fastrand::Rng;

use super::maildir::MaildirWriter;
use super::real::find;
use super::writer::Writer;
use crate::server::Server;

/// mbsync and its Maildir.
pub(super) struct MbsyncWriter<'s> {
    server: &'s dyn Server,
    user: u32,
    number: usize,
    /// Made at the first run.
    home: Option<(Scratch, MaildirWriter)>,
}

impl<'s> MbsyncWriter<'s> {
    pub(super) fn new(server: &'s dyn Server, user: u32, number: usize) -> Self {
        Self { server, user, number, home: None }
    }

    /// Synchronises. It fails if the server is killed meanwhile; the next run goes on from there.
    fn sync(&self, home: &Scratch) -> io::Result<u64> {
        let (login, near) = (self.server.login(self.user), home.path().join("near"));
        let config = format!(
            "IMAPStore r\nHost 127.0.0.1\nPort {}\nUser {}\nPass {}\nAuthMechs LOGIN\nSSLType None\n\n\
             MaildirStore l\nPath {near}/\nInbox {near}/INBOX\n\n\
             Channel c\nFar :r:\nNear :l:\nPatterns INBOX\nExpunge Both\nSyncState *\n",
            self.server.address().port(),
            login.name,
            login.password,
            near = near.display()
        );
        let file = home.path().join("rc");
        disk::write(&file, config.as_bytes())?;
        home.hand_over()?;
        let mut command = Command::new(find("mbsync")?);
        command.arg("-q").arg("-c").arg(&file).arg("-a");
        PeerUser::get()?.run_as(&mut command, home.path());
        let log = disk::open_append(&home.path().join("log"))?;
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).status()?;
        Ok(u64::from(status.success()))
    }

    fn home(&self) -> io::Result<(Scratch, MaildirWriter)> {
        let home = Scratch::new("mbsync")?;
        let inbox: PathBuf = home.path().join("near").join("INBOX");
        for part in ["cur", "new", "tmp"] {
            disk::create_dir_all(&inbox.join(part))?;
        }
        Ok((home, MaildirWriter::new(inbox, self.number)))
    }
}

impl Writer for MbsyncWriter<'_> {
    fn name(&self) -> &str {
        "mbsync"
    }

    fn act(&mut self, rng: &mut Rng) -> io::Result<u64> {
        let (home, mut files) = match self.home.take() {
            Some(home) => home,
            None => self.home()?,
        };
        let changed = files.change(rng)?;
        let synchronised = self.sync(&home)?;
        self.home = Some((home, files));
        Ok(changed * synchronised)
    }
}
