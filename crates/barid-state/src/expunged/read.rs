//! Reading the messages of an expunge.

use std::path::PathBuf;
use std::sync::Arc;

use barid_types::Uid;
use barid_vfs::{File, FileType, Metadata, OpenOptions, Vfs};
use xxhash_rust::xxh3::Xxh3;

use super::folder::remove_links;
use super::layout::{
    self, ExpungedHeader, HEAD_LEN, HEADER_LEN_MAX, Head, INDEX_ENTRY_LEN, LinkedFile,
};
use super::{Kept, KeptFrom, KeptMessage, LargeKept, link_path, links_path};
use crate::MessageKey;
use crate::error::{At, Error, Result};
use crate::limits::{EXPUNGED_CHECK_LEN, EXPUNGED_WHOLE_LEN};
use crate::modes::{is_absent, is_link};

/// The messages of one expunge, read one by one.
#[derive(Debug)]
pub struct Expunged {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    number: u64,
    file: Arc<dyn File>,
    from: KeptFrom,
    size: u64,
    /// The footer; `None` if it is damaged.
    footer: Option<layout::ExpungedFooter>,
    /// Byte offset of the first message.
    start: u64,
    /// Byte offset at which the messages end.
    end: u64,
    /// Byte offset of the next message.
    at: u64,
}

