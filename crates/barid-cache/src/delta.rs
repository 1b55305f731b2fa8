//! The new messages of a scan, on their way into the log of a snapshot.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use barid_mailbox::{ScanReport, ScanSink, ScannedMessage, SinkError, Sinks};
use barid_types::{Flag, FlagSet, ModSeq, Uid};

use crate::builder::{Finish, meta_of};
use crate::core_row::{MODSEQ_AT, UID_AT};
use crate::error::{Error, Result, ScanFault};
use crate::limits::NAME_LEN_MAX;
use crate::log::{self, ChangedRow, LogEntry};
use crate::meta::Meta;
use crate::parse::{Parsed, Parser, name_of};
use crate::snapshot::Snapshot;

/// A collector of the new messages of a scan, in memory.
#[derive(Debug)]
pub struct Delta<'a> {
    known: &'a Snapshot,
    chunks: Mutex<BTreeMap<u32, LogChunk>>,
}

/// The messages of one chunk in the form of the log.
#[derive(Debug, Default)]
struct LogChunk {
    bytes: Vec<u8>,
    messages: Vec<ChunkMessage>,
}

#[derive(Clone, Copy, Debug)]
struct ChunkMessage {
    start: usize,
    uid: Option<Uid>,
    flags: FlagSet,
}

struct DeltaSink<'a> {
    delta: &'a Delta<'a>,
    number: u32,
    parser: Parser,
    chunk: LogChunk,
}

impl<'a> Delta<'a> {
    /// Prepares for a scan of changes since `known`.
    pub fn new(known: &'a Snapshot) -> Self {
        Self { known, chunks: Mutex::default() }
    }

    /// Applies the results of a scan to the known state, and returns the snapshot of the scan's
    /// stamp.
    ///
    /// One record is appended to the file, and its bytes are the commit point; if the log has
    /// become long, a new file is written and renamed instead. Nothing is fsynced. If the file
    /// cannot be written, or another process wrote first, the new snapshot lives in this process
    /// only ([`Snapshot::store_error`]). The cost is proportional to the changes, plus a copy of
    /// the log in memory. [`Meta::highest_modseq`] rises to [`Finish::modseq`] in any case.
    ///
    /// # Errors
    /// Returns [`Error::Scan`] if the report does not fit the known state, or an error of reading
    /// that.
    pub fn apply(self, report: &ScanReport, finish: &Finish<'_>) -> Result<Snapshot> {
        let known = self.known;
        if report.reset {
            return Err(Error::Scan(ScanFault::Reset));
        }
        let chunks = self.chunks.into_inner().unwrap_or_else(PoisonError::into_inner);
        let generation = known.meta.generation;
        let highest = known.meta.highest_modseq.max(finish.modseq);
        let mut meta = meta_of(report, finish, highest, generation);
        (meta.recent, meta.unseen) = (known.meta.recent, known.meta.unseen);
        let mut tally = Tally { meta, modseq: finish.modseq };
        let mut added = Vec::new();
        let mut added_count = 0;
        let mut uids = Uids::new(known, report)?;
        for mut chunk in chunks.into_values() {
            for message in &chunk.messages {
                uids.next(message.uid)?.patch(&mut chunk.bytes[message.start..], tally.modseq);
                tally.add(message.flags);
            }
            added_count += chunk.messages.len() as u32;
            added.extend_from_slice(&chunk.bytes);
        }
        uids.finish()?;
        let expunged = known.rows_of(&report.expunged)?;
        for physical in &expunged {
            tally.remove(known.core_of(*physical)?.flags);
        }
        let changed = known.changed_rows(report, &mut tally)?;
        let entry = LogEntry {
            expunged: &expunged,
            changed: &changed,
            added_count,
            added: &added,
            ..LogEntry::default()
        };
        let mut snapshot = known.clone();
        snapshot.write(&tally.meta, &entry)?;
        Ok(snapshot)
    }
}

impl Sinks for Delta<'_> {
    fn sink(&self, chunk: u32) -> Box<dyn ScanSink + '_> {
        let parser = Parser::new(self.known.hash_seed());
        Box::new(DeltaSink { delta: self, number: chunk, parser, chunk: LogChunk::default() })
    }
}

impl ScanSink for DeltaSink<'_> {
    fn message(&mut self, message: &ScannedMessage<'_>) -> std::result::Result<(), SinkError> {
        let name = name_of(message).map_err(|_| Error::Scan(ScanFault::NameLen))?;
        let Parsed { record, core, thread } = self.parser.parse(message);
        let start = self.chunk.bytes.len();
        let references = &self.parser.references;
        log::put_added(&mut self.chunk.bytes, &core, &thread, references, name, &record);
        let (uid, flags) = (message.uid, message.flags);
        self.chunk.messages.push(ChunkMessage { start, uid, flags });
        Ok(())
    }

    fn finish(self: Box<Self>) -> std::result::Result<(), SinkError> {
        let mut chunks = self.delta.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.insert(self.number, self.chunk);
        Ok(())
    }
}

