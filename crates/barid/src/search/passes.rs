//! The passes of a search.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use barid_cache::{Core, Record};
use barid_mailbox::ReadAs;
use barid_query::search::{
    CachedField, Cost, Facts, FactsView, FieldText, Matcher, Scratch, SearchView,
};
use barid_types::{BodyStructure, Uid};
use barid_vfs::on_threads;

use super::attached::AttachedView;
use crate::attachments::AttachmentSource;
use crate::large::{is_too_large, keeps_texts};
use crate::limits::{
    SEARCH_BUFFER_KEPT_LEN, SEARCH_FIELDS_ROWS, SEARCH_HEADER_LEN_SURE, SEARCH_LARGE_LEN,
    SEARCH_MESSAGES_ROWS,
};
use crate::text_index::IndexAnswers;
use crate::{Error, LongOperation, Progress, Result, Unit, View};

/// Result of a pass.
#[derive(Debug, Default)]
pub(super) struct PassResult {
    /// The rows that match, ascending.
    pub(super) rows: Vec<u32>,
    /// The rows that need a further pass, ascending.
    pub(super) unknown: Vec<u32>,
    /// Messages that could not be read, and the errors.
    pub(super) unreadable: Vec<(Uid, Error)>,
    /// Rows whose answer may depend on an attachment that could not be read, ascending.
    pub(super) attachments_unread: Vec<u32>,
}

impl PassResult {
    fn add(&mut self, row: u32, matches: Option<bool>) {
        match matches {
            Some(true) => self.rows.push(row),
            Some(false) => {}
            None => self.unknown.push(row),
        }
    }
}

/// One search of one view.
#[derive(Clone, Copy)]
pub(super) struct Passes<'a> {
    pub(super) view: &'a View,
    pub(super) matcher: &'a Matcher,
    /// Answers of the text index.
    pub(super) index: Option<&'a IndexAnswers>,
    /// `true` to know nothing from attachments of which one could not be read.
    pub(super) hides_unread: bool,
    /// Locked by a thread that searches a large message.
    pub(super) turn: &'a Mutex<()>,
}

