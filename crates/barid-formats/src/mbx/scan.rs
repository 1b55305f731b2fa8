//! Comparison of a mailbox with the known messages.
//!
//! A scan reads nothing, the lines of appended messages, or all lines. As in c-client, flags
//! changed by other programs show in the modification time of the file or in the process id in its
//! header; a file that only grew is read from its old end on. The headers of new messages are read
//! as well.
//!
//! **UIDs.** Messages without a UID get one here, under the permission to parse: first the last UID
//! is written to the header of the file and synced, then the remains of an interrupted append
//! between messages are hidden through the journal, then the lines are written and synced
//! (`number.rs` describes the result of a crash in between). The messages stay \Recent, which they
//! would not after numbering by c-client. If nothing may be written, UIDs are assigned in memory
//! only, as in c-client's read-only sessions. The next writer assigns the same numbers, because the
//! order of messages never changes.

use barid_mailbox::{
    ChangedMessage, DefectKind, Error, Extent, Known, Location, MailboxDefect, Result, ScanContext,
    ScanReport, ScanStats, Sinks, sink_error,
};
use barid_types::{FlagSet, KeywordMask, KeywordTable, Uid, UidValidity};
use barid_vfs::{File, FileStamp, OpenOptions};

use super::MbxMailbox;
use super::headers::hand_out;
use super::journal::{file_name, is_half_moved, is_unfinished, unfinished_error};
use super::layout::{
    GROWTH_PAUSE, GROWTH_TRIES, HEADER_LEN, KeywordBits, MbxHeader, MbxRecord, MbxScanState,
    UIDVALIDITY_OFFSET, flags_of,
};
use super::lock::{Permission, lock_shared};
use super::number::{MbxNumbering, number};
use super::walk::{MbxWalker, UidsSeen, WalkEnd};
use crate::file_stamps::FileStamps;
use crate::redo::{self, Change, FileChange, JournalPath};

/// Compares the mailbox with the known messages.
pub(super) fn scan(
    mailbox: &MbxMailbox,
    known: &dyn Known,
    sinks: &dyn Sinks,
    context: &mut ScanContext<'_>,
) -> Result<ScanReport> {
    let at = || Error::at(&mailbox.path);
    let file = mailbox.vfs.open(&mailbox.path, OpenOptions::READ).map_err(at())?;
    lock_shared(mailbox, &*file)?;
    let mut found = ScannedLines::read(mailbox, &*file, known, context.full_check)?;
    let mut writing = None;
    if found.is_to_be_settled() {
        writing = found.settle(mailbox, &*file, known, context)?;
    }
    // Held until the stamp was taken, so that nobody else writes between our write and the stamp.
    drop(writing);
    found.check_sound(mailbox, &*file, known)?;
    let difference = found.compare(known)?;
    let new = match difference.is_reset {
        true => found.records.iter().filter(|record| !record.is_hidden()).copied().collect(),
        false => difference.new,
    };
    if difference.is_reset {
        sinks.expect_whole();
    }
    let mut keywords = match difference.is_reset {
        true => KeywordTable::default(),
        false => known.keywords().clone(),
    };
    let slots = found.header.slots(&mut keywords);
    let mut stats = ScanStats { bytes_read: found.bytes_read, ..ScanStats::default() };
    stats.bytes_read += hand_out(mailbox, &*file, &new, &slots, sinks, context)?;
    stats.messages_read = new.len() as u64;
    let no_uid_left = || damaged(mailbox, UIDVALIDITY_OFFSET, "no UIDs are left");
    Ok(ScanReport {
        stamp: found.stamp.into(),
        state: found.state(),
        uidvalidity: UidValidity::new(found.header.uidvalidity).unwrap_or(UidValidity::MIN),
        uidnext: Uid::new(found.uid_last.wrapping_add(1)).ok_or_else(no_uid_left)?,
        keywords,
        reset: difference.is_reset,
        expunged: if difference.is_reset { Vec::new() } else { difference.expunged },
        changed: if difference.is_reset { Vec::new() } else { difference.changed },
        new_uids: Vec::new(),
        tail_verified: known.tail_verified() && !difference.is_reset,
        size_bytes: found.stamp.files[0].size,
        defects: found.defects(),
        stats,
    })
}

pub(super) fn damaged(mailbox: &MbxMailbox, offset: u64, kind: &'static str) -> Error {
    Error::Damaged { path: mailbox.path.clone(), offset, kind }
}