/// Counters that follow added, removed and changed messages.
pub(crate) struct Tally {
    pub(crate) meta: Meta,
    pub(crate) modseq: ModSeq,
}

impl Tally {
    pub(crate) fn add(&mut self, flags: FlagSet) {
        self.meta.recent += u32::from(flags.contains(Flag::Recent));
        self.meta.unseen += u32::from(!flags.contains(Flag::Seen));
    }

    pub(crate) fn remove(&mut self, flags: FlagSet) {
        let counts = (&mut self.meta.recent, &mut self.meta.unseen);
        *counts.0 = counts.0.saturating_sub(u32::from(flags.contains(Flag::Recent)));
        *counts.1 = counts.1.saturating_sub(u32::from(!flags.contains(Flag::Seen)));
    }
}

/// An iterator over the UIDs of new messages that checks that they ascend.
struct Uids<'a> {
    known: &'a Snapshot,
    new: std::slice::Iter<'a, Uid>,
    last: Option<Uid>,
}

/// A UID on its way into the row of a new message.
struct NewUid(Uid);

impl<'a> Uids<'a> {
    fn new(known: &'a Snapshot, report: &'a ScanReport) -> Result<Self> {
        Ok(Self { known, new: report.new_uids.iter(), last: None })
    }

    fn next(&mut self, uid: Option<Uid>) -> Result<NewUid> {
        let uid = match uid {
            Some(uid) => uid,
            None => *self.new.next().ok_or(Error::Scan(ScanFault::UidCount))?,
        };
        let ascends = match self.last {
            Some(last) => uid > last,
            // For a UID that was never assigned before, the last row need not be read.
            None => uid >= self.known.meta.uidnext || Some(uid) > self.known.last_uid()?,
        };
        self.last = Some(uid);
        if ascends { Ok(NewUid(uid)) } else { Err(Error::Scan(ScanFault::UidOrder)) }
    }

    fn finish(mut self) -> Result<()> {
        match self.new.next() {
            Some(_) => Err(Error::Scan(ScanFault::UidCount)),
            None => Ok(()),
        }
    }
}

impl NewUid {
    fn patch(&self, row: &mut [u8], modseq: ModSeq) {
        row[UID_AT..UID_AT + 4].copy_from_slice(&self.0.get().to_le_bytes());
        row[MODSEQ_AT..MODSEQ_AT + 8].copy_from_slice(&modseq.get().to_le_bytes());
    }
}

impl Snapshot {
    /// Returns the UID of the last row, expunged or not.
    fn last_uid(&self) -> Result<Option<Uid>> {
        match self.physical_len().checked_sub(1) {
            Some(last) => Ok(Some(self.core_of(last)?.uid)),
            None => Ok(None),
        }
    }

    /// Returns the physical row of a message that must exist.
    pub(crate) fn row_known(&self, uid: Uid) -> Result<u32> {
        let physical = self.physical_of_uid(uid)?;
        let here = physical.filter(|physical| self.overlay.row_of(*physical).is_some());
        here.ok_or(Error::Scan(ScanFault::UnknownUid))
    }

    pub(crate) fn rows_of(&self, uids: &[Uid]) -> Result<Vec<u32>> {
        let mut rows = uids.iter().map(|uid| self.row_known(*uid)).collect::<Result<Vec<u32>>>()?;
        rows.sort_unstable();
        rows.dedup();
        Ok(rows)
    }

    fn changed_rows(&self, report: &ScanReport, tally: &mut Tally) -> Result<Vec<ChangedRow>> {
        let mut rows = Vec::with_capacity(report.changed.len());
        for change in &report.changed {
            if change.file.as_ref().is_some_and(|(name, _)| name.len() > NAME_LEN_MAX) {
                return Err(Error::Scan(ScanFault::NameLen));
            }
            let physical = self.row_known(change.uid)?;
            let before = self.core_of(physical)?;
            // A renamed file is not a change that clients are notified of.
            let same = (before.flags, before.keywords) == (change.flags, change.keywords);
            if !same {
                tally.remove(before.flags);
                tally.add(change.flags);
            }
            let modseq = before.modseq_with(change.flags, change.keywords, tally.modseq);
            rows.push(ChangedRow {
                physical,
                flags: change.flags.bits(),
                keywords: change.keywords.0,
                modseq: modseq.get(),
                file: change.file.clone(),
            });
        }
        Ok(rows)
    }
}
