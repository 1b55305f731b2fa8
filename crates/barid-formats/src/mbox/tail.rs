//! Reads only the appended messages of a file that grew.
//!
//! The file is read from its old end on if the last known message is still there, by its From_ line
//! and the key of its header, and a From_ line is at the old end. Nothing before that message is
//! checked; the report records this (`tail_verified`). A scan costs the reads of the last header,
//! of the first header if it contains `X-IMAPbase`, and of the new messages.
//!
//! After such a scan, an equal but racy stamp is accepted if the last message is still there: the
//! rest is verified when it is fetched.

use std::sync::{Mutex, PoisonError};

use super::MboxMailbox;
use super::layout::{BASE_READ_MAX, MboxScanState, PEEK_LEN, TAIL_READ_LEN};
use super::scan::{ChunkReader, OpenedMbox, ScannedMessages, SharedScan, key_of, with_ledger};
use super::status::{self, MailboxFields, Owned, Separators};
use super::uids::{self, UidsBefore};
use super::walk::{Separator, separator_in};
use crate::file_stamps::FileStamps;
use barid_mailbox::{Error, Known, Result, ScanContext, ScanReport, ScanStats, Sinks};
use barid_vfs::OpenOptions;

/// Reads nothing or only the tail; `None` if everything must be read.
pub(super) fn scan(
    mailbox: &MboxMailbox,
    opened: &mut OpenedMbox,
    known: &dyn Known,
    sinks: &dyn Sinks,
    context: &mut ScanContext<'_>,
) -> Result<Option<ScanReport>> {
    let Some(old) = FileStamps::of_known(known).filter(|_| !context.full_check) else {
        return Ok(None);
    };
    let Some(notes) = MboxScanState::from_bytes(known.state()) else { return Ok(None) };
    let (Some(validity), Some(uidnext)) = (known.uidvalidity(), known.uidnext()) else {
        return Ok(None);
    };
    if notes.variant != mailbox.variant || notes.profile != mailbox.options.profile {
        return Ok(None);
    }
    let (old_file, file) = (old.files[0], opened.stamp.files[0]);
    let mut report = ScanReport {
        stamp: opened.stamp.into(),
        state: known.state().to_vec(),
        uidvalidity: validity,
        uidnext,
        keywords: known.keywords().clone(),
        reset: false,
        expunged: Vec::new(),
        changed: Vec::new(),
        new_uids: Vec::new(),
        tail_verified: known.tail_verified(),
        size_bytes: file.size,
        defects: Vec::new(),
        stats: ScanStats::default(),
    };
    let unchanged = old.same_files(&opened.stamp);
    if unchanged && old.are_settled() {
        return Ok(Some(report));
    }
    if mailbox.compressed.is_some() {
        return Ok(None);
    }
    // After a tail scan, an equal stamp need not prove more than the last message.
    let grew = file.size > old_file.size || (unchanged && known.tail_verified());
    if old_file.inode != file.inode || !grew || !notes.tail_sound {
        return Ok(None);
    }
    let mut tail =
        TailCheck { mailbox, opened, notes, old_size: old_file.size, stats: &mut report.stats };
    if unchanged {
        let stands = tail.last()?.is_some();
        return Ok(stands.then_some(report));
    }
    let Some((first, mut ahead)) = tail.verify()? else { return Ok(None) };
    let base = match tail.base()? {
        Some(base) if base.as_ref().map(|base| base.validity) == notes.base_validity => base,
        _ => return Ok(None),
    };
    if !ahead.ends_in_text(opened) {
        opened.find_end(mailbox)?;
        // Drop the NULs that were read already.
        let len = opened.size().saturating_sub(ahead.offset);
        ahead.bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
    }
    read(mailbox, opened, known, sinks, context, report, Start { notes, first, base, ahead })
}

/// Returns `X-IMAPbase` or `X-IMAP` of the first message, read without a lock; `None` if it is not
/// in the first bytes of the file, which is where every scan finds it.
pub(super) fn stored_base(mailbox: &MboxMailbox) -> Result<Option<MailboxFields>> {
    let read = || {
        let file = mailbox.vfs.open(&mailbox.path, OpenOptions::READ)?;
        let mut bytes = vec![0; BASE_READ_MAX];
        let len = file.read_full_at(&mut bytes, 0)?;
        bytes.truncate(len);
        Ok(bytes)
    };
    let bytes = read().map_err(Error::at(&mailbox.path))?;
    let Some((len, _)) = separator_in(&bytes, true, mailbox.separators()).flatten() else {
        return Ok(None);
    };
    let header = &bytes[len as usize..];
    let mut owned = Owned::default();
    let whole = bytes.len() < BASE_READ_MAX;
    let head = status::head(header, whole, mailbox.separators(), &mut owned);
    Ok(head.and_then(|_| owned.base(header)))
}

/// State of checking the end of the known part.
struct TailCheck<'a> {
    mailbox: &'a MboxMailbox,
    opened: &'a OpenedMbox,
    notes: MboxScanState,
    old_size: u64,
    stats: &'a mut ScanStats,
}