/// Reads and parses the header of the file.
pub(super) fn read_header(mailbox: &MbxMailbox, file: &dyn File) -> Result<MbxHeader> {
    let mut bytes = vec![0; HEADER_LEN as usize];
    let len = file.read_full_at(&mut bytes, 0).map_err(Error::at(&mailbox.path))?;
    MbxHeader::parse(&bytes[..len]).ok_or_else(|| Error::NotAMailbox {
        path: mailbox.path.clone(),
        reason: "it does not begin with the header of an mbx",
    })
}

/// The lines read from a file.
pub(super) struct ScannedLines {
    pub(super) stamp: FileStamps,
    pub(super) header: MbxHeader,
    /// Records from `start` on.
    pub(super) records: Vec<MbxRecord>,
    /// Offset up to which the known messages are still valid.
    start: u64,
    /// Highest UID before `start`.
    start_uid: u32,
    /// Offset at which the last whole message ends.
    pub(super) end: u64,
    /// Fault at `end`, if there is one.
    pub(super) fault: Option<WalkEnd>,
    /// Last UID assigned.
    pub(super) uid_last: u32,
    /// Highest UID of any record.
    pub(super) last_uid: u32,
    /// Index of the record that will hide the remains of an append.
    hole: Option<usize>,
    bytes_read: u64,
}

impl ScannedLines {
    /// Reads the lines that are not known.
    fn read(
        mailbox: &MbxMailbox,
        file: &dyn File,
        known: &dyn Known,
        full_check: bool,
    ) -> Result<Self> {
        let metadata = file.metadata().map_err(Error::at(&mailbox.path))?;
        let stamp = mailbox.stamp_of(FileStamp::from(&metadata));
        let header = read_header(mailbox, file)?;
        let notes = MbxScanState::from_bytes(known.state())
            .filter(|notes| !full_check && is_only_grown(known, notes, &stamp, &header));
        let (start, start_uid) = notes.map_or((HEADER_LEN, 0), |notes| (notes.end, notes.last_uid));
        Self::walk(mailbox, file, stamp, header, (start, start_uid))
    }

    /// Reads all lines.
    pub(super) fn read_all(mailbox: &MbxMailbox, file: &dyn File) -> Result<Self> {
        let metadata = file.metadata().map_err(Error::at(&mailbox.path))?;
        let stamp = mailbox.stamp_of(FileStamp::from(&metadata));
        let header = read_header(mailbox, file)?;
        Self::walk(mailbox, file, stamp, header, (HEADER_LEN, 0))
    }

    fn walk(
        mailbox: &MbxMailbox,
        file: &dyn File,
        stamp: FileStamps,
        header: MbxHeader,
        (start, start_uid): (u64, u32),
    ) -> Result<Self> {
        let mut walker = MbxWalker::new(file, stamp.files[0].size);
        let mut records = Vec::new();
        let at = || Error::at(&mailbox.path);
        let walked = walker.walk(start, &mut |record| records.push(record));
        let (mut end, mut fault) = walked.map_err(at())?;
        let uid_last = header.uid_last;
        let last_uid = records.iter().map(|record| record.uid).fold(start_uid, u32::max);
        let uids = UidsSeen { before: last_uid, given: uid_last };
        let mut hole = None;
        if let Some(record) =
            fault.map(|fault| walker.hole(&fault, uids)).transpose().map_err(at())?.flatten()
        {
            hole = Some(records.len());
            records.push(record);
            let walked = walker.walk(record.end(), &mut |record| records.push(record));
            (end, fault) = walked.map_err(at())?;
        }
        let bytes_read = HEADER_LEN + walker.bytes_read;
        Ok(Self {
            stamp,
            header,
            records,
            start,
            start_uid,
            end,
            fault,
            uid_last,
            last_uid,
            hole,
            bytes_read,
        })
    }

    /// Returns `true` if messages need UIDs, or if the end of the file may be an append in
    /// progress.
    fn is_to_be_settled(&self) -> bool {
        self.fault.is_some() || self.header.uidvalidity == 0 || self.needs_numbers()
    }

    /// Returns `true` if a UID is missing or void.
    pub(super) fn needs_numbers(&self) -> bool {
        let mut last = self.start_uid;
        let mut is_sound = |record: &MbxRecord| {
            let sound = record.uid > last && record.uid <= self.header.uid_last;
            last = record.uid;
            sound
        };
        !self.records.iter().all(&mut is_sound)
    }

