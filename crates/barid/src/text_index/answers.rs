//! The answers of an index for the texts of a search.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use barid_index::{Answer, AttachmentTexts, Doc, Segment};
use barid_query::search::{BitSet, Cost, KnownRows, Matcher, TextTest};
use barid_vfs::on_threads;

use super::coverage::{Coverage, RowIdentity, docs_of};
use super::covered_rows::CoveredRows;
use super::place::OpenSegments;
use crate::limits::{INDEX_BEHIND_MIN, INDEX_COVERED_ROWS, INDEX_WORTH_MIN, INDEXED_TEXTS_MAX};
use crate::{Result, View};

/// Knowledge of an index about the rows of a view, for each text of a program.
#[derive(Debug)]
pub(crate) struct IndexAnswers {
    /// By node of the program.
    by_node: Vec<Option<KnownRows>>,
    /// Number of rows that the index does not cover.
    uncovered: u32,
    /// Number of covered rows without the texts of attachments that the program asks for.
    without_attachments: u32,
    /// Nodes that compare the texts of attachments.
    of_attachments: Vec<usize>,
    /// Rows with an attachment that could not be read when they were indexed.
    unread: BitSet,
}

impl IndexAnswers {
    /// Asks the index of a view for the texts of a program; `None` if there is no index, or nothing
    /// that it could be asked for. What cannot be read is not known.
    pub(crate) fn of(view: &View, matcher: &Matcher) -> Result<Option<Self>> {
        let tests: Vec<TextTest<'_>> = matcher.texts().take(INDEXED_TEXTS_MAX).collect();
        if tests.is_empty() {
            return Ok(None);
        }
        let Ok(Some(opened)) = view.place.open_index() else { return Ok(None) };
        let reader = view.options.attachment_reader_id();
        let reader = reader.filter(|_| matcher.asks(Cost::Attachments));
        let needs_docs_of_all = reader.is_some() || tests.iter().any(needs_docs);
        let kept = match needs_docs_of_all {
            true => None,
            false => CoveredRows::kept(view, &opened)?,
        };
        let (coverage, found) = ask_all(view, &opened, &tests, kept.is_none());
        let coverage = coverage.transpose()?;
        if let Some(coverage) = coverage.as_ref().filter(|_| !needs_docs_of_all) {
            CoveredRows::keep(view, &opened, coverage);
        }
        let rows = coverage.as_ref().map(CoveredRows::of).or(kept).unwrap_or_default();
        let mut answers = Self {
            by_node: Vec::new(),
            uncovered: view.len() - rows.count(),
            without_attachments: 0,
            of_attachments: Vec::new(),
            unread: BitSet::none(view.len()),
        };
        if let Some(coverage) = coverage.as_ref().filter(|_| reader.is_some()) {
            answers.add_attachments(coverage, &tests, reader);
        }
        for (test, found) in tests.iter().zip(found) {
            let known = match coverage.as_ref().filter(|_| needs_docs(test)) {
                Some(coverage) => known_rows(coverage, &found, test, reader),
                None => rows.known(view.len(), &found, test.is_exact),
            };
            answers.by_node.resize_with(answers.by_node.len().max(test.node + 1), || None);
            answers.by_node[test.node] = Some(known);
        }
        Ok(Some(answers))
    }

