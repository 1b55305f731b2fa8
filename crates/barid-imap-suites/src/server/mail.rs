//! The formats of mailboxes that servers are given.

use std::io;
use std::path::{Path, PathBuf};

use barid_testkit::disk;

/// Format of the mailboxes of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailFormat {
    /// Maildirs, with the layout of folders of Maildir++.
    Maildir,
    /// Files of mbox in folders.
    Mbox,
}

impl MailFormat {
    /// Returns the name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Maildir => "maildir",
            Self::Mbox => "mbox",
        }
    }

    /// Returns the path of a mailbox whose levels are separated by `/`.
    pub fn mailbox_path(self, dir: &Path, name: &str) -> PathBuf {
        match self {
            Self::Maildir if name.eq_ignore_ascii_case("INBOX") => dir.to_path_buf(),
            Self::Maildir => dir.join(format!(".{}", name.replace('/', "."))),
            Self::Mbox => dir.join(name),
        }
    }

    /// Makes a folder that holds nothing except an empty INBOX.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn empty(self, dir: &Path) -> io::Result<()> {
        if disk::exists(dir) {
            disk::remove_tree(dir)?;
        }
        disk::create_dir_all(dir)?;
        self.create(dir, "INBOX")
    }

    /// Creates a mailbox in the folder of a user.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn create(self, dir: &Path, name: &str) -> io::Result<()> {
        let path = self.mailbox_path(dir, name);
        match self {
            Self::Maildir => {
                for part in ["cur", "new", "tmp"] {
                    disk::create_dir_all(&path.join(part))?;
                }
                // The mark of a folder in Maildir++.
                if path == dir { Ok(()) } else { disk::write(&path.join("maildirfolder"), b"") }
            }
            Self::Mbox => {
                disk::create_dir_all(path.parent().unwrap_or(dir))?;
                disk::write(&path, b"")
            }
        }
    }
}