    /// Reads again while nobody else parses or appends, and numbers messages without a UID. The
    /// returned permission keeps others out.
    fn settle(
        &mut self,
        mailbox: &MbxMailbox,
        file: &dyn File,
        known: &dyn Known,
        context: &ScanContext<'_>,
    ) -> Result<Option<Permission>> {
        let metadata = file.metadata().map_err(Error::at(&mailbox.path))?;
        let writable = match context.read_only {
            true => None,
            false => open_for_writing(mailbox, metadata.inode)?,
        };
        if is_half_moved(mailbox)? {
            return Err(unfinished_error(mailbox));
        }
        let permission = match writable.as_ref().map(|_| Permission::acquire(mailbox, &metadata)) {
            // If no lock file can be created, the mailbox is read without one.
            None | Some(Err(Error::Io { .. })) => None,
            Some(permission) => Some(permission?),
        };
        // An unfinished change is completed first, because it may write to the same place.
        let is_free = permission.is_some() && !is_unfinished(mailbox)?;
        let writable = writable.filter(|_| is_free);
        for _ in 0..GROWTH_TRIES {
            self.read_again(mailbox, file)?;
            if permission.is_some() || self.fault.is_none() {
                break;
            }
            mailbox.vfs.sleep(GROWTH_PAUSE);
        }
        self.check_sound(mailbox, file, known)?;
        if self.header.uidvalidity == 0 || self.needs_numbers() {
            let mut numbered = self.number(mailbox, known)?;
            let is_void =
                known.uidvalidity().map(UidValidity::get) != Some(self.header.uidvalidity);
            if is_void && self.start != HEADER_LEN {
                // All known messages are void, so every message is reported again.
                (self.start, self.start_uid) = (HEADER_LEN, 0);
                self.read_again(mailbox, file)?;
                numbered = self.number(mailbox, known)?;
            }
            if let Some(file) = &writable {
                self.write_numbers(mailbox, &**file, &numbered)?;
                let metadata = file.metadata().map_err(Error::at(&mailbox.path))?;
                self.stamp = mailbox.stamp_of(FileStamp::from(&metadata));
            }
        }
        Ok(permission)
    }

    fn read_again(&mut self, mailbox: &MbxMailbox, file: &dyn File) -> Result<()> {
        let metadata = file.metadata().map_err(Error::at(&mailbox.path))?;
        let stamp = mailbox.stamp_of(FileStamp::from(&metadata));
        let header = read_header(mailbox, file)?;
        let bytes_read = self.bytes_read;
        // The messages before `start` are still valid only if nobody has written there meanwhile.
        let is_only_longer = stamp.files[0].modified == self.stamp.files[0].modified
            && stamp.files[0].size >= self.stamp.files[0].size
            && (header.pid, header.uidvalidity) == (self.header.pid, self.header.uidvalidity);
        let start = match is_only_longer {
            true => (self.start, self.start_uid),
            false => (HEADER_LEN, 0),
        };
        *self = Self::walk(mailbox, file, stamp, header, start)?;
        self.bytes_read += bytes_read;
        Ok(())
    }

    /// Assigns UIDs in memory.
    pub(super) fn number(
        &mut self,
        mailbox: &MbxMailbox,
        known: &dyn Known,
    ) -> Result<MbxNumbering> {
        let mut uid_last = self.header.uid_last;
        if Some(self.header.uidvalidity) == known.uidvalidity().map(UidValidity::get)
            && !self.knows_unnumbered(known)?
        {
            // The file was restored from a copy: UIDs that were already announced are not reused.
            uid_last = uid_last.max(known.uidnext().map_or(0, |uid| uid.get() - 1));
        }
        let numbered = number(&mut self.records, self.start_uid, uid_last);
        let none_left = || damaged(mailbox, UIDVALIDITY_OFFSET, "no UIDs are left");
        let numbered = numbered.ok_or_else(none_left)?;
        self.uid_last = numbered.uid_last;
        self.last_uid = numbered.last_uid;
        if numbered.is_void || self.header.uidvalidity == 0 {
            let now = u32::try_from(mailbox.vfs.now().unix_seconds()).unwrap_or(1);
            let known = known.uidvalidity().map_or(0, UidValidity::get);
            let above = known.max(self.header.uidvalidity).saturating_add(1);
            self.header.uidvalidity = now.max(above);
        }
        self.header.uid_last = self.uid_last;
        Ok(numbered)
    }

