//! The journal of pending changes, which were accepted and are not written to the mailbox yet.
//!
//! One file per mailbox, `<state dir>/<id>.pending`, whose layout `docs/formats/pending.md` maps: a
//! header and then batches, each with checksums seeded by the random number of the file. A batch
//! has the changes that were accepted in one call. There is no file if nothing is pending.
//!
//! **Invariant**: no batch follows one that is not durable. So a batch at the end that is not
//! completely on the disk was never acknowledged, and is cut off before the next is written. Any
//! other batch that is not whole is damaged: the whole ones are used, the file gets a second name
//! when the journal is written next, and [`Pending::damage`] reports it until
//! [`Pending::acknowledge`].
//!
//! Sequence numbers are never reused, not even in a new file, because the journal of a change of
//! the mailbox may refer to one. A new file begins with the microseconds since 1970.

mod earlier;
mod layout;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use barid_types::{FlagSet, Keyword, ModSeq, Uid, UidValidity};
use barid_vfs::{File, OpenOptions, Vfs, atomic_replace, create_dir_durable};

use self::layout::{Identified, PendingHeader, PendingLayout};
use crate::aside::{aside_path, keep_aside};
use crate::error::{At, Error, Result};
use crate::limits::{COMMIT_LOCK_TIMEOUT, PENDING_LEN_MAX};
use crate::modes::{DIR_MODE, FILE_MODE, is_absent, is_denied};
use crate::waiting::wait_for_lock;
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

/// Kind of a change of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingKind {
    /// A change of its flags and keywords.
    Flags(FlagDelta),
    /// Its expunge.
    Expunge,
}

/// A change of a message, and the fields by which the message is found again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingChange {
    /// The UIDVALIDITY of its UID.
    pub uidvalidity: UidValidity,
    /// Its UID.
    pub uid: Uid,
    /// The hash that identifies it, as in the ledger.
    pub key: MessageKey,
    /// The hash of its body; 0 if the body was not read.
    pub body_hash: u64,
    /// Number of messages before it that have the same key.
    pub ordinal: u32,
    /// The mod-sequence of the change.
    pub modseq: ModSeq,
    /// The kind of change.
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

/// Damage of a journal: accepted changes that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingDamage {
    /// The damaged file.
    pub path: PathBuf,
    /// Byte offset of the damage; `None` if the file has its second name and is not in place any
    /// more.
    pub offset: Option<u64>,
    /// Estimated number of changes that are lost.
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
    file: Option<PendingFile>,
    records: Vec<PendingRecord>,
    damage: Option<PendingDamage>,
    /// The random number in the second name of a damaged file; 0 if none is kept.
    aside: u32,
    /// The lowest sequence number that a new record may get.
    sequence_min: u64,
    lock: Option<Box<dyn File>>,
    stop: Option<Arc<AtomicBool>>,
    poisoned: bool,
}

#[derive(Debug)]
struct PendingFile {
    file: Box<dyn File>,
    inode: u64,
    size: u64,
    layout: PendingLayout,
    /// Byte offset at which the last whole batch ends.
    end: u64,
    random: u64,
    writable: bool,
}