impl Expunged {
    /// Opens the file of an expunge; `None` if it does not exist.
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
        let file: Arc<dyn File> = Arc::from(file);
        let size = file.metadata().at(&path)?.size;
        let mut header = vec![0; HEADER_LEN_MAX.min(size as usize)];
        let len = file.read_full_at(&mut header, 0).at(&path)?;
        let (from, start, footer_len) = match layout::read_header(&header[..len], id) {
            ExpungedHeader::Good(from, start, footer_len) => (*from, start, footer_len),
            ExpungedHeader::Version(version) => return Err(Error::Version { path, version }),
            ExpungedHeader::Bad => return Err(Error::Damaged { path, offset: 0 }),
        };
        let mut footer = vec![0; footer_len];
        let footer_at = size.saturating_sub(footer_len as u64);
        file.read_full_at(&mut footer, footer_at).at(&path)?;
        let footer = layout::read_footer(&footer, footer_at);
        let footer = footer.filter(|footer| footer.index_at >= start);
        let end = footer.as_ref().map_or(size, |footer| footer.index_at);
        Ok(Some(Self { vfs, path, number, file, from, size, footer, start, end, at: start }))
    }

    /// Returns its number; a later expunge has a higher one.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the mailbox from which the messages were expunged.
    pub fn from(&self) -> &KeptFrom {
        &self.from
    }

    /// Returns the number of messages; `None` if the footer is damaged.
    pub fn count(&self) -> Option<u32> {
        self.footer.as_ref().map(|footer| footer.count)
    }

    /// Reads UIDs and keys of all messages, in mailbox order; `None` if they are damaged. Costs one
    /// read.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn index(&self) -> Result<Option<Vec<(Uid, MessageKey)>>> {
        let Some(footer) = &self.footer else { return Ok(None) };
        let mut bytes = vec![0; footer.count as usize * INDEX_ENTRY_LEN];
        let len = self.file.read_full_at(&mut bytes, footer.index_at).at(&self.path)?;
        Ok(layout::read_index(&bytes[..len], footer))
    }

    /// Returns the bytes of the file and of the files that it links.
    pub fn len(&self) -> u64 {
        self.size + self.footer.as_ref().map_or(0, |footer| footer.linked_bytes)
    }

    /// Returns `true` if the file has no messages; `false` if their number cannot be read.
    pub fn is_empty(&self) -> bool {
        self.count() == Some(0)
    }

    /// Reads the next message; `None` after the last.
    ///
    /// # Errors
    /// [`Error::Io`].
    #[expect(clippy::should_implement_trait, reason = "reading may fail in a way that ends it")]
    pub fn next(&mut self) -> Result<Option<Kept>> {
        let (head, names_at) = match self.next_head()? {
            Next::End => return Ok(None),
            Next::Damaged => return Ok(Some(Kept::Damaged { uid: None })),
            Next::Head(head, names_at) => (head, names_at),
        };
        let mut names = vec![0; head.names_len() as usize];
        if head.message_len > EXPUNGED_WHOLE_LEN {
            self.file.read_full_at(&mut names, names_at).at(&self.path)?;
            return self.large(&head, &names, names_at).map(Some);
        }
        let mut kept = vec![0; head.bytes_len() as usize];
        self.file.read_full_at(&mut names, names_at).at(&self.path)?;
        self.file.read_full_at(&mut kept, names_at + head.names_len()).at(&self.path)?;
        let damaged = Kept::Damaged { uid: Some(head.uid) };
        let linked = LinkedFile::decode(&head, &kept);
        let (bytes, is_changed) = match linked {
            None => (None, false),
            Some(linked) => match self.open_link(head.uid)? {
                None => return Ok(Some(damaged)),
                Some((_, _, found)) if found.size > EXPUNGED_WHOLE_LEN => {
                    return self.large(&head, &names, names_at).map(Some);
                }
                Some(link) => {
                    let (bytes, is_changed) = read_link(&link, linked)?;
                    (Some(bytes), is_changed)
                }
            },
        };
        Ok(Some(match head.message(&names, kept, bytes).map(Box::new) {
            Some(message) if is_changed => Kept::Changed(message),
            Some(message) => Kept::Message(message),
            None => damaged,
        }))
    }

    /// Returns a large message, whose bytes stay in their file.
    fn large(&self, head: &Head, names: &[u8], names_at: u64) -> Result<Kept> {
        let damaged = Kept::Damaged { uid: Some(head.uid) };
        let bytes_at = names_at + head.names_len();
        if !self.has_text(head, names_at)? {
            return Ok(damaged);
        }
        let (path, len) = (self.path.clone(), head.message_len);
        let file = Arc::clone(&self.file);
        let (kept, is_changed) = match self.linked_file(head, bytes_at)? {
            None => (LargeKept { file, path, offset: bytes_at, len }, false),
            Some(linked) => match self.open_link(head.uid)? {
                None => return Ok(damaged),
                Some((path, file, found)) => {
                    let same = LinkedFile { size: found.size, modified: found.modified };
                    let (file, len) = (Arc::from(file), found.size);
                    (LargeKept { file, path, offset: 0, len }, same != linked)
                }
            },
        };
        Ok(match head.named(names, Vec::new()) {
            None => damaged,
            Some(message) => {
                let message = Box::new(KeptMessage { large: Some(kept), ..message });
                if is_changed { Kept::Changed(message) } else { Kept::Message(message) }
            }
        })
    }

    /// Reads the recorded size and modification time of a linked file; `None` if the message is not
    /// a link.
    fn linked_file(&self, head: &Head, at: u64) -> Result<Option<LinkedFile>> {
        if !head.is_linked() {
            return Ok(None);
        }
        let mut bytes = [0; layout::LINKED_LEN as usize];
        let len = self.file.read_full_at(&mut bytes, at).at(&self.path)?;
        Ok(LinkedFile::decode(head, &bytes[..len]))
    }

    /// Reads the next head, and advances to the one after it.
    fn next_head(&mut self) -> Result<Next> {
        if self.at >= self.end {
            return Ok(Next::End);
        }
        let mut head = [0; HEAD_LEN];
        let len = self.file.read_full_at(&mut head, self.at).at(&self.path)?;
        let whole = len == HEAD_LEN && self.at + HEAD_LEN as u64 <= self.end;
        let head = Head::decode(&head).filter(|_| whole).filter(|head| {
            let text = head.names_len().checked_add(head.bytes_len());
            text.is_some_and(|len| len <= self.end - self.at - HEAD_LEN as u64)
        });
        let Some(head) = head else {
            self.at = self.end;
            return Ok(Next::Damaged);
        };
        let names_at = self.at + HEAD_LEN as u64;
        self.at = names_at + head.names_len() + head.bytes_len();
        Ok(Next::Head(head, names_at))
    }

    /// Opens a linked file; `None` if it does not exist or is not a regular file.
    fn open_link(&self, uid: Uid) -> Result<Option<Link>> {
        let path = link_path(&self.path, uid);
        let options = OpenOptions { no_follow: true, ..OpenOptions::READ };
        let file = match self.vfs.open(&path, options) {
            Err(error) if is_absent(&error) || is_link(&error) => return Ok(None),
            result => result.at(&path)?,
        };
        let found = file.metadata().at(&path)?;
        Ok((found.file_type == FileType::File).then_some((path, file, found)))
    }

    /// Counts the messages that are damaged, or cannot be found because of damage before them; at
    /// least one if the index or footer is damaged. Reads the whole file in pieces, and the
    /// metadata of every linked file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn count_damaged(&mut self) -> Result<u32> {
        let (mut whole, mut damaged) = (0, 0);
        self.rewind();
        loop {
            match self.next_head()? {
                Next::End => break,
                Next::Damaged => damaged += 1,
                Next::Head(head, names_at) if self.is_whole(&head, names_at)? => whole += 1,
                Next::Head(..) => damaged += 1,
            }
        }
        self.rewind();
        let is_indexed = self.index()?.is_some();
        Ok(match self.count() {
            Some(count) => count.saturating_sub(whole).max(damaged).max(u32::from(!is_indexed)),
            None => damaged.max(1),
        })
    }

    fn is_whole(&self, head: &Head, names_at: u64) -> Result<bool> {
        let end = names_at + head.names_len() + head.bytes_len();
        let has_text = self.has_text(head, names_at)?;
        Ok(has_text && (!head.is_linked() || self.is_link_whole(head, end)?))
    }

    /// Returns `true` if names and bytes have the recorded checksum; reads them in pieces.
    fn has_text(&self, head: &Head, names_at: u64) -> Result<bool> {
        let (mut hash, mut at) = (Xxh3::new(), names_at);
        let end = names_at + head.names_len() + head.bytes_len();
        let mut buffer = vec![0; EXPUNGED_CHECK_LEN.min((end - at) as usize)];
        while at < end {
            let wanted = buffer.len().min((end - at) as usize);
            let len = self.file.read_full_at(&mut buffer[..wanted], at).at(&self.path)?;
            if len < wanted {
                return Ok(false);
            }
            hash.update(&buffer[..len]);
            at += len as u64;
        }
        Ok(head.is_of(hash.digest()))
    }

    /// Returns `true` if a linked file has its recorded size and modification time, which end at
    /// byte `end`.
    fn is_link_whole(&self, head: &Head, end: u64) -> Result<bool> {
        let linked = self.linked_file(head, end - layout::LINKED_LEN)?;
        let Some(linked) = linked else { return Ok(false) };
        let found = self.vfs.symlink_metadata(&link_path(&self.path, head.uid));
        Ok(found.is_ok_and(|found| {
            let file = LinkedFile { size: found.size, modified: found.modified };
            found.file_type == FileType::File && file == linked
        }))
    }

    /// Returns to the first message.
    pub fn rewind(&mut self) {
        self.at = self.start;
    }

    /// Removes the file and its links. The removal is not durable when this returns: a file that
    /// reappears after a crash can be recognised.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove(self) -> Result<()> {
        match self.vfs.remove_file(&self.path) {
            Err(error) if !is_absent(&error) => return Err(error).at(&self.path),
            _ => {}
        }
        remove_links(&*self.vfs, &links_path(&self.path))
    }

    /// Renames a damaged file, durably; returns the new path.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn set_aside(self) -> Result<PathBuf> {
        let mut random = [0; 8];
        self.vfs.random(&mut random).at(&self.path)?;
        let aside = format!("damaged-{:016x}", u64::from_le_bytes(random));
        let aside = self.path.with_extension(aside);
        // The links first: the file without links still names the missing messages, while links
        // without the file are useless.
        let links = links_path(&self.path);
        match self.vfs.rename(&links, &links_path(&aside)) {
            Err(error) if !is_absent(&error) => return Err(error).at(&links),
            _ => {}
        }
        self.vfs.rename(&self.path, &aside).at(&self.path)?;
        let dir = self.path.parent().unwrap_or(&self.path);
        self.vfs.sync_dir(dir).at(dir)?;
        Ok(aside)
    }
}

/// The path, the open file and the metadata of a link.
type Link = (PathBuf, Box<dyn File>, Metadata);

/// Reads the bytes of a linked file; the flag is `true` if it was changed since it was linked.
fn read_link((path, file, found): &Link, linked: LinkedFile) -> Result<(Vec<u8>, bool)> {
    let mut bytes = vec![0; found.size as usize];
    let len = file.read_full_at(&mut bytes, 0).at(path)?;
    bytes.truncate(len);
    let is_same = LinkedFile { size: len as u64, modified: found.modified } == linked;
    Ok((bytes, !is_same))
}

/// The next item of a file.
enum Next {
    End,
    /// A damaged head; no message after it can be found.
    Damaged,
    /// A head, and the byte offset of the names after it.
    Head(Head, u64),
}
