//! Reading the messages of an expunge.

use std::path::PathBuf;
use std::sync::Arc;

use barid_types::Uid;
use barid_vfs::{File, OpenOptions, Vfs};

use super::layout::{self, FOOTER_LEN, HEAD_LEN, HEADER_LEN_MAX, Head, Header, INDEX_ENTRY_LEN};
use super::{Kept, KeptFrom};
use crate::MessageKey;
use crate::error::{At, Error, Result};
use crate::modes::is_absent;

/// The messages of one expunge, read one by one.
#[derive(Debug)]
pub struct Expunged {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    number: u64,
    file: Box<dyn File>,
    from: KeptFrom,
    size: u64,
    /// `None` if the end is damaged.
    footer: Option<layout::Footer>,
    /// Where the messages begin.
    start: u64,
    /// Where the messages end.
    end: u64,
    /// Where the next one begins.
    at: u64,
}

impl Expunged {
    /// Opens the file of an expunge; `None` if it is not there.
    pub(super) fn open(
        vfs: Arc<dyn Vfs>,
        path: PathBuf,
        number: u64,
        id: u128,
    ) -> Result<Option<Self>> {
        let file = match vfs.open(&path, OpenOptions::READ) {
            Err(error) if is_absent(&error) => return Ok(None),
            result => result.at(&path)?,
        };
        let size = file.metadata().at(&path)?.size;
        let mut header = vec![0; HEADER_LEN_MAX.min(size as usize)];
        let len = file.read_full_at(&mut header, 0).at(&path)?;
        let (from, start) = match layout::read_header(&header[..len], id) {
            Header::Good(from, start) => (*from, start),
            Header::Version(version) => return Err(Error::Version { path, version }),
            Header::Bad => return Err(Error::Damaged { path, offset: 0 }),
        };
        let mut footer = [0; FOOTER_LEN];
        let footer_at = size.saturating_sub(FOOTER_LEN as u64);
        file.read_full_at(&mut footer, footer_at).at(&path)?;
        let footer = layout::read_footer(&footer, footer_at);
        let footer = footer.filter(|footer| footer.index_at >= start);
        let end = footer.as_ref().map_or(size, |footer| footer.index_at);
        Ok(Some(Self { vfs, path, number, file, from, size, footer, start, end, at: start }))
    }

    /// Its number: of two expunges the later one has the higher.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The mailbox they were in.
    pub fn from(&self) -> &KeptFrom {
        &self.from
    }

    /// How many messages there are; `None` if that cannot be read.
    pub fn count(&self) -> Option<u32> {
        self.footer.as_ref().map(|footer| footer.count)
    }

    /// UIDs and keys of all messages, in mailbox order; `None` if they cannot be read. One read.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn index(&self) -> Result<Option<Vec<(Uid, MessageKey)>>> {
        let Some(footer) = &self.footer else { return Ok(None) };
        let mut bytes = vec![0; footer.count as usize * INDEX_ENTRY_LEN];
        let len = self.file.read_full_at(&mut bytes, footer.index_at).at(&self.path)?;
        Ok(layout::read_index(&bytes[..len], footer))
    }

    /// Bytes of the file.
    pub fn len(&self) -> u64 {
        self.size
    }

    /// Whether no message is in it.
    pub fn is_empty(&self) -> bool {
        self.count() == Some(0)
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
        self.at = self.start;
    }

    /// Removes the file. Not durable at once: what comes back after a crash can be recognised.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove(self) -> Result<()> {
        match self.vfs.remove_file(&self.path) {
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
        let aside = format!("damaged-{:016x}", u64::from_le_bytes(random));
        let aside = self.path.with_extension(aside);
        self.vfs.rename(&self.path, &aside).at(&self.path)?;
        let dir = self.path.parent().unwrap_or(&self.path);
        self.vfs.sync_dir(dir).at(dir)?;
        Ok(aside)
    }
}
