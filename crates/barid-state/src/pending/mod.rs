//! The journal of pending changes: what was accepted and is not written to the mailbox yet.
//!
//! One file per mailbox, `<state dir>/<id>.pending`, whose layout `docs/formats/pending.md` maps: a
//! header and then batches, each with a checksum that is bound to the random number of the file. A
//! batch is what was accepted at once. There is no file where nothing is pending.
//!
//! **Invariant**: no batch stands behind one that is not durable. So a batch that is not whole at
//! the end was never acknowledged, and is cut before the next is written; one that is not whole
//! before others is damage: what precedes it is used, the file is kept under another name when the
//! journal is written next, and both are told.
//!
//! Sequence numbers never come again, not even in another file: a mailbox's own journal may carry
//! one. A new file begins with the microseconds since 1970.

mod earlier;
mod layout;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use barid_types::{FlagSet, Keyword, ModSeq, Uid, UidValidity};
use barid_vfs::{
    File, LockError, LockKind, LockMode, OpenOptions, Vfs, atomic_replace, create_dir_durable,
};

use self::layout::{HEADER_LEN, Header};
use crate::error::{At, Error, Result};
use crate::limits::{COMMIT_LOCK_TIMEOUT, PENDING_LEN_MAX};
use crate::modes::{DIR_MODE, FILE_MODE, is_absent, is_denied};
use crate::{Identity, MessageKey};

/// Flags and keywords to be added to and removed from a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlagDelta {
    /// Flags to add.
    pub add: FlagSet,
    /// Flags to remove.
    pub remove: FlagSet,
    /// Keywords to add; at most 255 are kept.
    pub add_keywords: Vec<Keyword>,
    /// Keywords to remove; at most 255 are kept.
    pub remove_keywords: Vec<Keyword>,
}

/// What is to be done to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingKind {
    /// Its flags are to be changed.
    Flags(FlagDelta),
    /// It is to be expunged.
    Expunge,
}

/// A change of a message, and all that is needed to find the message again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingChange {
    /// The UIDVALIDITY under which its UID was given out.
    pub uidvalidity: UidValidity,
    /// Its UID.
    pub uid: Uid,
    /// What it is.
    pub key: MessageKey,
    /// The hash of its body; 0 if that was not read.
    pub body_hash: u64,
    /// How many messages before it have the same key.
    pub ordinal: u32,
    /// The mod-sequence that the change was given.
    pub modseq: ModSeq,
    /// What is to be done.
    pub kind: PendingKind,
}

/// An accepted change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRecord {
    /// Its number; later ones are higher.
    pub sequence: u64,
    /// The change.
    pub change: PendingChange,
}

/// Accepted changes that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingDamage {
    /// The file that holds them.
    pub path: PathBuf,
    /// Where it is damaged.
    pub offset: u64,
    /// How many changes stand behind the damage, as far as that can be told.
    pub records: u64,
}

/// The pending changes of one mailbox.
#[derive(Debug)]
pub struct Pending {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    path: PathBuf,
    id: u128,
    /// The file as it was last read; kept open, so that its inode is not used again.
    file: Option<Found>,
    records: Vec<PendingRecord>,
    damage: Option<PendingDamage>,
    /// No record gets a lower number.
    sequence_min: u64,
    lock: Option<Box<dyn File>>,
    poisoned: bool,
}

#[derive(Debug)]
struct Found {
    file: Box<dyn File>,
    inode: u64,
    size: u64,
    /// Where the last whole batch ends.
    end: u64,
    random: u64,
    writable: bool,
}

impl Pending {
    /// Opens the journal of a mailbox in the state folder `dir`; nothing is written.
    ///
    /// Costs one call where nothing is pending, else an open, a stat and a read.
    ///
    /// # Errors
    /// [`Error::Version`] for a file of a later version; [`Error::Io`].
    pub fn open(vfs: Arc<dyn Vfs>, dir: &Path, identity: &Identity) -> Result<Self> {
        let mut pending = Self {
            path: dir.join(format!("{:032x}.pending", identity.id)),
            vfs,
            dir: dir.to_owned(),
            id: identity.id,
            file: None,
            records: Vec::new(),
            damage: None,
            sequence_min: 0,
            lock: None,
            poisoned: false,
        };
        pending.read_file()?;
        Ok(pending)
    }

