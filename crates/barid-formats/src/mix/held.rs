//! Files kept open for reading: messages are read one by one, from several threads, and most of
//! them are in the data file of the one before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barid_mailbox::{Error, Result};
use barid_vfs::{File, LockKind, LockMode, OpenOptions};

use super::MixMailbox;
use super::layout::{HELD_FILES_MAX, META};
use super::lock::{Locks, MixLockPurpose};

/// Open files.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    /// Data files by number; the one opened last is at the end.
    data: Mutex<Vec<(u32, Arc<dyn File>)>>,
    session: Mutex<MetaLock>,
}

/// `.mixmeta`, locked as by a session as long as there are readers.
#[derive(Debug, Default)]
struct MetaLock {
    meta: Option<Box<dyn File>>,
    readers: usize,
}

/// Locks a mutex; its content is valid after a panic, too.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OpenFiles {
    /// Returns a data file, opened once for many messages; an `fstat` if it is open already.
    pub(super) fn data(&self, mailbox: &MixMailbox, number: u32) -> Result<Arc<dyn File>> {
        let path = mailbox.data_path(number);
        let held = lock(&self.data).iter().find(|(held, _)| *held == number).cloned();
        if let Some((_, file)) = held
            && file.metadata().map_err(Error::at(&path))?.links > 0
        {
            return Ok(file);
        }
        let file = mailbox.vfs.open(&path, OpenOptions::READ).map_err(Error::at(&path))?;
        let file: Arc<dyn File> = Arc::from(file);
        let mut data = lock(&self.data);
        data.retain(|(held, _)| *held != number);
        if data.len() >= HELD_FILES_MAX {
            data.remove(0);
        }
        data.push((number, Arc::clone(&file)));
        Ok(file)
    }

    /// Keeps others from moving messages until the returned value is dropped.
    pub(super) fn enter(&self, mailbox: &MixMailbox) -> Result<Entered<'_>> {
        let path = mailbox.path.join(META);
        let mut session = lock(&self.session);
        if session.readers == 0 {
            let is_there = |meta: &dyn File| meta.metadata().is_ok_and(|found| found.links > 0);
            let meta = match session.meta.take().filter(|meta| is_there(&**meta)) {
                Some(meta) => meta,
                None => mailbox.vfs.open(&path, OpenOptions::READ).map_err(Error::at(&path))?,
            };
            // Without locks of the file system nobody waits for them.
            if matches!(meta.try_lock(LockKind::Flock, LockMode::Shared), Ok(false)) {
                drop(session);
                return Ok(Entered::Alone {
                    _locks: Locks::acquire(mailbox, MixLockPurpose::Read)?,
                });
            }
            session.meta = Some(meta);
        }
        session.readers += 1;
        Ok(Entered::Together(self))
    }
}

/// Keeps others from moving messages.
pub(super) enum Entered<'a> {
    /// With the other readers of this mailbox.
    Together(&'a OpenFiles),
    /// With its own locks, since others were moving messages at that time.
    Alone { _locks: Locks },
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let Self::Together(held) = self else { return };
        let mut session = lock(&held.session);
        session.readers -= 1;
        if session.readers == 0
            && let Some(meta) = &session.meta
            && meta.unlock(LockKind::Flock).is_err()
        {
            // Closing it releases it.
            session.meta = None;
        }
    }
}
