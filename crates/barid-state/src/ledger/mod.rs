//! The UID ledger: UIDs that the mailbox format cannot store, and the highest mod-sequence.
//!
//! One file per mailbox, `<state dir>/<id>.ledger`, whose layout `docs/formats/ledger.md` maps: a
//! log of checksummed batches, each ending in a footer that holds all numbers, so that opening
//! reads only the end. Every block of the file is stored twice. Changes are collected in memory
//! until [`Ledger::commit`].
//!
//! **Invariant**: no batch follows one that is not durable, so a crash can only tear the last
//! batch, whose commit never returned.
//!
//! **Lost ledger**: a file that is absent, not a ledger of this mailbox, or damaged in both copies
//! has no UIDVALIDITY, so the mailbox gets a new one from [`Ledger::next_uidvalidity`];
//! mod-sequences start at the microseconds since 1970 (or above all known ones), so that they never
//! decrease.
//!
//! **Damage** is recorded until it is acknowledged: the damaged file gets a second name before a
//! new one replaces it, and every later file carries a notice ([`Ledger::notice`]) until
//! [`Ledger::acknowledge`].
//!
//! **Vanished UIDs**: the UIDs of expunged messages are kept with the mod-sequence of the expunge,
//! up to a bound ([`Ledger::vanished_since`]); opening does not read them.

mod batch;
mod layout;
mod notice;
mod read;
mod twice;
mod vanished;
mod write;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use barid_types::{ModSeq, Uid, UidValidity};
use barid_vfs::{File, OpenOptions, Timestamp, Vfs};

use self::layout::{DAMAGED, LOST, LedgerLayout, RENUMBERED, Summary, Wanted};
pub use self::notice::LedgerNotice;
use self::read::{Flaw, Opened};
use self::twice::Stream;
pub use self::vanished::Vanished;
use crate::error::{At, Error, Result};
use crate::identity::Identity;
use crate::limits::{ENTRIES_MAX, PATH_LEN_MAX};
use crate::modes::{is_absent, is_denied};

/// The hash that identifies a message in the ledger: of its header without the fields that mailbox
/// formats own, or of a Maildir base name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey(pub u64);

/// One message of the ledger. Packed, because a large mailbox has many in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed(4))]
pub struct LedgerEntry {
    /// Its UID.
    pub uid: Uid,
    /// Its key at the time it got the UID.
    pub key: MessageKey,
}

/// Write access to a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Commits go to the disk.
    ReadWrite,
    /// Nothing is written; commits change only what is in memory.
    ReadOnly,
}

/// The ledger of one mailbox.
///
/// To hand out UIDs, call [`Ledger::lock`], then [`Ledger::push`] or [`Ledger::raise_uidnext`],
/// then [`Ledger::commit`]; announce the UIDs only after that.
#[derive(Debug)]
pub struct Ledger {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    path: PathBuf,
    identity: Identity,
    persistent: bool,
    /// The file, open for writing if `persistent`; `None` before the first commit.
    file: Option<Box<dyn File>>,
    /// State of the file when we last read or wrote it.
    found: LedgerFile,
    /// The numbers, pending changes included.
    summary: Summary,
    /// Entries in ascending order, pending changes included; `None` until they are needed.
    entries: Option<Vec<LedgerEntry>>,
    pending: UncommittedChanges,
    lock: Option<Box<dyn File>>,
    stop: Option<Arc<AtomicBool>>,
    /// `true` if the next commit must replace the file instead of appending to it.
    lost: bool,
    /// `true` if there is no file, although there must have been one.
    is_missing: bool,
    /// Offset in the file of the damage; `None` if the file in place is sound.
    damage: Option<u64>,
    poisoned: bool,
}

/// A state of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LedgerFile {
    /// Its inode; 0 if the file is absent.
    inode: u64,
    size: u64,
    layout: LedgerLayout,
    /// End of the last whole batch, as an offset in the stream.
    end: u64,
    flaw: Option<Flaw>,
}

impl Default for LedgerFile {
    fn default() -> Self {
        Self { inode: 0, size: 0, layout: LedgerLayout::V3, end: 0, flaw: None }
    }
}

