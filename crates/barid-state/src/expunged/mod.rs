//! The messages of the last expunge, so that it can be undone.
//!
//! One file per mailbox, `<state dir>/<id>.expunged`, whose layout `docs/formats/expunged.md` maps.
//! It is written whole and durable before the messages are expunged, so that there is no moment at
//! which a message is in neither place, and it is there or not at all: a crash leaves the one
//! before. Every message has its own checksum: damage costs the messages it hits.

mod layout;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_types::{FlagSet, InternalDate, Keyword, Uid, UidValidity};
use barid_vfs::{File, OpenOptions, Timestamp, Vfs, create_dir_durable};

use self::layout::{FOOTER_LEN, HEAD_LEN, HEADER_LEN, Head, Header};
use crate::error::{At, Error, Result};
use crate::limits::EXPUNGED_BUFFER_LEN;
use crate::modes::{DIR_MODE, FILE_MODE, is_absent};
use crate::{Identity, MessageKey};

/// The mailbox that the messages were in, when they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptFrom {
    /// The UIDVALIDITY of their UIDs.
    pub uidvalidity: UidValidity,
    /// The lowest UID that was not given out then: what was brought back has a higher one.
    pub uidnext: Uid,
    /// When they were kept.
    pub kept: Timestamp,
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
    /// Header, blank line, body.
    pub bytes: Vec<u8>,
}

/// What [`Expunged::next`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A message.
    Message(Box<KeptMessage>),
    /// One that is damaged.
    Damaged {
        /// Its UID, if that can still be read; else the messages behind it cannot be found.
        uid: Option<Uid>,
    },
}

fn path_of(dir: &Path, identity: &Identity) -> PathBuf {
    dir.join(format!("{:032x}.expunged", identity.id))
}

/// Writes the messages of an expunge. Dropped before [`ExpungedWriter::finish`] it leaves what was
/// kept before.
#[derive(Debug)]
pub struct ExpungedWriter {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    path: PathBuf,
    temporary: PathBuf,
    file: Box<dyn File>,
    buffer: Vec<u8>,
    written: u64,
    count: u32,
    finished: bool,
}

impl ExpungedWriter {
    /// Begins a file in the state folder `dir`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        identity: &Identity,
        from: &KeptFrom,
    ) -> Result<Self> {
        let mut random = [0; 8];
        vfs.random(&mut random).at(dir)?;
        let temporary = dir.join(format!(".barid-{:016x}.tmp", u64::from_le_bytes(random)));
        let options = OpenOptions::create_new(FILE_MODE);
        let file = match vfs.open(&temporary, options) {
            Err(error) if is_absent(&error) => {
                create_dir_durable(vfs.as_ref(), dir, DIR_MODE).at(dir)?;
                vfs.open(&temporary, options)
            }
            result => result,
        };
        Ok(Self {
            path: path_of(dir, identity),
            dir: dir.to_owned(),
            file: file.at(&temporary)?,
            vfs,
            temporary,
            buffer: layout::header(identity.id, from),
            written: 0,
            count: 0,
            finished: false,
        })
    }

    /// Adds a message.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn message(&mut self, message: &KeptMessage) -> Result<()> {
        layout::put_message(&mut self.buffer, message);
        self.count += 1;
        if self.buffer.len() >= EXPUNGED_BUFFER_LEN { self.flush() } else { Ok(()) }
    }

    /// Puts the file in place of what was kept before; durable when it returns. Returns its bytes.
    ///
    /// Order: fsync of the file, rename (the commit point), fsync of the folder.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(mut self) -> Result<u64> {
        let end = self.written + self.buffer.len() as u64;
        self.buffer.extend(layout::footer(self.count, end));
        self.flush()?;
        self.file.sync_all().at(&self.temporary)?;
        self.vfs.rename(&self.temporary, &self.path).at(&self.path)?;
        self.finished = true;
        self.vfs.sync_dir(&self.dir).at(&self.dir)?;
        Ok(self.written)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_all_at(&self.buffer, self.written).at(&self.temporary)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Drop for ExpungedWriter {
    fn drop(&mut self) {
        if !self.finished {
            // What stays behind is only waste.
            let _ = self.vfs.remove_file(&self.temporary);
        }
    }
}

/// The messages of the last expunge, read one by one.
#[derive(Debug)]
pub struct Expunged {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    path: PathBuf,
    file: Box<dyn File>,
    from: KeptFrom,
    /// `None` if the end is damaged.
    count: Option<u32>,
    /// Where the messages end.
    end: u64,
    /// Where the next one begins.
    at: u64,
}