impl Passes<'_> {
    /// Matches the fixed-size facts of all rows; returns the rows that match, and those that need a
    /// further pass.
    pub(super) fn facts(&self) -> Result<(Vec<u32>, Vec<u32>)> {
        let all = (0..self.view.len()).collect();
        match self.matcher.constant() {
            Some(true) => return Ok((all, Vec::new())),
            Some(false) => return Ok((Vec::new(), Vec::new())),
            None => {}
        }
        let mut outcome = PassResult::default();
        self.facts_of_rows(all, &mut outcome)?;
        Ok((outcome.rows, outcome.unknown))
    }

    /// Matches what the text index knows of these rows, and the fixed-size facts of those that this
    /// leaves open.
    pub(super) fn indexed_rows(&self, rows: Vec<u32>) -> Result<PassResult> {
        let known = |node| self.index?.known(node);
        let known = self.matcher.follow(self.view.len(), &known);
        let mut outcome = PassResult::default();
        rows.into_iter().for_each(|row| outcome.add(row, known.of(row)));
        let open = std::mem::take(&mut outcome.unknown);
        self.facts_of_rows(open, &mut outcome)?;
        Ok(outcome)
    }

    /// Returns the rows of these that have an attachment which could not be read when they were
    /// indexed, and whose answer may depend on it.
    pub(super) fn rows_of_unread(&self, rows: &[u32]) -> Result<Vec<u32>> {
        let Some(index) = self.index.filter(|index| index.may_lack_unread()) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        let (hiding, mut scratch) = (Self { hides_unread: true, ..*self }, Scratch::default());
        for row in rows.iter().copied().filter(|row| index.lacks_unread(*row)) {
            let facts = self.facts_of(row, &self.view.snapshot.core(row)?);
            let mut view = hiding.indexed(row, FactsView(facts));
            if self.matcher.matches(&mut view, &mut scratch).is_none() {
                found.push(row);
            }
        }
        match found.is_empty() || !self.matcher.asks(Cost::Fields) {
            true => Ok(found),
            false => Ok(hiding.fields(&found)?.unknown),
        }
    }

    /// Matches the fixed-size facts of rows.
    fn facts_of_rows(&self, rows: Vec<u32>, outcome: &mut PassResult) -> Result<()> {
        if !self.matcher.asks(Cost::Facts) {
            outcome.unknown.extend(rows);
            return Ok(());
        }
        let mut scratch = Scratch::default();
        let mut rows = rows.into_iter().peekable();
        let (Some(first), view) = (rows.peek().copied(), self.view) else { return Ok(()) };
        let read = view.snapshot.cores(first..view.len(), &mut |row, core| {
            if rows.next_if_eq(&row).is_none() {
                return;
            }
            let view = &mut self.indexed(row, FactsView(self.facts_of(row, core)));
            outcome.add(row, self.matcher.matches(view, &mut scratch));
        });
        view.done(read)
    }

    /// Returns a view of a row that asks the text index first.
    fn indexed<V>(&self, row: u32, view: V) -> IndexedView<'_, V> {
        IndexedView { index: self.index, row, hides_unread: self.hides_unread, view }
    }

    fn facts_of(&self, row: u32, core: &Core) -> Facts {
        let (flags, keywords, modseq) = self.view.shown.of_message(core);
        // Stored lines may end in LF alone, and may be quoted; fields that formats own are not
        // counted.
        let bounds = match core.rfc822_size {
            Some(size) => (size, size),
            // A header that the scan has cut ends elsewhere.
            None if core.header_len >= SEARCH_HEADER_LEN_SURE => (0, core.size.saturating_mul(2)),
            None => {
                let body = core.size.saturating_sub(u64::from(core.header_len));
                (body / 2, core.size.saturating_mul(2))
            }
        };
        Facts {
            seq: row + 1,
            uid: core.uid,
            flags,
            keywords,
            modseq,
            internal_date: core.internal_date,
            sent_date: core.sent_date_own.then_some(core.sent_date),
            size_least: bounds.0,
            size_most: bounds.1,
        }
    }

    /// Matches the cached header fields.
    pub(super) fn fields(&self, rows: &[u32]) -> Result<PassResult> {
        self.shared(rows, SEARCH_FIELDS_ROWS, || {
            let mut scratch = Scratch::default();
            move |rows: &[u32], outcome: &mut PassResult| {
                let view = self.view;
                let read = view.snapshot.records(rows, &mut |row, core, record| {
                    let facts = self.facts_of(row, core);
                    let view = &mut self.indexed(row, RecordView { facts, record });
                    outcome.add(row, self.matcher.matches(view, &mut scratch));
                });
                view.done(read)
            }
        })
    }

    /// Matches the messages themselves.
    pub(super) fn messages(&self, rows: &[u32]) -> Result<PassResult> {
        self.shared(rows, SEARCH_MESSAGES_ROWS, || {
            let (mut reader, mut scratch) = (MessageReader::default(), Scratch::default());
            move |rows: &[u32], outcome: &mut PassResult| {
                rows.iter()
                    .try_for_each(|row| self.message(*row, &mut reader, &mut scratch, outcome))
            }
        })
    }

    fn message(
        &self,
        row: u32,
        reader: &mut MessageReader,
        scratch: &mut Scratch,
        outcome: &mut PassResult,
    ) -> Result<()> {
        let core = self.view.snapshot.core(row)?;
        // A large message is read without its attachments; these are read one by one.
        let is_large = core.size > SEARCH_LARGE_LEN;
        let _turn = is_large.then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        let mut facts = self.facts_of(row, &core);
        match self.view.follow(row, &mut |view, row| reader.read(view, row))? {
            Ok(None) => {}
            Ok(Some(size)) => (facts.size_least, facts.size_most) = (size, size),
            Err(Error::NoSuchMessage { .. }) => return Ok(()),
            Err(error @ (Error::Cache(_) | Error::Superseded { .. })) => return Err(error),
            Err(error) => {
                outcome.unreadable.push((core.uid, error));
                return Ok(());
            }
        }
        let (bytes, whole) = (&reader.bytes, reader.whole.as_ref());
        let source = AttachmentSource { view: self.view, uid: core.uid, bytes, whole };
        let mut view = self.indexed(row, AttachedView::new(facts, source));
        let matches = self.matcher.matches(&mut view, scratch);
        match view.view.error {
            None => {}
            Some(Error::NoSuchMessage { .. }) => return Ok(()),
            Some(error @ (Error::Cache(_) | Error::Superseded { .. } | Error::Stopped)) => {
                return Err(error);
            }
            Some(error) => {
                outcome.unreadable.push((core.uid, error));
                return Ok(());
            }
        }
        if view.view.has_unread {
            outcome.attachments_unread.push(row);
        }
        // The view of a message can answer everything.
        outcome.add(row, Some(matches.unwrap_or_default()));
        Ok(())
    }

    /// Distributes rows over threads, in stretches of `len` that are taken in order.
    fn shared<W>(
        &self,
        rows: &[u32],
        len: usize,
        make_work: impl Fn() -> W + Sync,
    ) -> Result<PassResult>
    where
        W: FnMut(&[u32], &mut PassResult) -> Result<()>,
    {
        let stretches: Vec<&[u32]> = rows.chunks(len).collect();
        let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let run = || -> Result<Vec<(usize, PassResult)>> {
            let (mut work, mut outcomes) = (make_work(), Vec::new());
            while !is_over.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(stretch) = stretches.get(at) else { break };
                let mut outcome = PassResult::default();
                let done = work(stretch, &mut outcome);
                if done.is_err() {
                    is_over.store(true, Ordering::Relaxed);
                }
                done?;
                outcomes.push((at, outcome));
                self.report_progress(at * len, rows.len());
            }
            Ok(outcomes)
        };
        let threads = self.view.options.thread_count().min(stretches.len());
        let mut outcomes = Vec::new();
        for result in on_threads(threads, run) {
            outcomes.extend(result?);
        }
        outcomes.sort_unstable_by_key(|(at, _)| *at);
        let mut all = PassResult::default();
        for (_, outcome) in outcomes {
            all.rows.extend(outcome.rows);
            all.unknown.extend(outcome.unknown);
            all.unreadable.extend(outcome.unreadable);
            all.attachments_unread.extend(outcome.attachments_unread);
        }
        Ok(all)
    }

    fn report_progress(&self, done: usize, total: usize) {
        if let Some(progress) = &self.view.options.progress {
            let (done, total) = (done as u64, total as u64);
            progress(Progress { work: LongOperation::Scan, unit: Unit::Messages, done, total });
        }
    }
}