    /// The accepted changes, ascending by sequence number.
    pub fn records(&self) -> &[PendingRecord] {
        &self.records
    }

    /// What was accepted and cannot be read, if anything.
    pub fn damage(&self) -> Option<&PendingDamage> {
        self.damage.as_ref()
    }

    /// The number of the last accepted change.
    pub fn last_sequence(&self) -> Option<u64> {
        self.records.last().map(|record| record.sequence)
    }

    /// Reads again if another process has changed the file; tells whether it did. Costs a stat.
    ///
    /// # Errors
    /// As [`Pending::open`].
    pub fn refresh(&mut self) -> Result<bool> {
        let found = match self.vfs.metadata(&self.path) {
            Ok(metadata) => Some((metadata.inode, metadata.size)),
            Err(error) if is_absent(&error) => None,
            Err(error) => return Err(error).at(&self.path),
        };
        if found == self.file.as_ref().map(|file| (file.inode, file.size)) {
            return Ok(false);
        }
        self.read_file()?;
        Ok(true)
    }

    /// Keeps other processes from changing the journal: takes an open-file-description lock on
    /// `<id>.pending.lock`, which stays behind, waiting up to `timeout`; then refreshes. Does
    /// nothing if it is held already.
    ///
    /// Whoever writes pending changes to a mailbox, or completes an unfinished change of it, holds
    /// this from before it reads them until they are dropped; it is taken before any lock of the
    /// mailbox.
    ///
    /// # Errors
    /// [`Error::Locked`] after `timeout`; [`Error::Io`].
    pub fn lock(&mut self, timeout: Duration) -> Result<()> {
        if self.lock.is_some() {
            return Ok(());
        }
        let path = self.path.with_extension("pending.lock");
        let options = OpenOptions::create(FILE_MODE);
        let file = match self.vfs.open(&path, options) {
            Err(error) if is_absent(&error) => {
                create_dir_durable(self.vfs.as_ref(), &self.dir, DIR_MODE).at(&self.dir)?;
                self.vfs.open(&path, options)
            }
            result => result,
        };
        let file = file.at(&path)?;
        let kind = (LockKind::Fcntl, LockMode::Exclusive);
        match barid_vfs::lock_file(self.vfs.as_ref(), file.as_ref(), &path, kind, timeout) {
            Ok(()) => {}
            Err(LockError::Io { path, source }) => return Err(Error::Io { path, source }),
            Err(_) => return Err(Error::Locked { path, timeout }),
        }
        self.lock = Some(file);
        let read = self.refresh();
        if read.is_err() {
            self.unlock();
        }
        read.map(drop)
    }

    /// Whether a write failed, so that the journal must be opened anew.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Whether [`Pending::lock`] is held.
    pub fn is_locked(&self) -> bool {
        self.lock.is_some()
    }

    /// Releases the lock. Dropping the journal does, too.
    pub fn unlock(&mut self) {
        self.lock = None;
    }

    /// Accepts changes, all of them or, with an error, none; returns the number of the last. Takes
    /// the lock unless it is held.
    ///
    /// Commit point: the fdatasync of one write, or where there is no file the rename of a whole
    /// one (see [`atomic_replace`]), which is durable when this returns.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; after a failed write or fsync the journal is [`Error::Poisoned`] until
    /// it is opened anew.
    pub fn accept(&mut self, changes: Vec<PendingChange>) -> Result<Option<u64>> {
        self.locked(|pending| {
            let first = pending.next_sequence();
            let records = (first..).zip(changes);
            let new: Vec<PendingRecord> =
                records.map(|(sequence, change)| PendingRecord { sequence, change }).collect();
            if new.is_empty() {
                return Ok(pending.last_sequence());
            }
            match pending.file.is_some() && !pending.is_damaged() {
                true => pending.append(&new)?,
                false => {
                    let all = [pending.records.as_slice(), &new].concat();
                    pending.write_all(&all)?;
                }
            }
            pending.records.extend(new);
            Ok(pending.last_sequence())
        })
    }

