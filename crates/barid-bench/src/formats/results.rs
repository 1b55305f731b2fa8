//! Every run, and what is asked of them.

use super::step::{Program, Side, Step, Store};
use crate::lab::{self, Measured};

/// One side at one step in one round.
pub type Run = lab::Run<Side, Step>;

/// Everything that was measured so far.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The size of the mbox in bytes.
    pub bytes: u64,
    /// Whether the kernel's caches were dropped before each step.
    pub is_cold: bool,
    /// In the order in which they were made.
    pub runs: Vec<Run>,
    /// In what answers differ, and why that is let pass.
    pub differences: Vec<String>,
}

impl Results {
    /// What was measured of one side at one step.
    pub(crate) fn of(&self, side: Side, step: Step) -> Measured<'_> {
        Measured::of(&self.runs, &side, step)
    }

    /// All that was measured.
    pub(crate) fn measured(&self) -> Vec<(Step, Side, Measured<'_>)> {
        lab::measured(&self.runs, Step::all(), &Side::ALL)
    }

    /// The format with which a program is fastest at a step.
    pub(crate) fn best(&self, program: Program, step: Step) -> Option<Side> {
        let sides = Side::ALL.into_iter().filter(|side| side.program == program);
        lab::fastest(sides.map(|side| (side, self.of(side, step))))
    }

    /// Whether a side was measured at all.
    pub(crate) fn has(&self, side: Side) -> bool {
        self.runs.iter().any(|run| run.side == side && run.round > 0)
    }

    /// The formats of barid that were measured.
    pub(crate) fn own(&self) -> impl Iterator<Item = Store> {
        Store::OWN.into_iter().filter(|store| self.has(Side::new(Program::Barid, *store)))
    }
}