/// A message with its cached header fields.
struct RecordView<'a> {
    facts: Facts,
    record: &'a Record<'a>,
}

impl SearchView for RecordView<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn any_field(
        &mut self,
        field: CachedField,
        holds: &mut dyn FnMut(FieldText<'_>) -> Option<bool>,
    ) -> Option<bool> {
        // The rest of a field that was cut, and further fields of the same name, are in the
        // message.
        match field.of(&self.record.fields) {
            _ if self.record.cut => None,
            None => Some(false),
            Some(raw) => holds(FieldText::Trimmed(raw)),
        }
    }
}

/// A view of a row that asks the text index first.
struct IndexedView<'a, V> {
    index: Option<&'a IndexAnswers>,
    row: u32,
    /// `true` to know nothing from attachments of which one could not be read.
    hides_unread: bool,
    view: V,
}

impl<V: SearchView> SearchView for IndexedView<'_, V> {
    fn facts(&self) -> &Facts {
        self.view.facts()
    }

    fn indexed(&mut self, node: usize) -> Option<bool> {
        let index = self.index?;
        let is_hidden = self.hides_unread && index.is_of_attachments(node);
        // A text that was found in another attachment is there all the same.
        index.known(node)?.of(self.row).filter(|known| *known || !is_hidden)
    }

    fn any_field(
        &mut self,
        field: CachedField,
        holds: &mut dyn FnMut(FieldText<'_>) -> Option<bool>,
    ) -> Option<bool> {
        self.view.any_field(field, holds)
    }

    fn message(&mut self) -> Option<&[u8]> {
        self.view.message()
    }

    fn attachment_texts(&mut self, take: &mut dyn FnMut(&str) -> bool) -> bool {
        self.view.attachment_texts(take)
    }
}

/// Reads the texts of one message after another.
#[derive(Default)]
pub(crate) struct MessageReader {
    name: Vec<u8>,
    /// The message that was read last.
    pub(crate) bytes: Vec<u8>,
    /// Its structure, if it is too large, so that `bytes` is only the part that is searched.
    pub(crate) whole: Option<BodyStructure>,
}

impl MessageReader {
    /// Reads a row into the buffer; of a message that is too large, only the part that is searched.
    /// Returns its RFC822.SIZE then.
    pub(crate) fn read(&mut self, view: &View, row: u32) -> Result<Option<u64>> {
        let Self { name, bytes, whole } = self;
        *whole = None;
        bytes.clear();
        bytes.shrink_to(SEARCH_BUFFER_KEPT_LEN);
        match view.read_row(row, ReadAs::Message, name, bytes) {
            Err(error) if is_too_large(&error) => {
                let reduced = view.reduced_row(row, &keeps_texts)?;
                (*bytes, *whole) = (reduced.bytes, Some(reduced.structure));
                view.row_rfc822_size(row).map(Some)
            }
            read => read.map(|_| None),
        }
    }
}
