//! Every run, and what is asked of them.

use serde::Serialize;

use super::step::{Program, Side, Step, Store};
use crate::mbox::Figures;
use crate::{Ratio, Spread};

/// One side at one step in one round.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Run {
    /// The round, counted from 1; 0 is the one that checks and samples, and is not timed.
    pub round: u32,
    /// Who did it.
    pub side: Side,
    /// What was done.
    #[serde(flatten)]
    pub step: Step,
    /// What it used.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Everything that was measured so far.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// How many messages there are.
    pub messages: u64,
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
    /// One figure of the timed runs.
    pub(crate) fn values(
        &self,
        side: Side,
        step: Step,
        figure: impl Fn(&Figures) -> f64,
    ) -> Vec<f64> {
        let of = |run: &&Run| run.round > 0 && run.side == side && run.step == step;
        self.runs.iter().filter(of).map(|run| figure(&run.figures)).collect()
    }

    /// The spread of one figure of the timed runs.
    pub(crate) fn spread(
        &self,
        side: Side,
        step: Step,
        figure: impl Fn(&Figures) -> f64,
    ) -> Option<Spread> {
        Spread::of(self.values(side, step, figure))
    }

    /// The anonymous memory of the round that is not timed.
    pub(crate) fn anonymous(&self, side: Side, step: Step) -> Option<u64> {
        let of = |run: &&Run| run.round == 0 && run.side == side && run.step == step;
        self.runs.iter().find(of)?.figures.anon_bytes
    }

    /// How the real time of one side stands to that of another.
    pub(crate) fn ratio(&self, step: Step, side: Side, other: Side) -> Option<Ratio> {
        let real = |figures: &Figures| figures.real_s;
        Ratio::of(&self.values(side, step, real), &self.values(other, step, real))
    }

    /// The format with which a program is fastest at a step.
    pub(crate) fn best(&self, program: Program, step: Step) -> Option<Side> {
        let sides = Side::ALL.into_iter().filter(|side| side.program == program);
        let median = |side| Some((side, self.spread(side, step, |f| f.real_s)?.median));
        let best = sides.filter_map(median).min_by(|(_, one), (_, two)| one.total_cmp(two));
        best.map(|(side, _)| side)
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