/// Changes that the next commit writes.
#[derive(Debug, Default)]
struct UncommittedChanges {
    /// `true` if there is any change.
    dirty: bool,
    /// `true` if all entries in the file are void: `Ledger::entries` replaces them.
    replaced: bool,
    /// Pushed entries, unless `Ledger::entries` is loaded and has them.
    pushed: Vec<LedgerEntry>,
    /// The highest UID before the first pushed entry.
    pushed_above: Option<u32>,
    expunged: Vec<Uid>,
    vanished: Vec<Vanished>,
    /// `true` if the vanished UIDs in the file are forgotten.
    forgets: bool,
    /// The first UID pushed out of order.
    misplaced: Option<Uid>,
}

impl Ledger {
    /// Opens the ledger of a mailbox in the state folder `dir`. An absent file is an empty ledger.
    /// Nothing is written before the first commit.
    ///
    /// Costs an open, an fstat and one read of at most 960 bytes, whatever the size; a torn tail
    /// (after a crash) costs a read of the whole file.
    ///
    /// # Errors
    /// [`Error::Version`] for a ledger of a later version; [`Error::Io`].
    pub fn open(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        identity: &Identity,
        access: Access,
    ) -> Result<Self> {
        let mut ledger = Self {
            path: dir.join(format!("{:032x}.ledger", identity.id)),
            vfs,
            dir: dir.to_owned(),
            identity: identity.clone(),
            persistent: access == Access::ReadWrite,
            file: None,
            found: LedgerFile::default(),
            summary: Summary::default(),
            entries: None,
            pending: UncommittedChanges::default(),
            lock: None,
            stop: None,
            lost: false,
            is_missing: false,
            damage: None,
            poisoned: false,
        };
        ledger.read_file()?;
        ledger.read_settled()?;
        Ok(ledger)
    }

    /// Returns `true` if commits reach the disk. Becomes `false` once the file or the folder turns
    /// out not to be writable; then UIDs are not valid after this process ends.
    pub fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// Returns `true` if a write failed, so that the ledger must be reopened.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Reads the file again if another process committed. Costs a stat. Does nothing while the lock
    /// is held.
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn refresh(&mut self) -> Result<()> {
        if self.lock.is_some() { Ok(()) } else { self.read_again() }
    }

    /// Returns `true` if there is no usable file: the mailbox was never opened, or its ledger is
    /// lost.
    pub fn is_new(&self) -> bool {
        self.found.inode == 0 || self.lost
    }

    /// Returns `true` if the file had, or may have had, a UIDVALIDITY that can no longer be read,
    /// and the mailbox has no new one yet.
    pub fn is_lost(&self) -> bool {
        self.summary.notices & LOST != 0 && self.summary.uidvalidity == 0
    }

    /// Returns the UIDVALIDITY; `None` in a ledger that is new or lost.
    pub fn uidvalidity(&self) -> Option<UidValidity> {
        UidValidity::new(self.summary.uidvalidity)
    }

    /// Sets the UIDVALIDITY. A change voids UIDNEXT and all entries.
    pub fn set_uidvalidity(&mut self, uidvalidity: UidValidity) {
        if self.uidvalidity() != Some(uidvalidity) {
            self.replace(uidvalidity, Vec::new());
        }
    }

    /// Returns a UIDVALIDITY higher than every one that this ledger has recorded, and at least the
    /// Unix time of `now` in seconds.
    pub fn next_uidvalidity(&self, now: Timestamp) -> UidValidity {
        let seconds = u32::try_from(now.unix_seconds().max(1)).unwrap_or(u32::MAX);
        let above = self.summary.uidvalidity_max.saturating_add(1);
        UidValidity::new(above.max(seconds)).unwrap_or(UidValidity::MAX)
    }

    /// Returns the lowest UID that was never assigned, according to the ledger; `None` if
    /// unknown.
    pub fn uidnext(&self) -> Option<Uid> {
        Uid::new(self.summary.uidnext)
    }

    /// Raises UIDNEXT; a lower one changes nothing.
    pub fn raise_uidnext(&mut self, uidnext: Uid) {
        if uidnext.get() > self.summary.uidnext {
            self.summary.uidnext = uidnext.get();
            self.pending.dirty = true;
        }
    }

    /// Returns the highest mod-sequence assigned (RFC 7162).
    pub fn highest_modseq(&self) -> ModSeq {
        ModSeq::new(self.summary.modseq).unwrap_or(ModSeq::MAX)
    }