    /// Forgets the changes up to and including number `sequence`, durably; there may be none. Takes
    /// the lock unless it is held.
    ///
    /// Commit point: the fsync of the folder after the file was removed, or where later changes are
    /// left the rename of a new one that holds these.
    ///
    /// # Errors
    /// As [`Pending::accept`].
    pub fn drop_through(&mut self, sequence: u64) -> Result<()> {
        self.locked(|pending| {
            let dropped = pending.records.partition_point(|record| record.sequence <= sequence);
            if dropped == 0 {
                return Ok(());
            }
            let left = pending.records[dropped..].to_vec();
            pending.replace(left)
        })
    }

    /// Gives the changes with these numbers new ones above all others, durably and in their order,
    /// so that [`Pending::drop_through`] of what is the last number now leaves them. Takes the lock
    /// unless it is held.
    ///
    /// # Errors
    /// As [`Pending::accept`].
    pub fn put_last(&mut self, sequences: &[u64]) -> Result<()> {
        self.locked(|pending| {
            let is_last = |record: &PendingRecord| sequences.contains(&record.sequence);
            let next = pending.next_sequence();
            let (last, mut all): (Vec<_>, Vec<_>) =
                pending.records.iter().cloned().partition(is_last);
            if last.is_empty() {
                return Ok(());
            }
            let renumbered = (next..).zip(last);
            all.extend(renumbered.map(|(sequence, record)| PendingRecord { sequence, ..record }));
            pending.replace(all)
        })
    }

