//! Appending to the log. Only this file and `refresh.rs` write to an existing cache file.
//!
//! Readers take no lock. A writer locks `<cache>.lock`, opens the file again and checks that it is
//! still the one that the snapshot reads, and that nobody appended since; it truncates a torn tail.
//! An appended record becomes valid when its checksum is complete.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use barid_mailbox::Stamp;
use barid_vfs::{File, LockError, LockKind, LockMode, OpenOptions, lock_file};

use crate::error::{Error, Result, ScanFault};
use crate::header::{HEAD_LEN, Header};
use crate::limits::{LOG_COMPACT_LEN, LOG_COMPACT_LEN_MAX, LOG_LEN_MAX};
use crate::log::{self, Link, LogEntry};
use crate::meta::Meta;
use crate::snapshot::{Snapshot, Stored};

/// The longest time that a writer waits for another; then it keeps its state in this process.
const LOCK_TIMEOUT: Duration = Duration::from_millis(200);

impl Snapshot {
    /// Sets the stamp and the format's notes after a scan that found no changes.
    ///
    /// # Errors
    /// Returns only errors of reading the cache while a new file is written; a failing append is
    /// reported by [`Snapshot::store_error`].
    pub fn restamp(&mut self, stamp: Stamp, state: &[u8]) -> Result<()> {
        let meta = Meta { stamp, state: state.to_vec(), ..self.meta.clone() };
        self.write(&meta, &LogEntry::default())
    }

    /// Stores RFC822.SIZE of rows, computed from their messages.
    ///
    /// # Errors
    /// Returns [`Error::NoSuchRow`], or an error of reading the cache while a new file is written.
    pub fn set_rfc822_sizes(&mut self, sizes: &[(u32, u64)]) -> Result<()> {
        let physical = |(row, size): &(u32, u64)| Ok((self.check_row(*row)?, *size));
        let sizes = sizes.iter().map(physical).collect::<Result<Vec<_>>>()?;
        let meta = self.meta.clone();
        self.write(&meta, &LogEntry { sizes: &sizes, ..LogEntry::default() })
    }

    /// Applies an entry and stores it, in the log or in a new file.
    pub(crate) fn write(&mut self, meta: &Meta, entry: &LogEntry<'_>) -> Result<()> {
        let (link, log_end) = (self.link, self.log_end);
        let record = log::encode(link, meta, entry);
        let taken = log::next(&record, link).is_some_and(|(bytes, next)| {
            // Must not write what readers would reject.
            bytes.len() == record.len() && self.take_record(bytes, next)
        });
        if !taken {
            return Err(Error::Scan(ScanFault::TooLarge));
        }
        if !matches!(self.stored, Stored::Yes) {
            return Ok(());
        }
        if self.log_is_long() && self.compact()? {
            return Ok(());
        }
        self.stored = match self.append(&record, log_end, link) {
            Ok(true) => Stored::Yes,
            Ok(false) => Stored::Detached,
            Err(error) => Stored::Failed(Arc::new(error)),
        };
        Ok(())
    }

    fn log_is_long(&self) -> bool {
        let header = &self.base.header;
        let columns = header.log_start.saturating_sub(header.extents[0].start);
        self.log_end - header.log_start > (columns / 4).clamp(LOG_COMPACT_LEN, LOG_COMPACT_LEN_MAX)
    }

    /// Appends a record; `false` if another process replaced the file or appended first.
    fn append(&self, record: &[u8], log_end: u64, link: Link) -> Result<bool> {
        let Some(_lock) = self.lock()? else { return Ok(false) };
        let Some((file, file_len)) = self.open_same()? else { return Ok(false) };
        let path = &self.base.path;
        if !self.is_last(&*file, file_len, log_end, link)? {
            return Ok(false);
        }
        if file_len > log_end {
            file.set_len(log_end).map_err(Error::at(path))?;
        }
        let written = file.write_all_at(record, log_end);
        if written.is_err() {
            // The disk may be full; if truncating fails, the next writer truncates the rest.
            let _ = file.set_len(log_end);
        }
        written.map_err(Error::at(path))?;
        Ok(true)
    }

    /// Returns `true` if the file, of `file_len` bytes, has no record after `log_end`, except a
    /// torn one.
    pub(crate) fn is_last(
        &self,
        file: &dyn File,
        file_len: u64,
        log_end: u64,
        link: Link,
    ) -> Result<bool> {
        if file_len <= log_end {
            // Truncated by something else: the file differs from the known state.
            return Ok(file_len == log_end);
        }
        // Writing another page makes the file longer.
        if !self.is_headed_so(file, file_len)? {
            return Ok(false);
        }
        let mut tail = vec![0; (file_len - log_end).min(LOG_LEN_MAX) as usize];
        let len = file.read_full_at(&mut tail, log_end).map_err(Error::at(&self.base.path))?;
        Ok(log::next(&tail[..len], link).is_none())
    }

    /// Returns `true` if the valid header page is the one that was read.
    pub(crate) fn is_headed_so(&self, file: &dyn File, file_len: u64) -> Result<bool> {
        let mut pages = vec![0; HEAD_LEN];
        let len = file.read_full_at(&mut pages, 0).map_err(Error::at(&self.base.path))?;
        pages.truncate(len);
        let found = Header::decode(&mut pages, file_len);
        Ok(found.is_ok_and(|header| header.checksum == self.base.header.checksum))
    }

    /// Takes the writers' lock; `None` if another process has it.
    pub(crate) fn lock(&self) -> Result<Option<Box<dyn File>>> {
        let path = lock_path(&self.base.path);
        let file = self.vfs.open(&path, OpenOptions::create(0o600)).map_err(Error::at(&path))?;
        let how = (LockKind::Flock, LockMode::Exclusive);
        match lock_file(&*self.vfs, &*file, &path, how, LOCK_TIMEOUT) {
            Ok(()) => Ok(Some(file)),
            Err(LockError::Io { path, source }) => Err(Error::Io { path, source }),
            Err(_) => Ok(None),
        }
    }

    /// Opens the file for writing and returns its size; `None` if its name now refers to another
    /// file.
    pub(crate) fn open_same(&self) -> Result<Option<(Box<dyn File>, u64)>> {
        let path = &self.base.path;
        let file = match self.vfs.open(path, OpenOptions::WRITE) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            result => result.map_err(Error::at(path))?,
        };
        let here = file.metadata().map_err(Error::at(path))?;
        Ok((here.inode == self.base.inode).then_some((file, here.size)))
    }
}

/// Returns the lock file of a cache file.
pub(crate) fn lock_path(path: &std::path::Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}
