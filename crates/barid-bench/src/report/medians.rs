//! Medians of a run, and the fastest side of each step.

use super::samples::Sample;
use crate::lab::Spread;

/// The timed runs of one side at one step.
#[derive(Clone, Debug)]
pub(super) struct SideMedians {
    pub(super) side: String,
    pub(super) runs: usize,
    pub(super) seconds: Spread,
    pub(super) peak: Option<Spread>,
    pub(super) size: Option<Spread>,
}

/// All sides of one step, in the order in which they ran.
#[derive(Clone, Debug)]
pub(super) struct StepMedians {
    pub(super) step: String,
    pub(super) sides: Vec<SideMedians>,
}

impl StepMedians {
    /// Returns the side with the least median time, if there are several sides. A figure that is
    /// not a competitor's, such as that of the machine, is no side here.
    pub(super) fn fastest(&self) -> Option<&SideMedians> {
        let competitors = || self.sides.iter().filter(|side| is_competitor(&side.side));
        let least = |one: &&SideMedians, two: &&SideMedians| {
            one.seconds.median.total_cmp(&two.seconds.median)
        };
        competitors().min_by(least).filter(|_| competitors().count() > 1)
    }

    /// Returns the medians of a side.
    pub(super) fn side(&self, name: &str) -> Option<&SideMedians> {
        self.sides.iter().find(|side| side.side == name)
    }
}

/// Returns `true` for a mail program, `false` for the bare work of the machine.
pub(super) fn is_competitor(side: &str) -> bool {
    !matches!(side, "machine" | "copy")
}

/// Returns `true` for barid itself in any of its forms.
pub(super) fn is_ours(side: &str) -> bool {
    side.split([' ', '-']).next() == Some("barid")
}

/// Returns the medians of the timed runs, in the order in which steps and sides first appear. Takes
/// time in proportion to samples and steps.
pub(super) fn medians(samples: &[Sample]) -> Vec<StepMedians> {
    let timed = || samples.iter().filter(|sample| sample.round > 0);
    let mut steps: Vec<(&str, Vec<&str>)> = Vec::new();
    for sample in timed() {
        match steps.iter_mut().find(|(step, _)| *step == sample.step) {
            Some((_, sides)) if sides.contains(&sample.side.as_str()) => {}
            Some((_, sides)) => sides.push(&sample.side),
            None => steps.push((&sample.step, vec![&sample.side])),
        }
    }
    let side_medians = |step: &str, side: &str| {
        let own: Vec<&Sample> =
            timed().filter(|sample| sample.step == step && sample.side == side).collect();
        Some(SideMedians {
            side: side.to_owned(),
            runs: own.len(),
            seconds: Spread::of(own.iter().map(|sample| sample.seconds))?,
            peak: Spread::of(own.iter().filter_map(|sample| sample.peak)),
            size: Spread::of(own.iter().filter_map(|sample| sample.size)),
        })
    };
    let step_medians = |(step, sides): (&str, Vec<&str>)| StepMedians {
        step: step.to_owned(),
        sides: sides.into_iter().filter_map(|side| side_medians(step, side)).collect(),
    };
    steps.into_iter().map(step_medians).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(round: u32, side: &str, seconds: f64) -> Sample {
        let (side, step) = (side.to_owned(), "open".to_owned());
        Sample { round, side, step, seconds, peak: Some(seconds * 10.0), size: None }
    }

    #[test]
    fn the_round_of_the_check_does_not_count() {
        let samples = [sample(0, "barid", 9.0), sample(1, "barid", 1.0), sample(2, "barid", 3.0)];
        let steps = medians(&samples);
        let [step] = &steps[..] else { panic!("{steps:?}") };
        let [side] = &step.sides[..] else { panic!("{step:?}") };
        assert_eq!((side.runs, side.seconds.median, side.seconds.most), (2, 2.0, 3.0));
        assert_eq!((side.peak.unwrap().median, side.size), (20.0, None));
        assert!(step.fastest().is_none(), "one side alone wins nothing");
    }

    #[test]
    fn the_bare_work_wins_nothing() {
        let samples =
            [sample(1, "dovecot", 2.0), sample(1, "machine", 1.0), sample(1, "barid", 3.0)];
        let steps = medians(&samples);
        assert_eq!(steps[0].fastest().unwrap().side, "dovecot");
        assert!(is_ours("barid spam") && is_ours("barid") && !is_ours("baridx"));
    }
}
