//! Writing the messages of an expunge.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::{File, OpenOptions, Vfs, create_dir_durable};

use super::layout;
use super::{KeptFrom, KeptMessage};
use crate::Identity;
use crate::error::{At, Result};
use crate::limits::EXPUNGED_BUFFER_LEN;
use crate::modes::{DIR_MODE, FILE_MODE, is_absent};

/// Writes the messages of an expunge. Dropped before [`ExpungedWriter::finish`] it leaves nothing.
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
    finished: bool,
}

impl ExpungedWriter {
    /// Begins the file `path` of the folder `dir`, which is made if it is not there.
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
            finished: false,
        })
    }

    /// Adds a message.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn message(&mut self, message: &KeptMessage) -> Result<()> {
        layout::put_message(&mut self.buffer, message);
        layout::put_index(&mut self.index, message);
        self.count += 1;
        if self.buffer.len() >= EXPUNGED_BUFFER_LEN { self.flush() } else { Ok(()) }
    }

    /// Puts the file in its place; durable when it returns. Returns its bytes.
    ///
    /// Order: fsync of the file, rename (the commit point), fsync of the folder.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn finish(mut self) -> Result<u64> {
        let end = self.written + self.buffer.len() as u64;
        let footer = layout::footer(self.count, end, &self.index);
        self.buffer.append(&mut self.index);
        self.buffer.extend(footer);
        self.flush()?;
        self.file.sync_all().at(&self.temporary)?;
        self.vfs.rename(&self.temporary, &self.path).at(&self.path)?;
        self.finished = true;
        let dir = self.path.parent().unwrap_or(&self.path);
        self.vfs.sync_dir(dir).at(dir)?;
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
