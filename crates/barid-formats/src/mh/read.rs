//! Reading new messages in chunks, from as many threads as are allowed.

use std::sync::Mutex;

use barid_mailbox::{
    DefectKind, Error, Location, MailboxDefect, MessageName, Result, ScanSink, ScannedMessage,
    Sinks, sink_error,
};
use barid_state::MessageKey;
use barid_types::{InternalDate, Uid};

use super::layout::{CHUNK_MESSAGES, DEFECTS_MAX};
use super::list::{MessageFile, MhListing};
use super::name::{self, Number};
use super::scan::MhScan;
use super::sequences::View;
use crate::files::{FileStart, HEADER_LEN_MAX, HeadReader, in_chunks, is_ours, is_unfinished};

/// A message to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct MhRead {
    /// Its UID.
    pub(super) uid: Uid,
    /// Index of its file in the listing.
    pub(super) file: u32,
    /// Its message key of a moment ago, if its header was read.
    pub(super) key: Option<MessageKey>,
}

/// Result of reading, besides the messages.
#[derive(Debug, Default)]
pub(super) struct MhReadTotals {
    /// UIDs and keys of the messages that were passed to sinks.
    pub(super) read: Vec<(Uid, MessageKey)>,
    /// Bytes read.
    pub(super) bytes: u64,
    /// `true` if messages could not be read.
    pub(super) unread: bool,
    /// Number of these that another program is writing.
    pub(super) arriving: u64,
    /// Defects found.
    pub(super) defects: Vec<MailboxDefect>,
}

impl MhReadTotals {
    pub(super) fn add(&mut self, other: Self) {
        self.read.extend(other.read);
        self.bytes += other.bytes;
        self.unread |= other.unread;
        self.arriving += other.arriving;
        let room = DEFECTS_MAX.saturating_sub(self.defects.len());
        self.defects.extend(other.defects.into_iter().take(room));
    }

    fn defect(&mut self, kind: DefectKind, uid: Option<Uid>, what: String) {
        if self.defects.len() < DEFECTS_MAX {
            self.defects.push(MailboxDefect { kind, offset: 0, uid, what });
        }
    }

    /// Records a file that another program is writing.
    fn unfinished(&mut self) {
        self.unread = true;
        self.arriving += 1;
    }

    /// Records a file that cannot be read, unless it is gone.
    fn unreadable(&mut self, number: Number, error: &std::io::Error) {
        if error.kind() == std::io::ErrorKind::NotFound {
            return;
        }
        self.unread = true;
        self.defect(DefectKind::Unreadable, None, format!("cannot be read: {number}: {error}"));
    }
}

impl MhScan<'_> {
    /// Returns the keys of the files `fresh` of the listing; `None` for those that are gone or
    /// cannot be read, which the totals report.
    pub(super) fn keys(
        &self,
        listing: &MhListing,
    ) -> Result<(Vec<Option<MessageKey>>, MhReadTotals)> {
        let keys = Mutex::new((vec![None; listing.fresh.len()], MhReadTotals::default()));
        let work = |reader: &mut HeadReader, _: u32, range: std::ops::Range<usize>| {
            let (mut found, mut totals) =
                (Vec::with_capacity(range.len()), MhReadTotals::default());
            for at in &listing.fresh[range.clone()] {
                let file = &listing.files[*at as usize];
                found.push(
                    match reader.read(self.dir, &self.folder.naming.listed_name(file.number)) {
                        Ok(head) if self.is_unfinished(reader, &head) => {
                            totals.unfinished();
                            None
                        }
                        Ok(head) => Some(name::key(reader.header(&head), head.metadata.size)),
                        Err(source) if is_ours(&source) => return Err(self.error(file, source)),
                        Err(error) => {
                            totals.unreadable(file.number, &error);
                            None
                        }
                    },
                );
            }
            lock(&keys, |(keys, all)| {
                keys[range].copy_from_slice(&found);
                all.add(totals);
            });
            Ok(())
        };
        let count = listing.fresh.len();
        in_chunks(count, CHUNK_MESSAGES, self.threads, &HeadReader::new, &work)?;
        Ok(keys.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Reads messages into sinks.
    pub(super) fn read(
        &self,
        listing: &MhListing,
        jobs: &[MhRead],
        view: &View<'_>,
        sinks: &dyn Sinks,
        progress: Option<&(dyn Fn(u64, u64) + Sync)>,
    ) -> Result<MhReadTotals> {
        let totals = Mutex::new(MhReadTotals::default());
        let work = |reader: &mut HeadReader, chunk: u32, range: std::ops::Range<usize>| {
            let mut own = MhReadTotals::default();
            let mut sink = sinks.sink(chunk);
            for job in &jobs[range] {
                let file = &listing.files[job.file as usize];
                self.message(job, file, view, reader, &mut *sink, &mut own)?;
            }
            sink_error(sink.finish())?;
            let done = lock(&totals, |totals| {
                totals.add(own);
                totals.read.len()
            });
            if let Some(progress) = progress {
                progress(done as u64, jobs.len() as u64);
            }
            Ok(())
        };
        in_chunks(jobs.len(), CHUNK_MESSAGES, self.threads, &HeadReader::new, &work)?;
        let mut totals = totals.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        totals.read.sort_unstable();
        Ok(totals)
    }

    fn message(
        &self,
        job: &MhRead,
        file: &MessageFile,
        view: &View<'_>,
        reader: &mut HeadReader,
        sink: &mut dyn ScanSink,
        totals: &mut MhReadTotals,
    ) -> Result<()> {
        let head = match reader.read(self.dir, &self.folder.naming.listed_name(file.number)) {
            Ok(head) => head,
            Err(source) if is_ours(&source) => return Err(self.error(file, source)),
            Err(error) => {
                totals.unreadable(file.number, &error);
                return Ok(());
            }
        };
        if self.is_unfinished(reader, &head) {
            totals.unfinished();
            return Ok(());
        }
        let header = reader.header(&head);
        let key = name::key(header, head.metadata.size);
        if head.metadata.inode != file.inode || job.key.is_some_and(|was| was != key) {
            // The file was renumbered or rewritten at this moment.
            return Err(Error::Changed { path: self.folder.path.clone() });
        }
        let (flags, keywords) = view.of(file.number);
        let place = name::place(file.number, name::mark(&head.metadata));
        let unix_seconds = head.metadata.modified.unix_seconds();
        sink_error(sink.message(&ScannedMessage {
            uid: Some(job.uid),
            location: Location::from(MessageName { name: &place, in_new: false, mark: 0 }),
            header,
            size: head.metadata.size,
            rfc822_size: head.rfc822_size,
            internal_date: InternalDate { unix_seconds, zone_minutes: 0 },
            flags,
            keywords,
            key,
        }))?;
        if head.is_cut {
            let what = format!("the header is longer than {HEADER_LEN_MAX} bytes and is cut");
            totals.defect(DefectKind::Structure, Some(job.uid), what);
        }
        totals.bytes += head.bytes_read;
        totals.read.push((job.uid, key));
        Ok(())
    }

    fn is_unfinished(&self, reader: &HeadReader, head: &FileStart) -> bool {
        is_unfinished(reader.header(head), &head.metadata, self.folder.vfs.now())
    }

    fn error(&self, file: &MessageFile, source: std::io::Error) -> Error {
        Error::at(&self.folder.listed_path(file.number))(source)
    }
}

fn lock<T, R>(mutex: &Mutex<T>, work: impl FnOnce(&mut T) -> R) -> R {
    work(&mut mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}
