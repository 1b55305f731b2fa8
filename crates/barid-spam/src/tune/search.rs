//! Searching for parameters: a coarse grid, then steps from its best point.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use barid::LongOperation;
use barid_bayes::{Parameters, Rule, Scorer, Weight};

use super::Trialed;
use super::curve::{Cut, Errors, ScoredMessage, curve, cut, missed_around, sort};
use super::matrix::Matrix;
use super::samples::Samples;
use crate::limits::{THREADS_MAX, TUNE_STEPS_MAX};
use crate::{Error, Result};

/// Values that are tried in all combinations, and the ranges of steps.
struct Grid {
    robs: &'static [f64],
    min_dev: &'static [f64],
    /// Factors of the evidence for spam and for ham.
    esf: &'static [(f64, f64)],
    robs_range: (f64, f64),
    esf_range: (f64, f64),
}

const FISHER: Grid = Grid {
    robs: &[0.0178, 0.01, 0.056, 0.178, 0.56],
    min_dev: &[0.375, 0.02, 0.1, 0.2, 0.3, 0.45],
    esf: &[(1.0, 1.0), (0.56, 0.56), (0.32, 0.32), (0.18, 0.18), (0.1, 0.1)],
    robs_range: (0.001, 5.0),
    esf_range: (0.005, 1.0),
};

/// Changing both factors together would only move the cut-offs.
const BALANCE: Grid = Grid {
    robs: &[0.8, 0.4, 1.5, 3.0],
    min_dev: &[0.25, 0.1, 0.2, 0.3, 0.35, 0.4],
    esf: &[(1.0, 1.75), (1.0, 1.0), (1.0, 1.4), (1.0, 2.5)],
    robs_range: (0.05, 50.0),
    esf_range: (0.2, 5.0),
};

impl Grid {
    fn of(rule: Rule) -> &'static Self {
        match rule {
            Rule::Fisher => &FISHER,
            Rule::Balance => &BALANCE,
        }
    }
}

/// Sizes of a step from the best point: a factor for some parameters, a difference for others.
const FACTOR: f64 = 0.75;
const MIN_DEV_STEP: f64 = 0.025;
const ROBX_STEP: f64 = 0.04;
const MIN_DEV_RANGE: (f64, f64) = (0.005, 0.485);
const ROBX_RANGE: (f64, f64) = (0.2, 0.8);

/// Minimum decrease of the share of missed spam for other parameters to be better.
const BETTER_BY: f64 = 0.000_1;

/// Parameters and their results without each fold; the last result is without exclusion.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) parameters: Parameters,
    missed: Vec<f64>,
    cuts: Vec<Cut>,
}

impl Trial {
    /// Returns the cut-offs chosen without a fold.
    pub(super) fn cut(&self, excluded: usize) -> Cut {
        self.cuts[excluded]
    }
}

/// Tries parameters on a matrix.
pub(super) struct Search<'a> {
    samples: &'a Samples<'a>,
    matrix: &'a Matrix,
    rate: f64,
    known: HashMap<[u64; 5], Trial>,
}

impl<'a> Search<'a> {
    pub(super) fn new(samples: &'a Samples<'a>, matrix: &'a Matrix, rate: f64) -> Self {
        Self { samples, matrix, rate, known: HashMap::new() }
    }

    /// Returns the index that excludes no fold.
    pub(super) fn all(&self) -> usize {
        self.matrix.folds
    }

    /// Returns the number of sets of parameters tried.
    pub(super) fn tried(&self) -> usize {
        self.known.len()
    }

    /// Computes the results of parameters.
    pub(super) fn look(&self, parameters: Parameters) -> Trialed {
        let mut scored = self.scored(&parameters, &self.weights(&mut Scorer::new(), &parameters));
        let mut errors = Errors::default();
        for one in &scored {
            errors.add(one.is_spam, one.spamicity, &parameters);
        }
        sort(&mut scored);
        Trialed { parameters, errors, curve: curve(&scored) }
    }

    /// Returns the sum of the errors of each fold with the parameters that were chosen without it.
    pub(super) fn expected(&self, chosen: &dyn Fn(usize) -> Parameters) -> Errors {
        let (mut errors, mut scorer) = (Errors::default(), Scorer::new());
        for fold in 0..self.matrix.folds {
            let parameters = chosen(fold);
            for row in self.matrix.rows.iter().filter(|row| row.fold == fold) {
                let weight = self.matrix.weigh(&mut scorer, &parameters, row);
                errors.add(row.is_spam, weight.score(&parameters).spamicity, &parameters);
            }
        }
        errors
    }

    /// Returns the best parameters without each fold, and without exclusion: first those of the
    /// grid, then improved by steps from them.
    pub(super) fn choose(&mut self, now: Parameters) -> Result<Vec<Trial>> {
        let mut grid = vec![now];
        let values = Grid::of(now.rule);
        for robx in [now.robx, self.matrix.robx.unwrap_or(now.robx)] {
            for &robs in values.robs {
                for &min_dev in values.min_dev {
                    grid.extend(values.esf.iter().map(|&(sp_esf, ns_esf)| Parameters {
                        robx,
                        robs,
                        min_dev,
                        sp_esf,
                        ns_esf,
                        ..now
                    }));
                }
            }
        }
        let trials = self.try_all(&grid)?;
        let mut best: Vec<Trial> =
            (0..=self.all()).map(|excluded| best_of(&trials, excluded).clone()).collect();
        for _ in 0..TUNE_STEPS_MAX {
            let steps: Vec<Parameters> =
                best.iter().flat_map(|trial| neighbours(&trial.parameters)).collect();
            self.try_all(&steps)?;
            let mut is_better = false;
            for (excluded, best) in best.iter_mut().enumerate() {
                let near: Vec<Trial> = neighbours(&best.parameters)
                    .iter()
                    .filter_map(|parameters| self.known.get(&key(parameters)))
                    .cloned()
                    .collect();
                let nearest = best_of(&near, excluded);
                if nearest.missed[excluded] < best.missed[excluded] - BETTER_BY {
                    *best = nearest.clone();
                    is_better = true;
                }
            }
            if !is_better {
                break;
            }
        }
        Ok(best)
    }

