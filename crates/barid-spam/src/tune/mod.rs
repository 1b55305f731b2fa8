//! Choosing the parameters of scoring from labelled messages.
//!
//! The tokens of each message are made once and stored as numbers. Messages are divided into folds
//! by the hash of their text, and each is scored by a training with the other folds: for each token
//! of each message, [`matrix`] has the number of training messages with it. So a set of parameters
//! costs one pass over that table, and [`search`] tries hundreds.
//!
//! A choice looks better on the messages that it was chosen by than it is. [`Tuned::expected`] is
//! counted on messages that had no part in the choice: the parameters and cut-offs for each fold
//! are chosen without it.

mod curve;
mod matrix;
mod samples;
mod search;

use barid_bayes::{Counts, Parameters};
use barid_wordlist::{Class, keys};

pub use self::curve::{Errors, Point};
pub use self::samples::{OnSampleTaken, Samples, Taken};

use self::curve::Cut;
use self::matrix::{Matrix, Role};
use self::search::Search;
use super::Filter;
use crate::limits::TUNE_FOLDS_MAX;
use crate::{Error, Result};

/// Options of a choice of parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TuneOptions {
    /// Number of folds into which messages are divided.
    pub folds: usize,
    /// Seed of the division into folds.
    pub seed: u64,
    /// Share of ham that may be classified as spam.
    pub false_positives: f64,
    /// `true` to choose by the older half of the messages, and count errors on the newer.
    pub is_chronological: bool,
    /// `true` to search for parameters; `false` to count errors of the current ones only.
    pub searches: bool,
}

impl Default for TuneOptions {
    fn default() -> Self {
        let (folds, seed, false_positives) = (10, 1, 0.001);
        Self { folds, seed, false_positives, is_chronological: false, searches: true }
    }
}

/// Parameters and their results.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trialed {
    /// The parameters, cut-offs among them.
    pub parameters: Parameters,
    /// Errors with these parameters.
    pub errors: Errors,
    /// Errors at other cut-offs, from the fewest messages classified as spam on.
    pub curve: Vec<Point>,
}

/// Result of a choice of parameters.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tuned {
    /// Numbers of scored messages, by class.
    pub tested: Counts,
    /// Numbers of training messages, by class; with folds, the mean of all folds.
    pub trained: Counts,
    /// Number of distinct tokens of all messages.
    pub tokens: usize,
    /// Number of sets of parameters tried.
    pub tried: usize,
    /// Number of messages left out because they have no date; 0 if dates do not matter.
    pub undated: usize,
    /// Results of the current parameters.
    pub now: Trialed,
    /// Results of the current parameters with other cut-offs.
    pub recut: Trialed,
    /// Results of the recommended parameters.
    pub recommended: Trialed,
    /// Expected errors of such a choice, counted on messages that had no part in it. In
    /// chronological mode these are the errors of the recommended parameters on the newer half.
    pub expected: Errors,
}

impl Filter {
    /// Starts collecting messages of known classes.
    pub fn samples(&self) -> Samples<'_> {
        Samples::new(self)
    }
}

impl Samples<'_> {
    /// Chooses the parameters that miss the fewest spam while few ham are classified as spam.
    ///
    /// Takes some 400 passes over the tokens of all messages, by all threads.
    ///
    /// # Errors
    /// [`Error::TooFewSamples`]; errors of the word list, which is read for its `robx`.
    pub fn tune(&self, options: &TuneOptions) -> Result<Tuned> {
        let folds = options.folds.clamp(2, TUNE_FOLDS_MAX);
        self.check(folds)?;
        let now = self.filter().options.parameters.filled_in(self.robx_of_list()?);
        if options.is_chronological {
            return self.by_date(options, folds, now);
        }
        let dealt = self.deal(folds, options.seed, &vec![true; self.len()]);
        let matrix = Matrix::new(self, &dealt, folds);
        let mut search = Search::new(self, &matrix, options.false_positives);
        let now = self.trial(&mut search, now, options)?;
        let (recut, recommended, expected) = (now.recut, now.recommended, now.expected);
        let (tested, trained) = (matrix.tested(), matrix.trained());
        let (tokens, tried) = (self.tokens(), search.tried());
        let now = now.now;
        Ok(Tuned { tested, trained, tokens, tried, undated: 0, now, recut, recommended, expected })
    }

    /// Chooses by the folds of the older half, and counts errors on the newer.
    fn by_date(&self, options: &TuneOptions, folds: usize, now: Parameters) -> Result<Tuned> {
        let (is_older, undated) = self.older_half();
        let older_count =
            |class| self.classes().zip(&is_older).filter(|it| *it == (class, &Some(true))).count();
        let least = older_count(Class::Spam).min(older_count(Class::Ham));
        let newer = self.classes().zip(&is_older).filter(|(_, is)| **is == Some(false));
        let newer: Vec<Class> = newer.map(|(class, _)| class).collect();
        let has_both = newer.contains(&Class::Spam) && newer.contains(&Class::Ham);
        if least < folds || !has_both {
            return Err(Error::TooFewSamples { least: folds });
        }
        let takes: Vec<bool> = is_older.iter().map(|is| *is == Some(true)).collect();
        let dealt = self.deal(folds, options.seed, &takes);
        let chosen_by = Matrix::new(self, &dealt, folds);
        let mut search = Search::new(self, &chosen_by, options.false_positives);
        let chosen = self.trial(&mut search, now, options)?;
        let tried = search.tried();
        let roles: Vec<Role> = is_older
            .iter()
            .map(|is| match is {
                None => Role::Out,
                Some(true) => Role::Trains,
                Some(false) => Role::Tested(0),
            })
            .collect();
        let newer = Matrix::new(self, &roles, 1);
        let test = Search::new(self, &newer, options.false_positives);
        let now = test.look(now);
        let recut = test.look(chosen.recut.parameters);
        let recommended = test.look(chosen.recommended.parameters);
        let (tested, trained, tokens) = (newer.tested(), newer.trained(), self.tokens());
        let expected = recommended.errors;
        Ok(Tuned { tested, trained, tokens, tried, undated, now, recut, recommended, expected })
    }

    fn trial(
        &self,
        search: &mut Search<'_>,
        now: Parameters,
        options: &TuneOptions,
    ) -> Result<Chosen> {
        let current = search.try_all(&[now])?.pop().expect("because one was tried");
        let all = search.all();
        let recut = with(now, current.cut(all));
        let (parameters, expected) = if options.searches {
            let chosen = search.choose(now)?;
            let best = |excluded: usize| {
                let trial = &chosen[excluded];
                with(trial.parameters, trial.cut(excluded))
            };
            (best(all), search.expected(&best))
        } else {
            (recut, search.expected(&|excluded| with(now, current.cut(excluded))))
        };
        Ok(Chosen {
            now: search.look(now),
            recut: search.look(recut),
            recommended: search.look(parameters),
            expected,
        })
    }

    fn robx_of_list(&self) -> Result<Option<f64>> {
        let mut list = match self.filter().open_list() {
            Err(Error::WordList(barid_wordlist::Error::NotFound { .. })) => return Ok(None),
            list => list?,
        };
        Ok(list.entry(keys::ROBX)?.map(|entry| f64::from(entry.spam) / 1e6))
    }
}

struct Chosen {
    now: Trialed,
    recut: Trialed,
    recommended: Trialed,
    expected: Errors,
}

fn with(parameters: Parameters, cut: Cut) -> Parameters {
    Parameters { spam_cutoff: cut.spam, ham_cutoff: cut.ham, ..parameters }
}
