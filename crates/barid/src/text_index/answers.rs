//! The answers of an index for the texts of a search.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use barid_index::{Answer, Doc, Segment};
use barid_query::search::{KnownRows, Matcher, TextTest};
use barid_vfs::on_threads;

use super::coverage::{Coverage, RowIdentity, docs_of};
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
        let (coverage, found) = ask_all(view, &opened, &tests);
        let coverage = coverage?;
        let uncovered = view.len() - coverage.covered();
        let mut answers = Self { by_node: Vec::new(), uncovered };
        for (test, found) in tests.iter().zip(found) {
            let known = known_rows(view.len(), &coverage, &found, test);
            answers.by_node.resize_with(answers.by_node.len().max(test.node + 1), || None);
            answers.by_node[test.node] = Some(known);
        }
        Ok(Some(answers))
    }

    /// Returns `true` if so many messages are not covered that a search is to index some.
    pub(crate) fn is_behind(&self) -> bool {
        self.uncovered >= INDEX_BEHIND_MIN
    }

    /// Returns `true` if more messages are not covered than a few searches add.
    pub(crate) fn is_far_behind(&self) -> bool {
        self.uncovered as usize >= INDEX_WORTH_MIN
    }

    /// Returns what is known of a node.
    pub(crate) fn known(&self, node: usize) -> Option<&KnownRows> {
        self.by_node.get(node)?.as_ref()
    }
}

/// The answers of all segments for each text; `None` for a segment that cannot be read.
type Found = Vec<Vec<Option<Answer>>>;

/// Result of a task.
enum Done {
    Rows(Result<Vec<RowIdentity>>),
    Docs(io::Result<Vec<Doc>>),
    Answer(Option<Answer>),
}

/// Finds out which rows are covered, and asks all segments; on all cores.
fn ask_all(
    view: &View,
    opened: &OpenSegments,
    tests: &[TextTest<'_>],
) -> (Result<Coverage>, Found) {
    let segments = opened.segments.len();
    let stretches = view.len().div_ceil(INDEX_COVERED_ROWS) as usize;
    let (first_answer, count) =
        (stretches + segments, stretches + segments + segments * tests.len());
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
    (rows.map(|rows| Coverage::new(view, opened, rows, docs)), answers)
}

fn answer(segment: &Segment, test: &TextTest<'_>) -> Option<Answer> {
    let found: io::Result<_> = segment.find(test.scope, test.needle);
    found.ok().flatten()
}

/// Translates documents into rows.
fn known_rows(
    rows: u32,
    coverage: &Coverage,
    found: &[Option<Answer>],
    test: &TextTest<'_>,
) -> KnownRows {
    let mut known = KnownRows::nothing(rows);
    for (row, covered) in (0..).zip(coverage.docs()) {
        let Some(covered) = covered else { continue };
        let Some(Some(answer)) = found.get(covered.segment as usize) else { continue };
        let is_open = covered.is_open || test.may_be_length && covered.has_more;
        if test.is_exact && answer.certain.contains(covered.doc) {
            known.yes.insert(row);
        } else if !is_open && !answer.possible.contains(covered.doc) {
            known.no.insert(row);
        }
    }
    known
}