    /// Raises the highest mod-sequence; a lower one changes nothing.
    pub fn raise_modseq(&mut self, modseq: ModSeq) {
        if modseq.get() > self.summary.modseq {
            self.summary.modseq = modseq.get();
            self.pending.dirty = true;
        }
    }

    /// Returns the fingerprint of the mailbox's content that was last set. The caller defines its
    /// meaning.
    pub fn fingerprint(&self) -> u64 {
        self.summary.fingerprint
    }

    /// Records the fingerprint with the next commit.
    pub fn set_fingerprint(&mut self, fingerprint: u64) {
        if fingerprint != self.summary.fingerprint {
            self.summary.fingerprint = fingerprint;
            self.pending.dirty = true;
        }
    }

    /// Returns the highest UID pushed since the last replacement, even if its entry was expunged;
    /// `None` if there was none.
    pub fn uid_last(&self) -> Option<Uid> {
        Uid::new(self.summary.uid_last)
    }

    /// Returns the entries in ascending order of UID, pending changes included. The first call
    /// reads the file from the last replacement on: about 12 bytes per entry and copy.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a durable batch is damaged in all copies: call [`Ledger::replace`].
    pub fn entries(&mut self) -> Result<&[LedgerEntry]> {
        self.load_entries()?;
        Ok(self.entries.as_deref().unwrap_or(&[]))
    }

    /// Reserves memory for exactly `count` more entries.
    pub fn reserve(&mut self, count: usize) {
        match &mut self.entries {
            Some(entries) => entries.reserve_exact(count),
            None => self.pending.pushed.reserve_exact(count),
        }
    }

    /// Adds an entry, whose UID must be higher than all before it, and raises UIDNEXT above it. An
    /// entry out of order makes the next commit fail with [`Error::NotAscending`].
    pub fn push(&mut self, entry: LedgerEntry) {
        self.pending.dirty = true;
        if entry.uid.get() <= self.summary.uid_last {
            self.pending.misplaced.get_or_insert(entry.uid);
            return;
        }
        self.pending.pushed_above.get_or_insert(self.summary.uid_last);
        self.summary.uid_last = entry.uid.get();
        self.summary.live += 1;
        self.raise_uidnext(entry.uid.next().unwrap_or(Uid::MAX));
        match &mut self.entries {
            Some(entries) => entries.push(entry),
            None => self.pending.pushed.push(entry),
        }
    }

    /// Returns the entries pushed since the last commit; after a replacement, all entries.
    fn pushed(&self) -> &[LedgerEntry] {
        let Some(entries) = &self.entries else { return &self.pending.pushed };
        let above = match self.pending.pushed_above {
            _ if self.pending.replaced => 0,
            Some(above) => above,
            None => return &[],
        };
        &entries[entries.partition_point(|entry| entry.uid.get() <= above)..]
    }

    /// Removes the entries of `uids`, given in any order. Unknown UIDs are ignored.
    pub fn expunge(&mut self, uids: &[Uid]) {
        // A UID that is not assigned yet must not remove an entry pushed later.
        let last = self.summary.uid_last;
        let mut uids: Vec<Uid> = uids.iter().copied().filter(|uid| uid.get() <= last).collect();
        uids.sort_unstable();
        uids.dedup();
        if uids.is_empty() {
            return;
        }
        self.pending.dirty = true;
        self.pending.pushed.retain(|entry| uids.binary_search(&entry.uid).is_err());
        match &mut self.entries {
            Some(entries) => {
                entries.retain(|entry| uids.binary_search(&entry.uid).is_err());
                self.summary.live = entries.len() as u64;
            }
            None => self.summary.live = self.summary.live.saturating_sub(uids.len() as u64),
        }
        if !self.pending.replaced {
            self.pending.expunged.append(&mut uids);
            self.pending.expunged.sort_unstable();
        }
    }

    /// Starts again without entries under a UIDVALIDITY that the mailbox itself stores: the ledger
    /// is lost, but messages keep their UIDs.
    pub fn keep(&mut self, uidvalidity: UidValidity) {
        let lost = self.summary.notices & LOST;
        self.summary.lost_uidvalidity = uidvalidity.get();
        self.replace(uidvalidity, Vec::new());
        self.summary.notices |= lost;
    }

