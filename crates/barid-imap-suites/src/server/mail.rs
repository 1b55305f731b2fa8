//! The formats of mailboxes that servers are given.

use std::io;
use std::path::{Path, PathBuf};

use barid_testkit::disk;

/// Bytes before the first message of an mbx.
const MBX_HEADER_LEN: usize = 2048;

/// Format of the mailboxes of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailFormat {
    /// Maildirs, with the layout of folders of Maildir++.
    Maildir,
    /// Files of mbox in folders.
    Mbox,
    /// Maildirs in folders, with one named `INBOX`.
    Nested,
    /// Files of mbx in folders.
    Mbx,
    /// Folders of mix.
    Mix,
}

impl MailFormat {
    /// Returns the name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Maildir => "maildir",
            Self::Mbox => "mbox",
            Self::Nested => "nested",
            Self::Mbx => "mbx",
            Self::Mix => "mix",
        }
    }

    /// Returns the path of a mailbox whose levels are separated by `/`.
    pub fn mailbox_path(self, dir: &Path, name: &str) -> PathBuf {
        match self {
            Self::Maildir if name.eq_ignore_ascii_case("INBOX") => dir.to_path_buf(),
            Self::Maildir => dir.join(format!(".{}", name.replace('/', "."))),
            Self::Mbox | Self::Nested | Self::Mbx | Self::Mix => dir.join(name),
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

    /// Returns the format of a name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Maildir, Self::Mbox, Self::Nested, Self::Mbx, Self::Mix];
        all.into_iter().find(|format| format.name() == name)
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
            Self::Nested => {
                for part in ["cur", "new", "tmp"] {
                    disk::create_dir_all(&path.join(part))?;
                }
                Ok(())
            }
            Self::Mbox | Self::Mbx => {
                disk::create_dir_all(path.parent().unwrap_or(dir))?;
                let bytes = if self == Self::Mbx { mbx_header() } else { Vec::new() };
                disk::write(&path, &bytes)
            }
            Self::Mix => {
                disk::create_dir_all(&path)?;
                let now = disk::unix_seconds();
                for name in [".mixindex", ".mixstatus", &format!(".mix{now:08x}")] {
                    disk::write(&path.join(name), b"")?;
                }
                let meta = format!("S{now:08x}\r\nV{now:08x}\r\nL00000000\r\nN{now:08x}\r\n");
                disk::write(&path.join(".mixmeta"), meta.as_bytes())
            }
        }
    }
}

/// Returns an mbx without messages: the line of its kind, UIDVALIDITY and the last UID, and the
/// lines of 30 keywords.
fn mbx_header() -> Vec<u8> {
    let numbers = format!("{:08x}00000000", disk::unix_seconds());
    let mut header = format!("*mbx*\r\n{numbers}\r\n{}", "\r\n".repeat(30)).into_bytes();
    header.resize(MBX_HEADER_LEN, 0);
    header
}