    /// Does something under the lock.
    fn locked<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let held = self.is_locked();
        self.lock(COMMIT_LOCK_TIMEOUT)?;
        let result = match self.poisoned {
            true => Err(Error::Poisoned { path: self.path.clone() }),
            false => act(self),
        };
        if !held {
            self.unlock();
        }
        if let Err(Error::Io { .. }) = result {
            self.poisoned = true;
        }
        result
    }

    fn next_sequence(&self) -> u64 {
        match self.last_sequence() {
            Some(last) => last + 1,
            None => {
                let micros = u64::try_from(self.vfs.now().unix_nanos / 1000).unwrap_or(0);
                micros.max(self.sequence_min)
            }
        }
    }

    /// Appends a batch behind the last whole one.
    fn append(&self, records: &[PendingRecord]) -> Result<()> {
        let Some(Found { file, size, end, random, writable, .. }) = &self.file else {
            return Ok(());
        };
        if !writable {
            return Err(std::io::ErrorKind::PermissionDenied.into()).at(&self.path);
        }
        let mut bytes = Vec::new();
        layout::put_batch(&mut bytes, *random, records);
        self.check_len(end + bytes.len() as u64)?;
        if size > end {
            file.set_len(*end).at(&self.path)?;
        }
        let written = file.write_all_at(&bytes, *end).and_then(|()| file.sync_data());
        if written.is_err() {
            // What was not acknowledged is not to be believed by the next who reads it. A second
            // failure leaves what a crash may leave, too.
            let _ = file.set_len(*end);
        }
        written.at(&self.path)
    }

    /// Makes `records` all there is.
    fn replace(&mut self, records: Vec<PendingRecord>) -> Result<()> {
        self.sequence_min = self.next_sequence();
        match records.is_empty() && !self.is_damaged() {
            true => {
                self.vfs.remove_file(&self.path).at(&self.path)?;
                self.vfs.sync_dir(&self.dir).at(&self.dir)?;
                self.file = None;
            }
            false => self.write_all(&records)?,
        }
        self.records = records;
        Ok(())
    }

    /// Puts a new file in place; one that is damaged is kept under another name.
    fn write_all(&mut self, records: &[PendingRecord]) -> Result<()> {
        let mut random = [0; 8];
        self.vfs.random(&mut random).at(&self.path)?;
        let random = u64::from_le_bytes(random);
        let mut bytes = layout::header(self.id, random, self.vfs.now().unix_nanos);
        let is_next = |a: &PendingRecord, b: &PendingRecord| a.sequence + 1 == b.sequence;
        for batch in records.chunk_by(is_next) {
            layout::put_batch(&mut bytes, random, batch);
        }
        self.check_len(bytes.len() as u64)?;
        self.set_aside()?;
        let file = atomic_replace(self.vfs.as_ref(), &self.path, FILE_MODE, true, |file| {
            file.write_all_at(&bytes, 0)
        });
        let file = file.at(&self.path)?;
        let metadata = file.metadata().at(&self.path)?;
        let (inode, size) = (metadata.inode, metadata.size);
        let writable = true;
        self.file = Some(Found { file, inode, size, end: size, random, writable });
        Ok(())
    }

    /// Gives a damaged file a second name, which stays when the first is given to another.
    fn set_aside(&mut self) -> Result<()> {
        if !self.is_damaged() {
            return Ok(());
        }
        let mut random = [0; 8];
        self.vfs.random(&mut random).at(&self.path)?;
        let name = format!("pending.damaged-{:016x}", u64::from_le_bytes(random));
        let aside = self.path.with_extension(name);
        self.vfs.hard_link(&self.path, &aside).at(&aside)?;
        self.vfs.sync_dir(&self.dir).at(&self.dir)?;
        if let Some(damage) = &mut self.damage {
            damage.path = aside;
        }
        Ok(())
    }

    /// Whether the file in place is damaged, not one that was put aside.
    fn is_damaged(&self) -> bool {
        self.damage.as_ref().is_some_and(|damage| damage.path == self.path)
    }

    fn check_len(&self, len: u64) -> Result<()> {
        match len > PENDING_LEN_MAX {
            true => Err(Error::TooLarge { path: self.path.clone() }),
            false => Ok(()),
        }
    }

    fn read_file(&mut self) -> Result<()> {
        self.sequence_min = self.sequence_min.max(self.last_sequence().map_or(0, |last| last + 1));
        (self.file, self.records, self.damage) = (None, Vec::new(), None);
        let (file, writable) = match self.vfs.open(&self.path, OpenOptions::WRITE) {
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) if is_denied(&error) => {
                (self.vfs.open(&self.path, OpenOptions::READ).at(&self.path)?, false)
            }
            result => (result.at(&self.path)?, true),
        };
        let metadata = file.metadata().at(&self.path)?;
        let (inode, size) = (metadata.inode, metadata.size);
        let mut bytes = vec![0; size.min(PENDING_LEN_MAX) as usize];
        let len = file.read_full_at(&mut bytes, 0).at(&self.path)?;
        bytes.truncate(len);
        let (end, random) = match layout::read_header(&bytes, self.id) {
            Header::Good(random) => (self.take_batches(&bytes, random), random),
            Header::Version(version) => {
                return Err(Error::Version { path: self.path.clone(), version });
            }
            Header::Bad => {
                let path = self.path.clone();
                self.damage = Some(PendingDamage { path, offset: 0, records: 0 });
                (0, 0)
            }
        };
        self.file = Some(Found { file, inode, size, end, random, writable });
        Ok(())
    }

    /// Takes the batches up to the first that is not whole; returns where that begins.
    fn take_batches(&mut self, bytes: &[u8], random: u64) -> u64 {
        let mut at = HEADER_LEN;
        while let Some((records, len)) = layout::read_batch(&bytes[at..], random) {
            let ascends = self.last_sequence() < records.first().map(|record| record.sequence);
            if !ascends {
                break;
            }
            self.records.extend(records);
            at += len;
        }
        let (end, mut lost) = (at, 0);
        while let Some(found) = layout::find_batch(bytes, at, random) {
            let Some((records, len)) = layout::read_batch(&bytes[found..], random) else { break };
            lost += records.len() as u64;
            at = found + len;
        }
        if lost > 0 {
            let (path, offset) = (self.path.clone(), end as u64);
            self.damage = Some(PendingDamage { path, offset, records: lost });
        }
        end as u64
    }
}