    /// Returns `true` if the known messages above the last UID of the file are exactly those
    /// without a UID in it: they were numbered in memory while nothing could be written.
    fn knows_unnumbered(&self, known: &dyn Known) -> Result<bool> {
        let is_unnumbered = |record: &&MbxRecord| record.uid == 0 && !record.is_hidden();
        let mut unnumbered = self.records.iter().filter(is_unnumbered);
        let mut agrees = true;
        let from = match Uid::new(self.header.uid_last) {
            Some(last) => sink_error(position_after(known, last))?,
            None => 0,
        };
        sink_error(known.visit(from, &mut |message| {
            agrees &= unnumbered.next().is_some_and(|record| is_at(record, &message.location));
            agrees
        }))?;
        Ok(agrees)
    }

    /// Writes UIDs into the file; see the documentation of this module. The hole is hidden before
    /// the mail after it gets UIDs, since mail with UIDs after a hole would count as a part of
    /// the interrupted append.
    pub(super) fn write_numbers(
        &mut self,
        mailbox: &MbxMailbox,
        file: &dyn File,
        numbered: &MbxNumbering,
    ) -> Result<()> {
        let at = || Error::at(&mailbox.path);
        let numbers = format!("{:08x}{:08x}", self.header.uidvalidity, self.uid_last);
        file.write_all_at(numbers.as_bytes(), UIDVALIDITY_OFFSET).map_err(at())?;
        if numbered.given.is_empty() {
            return file.sync_all().map_err(at());
        }
        file.sync_data().map_err(at())?;
        let hole = self.hole.take();
        if let Some(hole) = hole {
            hide(mailbox, file, &self.records[hole])?;
        }
        for index in numbered.given.iter().filter(|index| hole != Some(**index)) {
            let record = &self.records[*index];
            let uid = format!("{:08x}", record.uid);
            file.write_all_at(uid.as_bytes(), record.uid_offset()).map_err(at())?;
        }
        file.sync_all().map_err(at())
    }

    /// Fails if the fault is in the middle of the file, not a torn end.
    pub(super) fn check_sound(
        &self,
        mailbox: &MbxMailbox,
        file: &dyn File,
        known: &dyn Known,
    ) -> Result<()> {
        let Some(fault) = self.fault else { return Ok(()) };
        let mut walker = MbxWalker::new(file, self.stamp.files[0].size);
        let uids = UidsSeen { before: self.last_uid, given: self.header.uid_last };
        let is_torn_end = walker.is_torn_end(&fault, uids).map_err(Error::at(&mailbox.path))?;
        let known_end =
            known_end(known, &self.header).filter(|end| *end <= self.stamp.files[0].size);
        match is_torn_end && known_end.is_none_or(|end| end <= fault.offset) {
            true => Ok(()),
            false => Err(damaged(mailbox, fault.offset, fault.what)),
        }
    }

    /// Returns the notes for the next scan; empty while there is a hole, so that it reads all
    /// lines.
    fn state(&self) -> Vec<u8> {
        let (end, last_uid, pid) = (self.end, self.last_uid, self.header.pid);
        let notes = MbxScanState { end, last_uid, pid, is_torn: self.fault.is_some() };
        if self.hole.is_some() { Vec::new() } else { notes.to_bytes() }
    }

    fn defects(&self) -> Vec<MailboxDefect> {
        let defect = |offset, uid: Option<Uid>, what| {
            let kind = DefectKind::Structure;
            MailboxDefect { kind, offset, uid, what }
        };
        let hole = self.hole.map(|hole| {
            let len = self.records[hole].end() - self.records[hole].offset;
            let what = format!("{len} bytes of an interrupted append are followed by mail");
            defect(self.records[hole].offset, None, what)
        });
        let fault = self.fault.map(|fault| {
            let len = self.stamp.files[0].size - fault.offset;
            let what =
                format!("{}: the last {len} bytes are from an interrupted append", fault.what);
            defect(fault.offset, None, what)
        });
        hole.into_iter().chain(fault).collect()
    }

