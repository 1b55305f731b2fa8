//! Content of a mailbox: meta, index and status, read completely.

use std::io;

use barid_mailbox::{DefectKind, Error, MailboxDefect, Result};
use barid_vfs::File;

use super::layout::{
    DEFECTS_MAX, INDEX, META, META_LEN_MAX, RECORD_LEN_MAX, RECORDS_LEN_MAX, STATUS,
};
use super::lock::Locks;
use super::record::{self, MixMessage, MixMeta, StatusRecord, bits_of};
use super::{MixMailbox, rebuild};

/// Content of a mailbox.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) meta: MixMeta,
    /// The messages, ascending by UID.
    pub(super) messages: Vec<MixMessage>,
    pub(super) index_seq: u32,
    pub(super) status_seq: u32,
    /// The bytes of the files.
    pub(super) texts: SnapshotBytes,
    pub(super) defects: Vec<MailboxDefect>,
    /// Damage of the index, because of which messages were searched for in the data files.
    pub(super) damage: Option<IndexDamage>,
}

/// The bytes of the three files.
#[derive(Clone, Debug, Default)]
pub(super) struct SnapshotBytes {
    pub(super) meta: Vec<u8>,
    pub(super) index: Vec<u8>,
    pub(super) status: Vec<u8>,
}

/// Offset at which the index cannot be read, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexDamage {
    pub(super) offset: u64,
    pub(super) kind: &'static str,
}

impl Snapshot {
    /// Reads the files, which are locked.
    ///
    /// # Errors
    /// [`Error::Damaged`] if `.mixmeta` cannot be read.
    pub(super) fn load(mailbox: &MixMailbox, locks: &Locks) -> Result<Self> {
        let read = |file: Option<&dyn File>, name: &str, len_max| match file {
            Some(file) => read_whole(file, len_max).map_err(Error::at(&mailbox.path.join(name))),
            None => Ok(Vec::new()),
        };
        let texts = SnapshotBytes {
            meta: read(Some(locks.meta()), META, META_LEN_MAX)?,
            index: read(locks.index(), INDEX, RECORDS_LEN_MAX)?,
            status: read(locks.status(), STATUS, RECORDS_LEN_MAX)?,
        };
        let damaged = |kind| Error::Damaged { path: mailbox.path.join(META), offset: 0, kind };
        let meta = record::parse_meta(&texts.meta).map_err(damaged)?;
        let mut snapshot = Self { meta, texts, ..Self::default() };
        snapshot.read_index(locks.index().is_some());
        let statuses = snapshot.read_status(locks.status().is_some());
        snapshot.check_sequences();
        if snapshot.damage.is_some() {
            rebuild::complete(mailbox, &mut snapshot, &statuses)?;
        }
        snapshot.merge(&statuses);
        Ok(snapshot)
    }

    /// Records a defect.
    pub(super) fn defect(&mut self, offset: u64, uid: Option<u32>, what: String) {
        if self.defects.len() < DEFECTS_MAX {
            let uid = uid.and_then(barid_types::Uid::new);
            let kind = DefectKind::Structure;
            self.defects.push(MailboxDefect { kind, offset, uid, what });
        }
    }

    /// Records sequences that cannot rise any more: others notice changes by rising sequences.
    fn check_sequences(&mut self) {
        let seqs = [(META, self.meta.seq), (INDEX, self.index_seq), (STATUS, self.status_seq)];
        for (name, _) in seqs.into_iter().filter(|(_, seq)| *seq == u32::MAX) {
            self.defect(0, None, format!("{name}: the sequence number is the highest possible"));
        }
    }

    fn read_index(&mut self, exists: bool) {
        let text = std::mem::take(&mut self.texts.index);
        let damage = self.parse_index(&text, exists);
        self.texts.index = text;
        self.damage = damage;
        if let Some(IndexDamage { offset, kind }) = damage {
            let what = format!("{INDEX}: {kind}; messages are searched for in the data files");
            self.defect(offset, None, what);
        }
        let last = self.messages.last().map_or(0, |last| last.uid);
        if last > self.meta.uid_last {
            let what = format!("{META}: the last UID is less than that of a message");
            self.defect(0, Some(last), what);
            self.meta.uid_last = last;
        }
    }

