//! Sessions of one user over mailboxes in a file system in memory.

mod indexing;
mod listed;
mod multi_search;
mod notify;
mod quota;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::vfs::{MemVfs, Vfs};
use barid::{Cancel, OpenOptions};
use barid_folders::FolderOptions;
use barid_imap::session::{Next, Session, SessionSettings};
use barid_imap::wire::{Decoder, Event};

use super::{SessionAccount, UserMail, UserOptions};
use crate::quota::Quota;

/// A user with mail in memory.
pub(super) struct TestUser {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) mail: Arc<UserMail>,
}

impl TestUser {
    pub(super) fn new(quota: Quota) -> Self {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        vfs.create_dir_all(Path::new("/ann/Maildir"), 0o700).unwrap();
        Self::in_vfs(vfs, quota)
    }

    /// Opens the mail that is in a file system.
    pub(super) fn in_vfs(vfs: Arc<dyn Vfs>, quota: Quota) -> Self {
        let open = OpenOptions::new(Some("/ann/cache".into()), "/ann/state".into());
        let options = UserOptions {
            name: "ann".to_owned(),
            folders: FolderOptions::new(PathBuf::from("/ann/Maildir"), open.clone()),
            open,
            spool_dir: "/ann/cache".into(),
            append_limit: None,
            quota,
            watches: false,
        };
        let mail = Arc::new(UserMail::open(Arc::clone(&vfs), options).unwrap());
        Self { vfs, mail }
    }

    pub(in crate::mail) fn session(&self, settings: SessionSettings) -> Session<SessionAccount> {
        let account = SessionAccount::new(Arc::clone(&self.mail), Cancel::new());
        Session::new(account, settings, Decoder::new())
    }

    pub(super) fn client(&self) -> Client {
        Client(self.session(SessionSettings::default()))
    }
}

/// A client with its session.
pub(super) struct Client(Session<SessionAccount>);

impl Client {
    /// Sends bytes, and returns all that is answered.
    pub(super) fn send(&mut self, bytes: &[u8]) -> String {
        self.0.receive(bytes);
        let mut out = Vec::new();
        loop {
            match self.0.poll() {
                Event::More => break,
                event => {
                    if self.0.handle(event, &mut out) == Next::Close {
                        break;
                    }
                }
            }
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Returns what is announced between commands.
    pub(super) fn announced(&mut self) -> String {
        let mut out = Vec::new();
        assert!(self.0.is_between_commands());
        self.0.announce(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Sends a command without its tag, and returns the answer.
    pub(super) fn command(&mut self, command: &str) -> String {
        self.send(format!("x {command}\r\n").as_bytes())
    }

    /// Sends a command, and checks that the answer has a text.
    #[track_caller]
    pub(super) fn check(&mut self, command: &str, expected: &str) {
        let answer = self.command(command);
        assert!(answer.contains(expected), "{command}: {answer}");
    }

    /// Appends messages to a mailbox; returns the answer.
    pub(super) fn append(&mut self, mailbox: &str, messages: &[&str]) -> String {
        let mut line = format!("x APPEND {mailbox}");
        for message in messages {
            line.push_str(&format!(" {{{}+}}\r\n{message}", message.len()));
        }
        self.send(format!("{line}\r\n").as_bytes())
    }
}