    /// Tries parameters that were not tried before; returns the trials of all, in order.
    pub(super) fn try_all(&mut self, all: &[Parameters]) -> Result<Vec<Trial>> {
        // Parameters that differ only in their factors share one set of weights.
        let mut groups: Vec<Vec<Parameters>> = Vec::new();
        let mut places: HashMap<[u64; 5], usize> = HashMap::new();
        for parameters in all.iter().filter(|it| !self.known.contains_key(&key(it))) {
            let without = key(&Parameters { sp_esf: 0.0, ns_esf: 0.0, ..*parameters });
            let place = *places.entry(without).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Vec::new());
            }
            if !groups[place].iter().any(|it| key(it) == key(parameters)) {
                groups[place].push(*parameters);
            }
        }
        let filter = self.samples.filter();
        let threads = match filter.options.threads {
            0 => thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let threads = threads.min(THREADS_MAX).min(groups.len());
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            let (mut made, mut scorer) = (Vec::new(), Scorer::new());
            while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                if filter.is_stopped() {
                    break;
                }
                let weights = self.weights(&mut scorer, &group[0]);
                made.extend(group.iter().map(|parameters| self.trial(*parameters, &weights)));
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                filter.report_progress(LongOperation::Tune, done, groups.len());
            }
            made
        };
        let made: Vec<Trial> = thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let made = threads.into_iter().map(|thread| thread.join());
            made.flat_map(|made| made.expect("because nothing in it panics")).collect()
        });
        if filter.is_stopped() {
            return Err(Error::Stopped);
        }
        self.known.extend(made.into_iter().map(|trial| (key(&trial.parameters), trial)));
        Ok(all.iter().filter_map(|parameters| self.known.get(&key(parameters)).cloned()).collect())
    }

    fn trial(&self, parameters: Parameters, weights: &[Weight]) -> Trial {
        let mut scored = self.scored(&parameters, weights);
        sort(&mut scored);
        let excluded = 0..=self.all();
        let missed = excluded.clone().map(|fold| missed_around(&scored, fold, self.rate)).collect();
        let cuts = excluded.map(|fold| cut(&scored, fold, self.rate, parameters.robx)).collect();
        Trial { parameters, missed, cuts }
    }

    fn weights(&self, scorer: &mut Scorer, parameters: &Parameters) -> Vec<Weight> {
        let rows = self.matrix.rows.iter();
        rows.map(|row| self.matrix.weigh(scorer, parameters, row)).collect()
    }

    fn scored(&self, parameters: &Parameters, weights: &[Weight]) -> Vec<ScoredMessage> {
        let scored = self.matrix.rows.iter().zip(weights).map(|(row, weight)| ScoredMessage {
            spamicity: weight.score(parameters).spamicity,
            is_spam: row.is_spam,
            fold: row.fold,
        });
        scored.collect()
    }
}

/// Returns the best trial without a fold: the first, unless a later one is better by enough.
fn best_of(trials: &[Trial], excluded: usize) -> &Trial {
    let mut best = &trials[0];
    for trial in trials {
        if trial.missed[excluded] < best.missed[excluded] - BETTER_BY {
            best = trial;
        }
    }
    best
}

/// Returns the parameters that are one step away in one direction.
fn neighbours(from: &Parameters) -> Vec<Parameters> {
    let (at, Grid { robs_range, esf_range, .. }) = (*from, Grid::of(from.rule));
    let within = |value: f64, (least, most): (f64, f64)| value.clamp(least, most);
    let mut near = Vec::new();
    for factor in [FACTOR, 1.0 / FACTOR] {
        near.push(Parameters { robs: within(at.robs * factor, *robs_range), ..at });
        let (sp_esf, ns_esf) =
            (within(at.sp_esf * factor, *esf_range), within(at.ns_esf * factor, *esf_range));
        near.push(Parameters { sp_esf, ..at });
        near.push(Parameters { ns_esf, ..at });
        near.push(Parameters { sp_esf, ns_esf, ..at });
    }
    for sign in [-1.0, 1.0] {
        let min_dev = within(at.min_dev + sign * MIN_DEV_STEP, MIN_DEV_RANGE);
        near.push(Parameters { min_dev, ..at });
        near.push(Parameters { robx: within(at.robx + sign * ROBX_STEP, ROBX_RANGE), ..at });
    }
    near.into_iter().map(rounded).collect()
}

/// Rounds parameters to the significant digits.
fn rounded(parameters: Parameters) -> Parameters {
    let round = |value: f64| format!("{value:.3e}").parse().unwrap_or(value);
    Parameters {
        robx: round(parameters.robx),
        robs: round(parameters.robs),
        min_dev: round(parameters.min_dev),
        sp_esf: round(parameters.sp_esf),
        ns_esf: round(parameters.ns_esf),
        ..parameters
    }
}

fn key(parameters: &Parameters) -> [u64; 5] {
    let Parameters { robx, robs, min_dev, sp_esf, ns_esf, .. } = *parameters;
    [robx, robs, min_dev, sp_esf, ns_esf].map(f64::to_bits)
}