    /// Returns `true` if the known messages equal those in the file. Requires all lines.
    pub(super) fn is_known(&self, known: &dyn Known) -> Result<bool> {
        let Difference { is_reset, expunged, changed, new } = self.compare(known)?;
        Ok(!is_reset && expunged.is_empty() && changed.is_empty() && new.is_empty())
    }

    /// Computes the difference from the known messages.
    fn compare(&self, known: &dyn Known) -> Result<Difference> {
        let mut difference = Difference::default();
        let is_same = known.stamp().is_some()
            && known.uidvalidity().map(UidValidity::get) == Some(self.header.uidvalidity);
        if !is_same {
            difference.is_reset = true;
            return Ok(difference);
        }
        if self.start == HEADER_LEN {
            let mut table = known.keywords().clone();
            let slots = self.header.slots(&mut table);
            let mut records = self.records.iter().peekable();
            sink_error(known.visit(0, &mut |message| {
                let uid = message.uid.get();
                // Hidden messages may never have been known.
                while records.next_if(|record| record.uid < uid && record.is_hidden()).is_some() {}
                let Some(record) = records.next_if(|record| record.uid <= uid) else {
                    difference.expunged.push(message.uid);
                    return true;
                };
                let is_there = record.uid == uid && is_at(record, &message.location);
                difference.is_reset |= !is_there;
                let (flags, keywords) = (flags_of(record.flags), mask(record, &slots));
                if record.is_hidden() {
                    difference.expunged.push(message.uid);
                } else if (flags, keywords) != (message.flags, message.keywords) {
                    let (uid, file) = (message.uid, None);
                    difference.changed.push(ChangedMessage { uid, flags, keywords, file });
                }
                is_there
            }))?;
            difference.new = records.filter(|record| !record.is_hidden()).copied().collect();
        } else {
            let visible = self.records.iter().filter(|record| !record.is_hidden());
            difference.new = visible.copied().collect();
        }
        Ok(difference)
    }
}

/// Turns the remains of an append into a hidden message, durably. This goes through the journal,
/// because half of its line would not be a valid line.
fn hide(mailbox: &MbxMailbox, file: &dyn File, record: &MbxRecord) -> Result<()> {
    let at = || Error::at(&mailbox.path);
    let path = mailbox.vfs.canonicalize(&mailbox.path).map_err(at())?;
    let metadata = file.metadata().map_err(at())?;
    let line = record.hidden_line();
    let mut old = vec![0; line.len()];
    file.read_exact_at(&mut old, record.offset).map_err(at())?;
    let mut change = FileChange::new(file_name(&path), metadata.size);
    change.write(record.offset, &old, line.as_bytes());
    let mut all = Change::new(None);
    all.add(change);
    redo::apply(&*mailbox.vfs, &JournalPath::beside(&path), &all, metadata.mode, None).map(drop)
}

/// Returns the offset at which the last known message ended; a fault before it is not a torn end.
fn known_end(known: &dyn Known, header: &MbxHeader) -> Option<u64> {
    let is_same = known.uidvalidity().map(UidValidity::get) == Some(header.uidvalidity);
    let notes = MbxScanState::from_bytes(known.state()).filter(|_| is_same);
    notes.map(|notes| notes.end)
}

/// Returns `true` if a record has the location and the length of a known message.
fn is_at(record: &MbxRecord, location: &Location<'_>) -> bool {
    let Some(Extent { offset, separator_len, header_len, body_len }) = location.extent() else {
        return false;
    };
    (record.offset, u32::from(record.line_len)) == (offset, separator_len)
        && record.size == u64::from(header_len) + body_len
}

/// Returns the keywords of a record.
pub(super) fn mask(record: &MbxRecord, slots: &KeywordBits) -> KeywordMask {
    KeywordMask(slots.mask(record.keywords))
}

/// The difference from the known messages.
#[derive(Default)]
struct Difference {
    /// `true` if messages are at other offsets or are different messages.
    is_reset: bool,
    expunged: Vec<Uid>,
    changed: Vec<ChangedMessage>,
    new: Vec<MbxRecord>,
}

