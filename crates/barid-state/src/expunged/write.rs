//! Writing the messages of an expunge.
//!
//! Order: the links and the files they name are made durable (fsync of each file, of their folder,
//! and of its parent; or one `syncfs` if there are many); fsync of the file; its rename, which is
//! the commit point; fsync of the folder. A crash before the rename leaves a folder of links
//! without its file, which the next writer removes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_types::Uid;
use barid_vfs::{Dir, File, OpenOptions, Vfs, create_dir_durable};
use xxhash_rust::xxh3::Xxh3;

use super::folder::remove_links;
use super::layout::{self, LinkedFile, Names};
use super::{KeptFrom, KeptMessage, link_path, links_path};
use crate::Identity;
use crate::error::{At, Result};
use crate::limits::{EXPUNGED_BUFFER_LEN, EXPUNGED_SYNC_FS_MIN};
use crate::modes::{DIR_MODE, FILE_MODE, is_absent};

/// A writer of the messages of an expunge. Dropped before [`ExpungedWriter::finish`], it removes
/// what it wrote.
#[derive(Debug)]
pub struct ExpungedWriter {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    temporary: PathBuf,
    file: Box<dyn File>,
    buffer: Vec<u8>,
    index: Vec<u8>,
    written: u64,
    count: u32,
    links: Links,
    large: Option<LargeMessage>,
    finished: bool,
}

/// A message whose bytes arrive in pieces.
struct LargeMessage {
    message: KeptMessage,
    names: Names,
    hash: Xxh3,
    head_at: u64,
    len: u64,
}

impl fmt::Debug for LargeMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LargeMessage").field("uid", &self.message.uid).finish_non_exhaustive()
    }
}

/// The links of an expunge.
#[derive(Debug, Default)]
struct Links {
    is_made: bool,
    bytes: u64,
    /// The folder, if its file system is synced at the end. It is opened before the first link, so
    /// that `syncfs` reports every write error since then.
    dir: Option<Box<dyn Dir>>,
}

impl ExpungedWriter {
    /// Begins the file `path` in the folder `dir`, which is created if it does not exist.
    pub(super) fn create(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        path: PathBuf,
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
            path,
            file: file.at(&temporary)?,
            vfs,
            temporary,
            buffer: layout::header(identity.id, from),
            index: Vec::new(),
            written: 0,
            count: 0,
            links: Links::default(),
            large: None,
            finished: false,
        })
    }

    /// Creates the folder for links to about `count` messages, after removing the one of an
    /// interrupted writer.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn begin_links(&mut self, count: usize) -> Result<()> {
        let path = links_path(&self.path);
        remove_links(&*self.vfs, &path)?;
        self.vfs.create_dir(&path, DIR_MODE).at(&path)?;
        self.links.is_made = true;
        if count >= EXPUNGED_SYNC_FS_MIN {
            let dir = self.vfs.open_dir(&path).at(&path)?;
            self.links.dir = dir.syncs_file_system().at(&path)?.then_some(dir);
        }
        Ok(())
    }

    /// Returns the path at which the caller links the file of a message, after
    /// [`ExpungedWriter::begin_links`]; [`ExpungedWriter::linked`] then adds the message.
    pub fn link_path(&self, uid: Uid) -> PathBuf {
        link_path(&self.path, uid)
    }

    /// Adds a message whose file was linked at [`ExpungedWriter::link_path`]; its bytes are not
    /// read.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn linked(&mut self, message: &KeptMessage) -> Result<()> {
        let path = self.link_path(message.uid);
        let found = match &self.links.dir {
            Some(_) => self.vfs.symlink_metadata(&path).at(&path)?,
            None => {
                let options = OpenOptions { no_follow: true, ..OpenOptions::READ };
                let file = self.vfs.open(&path, options).at(&path)?;
                file.sync_all().at(&path)?;
                file.metadata().at(&path)?
            }
        };
        self.links.bytes += found.size;
        let linked = LinkedFile { size: found.size, modified: found.modified };
        self.put(message, Some(&linked))
    }

    /// Adds a message.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn message(&mut self, message: &KeptMessage) -> Result<()> {
        self.put(message, None)
    }

    /// Begins a message whose bytes arrive in pieces ([`ExpungedWriter::piece`]);
    /// [`ExpungedWriter::end_large`] ends it.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn begin_large(&mut self, message: KeptMessage) -> Result<()> {
        self.flush()?;
        let names = Names::of(&message);
        let mut hash = Xxh3::new();
        hash.update(&names.bytes);
        self.buffer.resize(layout::HEAD_LEN, 0);
        self.buffer.extend(&names.bytes);
        self.large = Some(LargeMessage { message, names, hash, head_at: self.written, len: 0 });
        Ok(())
    }

    /// Adds bytes to the message of [`ExpungedWriter::begin_large`].
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn piece(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(large) = &mut self.large {
            large.hash.update(bytes);
            large.len += bytes.len() as u64;
            self.buffer.extend(bytes);
        }
        if self.buffer.len() >= EXPUNGED_BUFFER_LEN { self.flush() } else { Ok(()) }
    }

    /// Ends the message of [`ExpungedWriter::begin_large`]: writes its head, now that length and
    /// checksum are known.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn end_large(&mut self) -> Result<()> {
        self.flush()?;
        let Some(large) = self.large.take() else { return Ok(()) };
        let mut head = Vec::with_capacity(layout::HEAD_LEN);
        let text = (large.len, large.hash.digest());
        layout::put_head(&mut head, (&large.message, &large.names), text, false);
        self.file.write_all_at(&head, large.head_at).at(&self.temporary)?;
        layout::put_index(&mut self.index, &large.message);
        self.count += 1;
        Ok(())
    }

    fn put(&mut self, message: &KeptMessage, linked: Option<&LinkedFile>) -> Result<()> {
        layout::put_message(&mut self.buffer, message, linked);
        layout::put_index(&mut self.index, message);
        self.count += 1;
        if self.buffer.len() >= EXPUNGED_BUFFER_LEN { self.flush() } else { Ok(()) }
    }

    /// Completes the file, durably. Returns its bytes, those of the linked files included.
    ///
    /// Order: links, fsync of the file, rename (the commit point), fsync of the folder.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn finish(mut self) -> Result<u64> {
        let end = self.written + self.buffer.len() as u64;
        let footer = layout::footer(self.count, end, &self.index, self.links.bytes);
        self.buffer.append(&mut self.index);
        self.buffer.extend(footer);
        self.flush()?;
        self.sync_links()?;
        self.file.sync_all().at(&self.temporary)?;
        self.vfs.rename(&self.temporary, &self.path).at(&self.path)?;
        self.finished = true;
        let dir = self.path.parent().unwrap_or(&self.path);
        self.vfs.sync_dir(dir).at(dir)?;
        Ok(self.written + self.links.bytes)
    }

    fn sync_links(&self) -> Result<()> {
        let path = links_path(&self.path);
        match &self.links.dir {
            Some(dir) => dir.sync_file_system().at(&path),
            None if self.links.is_made => {
                self.vfs.sync_dir(&path).at(&path)?;
                // The folder's name must be durable before the file's.
                let dir = self.path.parent().unwrap_or(&self.path);
                self.vfs.sync_dir(dir).at(dir)
            }
            None => Ok(()),
        }
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
            // Files that cannot be removed only waste space.
            let _ = self.vfs.remove_file(&self.temporary);
            if self.links.is_made {
                let _ = remove_links(&*self.vfs, &links_path(&self.path));
            }
        }
    }
}