    /// Reads records up to the first one that cannot be read.
    fn parse_index(&mut self, text: &[u8], exists: bool) -> Option<IndexDamage> {
        let damage = |offset, kind| Some(IndexDamage { offset, kind });
        if !exists {
            return damage(0, "it is missing");
        }
        let Some((seq, rest)) = record::take_sequence(text) else {
            return damage(0, "no sequence number at its beginning");
        };
        self.index_seq = seq;
        self.messages.reserve(rest.len() / 77);
        for (line, offset) in records(text, rest) {
            if line.is_empty() {
                self.defect(offset, None, format!("{INDEX}: an empty line"));
                continue;
            }
            let Some(message) = record::parse_index(line) else {
                return damage(offset, "a record cannot be read");
            };
            if self.messages.last().is_some_and(|last| last.uid >= message.uid) {
                return damage(offset, "UIDs do not ascend");
            }
            self.messages.push(message);
        }
        None
    }

    /// Returns the readable records of the status, ascending. Damage affects only the records it
    /// hits.
    fn read_status(&mut self, exists: bool) -> Vec<StatusRecord> {
        let text = std::mem::take(&mut self.texts.status);
        let mut statuses = Vec::with_capacity(text.len() / 34);
        match record::take_sequence(&text) {
            Some((seq, rest)) => {
                self.status_seq = seq;
                for (line, offset) in records(&text, rest) {
                    let status = record::parse_status(line);
                    match status.filter(|status| status.uid <= self.meta.uid_last) {
                        Some(status) => statuses.push(status),
                        None if line.is_empty() => {}
                        None => {
                            let what = format!("{STATUS}: a record cannot be read");
                            self.defect(offset, None, what);
                        }
                    }
                }
                if !statuses.is_sorted_by(|a, b| a.uid < b.uid) {
                    self.defect(0, None, format!("{STATUS}: UIDs do not ascend"));
                    statuses = in_order(&statuses);
                }
            }
            None => self.defect(0, None, format!("{STATUS}: no sequence number at its beginning")),
        }
        if !exists {
            self.defect(0, None, format!("{STATUS}: it is missing"));
        }
        self.texts.status = text;
        statuses
    }

    /// Applies the status records to the messages, matched as c-client matches them.
    fn merge(&mut self, statuses: &[StatusRecord]) {
        let mut messages = self.messages.iter_mut().peekable();
        for status in statuses {
            while messages.next_if(|message| message.uid < status.uid).is_some() {}
            if let Some(message) = messages.peek_mut()
                && message.uid == status.uid
            {
                message.keywords = status.keywords;
                message.flags = status.flags;
                message.modseq = status.modseq;
            }
        }
    }

    /// Returns the index of a message.
    pub(super) fn find(&self, uid: u32) -> Option<usize> {
        self.messages.binary_search_by_key(&uid, |message| message.uid).ok()
    }

    /// Returns the bits of flags, without \Recent.
    pub(super) fn flags_of(flags: barid_types::FlagSet) -> u16 {
        bits_of(flags)
    }
}

/// Returns the records without those whose UIDs do not fit between their neighbours'.
fn in_order(statuses: &[StatusRecord]) -> Vec<StatusRecord> {
    let mut last = 0;
    let mut nexts = statuses.iter().skip(1).map(|next| next.uid);
    let mut fits = |status: &&StatusRecord| {
        let next = nexts.next();
        let is_between = next.is_none_or(|next| next > status.uid || next <= last);
        let fits = status.uid > last && is_between;
        last = if fits { status.uid } else { last };
        fits
    };
    statuses.iter().filter(|status| fits(status)).copied().collect()
}

/// Returns the lines of a text, without their ends: offset, bytes, and `true` if the line has an
/// end.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = (u64, &[u8], bool)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let end = memchr::memchr(b'\n', rest);
        let line = &rest[..end.unwrap_or(rest.len())];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let start = at;
        at += end.map_or(rest.len(), |end| end + 1);
        Some((start as u64, line, end.is_some()))
    })
}

/// Returns the lines of `rest`, which is the end of `text`, and their offsets in `text`. Lines that
/// are too long are cut.
fn records<'a>(text: &[u8], rest: &'a [u8]) -> impl Iterator<Item = (&'a [u8], u64)> {
    let from = (text.len() - rest.len()) as u64;
    lines(rest).map(move |(at, line, _)| (&line[..line.len().min(RECORD_LEN_MAX)], from + at))
}

/// Reads a file of at most `len_max` bytes.
pub(super) fn read_whole(file: &dyn File, len_max: u64) -> io::Result<Vec<u8>> {
    let size = file.metadata()?.size;
    if size > len_max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too large"));
    }
    let mut bytes = vec![0; size as usize];
    let len = file.read_full_at(&mut bytes, 0)?;
    bytes.truncate(len);
    Ok(bytes)
}