impl TailCheck<'_> {
    fn read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let left = self.opened.size().saturating_sub(offset);
        let mut bytes = vec![0; len.min(usize::try_from(left).unwrap_or(usize::MAX))];
        let read = self
            .opened
            .file
            .read_full_at(&mut bytes, offset)
            .map_err(Error::at(&self.mailbox.path))?;
        bytes.truncate(read);
        self.stats.bytes_read += read as u64;
        Ok(bytes)
    }

    /// Reads from the last known message on; `None` if it is not where it was.
    fn last(&mut self) -> Result<Option<Vec<u8>>> {
        let notes = self.notes;
        if notes.last_separator_len == 0 {
            return Ok(None);
        }
        let head_len = notes.last_separator_len as usize + notes.last_header_len as usize;
        let last = self.read(notes.last_offset, head_len.max(TAIL_READ_LEN))?;
        let separator = separator_in(&last, false, self.mailbox.separators()).flatten();
        let is_there = separator.map(|(len, _)| len) == Some(notes.last_separator_len)
            && last.len() >= head_len
            && key_of(&last[notes.last_separator_len as usize..head_len]) == notes.last_key;
        Ok(is_there.then_some(last))
    }

    /// Checks that the last known message is where it was and that a separator follows it. Returns
    /// that separator, and the bytes that were read after the old end.
    fn verify(&mut self) -> Result<Option<(Separator, BytesRead)>> {
        let (notes, separators) = (self.notes, self.mailbox.separators());
        let Some(last) = self.last()? else { return Ok(None) };
        let end = self.old_size.saturating_sub(1);
        let skip = end.saturating_sub(notes.last_offset) as usize;
        let ahead = if skip + PEEK_LEN <= last.len() || self.read_all(notes.last_offset, &last) {
            BytesRead { offset: end, bytes: last[skip.min(last.len())..].to_vec() }
        } else {
            BytesRead { offset: end, bytes: self.read(end, TAIL_READ_LEN)? }
        };
        Ok(self.follows(&ahead.bytes, separators).map(|separator| (separator, ahead)))
    }

    fn read_all(&self, offset: u64, bytes: &[u8]) -> bool {
        offset + bytes.len() as u64 >= self.opened.size()
    }

    /// Returns the separator at the old end; `bytes` begins with the last byte before that.
    fn follows(&self, bytes: &[u8], separators: Separators) -> Option<Separator> {
        let (last, mut rest) = bytes.split_first()?;
        if *last != b'\n' {
            return None;
        }
        let mut offset = self.old_size;
        if separators != Separators::Mmdf && !self.notes.tail_closed {
            for blank in [&b"\n"[..], b"\r\n"] {
                if let Some(after) = rest.strip_prefix(blank) {
                    offset += blank.len() as u64;
                    rest = after;
                    break;
                }
            }
        }
        if separators == Separators::Mmdf && !self.notes.tail_closed {
            return None;
        }
        let (len, date) = separator_in(rest, true, separators).flatten()?;
        Some(Separator { offset, len, date })
    }

    /// Returns the present `X-IMAPbase`; `None` if the first header no longer has its length.
    #[expect(clippy::option_option, reason = "cannot be told, is absent, is there")]
    fn base(&mut self) -> Result<Option<Option<MailboxFields>>> {
        if self.notes.base_validity.is_none() {
            return Ok(Some(None));
        }
        if self.notes.base_len as usize > BASE_READ_MAX {
            return Ok(None);
        }
        let header = self.read(self.notes.base_offset, self.notes.base_len as usize)?;
        let mut owned = Owned::default();
        let head = status::head(&header, false, self.mailbox.separators(), &mut owned);
        let same = head.is_some_and(|(len, _)| len == header.len());
        Ok(same.then(|| owned.base(&header)))
    }
}

/// Bytes that were read already.
struct BytesRead {
    offset: u64,
    bytes: Vec<u8>,
}

impl BytesRead {
    /// Returns `true` if the bytes show that no NULs are at the end of the file.
    fn ends_in_text(&self, opened: &OpenedMbox) -> bool {
        let is_all = self.offset + self.bytes.len() as u64 >= opened.size();
        is_all && self.bytes.last().is_some_and(|byte| *byte != 0)
    }
}

/// Start of the new messages, and what is needed to read them.
struct Start {
    notes: MboxScanState,
    first: Separator,
    base: Option<MailboxFields>,
    ahead: BytesRead,
}

/// Reads the new messages.
fn read(
    mailbox: &MboxMailbox,
    opened: &OpenedMbox,
    known: &dyn Known,
    sinks: &dyn Sinks,
    context: &mut ScanContext<'_>,
    mut report: ScanReport,
    start: Start,
) -> Result<Option<ScanReport>> {
    let shared =
        SharedScan { mailbox, sinks, keywords: Mutex::new(report.keywords), pseudo_offset: None };
    let mut last = 0;
    if let Some(index) = known.len().checked_sub(1) {
        known
            .visit(index, &mut |message| {
                last = message.uid.get();
                true
            })
            .map_err(Error::Sink)?;
    }
    let mut reader = ChunkReader::new(&shared, opened.source(mailbox));
    reader.walker.window.preload(start.ahead.offset, start.ahead.bytes);
    let mut sink = sinks.sink(0);
    let mut found = ScannedMessages::default();
    reader.walk(start.first, u64::MAX, &mut *sink, &mut found)?;
    report.stats.bytes_read += reader.walker.window.bytes_read;
    opened.check_not_cut(mailbox)?;
    drop(reader);
    let before = UidsBefore { validity: known.uidvalidity(), uidnext: known.uidnext(), last };
    let assigned = with_ledger(mailbox, context, |ledger| {
        let now = mailbox.vfs.now();
        uids::assign(ledger, start.base.as_ref(), &found.items, before, now, &|| false)
    })?;
    let Some(assigned) = assigned else { return Ok(None) };
    sink.finish().map_err(Error::Sink)?;
    let mut notes = start.notes;
    found.note(&mut notes);
    report.state = notes.to_bytes();
    report.uidnext = assigned.uidnext;
    report.new_uids = assigned.uids;
    report.stats.messages_read = found.messages;
    report.defects = found.into_defects();
    report.keywords = shared.keywords.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.tail_verified = true;
    Ok(Some(report))
}
