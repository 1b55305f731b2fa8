//! Building the index of a view.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use barid_index::{AttachmentTexts, Builder, Manifest, SegmentEntry};
use barid_query::search::{TextBuffers, each_folded_text};
use barid_types::Uid;
use barid_vfs::on_threads;

use super::coverage::Coverage;
use super::place::{OpenSegments, index_error};
use crate::attachments::{AttachmentReader, AttachmentSource};
use crate::limits::{
    INDEX_ADDED_BYTES, INDEX_ADDED_MESSAGES, INDEX_ROWS, INDEX_ROWS_ALONE, SEARCH_LARGE_LEN,
};
use crate::search::MessageReader;
use crate::view::has_moved;
use crate::{Error, LongOperation, Progress, Result, Unit, View};

/// Messages that are added to an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexAmount {
    /// All that it does not cover.
    All,
    /// The oldest of them.
    UpTo {
        /// Number of messages, without those that cannot be read.
        messages: u32,
        /// Bytes of messages, after which no other is read.
        bytes: u64,
    },
}

/// The amount that a search adds, when it has answered.
pub(crate) const INDEX_ADDED_BY_SEARCH: IndexAmount =
    IndexAmount::UpTo { messages: INDEX_ADDED_MESSAGES, bytes: INDEX_ADDED_BYTES };

/// Result of building an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexReport {
    /// Number of messages that were added.
    pub added: u32,
    /// Number of messages that could not be read; searches try them again.
    pub unreadable: u32,
    /// Number of added messages the texts of whose attachments were added.
    pub attachment_texts: u32,
    /// Number of added messages with an attachment that could not be read.
    pub attachments_unread: u32,
    /// `true` if another process is building the index, so that nothing was done.
    pub is_busy: bool,
    /// `true` if it was stopped before all messages were added.
    pub is_stopped: bool,
}

impl View {
    /// Adds messages to the text index, the oldest first, of those that it does not cover. With
    /// `OpenOptions::attachments` the texts of attachments are added, and messages without them
    /// count as not covered. Each segment that is full is published at once, so what is done stays
    /// if the process is killed; `OpenOptions::stop` ends the work after the current message.
    ///
    /// Reads the messages, and with [`IndexAmount::All`] what is indexed already, to write anew
    /// what is damaged. Each thread holds a segment of up to 42 MB in memory, and writes it.
    ///
    /// # Errors
    /// [`Error::NoCacheForIndex`] if the mailbox has no cache on disk; a damaged cache;
    /// [`Error::TextIndex`].
    pub fn index_texts(&self, amount: IndexAmount) -> Result<IndexReport> {
        self.extend_index(amount, self.options.attachments.as_deref())
    }