    /// Records that an absent file must have existed, because something else records its
    /// UIDVALIDITY. If the mailbox then gets another one, [`Ledger::notice`] reports that. Has no
    /// effect if the file exists.
    pub fn note_missing(&mut self, uidvalidity: UidValidity) {
        if self.found.inode == 0 && self.summary.uidvalidity == 0 {
            self.is_missing = true;
            let summary = &mut self.summary;
            summary.uidvalidity_max = summary.uidvalidity_max.max(uidvalidity.get());
            summary.lost_uidvalidity = uidvalidity.get();
        }
    }

    /// Replaces UIDVALIDITY and all entries, which must ascend by UID. UIDNEXT becomes one more
    /// than the last UID, but never decreases under the same UIDVALIDITY. Repairs a ledger with
    /// [`Error::Damaged`].
    pub fn replace(&mut self, uidvalidity: UidValidity, entries: Vec<LedgerEntry>) {
        let is_new_numbering = self.uidvalidity() != Some(uidvalidity);
        let uidnext = if is_new_numbering { 0 } else { self.summary.uidnext };
        let mut notices = self.summary.notices & !LOST;
        let is_lost = self.summary.notices & LOST != 0 || self.is_missing;
        if is_lost && self.summary.lost_uidvalidity != uidvalidity.get() {
            notices |= RENUMBERED;
        }
        let unsorted = entries.windows(2).find(|pair| pair[0].uid >= pair[1].uid);
        let uid_last = entries.last().map_or(0, |entry| entry.uid.get());
        self.summary = Summary {
            uidvalidity: uidvalidity.get(),
            uidvalidity_max: self.summary.uidvalidity_max.max(uidvalidity.get()),
            uidnext: if uid_last == 0 { uidnext } else { uidnext.max(uid_last.saturating_add(1)) },
            uid_last,
            live: entries.len() as u64,
            notices,
            ..self.summary
        };
        self.pending = UncommittedChanges {
            dirty: true,
            replaced: true,
            misplaced: unsorted.map(|pair| pair[1].uid),
            vanished: std::mem::take(&mut self.pending.vanished),
            forgets: self.pending.forgets,
            ..UncommittedChanges::default()
        };
        self.entries = Some(entries);
        if is_new_numbering || self.lost {
            self.forget_vanished();
        }
    }

