//! Every run, and what is asked of them.

use super::step::{Side, Step};
use crate::lab::{self, Measured};

/// One side at one step in one round.
pub type Run = lab::Run<Side, Step>;

/// Everything that was measured so far.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// In the order in which they were made.
    pub runs: Vec<Run>,
}

impl Results {
    /// What was measured of one side at one step.
    pub(crate) fn of(&self, side: Side, step: Step) -> Measured<'_> {
        Measured::of(&self.runs, &side, step)
    }

    /// All that was measured.
    pub(crate) fn measured(&self) -> Vec<(Step, Side, Measured<'_>)> {
        lab::measured(&self.runs, Step::ALL, &Side::ALL)
    }
}
