//! All runs, and queries over them.

use super::query::{Class, Field, Query};
use super::step::{Side, Step};
use super::system::{Candidates, Size};
use crate::lab::{self, Measured, Spread};

/// A run of one side at one step in one round; of a query, one process.
pub type Run = lab::Run<Side, Step>;

/// Differences of the answers of a side to the queries of a class from the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recall {
    /// The side.
    pub side: Side,
    /// The place in which the queries look.
    pub field: Field,
    /// The class of the queries.
    pub class: Class,
    /// Number of queries that were put to it.
    pub asked: u64,
    /// Number of queries for which it has no form.
    pub not_asked: u64,
    /// Number of messages that it should find.
    pub matches: u64,
    /// Number of these that it does not find.
    pub missed: u64,
    /// Number of messages that it finds although the text is not in them.
    pub added: u64,
}

/// Everything measured so far.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The runs in the order in which they were made.
    pub runs: Vec<Run>,
    /// Index of a run, and of its query in [`Results::queries`].
    pub asked: Vec<(usize, usize)>,
    /// The queries.
    pub queries: Vec<Query>,
    /// Number of messages that each query must find, of those that leave no doubt.
    pub matches: Vec<u64>,
    /// Messages that the index of barid leaves to be read, by the index of the query.
    pub candidates: Vec<(usize, Candidates)>,
    /// Differences from the truth.
    pub recalls: Vec<Recall>,
    /// Sizes of the indexes after the last build.
    pub sizes: Vec<Size>,
    /// Number of messages before deliveries.
    pub messages: u64,
    /// Number of these that leave no doubt.
    pub judged: u64,
    /// Bytes of the messages.
    pub mail_bytes: u64,
}

impl Results {
    /// Returns the runs of one side at one step.
    pub(crate) fn of(&self, side: Side, step: Step) -> Measured<'_> {
        Measured::of(&self.runs, &side, step)
    }

    /// Returns everything measured.
    pub(crate) fn measured(&self) -> Vec<(Step, Side, Measured<'_>)> {
        lab::measured(&self.runs, Step::all(), &Side::ALL)
    }

    /// Returns for each query of a step that a side was asked the median of its seconds over all
    /// rounds, in the order of the queries.
    pub(crate) fn seconds_of_queries(&self, side: Side, step: Step) -> Vec<(usize, f64)> {
        let mut by_query: Vec<Vec<f64>> = vec![Vec::new(); self.queries.len()];
        for (run, query) in &self.asked {
            let run = &self.runs[*run];
            if run.side == side && run.step == step {
                by_query[*query].push(run.figures.real_s);
            }
        }
        let median = |(query, seconds)| Some((query, Spread::of(seconds)?.median));
        by_query.into_iter().enumerate().filter_map(median).collect()
    }

    /// Returns for each query of a step that barid was asked its seconds, less those of reading the
    /// messages that the index left open: for each as long as without an index.
    pub(crate) fn seconds_of_index(&self, step: Step) -> Vec<f64> {
        let linear = self.spread_of_queries(Side::Linear, step);
        let of_message = linear.map_or(0.0, |linear| linear.median) / self.messages.max(1) as f64;
        let read = |query: usize| {
            let found = self.candidates.iter().find(|(of, _)| *of == query);
            found.map_or(0, |(_, candidates)| candidates.read)
        };
        let seconds = self.seconds_of_queries(Side::Barid, step).into_iter();
        seconds.map(|(query, seconds)| seconds - read(query) as f64 * of_message).collect()
    }

    /// Returns the spread of the queries of a step: of the median of each over all rounds.
    pub(crate) fn spread_of_queries(&self, side: Side, step: Step) -> Option<Spread> {
        Spread::of(self.seconds_of_queries(side, step).into_iter().map(|(_, seconds)| seconds))
    }

    /// Returns the sum of the differences of a side from the truth, in one field or in all;
    /// `None` if it was not asked.
    pub(crate) fn recall(&self, side: Side, field: Option<Field>) -> Option<Recall> {
        let is_own = |recall: &&Recall| {
            recall.side == side && field.is_none_or(|field| recall.field == field)
        };
        self.recalls.iter().filter(is_own).copied().reduce(|sum, recall| Recall {
            asked: sum.asked + recall.asked,
            not_asked: sum.not_asked + recall.not_asked,
            matches: sum.matches + recall.matches,
            missed: sum.missed + recall.missed,
            added: sum.added + recall.added,
            ..sum
        })
    }

    /// Returns the size of a part of the index of a side; without a part the first one.
    pub(crate) fn size(&self, side: Side, part: Option<&str>) -> Option<u64> {
        let mut own = self.sizes.iter().filter(|size| size.side == side);
        own.find(|size| part.is_none_or(|part| size.part == part)).map(|size| size.bytes)
    }
}