    /// Returns the canonical path of the mailbox as last recorded, and its inode at the last
    /// commit; `None` if no path is recorded or it is damaged. Reads the path from the file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn home(&self) -> Result<Option<(PathBuf, u64)>> {
        let len = self.summary.path_len as usize;
        let Some(file) = self.file.as_ref().filter(|_| (1..=PATH_LEN_MAX).contains(&len)) else {
            return Ok(None);
        };
        let stream = Stream::new(file.as_ref(), self.found.layout, self.found.size);
        let copies = stream.read(self.summary.path_offset, len).at(&self.path)?;
        let is_it = |path: &Vec<u8>| layout::hash(path) == self.summary.path_hash;
        let path = copies.into_iter().find(is_it);
        Ok(path.map(|path| (OsString::from_vec(path).into(), self.summary.inode)))
    }

    /// Reads the file; the caller has saved pending changes.
    fn read_file(&mut self) -> Result<()> {
        self.entries = None;
        (self.lost, self.is_missing, self.damage) = (false, false, None);
        self.found = LedgerFile::default();
        self.summary = Summary::default();
        self.file = self.open_file()?;
        if let Some(file) = &self.file {
            let metadata = file.metadata().at(&self.path)?;
            let opened = read::open(file.as_ref(), metadata.size, self.identity.id);
            let (inode, size) = (metadata.inode, metadata.size);
            self.found = LedgerFile { inode, size, ..LedgerFile::default() };
            match opened.at(&self.path)? {
                Opened::Good { summary, layout, end, flaw } => {
                    self.summary = summary;
                    self.found = LedgerFile { layout, end, flaw, ..self.found };
                    if let Some(Flaw::Damaged(offset)) = flaw {
                        self.note_damage(offset);
                    }
                    return Ok(());
                }
                Opened::Version(version) => {
                    return Err(Error::Version { path: self.path.clone(), version });
                }
                Opened::Lost { summary, offset } => {
                    self.lose(&summary, offset);
                    if summary.sequence == 0 {
                        self.outlast(metadata.modified);
                    }
                }
            }
        }
        let micros = u64::try_from(self.vfs.now().unix_nanos / 1000).unwrap_or(0);
        self.summary.modseq = self.summary.modseq.max(micros);
        self.summary.vanished_floor = self.summary.modseq;
        Ok(())
    }

    /// Marks the ledger lost: keeps the high-water marks of `known` only.
    fn lose(&mut self, known: &Summary, offset: u64) {
        (self.lost, self.damage) = (true, Some(offset));
        self.entries = Some(Vec::new());
        self.summary = Summary {
            sequence: known.sequence,
            uidvalidity_max: known.uidvalidity_max,
            modseq: known.modseq,
            fingerprint: known.fingerprint,
            notices: known.notices | DAMAGED | LOST,
            lost_uidvalidity: known.uidvalidity,
            aside: known.aside,
            ..Summary::default()
        };
    }

    /// Makes the next UIDVALIDITY higher than any that an unreadable file may have had, which is at
    /// most the second in which the file was modified. Sleeps until the next second if it was
    /// modified in this one.
    fn outlast(&mut self, modified: Timestamp) {
        let second = modified.unix_seconds();
        let known = u32::try_from(second.max(0)).unwrap_or(u32::MAX);
        self.summary.uidvalidity_max = self.summary.uidvalidity_max.max(known);
        let now = self.vfs.now();
        if now.unix_seconds() == second {
            let nanos = 1_000_000_000 - now.unix_nanos.rem_euclid(1_000_000_000);
            self.vfs.sleep(Duration::from_nanos(nanos.unsigned_abs()));
        }
    }

    fn open_file(&mut self) -> Result<Option<Box<dyn File>>> {
        if self.persistent {
            match self.vfs.open(&self.path, OpenOptions::WRITE) {
                Ok(file) => return Ok(Some(file)),
                Err(error) if is_denied(&error) => self.persistent = false,
                Err(error) if is_absent(&error) => return Ok(None),
                result => return result.map(Some).at(&self.path),
            }
        }
        match self.vfs.open(&self.path, OpenOptions::READ) {
            Err(error) if is_absent(&error) => Ok(None),
            result => result.map(Some).at(&self.path),
        }
    }

    fn had_entries(&self) -> bool {
        self.summary.uid_last > 0 || self.summary.live > 0
    }

    fn load_entries(&mut self) -> Result<()> {
        if self.entries.is_some() {
            return Ok(());
        }
        let mut entries = match &self.file {
            // A ledger that was never given a UID has no entries, whatever else is damaged.
            Some(file) if self.found.end > layout::HEADER_LEN && self.had_entries() => {
                let LedgerFile { size, layout, end, flaw, .. } = self.found;
                let stream = Stream::new(file.as_ref(), layout, size);
                let (id, wanted) = (self.identity.id, Wanted::Entries);
                let loaded = read::load(&stream, &self.summary, (end, flaw), id, wanted);
                match loaded.at(&self.path)? {
                    Ok(loaded) => {
                        if let Some(offset) = loaded.damage {
                            self.note_damage(offset);
                        }
                        loaded.contents.entries
                    }
                    Err(offset) => {
                        (self.lost, self.damage) = (true, Some(offset));
                        self.summary.notices |= DAMAGED | LOST;
                        self.summary.lost_uidvalidity = self.summary.uidvalidity;
                        return Err(Error::Damaged { path: self.path.clone(), offset });
                    }
                }
            }
            _ => Vec::new(),
        };
        let expunged = &self.pending.expunged;
        entries.retain(|entry| expunged.binary_search(&entry.uid).is_err());
        entries.append(&mut self.pending.pushed);
        self.summary.live = entries.len() as u64;
        self.entries = Some(entries);
        Ok(())
    }

    fn check_commit(&self) -> Result<()> {
        let path = || self.path.clone();
        if self.poisoned {
            return Err(Error::Poisoned { path: path() });
        }
        if let Some(uid) = self.pending.misplaced {
            return Err(Error::NotAscending { path: path(), uid });
        }
        if self.summary.live > ENTRIES_MAX as u64 {
            return Err(Error::TooLarge { path: path() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
