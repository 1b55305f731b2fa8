//! All runs, and queries over them.

use super::{Figures, Ratio, Spread};

/// A run of one side at one step in one round.
#[derive(Clone, Copy, Debug)]
pub struct Run<Side, Step> {
    /// The round. Round 0 checks, samples and counts, and is not timed; timed rounds count from 1.
    pub round: u32,
    /// The side.
    pub side: Side,
    /// The step.
    pub step: Step,
    /// The resources used.
    pub figures: Figures,
}

/// The runs of one side at one step.
pub(crate) struct Measured<'a> {
    untimed: Option<&'a Figures>,
    timed: Vec<&'a Figures>,
}

impl<'a> Measured<'a> {
    /// Selects the runs of a side at a step, in their order.
    pub(crate) fn of<Side: PartialEq, Step: PartialEq>(
        runs: &'a [Run<Side, Step>],
        side: &Side,
        step: Step,
    ) -> Self {
        let own = || runs.iter().filter(|run| run.side == *side && run.step == step);
        let timed = own().filter(|run| run.round > 0).map(|run| &run.figures).collect();
        Self { untimed: own().find(|run| run.round == 0).map(|run| &run.figures), timed }
    }

    /// Returns the number of timed runs.
    pub(crate) fn len(&self) -> usize {
        self.timed.len()
    }

    /// Returns one figure of the timed runs.
    pub(crate) fn values(&self, figure: impl Fn(&Figures) -> f64) -> Vec<f64> {
        self.timed.iter().map(|figures| figure(figures)).collect()
    }

    /// Returns the spread of one figure of the timed runs.
    pub(crate) fn spread(&self, figure: impl Fn(&Figures) -> f64) -> Option<Spread> {
        Spread::of(self.values(figure))
    }

    /// Returns the median of one figure of the timed runs.
    pub(crate) fn median(&self, figure: impl Fn(&Figures) -> f64) -> Option<f64> {
        self.spread(figure).map(|spread| spread.median)
    }

    /// Returns a figure of the round that is not timed.
    pub(crate) fn counted<T>(&self, figure: impl Fn(&Figures) -> Option<T>) -> Option<T> {
        self.untimed.and_then(figure)
    }

    /// Returns the ratio of the real time to that of `other`.
    pub(crate) fn ratio(&self, other: &Self) -> Option<Ratio> {
        Ratio::of(&self.values(|figures| figures.real_s), &other.values(|figures| figures.real_s))
    }

    /// Returns median, least and most of the real time, for a table.
    pub(crate) fn seconds_text(&self) -> String {
        self.spread(|figures| figures.real_s).map_or_else(String::new, |spread| spread.seconds())
    }

    /// Returns the ratio of the real time to that of `other`, for a table.
    pub(crate) fn ratio_text(&self, other: &Self) -> String {
        self.ratio(other).map_or_else(String::new, |ratio| ratio.text_with_spread())
    }
}

/// Returns everything measured: the steps in their order, with the sides of each.
pub(crate) fn measured<'a, Side, Step>(
    runs: &'a [Run<Side, Step>],
    steps: impl IntoIterator<Item = Step>,
    sides: &[Side],
) -> Vec<(Step, Side, Measured<'a>)>
where
    Side: Copy + PartialEq,
    Step: Copy + PartialEq,
{
    let of = |step, side| (step, side, Measured::of(runs, &side, step));
    let all = steps.into_iter().flat_map(|step| sides.iter().map(move |side| of(step, *side)));
    all.filter(|(_, _, measured)| measured.len() > 0).collect()
}

/// Returns the fastest of some sides.
pub(crate) fn fastest<'a, Side>(
    sides: impl IntoIterator<Item = (Side, Measured<'a>)>,
) -> Option<Side> {
    let median = |(side, measured): (Side, Measured<'_>)| {
        Some((side, measured.median(|figures| figures.real_s)?))
    };
    let medians = sides.into_iter().filter_map(median);
    medians.min_by(|(_, one), (_, two)| one.total_cmp(two)).map(|(side, _)| side)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a run; sides and steps are numbers here.
    fn run(round: u32, side: u8, step: u8, real_s: f64) -> Run<u8, u8> {
        let anon_bytes = (round == 0).then_some(4096);
        Run { round, side, step, figures: Figures { real_s, anon_bytes, ..Figures::default() } }
    }

    #[test]
    fn the_round_that_is_not_timed_is_apart() {
        let runs = [run(0, 1, 1, 9.0), run(1, 1, 1, 2.0), run(1, 2, 1, 8.0), run(2, 1, 1, 4.0)];
        let one = Measured::of(&runs, &1, 1);
        assert_eq!(one.values(|figures| figures.real_s), [2.0, 4.0]);
        assert_eq!(one.median(|figures| figures.real_s), Some(3.0));
        assert_eq!(one.counted(|figures| figures.anon_bytes), Some(4096));
        assert_eq!(one.seconds_text(), "3.00 (2.00-4.00)");
        let two = Measured::of(&runs, &2, 1);
        assert_eq!(two.counted(|figures| figures.anon_bytes), None);
        assert_eq!(two.ratio_text(&Measured::of(&runs, &1, 2)), "");
        assert_eq!(two.ratio_text(&two), "1.00");
    }

    #[test]
    fn steps_come_before_sides() {
        let runs = [run(1, 2, 1, 1.0), run(1, 1, 1, 3.0), run(0, 1, 2, 1.0), run(1, 2, 2, 1.0)];
        let all = measured(&runs, [1, 2], &[1, 2]);
        let all: Vec<_> = all.into_iter().map(|(step, side, _)| (step, side)).collect();
        assert_eq!(all, [(1, 1), (1, 2), (2, 2)]);
        let sides = [1, 2, 3].map(|side| (side, Measured::of(&runs, &side, 1)));
        assert_eq!(fastest(sides), Some(2));
    }
}
