//! All runs, and queries over them.

use super::step::{Program, Side, Step, Store};
use crate::lab::{self, Measured};

/// A run of one side at one step in one round.
pub type Run = lab::Run<Side, Step>;

/// Everything measured so far.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Size of the mbox in bytes.
    pub bytes: u64,
    /// `true` if the kernel's caches were dropped before each step.
    pub is_cold: bool,
    /// The runs in the order in which they were made.
    pub runs: Vec<Run>,
    /// Tolerated differences between answers, each with its reason.
    pub differences: Vec<String>,
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

    /// Returns the format in which a program is fastest at a step.
    pub(crate) fn best(&self, program: Program, step: Step) -> Option<Side> {
        let sides = Side::ALL.into_iter().filter(|side| side.program == program);
        lab::fastest(sides.map(|side| (side, self.of(side, step))))
    }

    /// Returns `true` if a side has at least one timed run.
    pub(crate) fn has(&self, side: Side) -> bool {
        self.runs.iter().any(|run| run.side == side && run.round > 0)
    }

    /// Returns the formats of barid that were measured.
    pub(crate) fn own(&self) -> impl Iterator<Item = Store> {
        Store::OWN.into_iter().filter(|store| self.has(Side::new(Program::Barid, *store)))
    }
}
