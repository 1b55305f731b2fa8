//! Reading new messages in chunks, from as many threads as are allowed.

use std::sync::{Mutex, PoisonError};

use barid_mailbox::{
    DefectKind, Location, MailboxDefect, MessageName, Result, ScanSink, ScannedMessage, Sinks,
    sink_error,
};
use barid_state::MessageKey;
use barid_types::{Flag, FlagSet, KeywordMask, Uid};
use xxhash_rust::xxh3::xxh3_64;

use super::git::{BlobHead, ObjectError, ObjectReader, Oid};
use super::layout::{CHUNK_MESSAGES, DEFECTS_MAX, UNREAD_MAX};
use super::plan::LiveMessage;
use super::{OpenEpoch, PublicInbox};
use crate::files::{HEADER_LEN_MAX, header_end, in_chunks};

/// A message to be read, under the UID that it gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadJob {
    pub(super) uid: Uid,
    pub(super) message: LiveMessage,
}

/// Result of reading, besides the messages.
#[derive(Debug, Default)]
pub(super) struct ReadTotals {
    /// UIDs and blobs of the messages that were passed to sinks.
    pub(super) read: Vec<(Uid, Oid)>,
    /// Bytes of these messages.
    pub(super) size_bytes: u64,
    /// Bytes that were decoded.
    pub(super) bytes_read: u64,
    /// Messages that cannot be read now, and the number of more such messages. One that is too
    /// large is not among them: it is read again only with a full check.
    pub(super) unread: Vec<ReadJob>,
    pub(super) unlisted: u64,
    /// Defects found.
    pub(super) defects: Vec<MailboxDefect>,
}

impl ReadTotals {
    fn add(&mut self, other: Self) {
        self.read.extend(other.read);
        self.size_bytes = self.size_bytes.saturating_add(other.size_bytes);
        self.bytes_read += other.bytes_read;
        self.unlisted += other.unlisted;
        other.unread.into_iter().for_each(|job| self.add_unread(job));
        let room = DEFECTS_MAX.saturating_sub(self.defects.len());
        self.defects.extend(other.defects.into_iter().take(room));
    }

    fn add_unread(&mut self, job: ReadJob) {
        if self.unread.len() < UNREAD_MAX {
            self.unread.push(job);
        } else {
            self.unlisted += 1;
        }
    }

    pub(super) fn defect(&mut self, kind: DefectKind, uid: Option<Uid>, what: String) {
        if self.defects.len() < DEFECTS_MAX {
            self.defects.push(MailboxDefect { kind, offset: 0, uid, what });
        }
    }
}

/// Returns the key of a message. It is one of its blob, so that UIDs are found again without
/// reading any message.
pub(super) fn key(blob: Oid) -> MessageKey {
    MessageKey(xxh3_64(&blob.0))
}

/// Reads messages into sinks.
pub(super) fn read(
    inbox: &PublicInbox,
    epochs: &[OpenEpoch],
    jobs: &[ReadJob],
    threads: usize,
    sinks: &dyn Sinks,
    progress: Option<&(dyn Fn(u64, u64) + Sync)>,
) -> Result<ReadTotals> {
    let totals = Mutex::new(ReadTotals::default());
    let work = |reader: &mut ObjectReader, chunk: u32, range: std::ops::Range<usize>| {
        let mut own = ReadTotals::default();
        let mut sink = sinks.sink(chunk);
        for job in &jobs[range] {
            message(inbox, epochs, job, reader, &mut *sink, &mut own)?;
        }
        sink_error(sink.finish())?;
        let mut totals = totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.add(own);
        let done = totals.read.len() as u64;
        drop(totals);
        if let Some(progress) = progress {
            progress(done, jobs.len() as u64);
        }
        Ok(())
    };
    in_chunks(jobs.len(), CHUNK_MESSAGES, threads, &ObjectReader::new, &work)?;
    let mut totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    totals.read.sort_unstable();
    totals.unread.sort_unstable_by_key(|job| job.uid);
    Ok(totals)
}

fn message(
    inbox: &PublicInbox,
    epochs: &[OpenEpoch],
    job: &ReadJob,
    reader: &mut ObjectReader,
    sink: &mut dyn ScanSink,
    totals: &mut ReadTotals,
) -> Result<()> {
    let LiveMessage { blob, epoch, committed } = job.message;
    let head = inbox.in_epochs(epochs, epoch, |repository| reader.head(repository, blob));
    let BlobHead { size, bytes, turn } = match head {
        Ok(head) => head,
        Err(error) if error.is_ours() => return Err(error.of(blob)),
        Err(error) => {
            if !matches!(error, ObjectError::TooLarge { .. }) {
                totals.add_unread(*job);
            }
            totals.defect(DefectKind::Unreadable, None, format!("cannot be read: {blob} {error}"));
            return Ok(());
        }
    };
    let end = header_end(&bytes);
    let header = &bytes[..end.map_or(bytes.len(), |end| end.len).min(HEADER_LEN_MAX)];
    let owned = end.map_or(0, |end| end.owned_len);
    let is_whole = bytes.len() as u64 == size;
    let name = blob.to_hex();
    sink_error(sink.message(&ScannedMessage {
        uid: Some(job.uid),
        location: Location::from(MessageName { name: &name, in_new: false, mark: epoch }),
        header,
        size,
        rfc822_size: is_whole.then(|| barid_message::crlf_size(&bytes).saturating_sub(owned)),
        internal_date: committed,
        flags: FlagSet::EMPTY.with(Flag::Seen),
        keywords: KeywordMask::default(),
        key: key(blob),
    }))?;
    if header.len() == HEADER_LEN_MAX {
        let what = format!("the header is longer than {HEADER_LEN_MAX} bytes and is cut");
        totals.defect(DefectKind::Structure, Some(job.uid), what);
    }
    totals.size_bytes = totals.size_bytes.saturating_add(size);
    totals.bytes_read += bytes.len() as u64;
    totals.read.push((job.uid, blob));
    drop(bytes);
    drop(turn);
    Ok(())
}
