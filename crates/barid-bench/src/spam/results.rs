//! Every run, and what is asked of them.

use serde::Serialize;

use super::step::{Side, Step};
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
    pub step: Step,
    /// What it used; the index is the word list.
    #[serde(flatten)]
    pub figures: Figures,
}

/// Everything that was measured so far.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Messages of spam and of ham.
    pub messages: [u64; 2],
    /// The sizes of their mboxes in bytes.
    pub bytes: [u64; 2],
    /// Tokens of the small, the middle and the large list.
    pub tokens: [u64; 3],
    /// Messages that are classified by a process each.
    pub singles: u64,
    /// In the order in which they were made.
    pub runs: Vec<Run>,
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

    /// The build of bogofilter that is fastest at a step.
    pub(crate) fn best(&self, step: Step) -> Option<Side> {
        let median = |side| Some((side, self.spread(side, step, |f| f.real_s)?.median));
        let builds = Side::PEERS.into_iter().filter_map(median);
        builds.min_by(|(_, one), (_, two)| one.total_cmp(two)).map(|(side, _)| side)
    }

    /// Whether a side was measured at a step.
    pub(crate) fn has(&self, side: Side, step: Step) -> bool {
        !self.values(side, step, |_| 0.0).is_empty()
    }
}
