//! The answers of an index for the texts of a search.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use barid_index::{Answer, Segment};
use barid_query::search::{KnownRows, Matcher, TextTest};
use barid_vfs::on_threads;

use super::coverage::Coverage;
use super::place::OpenSegments;
use crate::limits::{INDEX_BEHIND_MIN, INDEX_WORTH_MIN, INDEXED_TEXTS_MAX};
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

/// Finds out which rows are covered and, on other threads meanwhile, asks all segments.
fn ask_all(
    view: &View,
    opened: &OpenSegments,
    tests: &[TextTest<'_>],
) -> (Result<Coverage>, Found) {
    let segments = opened.segments.len();
    let count = segments * tests.len();
    let (next, coverage) = (AtomicUsize::new(0), Mutex::new(None));
    let run = || {
        let mut found = Vec::new();
        loop {
            // The first task is the longest.
            let Some(at) = next.fetch_add(1, Ordering::Relaxed).checked_sub(1) else {
                let covered = Coverage::of(view, opened);
                *coverage.lock().unwrap_or_else(PoisonError::into_inner) = Some(covered);
                continue;
            };
            if at >= count {
                return found;
            }
            let segment = opened.segment(at % segments);
            found.push((at, segment.and_then(|segment| answer(segment, &tests[at / segments]))));
        }
    };
    let mut all = vec![vec![None; segments]; tests.len()];
    let threads = view.options.thread_count().min(count + 1);
    for (at, answer) in on_threads(threads, run).into_iter().flatten() {
        all[at / segments][at % segments] = answer;
    }
    let covered = coverage.into_inner().unwrap_or_else(PoisonError::into_inner);
    (covered.unwrap_or_else(|| Coverage::of(view, opened)), all)
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
