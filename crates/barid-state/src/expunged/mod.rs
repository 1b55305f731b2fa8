//! The messages of the last expunges, so that they can be undone.
//!
//! One folder per mailbox, `<state dir>/<id>.kept`, and one numbered file per expunge, whose layout
//! `docs/formats/expunged.md` maps. A file is written whole and durable before its messages are
//! expunged, so that there is no moment at which a message is in neither place, and it takes the
//! place of no other: whether the expunge then happened is told by the mailbox, which still has the
//! messages or has not. Every message has its own checksum: damage costs the messages it hits. A
//! message that is a file of its own may be linked into a folder beside instead of copied.

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

/// The mailbox that the messages were in, when they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFrom {
    /// The canonical path of the mailbox; empty if it is longer than what is recorded.
    pub path: PathBuf,
    /// The format of the mailbox: a number that the caller gives a meaning.
    pub format: u8,
    /// The UIDVALIDITY of their UIDs.
    pub uidvalidity: UidValidity,
    /// The lowest UID that was not given out then: what was brought back has a higher one.
    pub uidnext: Uid,
    /// When they were kept.
    pub kept: Timestamp,
    /// When they may be dropped.
    pub until: Timestamp,
    /// The expunge goes on with the one kept before, which was interrupted.
    pub continues: bool,
    /// The messages were not kept: only that there was an expunge, and of which messages first.
    pub left_out: Option<LeftOut>,
}

/// How long messages of version 2 are kept, in seconds: 30 days.
const KEPT_SECONDS: i64 = 30 * 86_400;

/// What was expunged and not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many messages.
    pub messages: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// How the bytes of a message were kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptForm {
    /// Header, blank line, body.
    Message,
    /// As they stood in an mbox, with the separator in front.
    Stored {
        /// Bytes of the separator.
        separator_len: u32,
    },
    /// Not at all.
    LeftOut,
}

/// A message that was expunged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptMessage {
    /// Its UID.
    pub uid: Uid,
    /// What it is.
    pub key: MessageKey,
    /// When it arrived.
    pub internal_date: InternalDate,
    /// Its flags.
    pub flags: FlagSet,
    /// Its keywords; at most 255 are kept.
    pub keywords: Vec<Keyword>,
    /// The sender of its From_ line, if it had one.
    pub sender: Option<String>,
    /// What `bytes` are.
    pub form: KeptForm,
    /// The message; nothing if it is large.
    pub bytes: Vec<u8>,
    /// A message that is too large for memory.
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

    /// Reads bytes from an offset on; returns how many, which is less than the buffer takes only at
    /// the end.
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

/// What [`Expunged::next`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A message.
    Message(Box<KeptMessage>),
    /// A message whose file was kept as a link, and was changed in place since.
    Changed(Box<KeptMessage>),
    /// One that is damaged.
    Damaged {
        /// Its UID, if that can still be read; else the messages behind it cannot be found.
        uid: Option<Uid>,
    },
}

/// The folder of the messages that the file at `path` keeps as links.
fn links_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".links");
    name.into()
}

/// The link of a message that the file at `path` keeps.
fn link_path(path: &Path, uid: Uid) -> PathBuf {
    links_path(path).join(uid.to_string())
}