/// Returns `true` if the file is unchanged except for appended messages.
///
/// A program that changes flags leaves another modification time, unless the change falls into the
/// same second as the one before, or names another process. An append leaves that time unchanged.
fn is_only_grown(
    known: &dyn Known,
    notes: &MbxScanState,
    stamp: &FileStamps,
    header: &MbxHeader,
) -> bool {
    let Some(old) = FileStamps::of_known(known) else { return false };
    let (file, now) = (&old.files[0], &stamp.files[0]);
    let is_same = file.inode == now.inode
        && now.size >= notes.end
        && known.uidvalidity().map(UidValidity::get) == Some(header.uidvalidity);
    if old.same_files(stamp) {
        return is_same && old.are_settled();
    }
    is_same
        && now.size > file.size
        && now.modified == file.modified
        && old.taken.unix_seconds() > file.modified.unix_seconds()
        && notes.pid == header.pid
        && !notes.is_torn
}

/// Returns the row of the first known message with a UID above `uid`.
fn position_after(
    known: &dyn Known,
    uid: Uid,
) -> std::result::Result<u32, barid_mailbox::SinkError> {
    let (mut low, mut high) = (0, known.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let mut is_above = true;
        known.visit(middle, &mut |message| {
            is_above = message.uid > uid;
            false
        })?;
        match is_above {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Ok(low)
}

/// Opens the file for writing. Returns `None` if writing is not permitted.
fn open_for_writing(mailbox: &MbxMailbox, inode: u64) -> Result<Option<Box<dyn File>>> {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let file = match mailbox.vfs.open(&mailbox.path, OpenOptions::WRITE) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem) => {
            return Ok(None);
        }
        Err(error) => return Err(Error::at(&mailbox.path)(error)),
    };
    match file.metadata().map_err(Error::at(&mailbox.path))?.inode == inode {
        true => Ok(Some(file)),
        false => Err(Error::Changed { path: mailbox.path.clone() }),
    }
}

/// Returns the flags and keywords of a record as they are reported.
pub(super) fn visible_flags(record: &MbxRecord, slots: &KeywordBits) -> (FlagSet, KeywordMask) {
    (flags_of(record.flags), mask(record, slots))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use barid_vfs::{MemVfs, Vfs};

    use super::super::layout::{OLD, PID_OFFSET};
    use super::*;
    use crate::MboxOptions;

    #[test]
    fn flags_changed_before_the_lock_was_had_are_read() {
        let vfs = MemVfs::new();
        let file = vfs.open("/box".as_ref(), OpenOptions::create_new(0o600)).unwrap();
        let mut header = MbxHeader { uidvalidity: 7, uid_last: 3, names: Vec::new(), pid: 1 };
        let line = |uid: u32, flags: u16| {
            format!(" 2-Dec-1992 05:53:22 -0700,2;00000000{flags:04x}-{uid:08x}\r\nab")
        };
        let write = |header: &MbxHeader, lines: &[String]| {
            let bytes = [header.to_bytes(), lines.concat().into_bytes()].concat();
            file.write_all_at(&bytes, 0).unwrap();
        };
        let mut lines: Vec<String> = (1..4).map(|uid| line(uid, OLD)).collect();
        write(&header, &lines);
        let path = std::path::PathBuf::from("/box");
        let mailbox = MbxMailbox::new(Arc::new(vfs.clone()), path, MboxOptions::default());
        let metadata = file.metadata().unwrap();
        let tail = (metadata.size, 3);
        lines.push(line(0, 0));
        write(&header, &lines);
        let read = || {
            let metadata = file.metadata().unwrap();
            let stamp = mailbox.stamp_of(FileStamp::from(&metadata));
            let header = read_header(&mailbox, &*file).unwrap();
            ScannedLines::walk(&mailbox, &*file, stamp, header, tail).unwrap()
        };
        let mut again = read();
        again.read_again(&mailbox, &*file).unwrap();
        assert_eq!((again.records.len(), again.start), (1, tail.0));
        // Another program hides a message.
        (lines[1], header.pid) = (line(2, OLD | 0x8000), 2);
        write(&header, &lines);
        let modified = file.metadata().unwrap().modified;
        file.set_times(modified, again.stamp.files[0].modified).unwrap();
        again.read_again(&mailbox, &*file).unwrap();
        assert_eq!((again.records.len(), again.start), (4, HEADER_LEN));
        assert!(again.records[1].is_hidden());
        assert_eq!(header.to_bytes()[PID_OFFSET as usize + 7], b'2');
        let mut again = read();
        file.set_times(modified, barid_vfs::Timestamp { unix_nanos: 5 }).unwrap();
        again.read_again(&mailbox, &*file).unwrap();
        assert_eq!(again.start, HEADER_LEN);
    }
}
