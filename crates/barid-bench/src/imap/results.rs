//! All runs, and queries over them.

use super::step::{Side, Step, Work};
use crate::lab::{self, Measured};

/// A run of one side at one step in one round.
pub type Run = lab::Run<Side, Step>;

/// Everything measured so far.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The runs in the order in which they were made.
    pub runs: Vec<Run>,
}

impl Results {
    /// Returns the runs of one side at one step.
    pub(crate) fn of(&self, side: Side, step: Step) -> Measured<'_> {
        Measured::of(&self.runs, &side, step)
    }

    /// Returns everything measured.
    pub(crate) fn measured(&self) -> Vec<(Step, Side, Measured<'_>)> {
        lab::measured(&self.runs, Step::of(&Work::ALL), &Side::ALL)
    }
}
