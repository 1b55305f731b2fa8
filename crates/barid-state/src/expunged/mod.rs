//! The messages of the last expunges, so that they can be undone.
//!
//! One folder per mailbox, `<state dir>/<id>.kept`, and one numbered file per expunge, whose layout
//! `docs/formats/expunged.md` maps. A file is written whole and durable before its messages are
//! expunged, so that a message is always in the mailbox, in the file, or in both; and a file never
//! replaces another. The mailbox shows whether the expunge then happened: it still has the
//! messages, or no longer has them. Every message has its own checksum, so that damage affects only
//! the messages it hits. A message that is a file of its own may be hard-linked into a folder
//! beside the file instead of copied.

mod folder;
mod layout;
mod read;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_types::{FlagSet, InternalDate, Keyword, Uid, UidValidity};
use barid_vfs::{File, Timestamp};

pub use self::folder::{KeptBounds, KeptFolder, KeptSummary};
pub use self::read::Expunged;
pub use self::write::ExpungedWriter;
use crate::MessageKey;
use crate::error::{At, Result};

/// The mailbox from which messages were expunged, and its state at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFrom {
    /// The canonical path of the mailbox; empty if it is longer than 4096 bytes.
    pub path: PathBuf,
    /// The format of the mailbox, as a number that the caller defines.
    pub format: u8,
    /// The UIDVALIDITY of the messages' UIDs.
    pub uidvalidity: UidValidity,
    /// UIDNEXT at that time; a message that was brought back has this UID or a higher one.
    pub uidnext: Uid,
    /// Time at which the messages were kept.
    pub kept: Timestamp,
    /// Time from which they may be removed.
    pub until: Timestamp,
    /// `true` if this continues the expunge kept before it, which was interrupted.
    pub continues: bool,
    /// Set if messages were not kept, but only recorded as expunged.
    pub left_out: Option<LeftOut>,
}

/// Seconds for which a file of version 2, which has no expiry time, is kept: 30 days.
const KEPT_SECONDS: i64 = 30 * 86_400;

/// Totals of the messages that were expunged and not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Number of messages.
    pub messages: u32,
    /// Total size in bytes.
    pub bytes: u64,
}

/// Form in which the bytes of a message were kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptForm {
    /// A plain message: header, blank line, body.
    Message,
    /// The bytes as they were in an mbox, with the separator (the From_ line) in front.
    Stored {
        /// Length of the separator in bytes.
        separator_len: u32,
    },
    /// The bytes were not kept.
    LeftOut,
}

/// An expunged message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptMessage {
    /// Its UID.
    pub uid: Uid,
    /// The hash that identifies it, as in the ledger.
    pub key: MessageKey,
    /// The time at which it arrived (RFC 9051 §2.3.3).
    pub internal_date: InternalDate,
    /// Its flags.
    pub flags: FlagSet,
    /// Its keywords; at most 255 are kept.
    pub keywords: Vec<Keyword>,
    /// The sender of its From_ line, if it had one.
    pub sender: Option<String>,
    /// Form of `bytes`.
    pub form: KeptForm,
    /// The message; empty if it is in `large`.
    pub bytes: Vec<u8>,
    /// The bytes of a message that is too large to be read into memory.
    pub large: Option<LargeKept>,
}

/// The bytes of a large message, in the file that keeps them.
#[derive(Clone, Debug)]
pub struct LargeKept {
    file: Arc<dyn File>,
    path: PathBuf,
    offset: u64,
    len: u64,
}

impl LargeKept {
    /// Returns the number of bytes.
    pub fn size(&self) -> u64 {
        self.len
    }

    /// Reads bytes from `offset` on into `buffer`; returns their number, which is less than the
    /// buffer's length only at the end.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let left = self.len.saturating_sub(offset).min(buffer.len() as u64) as usize;
        self.file.read_full_at(&mut buffer[..left], self.offset + offset).at(&self.path)
    }
}

impl PartialEq for LargeKept {
    fn eq(&self, other: &Self) -> bool {
        (&self.path, self.offset, self.len) == (&other.path, other.offset, other.len)
    }
}

impl Eq for LargeKept {}

/// An item that [`Expunged::next`] returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A message.
    Message(Box<KeptMessage>),
    /// A message that was kept as a link, and whose file was changed in place since then.
    Changed(Box<KeptMessage>),
    /// A damaged message.
    Damaged {
        /// Its UID; `None` if it cannot be read, and then the messages after it cannot be found.
        uid: Option<Uid>,
    },
}

/// Returns the folder of the messages that the file at `path` keeps as links.
fn links_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".links");
    name.into()
}

/// Returns the path of the link to a message that the file at `path` keeps.
fn link_path(path: &Path, uid: Uid) -> PathBuf {
    links_path(path).join(uid.to_string())
}