    /// Notes the tests of the texts of attachments, and the rows with one that could not be read.
    fn add_attachments(
        &mut self,
        coverage: &Coverage,
        tests: &[TextTest<'_>],
        reader: Option<u32>,
    ) {
        self.without_attachments = coverage.uncovered(reader).len() as u32 - self.uncovered;
        let extracted = tests.iter().filter(|test| test.is_extracted);
        self.of_attachments = extracted.map(|test| test.node).collect();
        for (row, covered) in (0..).zip(coverage.docs()) {
            let texts = covered.map(|covered| covered.attachments(reader));
            if matches!(texts, Some(AttachmentTexts::There { has_unread: true, .. })) {
                self.unread.insert(row);
            }
        }
    }

    /// Returns `true` if there may be rows that [`IndexAnswers::lacks_unread`].
    pub(crate) fn may_lack_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Returns `true` if a text was not found in the attachments of a row of which one could not be
    /// read when it was indexed.
    pub(crate) fn lacks_unread(&self, row: u32) -> bool {
        let lacks = |node: &usize| self.known(*node).and_then(|known| known.of(row)) == Some(false);
        self.unread.contains(row) && self.of_attachments.iter().any(lacks)
    }

    /// Returns `true` if a node compares the texts of attachments.
    pub(crate) fn is_of_attachments(&self, node: usize) -> bool {
        self.of_attachments.contains(&node)
    }

    /// Returns `true` if so many messages are not covered that a search is to index some.
    pub(crate) fn is_behind(&self) -> bool {
        self.uncovered >= INDEX_BEHIND_MIN
    }

    /// Returns `true` if more messages are not covered than a few searches add.
    pub(crate) fn is_far_behind(&self) -> bool {
        (self.uncovered + self.without_attachments) as usize >= INDEX_WORTH_MIN
    }

    /// Returns what is known of a node.
    pub(crate) fn known(&self, node: usize) -> Option<&KnownRows> {
        self.by_node.get(node)?.as_ref()
    }
}

/// Returns `true` if the answer for a text depends on more of a document than whether it is open.
fn needs_docs(test: &TextTest<'_>) -> bool {
    test.may_be_length || test.is_extracted
}

/// The answers of all segments for each text; `None` for a segment that cannot be read.
type Found = Vec<Vec<Option<Answer>>>;

/// Result of a task.
enum Done {
    Rows(Result<Vec<RowIdentity>>),
    Docs(io::Result<Vec<Doc>>),
    Answer(Option<Answer>),
}

/// Asks all segments, and finds out which rows are covered if `with_coverage`; on all cores.
fn ask_all(
    view: &View,
    opened: &OpenSegments,
    tests: &[TextTest<'_>],
    with_coverage: bool,
) -> (Option<Result<Coverage>>, Found) {
    let segments = opened.segments.len();
    let (stretches, first_answer) = match with_coverage {
        true => {
            let stretches = view.len().div_ceil(INDEX_COVERED_ROWS) as usize;
            (stretches, stretches + segments)
        }
        false => (0, 0),
    };
    let count = first_answer + segments * tests.len();
    let task = |at: usize| match at {
        _ if at < stretches => {
            let start = at as u32 * INDEX_COVERED_ROWS;
            let end = view.len().min(start.saturating_add(INDEX_COVERED_ROWS));
            Done::Rows(RowIdentity::of_rows(view, start..end))
        }
        _ if at < first_answer => Done::Docs(docs_of(opened, at - stretches)),
        _ => {
            let at = at - first_answer;
            let segment = opened.segment(at % segments);
            Done::Answer(segment.and_then(|segment| answer(segment, &tests[at / segments])))
        }
    };
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            // The answers are the longest tasks, so they are taken first.
            let taken = next.fetch_add(1, Ordering::Relaxed);
            let Some(at) = count.checked_sub(taken + 1) else { return done };
            done.push((at, task(at)));
        }
    };
    let threads = view.options.thread_count().min(count);
    let mut done: Vec<(usize, Done)> = on_threads(threads, run).into_iter().flatten().collect();
    done.sort_unstable_by_key(|(at, _)| *at);
    let (mut rows, mut docs) = (Ok(Vec::with_capacity(view.len() as usize)), Vec::new());
    let mut answers = vec![Vec::with_capacity(segments); tests.len()];
    for (at, done) in done {
        match done {
            Done::Rows(found) => {
                rows = rows.and_then(|mut rows| {
                    rows.extend(found?);
                    Ok(rows)
                });
            }
            Done::Docs(found) => docs.push(found),
            Done::Answer(answer) => answers[(at - first_answer) / segments].push(answer),
        }
    }
    let coverage = || rows.map(|rows| Coverage::new(view, opened, rows, docs));
    (with_coverage.then(coverage), answers)
}

fn answer(segment: &Segment, test: &TextTest<'_>) -> Option<Answer> {
    let found: io::Result<_> = segment.find(test.scope, test.needle);
    found.ok().flatten()
}

/// Translates documents into rows; `reader` reads the attachments, if that is wanted.
fn known_rows(
    coverage: &Coverage,
    found: &[Option<Answer>],
    test: &TextTest<'_>,
    reader: Option<u32>,
) -> KnownRows {
    let mut known = KnownRows::nothing(coverage.docs().len() as u32);
    for (row, covered) in (0..).zip(coverage.docs()) {
        let Some(covered) = covered else { continue };
        let Some(Some(answer)) = found.get(covered.segment as usize) else { continue };
        let mut is_open = covered.is_open || test.may_be_length && covered.has_more;
        let mut is_exact = test.is_exact;
        if test.is_extracted {
            // File names are there always. Among the terms may be texts that are not compared.
            is_exact &= reader.is_some();
            match covered.attachments(reader) {
                _ if reader.is_none() => {}
                AttachmentTexts::None => {}
                AttachmentTexts::Missing => continue,
                AttachmentTexts::There { is_open: are_open, .. } => is_open |= are_open,
            }
        }
        if is_exact && answer.certain.contains(covered.doc) {
            known.yes.insert(row);
        } else if !is_open && !answer.possible.contains(covered.doc) {
            known.no.insert(row);
        }
    }
    known
}