impl Expunged {
    /// Opens what was kept in the state folder `dir`; `None` if nothing was. Nothing is written.
    ///
    /// # Errors
    /// [`Error::Version`] for a file of a later version; [`Error::Damaged`] if its head is;
    /// [`Error::Io`].
    pub fn open(vfs: Arc<dyn Vfs>, dir: &Path, identity: &Identity) -> Result<Option<Self>> {
        let path = path_of(dir, identity);
        let file = match vfs.open(&path, OpenOptions::READ) {
            Err(error) if is_absent(&error) => return Ok(None),
            result => result.at(&path)?,
        };
        let size = file.metadata().at(&path)?.size;
        let mut header = [0; HEADER_LEN];
        let len = file.read_full_at(&mut header, 0).at(&path)?;
        let from = match layout::read_header(&header, identity.id) {
            Header::Good(from) if len == HEADER_LEN => from,
            Header::Version(version) => return Err(Error::Version { path, version }),
            _ => return Err(Error::Damaged { path, offset: 0 }),
        };
        let mut footer = [0; FOOTER_LEN];
        let footer_at = size.saturating_sub(FOOTER_LEN as u64);
        file.read_full_at(&mut footer, footer_at).at(&path)?;
        let count = layout::read_footer(&footer, footer_at);
        let end = if count.is_some() { footer_at } else { size };
        let at = HEADER_LEN as u64;
        Ok(Some(Self { vfs, dir: dir.to_owned(), path, file, from, count, end, at }))
    }

    /// The mailbox they were in.
    pub fn from(&self) -> KeptFrom {
        self.from
    }

    /// How many messages there are; `None` if that cannot be read.
    pub fn count(&self) -> Option<u32> {
        self.count
    }

    /// Bytes of the file.
    pub fn len(&self) -> u64 {
        self.end
    }

    /// Whether no message is in it.
    pub fn is_empty(&self) -> bool {
        self.count == Some(0)
    }

    /// Reads the next message; `None` after the last.
    ///
    /// # Errors
    /// [`Error::Io`].
    #[expect(clippy::should_implement_trait, reason = "reading may fail in a way that ends it")]
    pub fn next(&mut self) -> Result<Option<Kept>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let mut head = [0; HEAD_LEN];
        let len = self.file.read_full_at(&mut head, self.at).at(&self.path)?;
        let whole = len == HEAD_LEN && self.at + HEAD_LEN as u64 <= self.end;
        let head = Head::decode(&head).filter(|_| whole).filter(|head| {
            let text = head.names_len().checked_add(head.bytes_len);
            text.is_some_and(|len| len <= self.end - self.at - HEAD_LEN as u64)
        });
        let Some(head) = head else {
            self.at = self.end;
            return Ok(Some(Kept::Damaged { uid: None }));
        };
        let names_at = self.at + HEAD_LEN as u64;
        let mut names = vec![0; head.names_len() as usize];
        let mut bytes = vec![0; head.bytes_len as usize];
        self.file.read_full_at(&mut names, names_at).at(&self.path)?;
        self.file.read_full_at(&mut bytes, names_at + head.names_len()).at(&self.path)?;
        self.at = names_at + head.names_len() + head.bytes_len;
        Ok(Some(match head.message(&names, bytes) {
            Some(message) => Kept::Message(Box::new(message)),
            None => Kept::Damaged { uid: Some(head.uid) },
        }))
    }

    /// Begins again with the first message.
    pub fn rewind(&mut self) {
        self.at = HEADER_LEN as u64;
    }

    /// Removes the file, unless another expunge has put its own in place meanwhile. Not durable at
    /// once: what comes back after a crash can be recognised.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove(self) -> Result<()> {
        let inode = self.file.metadata().at(&self.path)?.inode;
        match self.vfs.metadata(&self.path) {
            Ok(metadata) if metadata.inode == inode => {
                self.vfs.remove_file(&self.path).at(&self.path)
            }
            Err(error) if !is_absent(&error) => Err(error).at(&self.path),
            _ => Ok(()),
        }
    }

    /// Gives the file another name, which is returned: for one that is damaged.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn set_aside(self) -> Result<PathBuf> {
        let mut random = [0; 8];
        self.vfs.random(&mut random).at(&self.path)?;
        let name = format!("expunged.damaged-{:016x}", u64::from_le_bytes(random));
        let aside = self.path.with_extension(name);
        self.vfs.rename(&self.path, &aside).at(&self.path)?;
        self.vfs.sync_dir(&self.dir).at(&self.dir)?;
        Ok(aside)
    }
}
