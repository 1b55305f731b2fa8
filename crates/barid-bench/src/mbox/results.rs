//! Every run, and what is asked of them.

use serde::Serialize;

use super::step::{Figures, Side, Step};
use crate::{Ratio, Spread};

/// One side at one step in one round.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Run {
    /// The round, counted from 1; 0 is the one that checks, samples and counts, and is not timed.
    pub round: u32,
    /// Who did it.
    pub side: Side,
    /// What was done.
    pub step: Step,
    /// What it used.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Everything that was measured so far.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// How many messages the mailbox has at first.
    pub messages: u64,
    /// Its size in bytes at first.
    pub bytes: u64,
    /// In the order in which they were made.
    pub runs: Vec<Run>,
}

impl Results {
    fn of(&self, side: Side, step: Step) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.side == side && run.step == step)
    }

    /// One figure of the timed runs.
    pub(crate) fn values(
        &self,
        side: Side,
        step: Step,
        figure: impl Fn(&Figures) -> f64,
    ) -> Vec<f64> {
        let timed = self.of(side, step).filter(|run| run.round > 0);
        timed.map(|run| figure(&run.figures)).collect()
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

    /// A figure of the round that is not timed.
    pub(crate) fn counted(
        &self,
        side: Side,
        step: Step,
        figure: impl Fn(&Figures) -> Option<u64>,
    ) -> Option<u64> {
        let mut runs = self.of(side, step).filter(|run| run.round == 0);
        runs.find_map(|run| figure(&run.figures))
    }

    /// How barid's real time stands to another side's.
    pub(crate) fn ratio(&self, step: Step, other: (Side, Step)) -> Option<Ratio> {
        let real = |figures: &Figures| figures.real_s;
        Ratio::of(&self.values(Side::Barid, step, real), &self.values(other.0, other.1, real))
    }
}