    /// Adds messages as [`View::index_texts`] does, with the texts that `reader` gives.
    pub(crate) fn extend_index(
        &self,
        amount: IndexAmount,
        reader: Option<&dyn AttachmentReader>,
    ) -> Result<IndexReport> {
        self.check_read()?;
        if !self.place.on_disk {
            return Err(Error::NoCacheForIndex { path: self.path().to_owned() });
        }
        let Some(_lock) = self.place.lock_index()? else {
            return Ok(IndexReport { is_busy: true, ..IndexReport::default() });
        };
        let path = self.place.manifest_path();
        let opened = self.place.open_index().map_err(|error| index_error(&path, error))?;
        let mut opened = opened.unwrap_or_else(OpenSegments::none);
        if amount == IndexAmount::All {
            opened.drop_damaged();
        }
        let mut coverage = Coverage::of(self, &opened)?;
        self.check_segments(&mut opened, &mut coverage)?;
        let manifest = self.current_manifest(&opened, &coverage)?;
        if amount == IndexAmount::All {
            self.remove_unlisted(&manifest);
        }
        let (messages, bytes) = match amount {
            IndexAmount::All => (i64::MAX, i64::MAX),
            IndexAmount::UpTo { messages, bytes } => {
                (messages.into(), i64::try_from(bytes).unwrap_or(i64::MAX))
            }
        };
        let rows = coverage.uncovered(reader.map(AttachmentReader::id));
        let building = Building {
            view: self,
            reader,
            coverage: &coverage,
            rows: &rows,
            next: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            messages_left: AtomicI64::new(messages),
            bytes_left: AtomicI64::new(bytes),
            turn: Mutex::default(),
            manifest: Mutex::new(manifest),
            report: Mutex::default(),
        };
        building.run()?;
        let manifest = building.manifest.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.merge_segments(manifest, &coverage)?;
        Ok(building.report.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The building of an index.
struct Building<'a> {
    view: &'a View,
    /// Reads the attachments.
    reader: Option<&'a dyn AttachmentReader>,
    coverage: &'a Coverage,
    rows: &'a [u32],
    /// The first of `rows` that no thread has taken.
    next: AtomicUsize,
    is_over: AtomicBool,
    /// Messages that may still be read: those that cannot be do not count.
    messages_left: AtomicI64,
    /// Bytes of messages that may still be read.
    bytes_left: AtomicI64,
    /// Locked by a thread that reads a large message.
    turn: Mutex<()>,
    manifest: Mutex<Manifest>,
    report: Mutex<IndexReport>,
}

impl Building<'_> {
    fn run(&self) -> Result<()> {
        let most = usize::try_from(self.messages_left.load(Ordering::Relaxed)).unwrap_or(0);
        let threads = self.rows.len().min(most).div_ceil(INDEX_ROWS_ALONE);
        let threads = self.view.options.thread_count().min(threads);
        for result in on_threads(threads, || self.work()) {
            result?;
        }
        Ok(())
    }

    /// Indexes stretches of rows until none are left.
    fn work(&self) -> Result<()> {
        let mut indexer = Indexer::default();
        let worked = self.index_all(&mut indexer);
        if worked.is_err() {
            self.is_over.store(true, Ordering::Relaxed);
            return worked;
        }
        self.publish(&mut indexer)
    }

    fn index_all(&self, indexer: &mut Indexer) -> Result<()> {
        while !self.is_over.load(Ordering::Relaxed) {
            let at = self.next.fetch_add(INDEX_ROWS, Ordering::Relaxed);
            let Some(rest) = self.rows.get(at..).filter(|rest| !rest.is_empty()) else { break };
            for row in &rest[..rest.len().min(INDEX_ROWS)] {
                if self.is_stopped() {
                    self.report().is_stopped = true;
                    return Ok(());
                }
                if self.is_enough() {
                    return Ok(());
                }
                if self.index(*row, indexer)? {
                    self.publish(indexer)?;
                }
            }
            self.tell(at);
        }
        Ok(())
    }

    /// Indexes a message; returns `true` if the segment is full.
    fn index(&self, row: u32, indexer: &mut Indexer) -> Result<bool> {
        let Indexer { reader, buffers, builder, uids, .. } = indexer;
        let size = self.view.snapshot.core(row)?.size;
        let is_large = size > SEARCH_LARGE_LEN;
        let _turn = is_large.then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        match reader.read(self.view, row) {
            // A file that is still being written under its final name is another message later.
            Ok(None) if self.view.storage.names_messages() && reader.bytes.len() as u64 != size => {
                return Ok(false);
            }
            Ok(_) => {}
            Err(error @ (Error::Cache(_) | Error::Superseded { .. })) => return Err(error),
            Err(error) if has_moved(&error) => return Ok(false),
            // Searches read it, and tell.
            Err(_) => {
                self.report().unreadable += 1;
                return Ok(false);
            }
        }
        self.messages_left.fetch_sub(1, Ordering::Relaxed);
        self.bytes_left.fetch_sub(size.min(i64::MAX as u64) as i64, Ordering::Relaxed);
        let identity = self.coverage.rows[row as usize];
        builder.begin(identity.digest);
        let mut take = |kind, text: &[u8]| builder.add(kind, text);
        let found = each_folded_text(&reader.bytes, buffers, &mut take);
        uids.push(identity.uid);
        let attachments = match found.has_attachments {
            true => self.add_attachments(identity.uid, indexer)?,
            false => AttachmentTexts::None,
        };
        Ok(indexer.builder.end(found.has_length, attachments))
    }

    /// Adds the texts of the attachments of the message that was read.
    fn add_attachments(&self, uid: u32, indexer: &mut Indexer) -> Result<AttachmentTexts> {
        let Indexer { reader, buffers, builder, .. } = indexer;
        let (Some(extractor), Some(uid)) = (self.reader, Uid::new(uid)) else {
            return Ok(AttachmentTexts::Missing);
        };
        let (bytes, whole) = (&*reader.bytes, reader.whole.as_ref());
        let source = AttachmentSource { view: self.view, uid, bytes, whole };
        let read = source.each_text(extractor, &mut |text| {
            builder.add_attachment(buffers.fold(text));
            true
        });
        let read = match read {
            Ok(read) => read,
            Err(error @ (Error::Cache(_) | Error::Superseded { .. })) => return Err(error),
            // The file names are there; the texts are read again by the next.
            Err(error) => {
                self.report().is_stopped |= matches!(error, Error::Stopped);
                return Ok(AttachmentTexts::Missing);
            }
        };
        let mut report = self.report();
        report.attachments_unread += u32::from(read.has_unread);
        if read.may_change {
            return Ok(AttachmentTexts::Missing);
        }
        report.attachment_texts += 1;
        Ok(AttachmentTexts::There { is_open: false, has_unread: read.has_unread })
    }

    /// Writes the segment of a thread, and adds it to the manifest.
    fn publish(&self, indexer: &mut Indexer) -> Result<()> {
        let builder = std::mem::take(&mut indexer.builder);
        if builder.is_empty() {
            return Ok(());
        }
        let place = &self.view.place;
        let name = place.new_segment()?;
        let entry = SegmentEntry { name, uids: std::mem::take(&mut indexer.uids) };
        let added = builder.len();
        let reader = self.reader.map_or(0, AttachmentReader::id);
        write(&place.segment_path(entry.name), |path| builder.write(&*place.vfs, path, reader))?;
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        manifest.segments.push(entry);
        write(&place.manifest_path(), |path| manifest.store(&*place.vfs, path))?;
        self.report().added += added;
        Ok(())
    }

    fn is_enough(&self) -> bool {
        [&self.messages_left, &self.bytes_left].iter().any(|left| left.load(Ordering::Relaxed) <= 0)
    }

    fn is_stopped(&self) -> bool {
        self.view.options.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    fn report(&self) -> std::sync::MutexGuard<'_, IndexReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, done: usize) {
        if let Some(progress) = &self.view.options.progress {
            let (done, total) = (done as u64, self.rows.len() as u64);
            progress(Progress { work: LongOperation::Index, unit: Unit::Messages, done, total });
        }
    }
}

/// The segment of a thread.
#[derive(Default)]
struct Indexer {
    reader: MessageReader,
    buffers: TextBuffers,
    builder: Builder,
    uids: Vec<u32>,
}

/// Writes a file of the index.
pub(super) fn write(path: &Path, write: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<()> {
    write(path).map_err(|error| index_error(path, error))
}