impl Pending {
    /// Opens the journal of a mailbox in the state folder `dir`; nothing is written.
    ///
    /// Costs one call if nothing is pending, else an open, a stat and a read of the whole file.
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
            aside: 0,
            sequence_min: 0,
            lock: None,
            stop: None,
            poisoned: false,
        };
        pending.read_file()?;
        Ok(pending)
    }

    /// Returns the accepted changes, ascending by sequence number.
    pub fn records(&self) -> &[PendingRecord] {
        &self.records
    }

    /// Returns the damage of the journal that is not acknowledged yet, if any.
    pub fn damage(&self) -> Option<&PendingDamage> {
        self.damage.as_ref()
    }

    /// Returns the sequence number of the last accepted change; `None` if there is none.
    pub fn last_sequence(&self) -> Option<u64> {
        self.records.last().map(|record| record.sequence)
    }

    /// Reads the file again if another process changed it, and returns `true` if one did. Costs a
    /// stat.
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

    /// Returns inode and size of the file whose records these are: they differ after each change.
    pub fn read_state(&self) -> Option<(u64, u64)> {
        self.file.as_ref().map(|file| (file.inode, file.size))
    }

    /// Locks the journal against other processes: takes an open-file-description lock on
    /// `<id>.pending.lock`, which is never removed, waiting up to `timeout`; then refreshes. Does
    /// nothing if the lock is held already.
    ///
    /// A caller that writes pending changes to a mailbox, or completes an unfinished change of it,
    /// must hold this lock from before it reads them until they are dropped, and take it before any
    /// lock of the mailbox.
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
        let place = (self.vfs.as_ref(), file.as_ref(), path.as_path());
        wait_for_lock(place, timeout, self.stop.as_ref())?;
        self.lock = Some(file);
        let read = self.refresh();
        if read.is_err() {
            self.unlock();
        }
        read.map(drop)
    }

    /// Returns `true` if a write failed, so that the journal must be reopened.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Returns `true` if [`Pending::lock`] is held.
    pub fn is_locked(&self) -> bool {
        self.lock.is_some()
    }

    /// Sets the flag that ends the wait for a lock with [`Error::Locked`].
    pub fn set_stop(&mut self, stop: Option<Arc<AtomicBool>>) {
        self.stop = stop;
    }

    /// Releases the lock, as does dropping the journal.
    pub fn unlock(&mut self) {
        self.lock = None;
    }

    /// Accepts changes: all of them, or none if it fails. Returns the sequence number of the last
    /// accepted change. Takes the lock unless it is held.
    ///
    /// Commit point: the fdatasync of one write, or, if there is no file or it is damaged or of
    /// version 1, the rename of a whole new one (see [`atomic_replace`]), which is durable when
    /// this returns.
    ///
    /// # Errors
    /// [`Error::Locked`]; [`Error::TooLarge`]; [`Error::Io`], and after that [`Error::Poisoned`]
    /// until the journal is reopened.
    pub fn accept(&mut self, changes: Vec<PendingChange>) -> Result<Option<u64>> {
        self.locked(|pending| {
            let first = pending.next_sequence();
            let records = (first..).zip(changes);
            let new: Vec<PendingRecord> =
                records.map(|(sequence, change)| PendingRecord { sequence, change }).collect();
            if new.is_empty() {
                return Ok(pending.last_sequence());
            }
            let is_sound = !pending.is_damaged()
                && pending.file.as_ref().is_some_and(|file| file.layout == PendingLayout::Two);
            match is_sound {
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

    /// Drops the changes up to and including number `sequence`, durably, if there are any. Takes
    /// the lock unless it is held.
    ///
    /// Commit point: the fsync of the folder after the file was removed, or, if later changes are
    /// left, the rename of a new file with these.
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

    /// Renumbers these changes above all others, durably and in their order, so that
    /// [`Pending::drop_through`] with the present last number does not drop them. Takes the lock
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

    /// Clears [`Pending::damage`], durably; the damaged file is kept under its second name. Takes
    /// the lock unless it is held.
    ///
    /// # Errors
    /// As [`Pending::accept`].
    pub fn acknowledge(&mut self) -> Result<()> {
        self.locked(|pending| {
            if pending.damage.is_none() {
                return Ok(());
            }
            pending.set_aside()?;
            (pending.damage, pending.aside) = (None, 0);
            let records = pending.records.clone();
            pending.replace(records)
        })
    }

    /// Calls `act` under the lock. An I/O error poisons the journal.
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

    /// Appends a batch after the last whole one.
    fn append(&self, records: &[PendingRecord]) -> Result<()> {
        let Some(PendingFile { file, size, end, random, writable, .. }) = &self.file else {
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
            // No reader may accept a batch that was not acknowledged. If this fails, too, the file
            // is as after a crash.
            let _ = file.set_len(*end);
        }
        written.at(&self.path)
    }

    /// Replaces all records by `records`; removes the file if there are none and no damage to
    /// report.
    fn replace(&mut self, records: Vec<PendingRecord>) -> Result<()> {
        self.sequence_min = self.next_sequence();
        match records.is_empty() && self.damage.is_none() {
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

    /// Replaces the file; a damaged one is kept under its second name.
    fn write_all(&mut self, records: &[PendingRecord]) -> Result<()> {
        let mut random = [0; 8];
        self.vfs.random(&mut random).at(&self.path)?;
        self.set_aside()?;
        let random = u64::from_le_bytes(random);
        let lost = self.damage.as_ref().map_or(0, |damage| damage.records);
        let lost = u32::try_from(lost).unwrap_or(u32::MAX);
        let identified = Identified { random, aside: self.aside, lost };
        let mut bytes = layout::header(self.id, &identified, self.vfs.now().unix_nanos);
        let is_next = |a: &PendingRecord, b: &PendingRecord| a.sequence + 1 == b.sequence;
        for batch in records.chunk_by(is_next) {
            layout::put_batch(&mut bytes, random, batch);
        }
        self.check_len(bytes.len() as u64)?;
        let file = atomic_replace(self.vfs.as_ref(), &self.path, FILE_MODE, true, |file| {
            file.write_all_at(&bytes, 0)
        });
        let file = file.at(&self.path)?;
        let metadata = file.metadata().at(&self.path)?;
        let (inode, size) = (metadata.inode, metadata.size);
        let (writable, layout) = (true, PendingLayout::Two);
        self.file = Some(PendingFile { file, inode, size, layout, end: size, random, writable });
        Ok(())
    }

    /// Gives a damaged file a second name, durably, so that it is kept when a new file replaces it.
    fn set_aside(&mut self) -> Result<()> {
        if !self.is_damaged() {
            return Ok(());
        }
        self.aside = keep_aside(self.vfs.as_ref(), &self.path)?;
        if let Some(damage) = &mut self.damage {
            (damage.path, damage.offset) = (aside_path(&self.path, self.aside), None);
        }
        Ok(())
    }

    /// Returns `true` if the file in place is damaged, not only an earlier one with a second name.
    fn is_damaged(&self) -> bool {
        self.damage.as_ref().is_some_and(|damage| damage.offset.is_some())
    }

    fn check_len(&self, len: u64) -> Result<()> {
        match len > PENDING_LEN_MAX {
            true => Err(Error::TooLarge { path: self.path.clone() }),
            false => Ok(()),
        }
    }

    fn read_file(&mut self) -> Result<()> {
        self.sequence_min = self.sequence_min.max(self.last_sequence().map_or(0, |last| last + 1));
        (self.file, self.records) = (None, Vec::new());
        (self.damage, self.aside) = (None, 0);
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
        let (layout, random) = match layout::read_header(&bytes, self.id) {
            PendingHeader::Good(layout, Identified { random, aside, lost }) => {
                if aside != 0 {
                    self.aside = aside;
                    let (path, offset) = (aside_path(&self.path, aside), None);
                    let records = lost.into();
                    self.damage = Some(PendingDamage { path, offset, records });
                }
                (layout, random)
            }
            PendingHeader::Version(version) => {
                return Err(Error::Version { path: self.path.clone(), version });
            }
            PendingHeader::Bad => {
                self.note_damage(0, 0);
                layout::salvage(&bytes).unwrap_or((PendingLayout::Two, 0))
            }
        };
        let end = self.take_batches(&bytes, layout, random);
        self.file = Some(PendingFile { file, inode, size, layout, end, random, writable });
        Ok(())
    }

    /// Records damage of the file in place. The offset of the first damage is kept.
    fn note_damage(&mut self, offset: usize, records: u64) {
        let path = self.path.clone();
        let before = self.damage.take().map_or((None, 0), |damage| (damage.offset, damage.records));
        let offset = before.0.or(Some(offset as u64));
        self.damage = Some(PendingDamage { path, offset, records: before.1 + records });
    }

    /// Adds the records of a batch and returns `true`, unless their sequence numbers are not higher
    /// than those before.
    fn take_records(&mut self, records: Vec<PendingRecord>) -> bool {
        let ascends = self.last_sequence() < records.first().map(|record| record.sequence);
        if ascends {
            self.records.extend(records);
        }
        ascends
    }

    /// Adds the records of all batches that are whole, or whole but for a damaged length; returns
    /// the byte offset at which the next batch belongs.
    fn take_batches(&mut self, bytes: &[u8], layout: PendingLayout, random: u64) -> u64 {
        let mut at = layout.header_len().min(bytes.len());
        while at < bytes.len() {
            let batch = layout::read_batch(&bytes[at..], layout, random);
            if let Some((records, len)) = batch
                && self.take_records(records)
            {
                at += len;
                continue;
            }
            let next = layout::find_batch(bytes, at + 1, layout, random);
            let end = next.unwrap_or(bytes.len());
            let mended = layout::read_batch_of_len(&bytes[at..end], layout, random);
            if mended.is_some_and(|records| self.take_records(records)) {
                self.note_damage(at, 0);
                at = end;
                continue;
            }
            let last = self.last_sequence();
            match next {
                Some(next) => {
                    let lost = layout::read_batch(&bytes[next..], layout, random)
                        .and_then(|(records, _)| Some(records.first()?.sequence))
                        .zip(last)
                        .map_or(0, |(next, last)| next.saturating_sub(last + 1));
                    let room = layout::records_max(next - at);
                    self.note_damage(at, lost.min(room));
                    at = next;
                }
                None if layout::is_torn(&bytes[at..], at, layout, random) => break,
                None => {
                    self.note_damage(at, layout::claimed(&bytes[at..], layout, random));
                    break;
                }
            }
        }
        at as u64
    }
}
