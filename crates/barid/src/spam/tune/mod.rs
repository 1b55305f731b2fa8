//! Choosing the parameters of scoring by labelled messages.
//!
//! The tokens of each message are made once and kept as numbers. Messages are dealt into folds by
//! the hash of their text, and each is scored by what the other folds teach: [`matrix`] holds, for
//! each token of each message, in how many of those messages it is. So a set of parameters costs
//! one pass over that table, and [`search`] tries hundreds.
//!
//! A choice looks better on what it was chosen by than it is. [`Tuned::expected`] is counted on
//! messages that had no part in the choice: the parameters and cut-offs for each fold are chosen
//! without it.

mod curve;
mod matrix;
mod samples;
mod search;

use barid_bayes::{Counts, Parameters};
use barid_wordlist::{Class, keys};

pub use self::curve::{Errors, Point};
pub use self::samples::{Samples, Taken, TellTaken};

use self::curve::Cut;
use self::matrix::{Matrix, Role};
use self::search::Search;
use super::Filter;
use crate::limits::SPAM_TUNE_FOLDS_MAX;
use crate::{Error, Result};

/// How parameters are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TuneOptions {
    /// Into how many folds messages are dealt.
    pub folds: usize,
    /// Another number, other folds.
    pub seed: u64,
    /// Which share of ham may be taken for spam.
    pub false_positives: f64,
    /// Choose by the older half of the messages, and count errors on the newer.
    pub is_chronological: bool,
    /// Whether parameters are tried at all; else errors are counted for those that there are.
    pub searches: bool,
}

impl Default for TuneOptions {
    fn default() -> Self {
        let (folds, seed, false_positives) = (10, 1, 0.001);
        Self { folds, seed, false_positives, is_chronological: false, searches: true }
    }
}

/// Parameters, and what they make of the messages.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trialed {
    /// The parameters, cut-offs among them.
    pub parameters: Parameters,
    /// What they make of the messages.
    pub errors: Errors,
    /// What other cut-offs would make of them, from the fewest messages taken for spam on.
    pub curve: Vec<Point>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tuned {
    /// The messages that were scored, by class.
    pub tested: Counts,
    /// The messages that taught what scored them, by class: of a fold the mean of all folds.
    pub taught: Counts,
    /// Distinct tokens of all messages.
    pub tokens: usize,
    /// Sets of parameters that were tried.
    pub tried: usize,
    /// Messages without a date that were left out where dates decide.
    pub undated: usize,
    /// With the parameters that there are.
    pub now: Trialed,
    /// With other cut-offs.
    pub recut: Trialed,
    /// With what is recommended.
    pub recommended: Trialed,
    /// What to expect of such a choice with messages that had no part in it. By dates that is what
    /// the recommended parameters make of the newer half.
    pub expected: Errors,
}

impl Filter {
    /// Begins to collect messages whose class is known.
    pub fn samples(&self) -> Samples<'_> {
        Samples::new(self)
    }
}

impl Samples<'_> {
    /// Chooses parameters: those that miss the fewest spam where few ham are taken for it.
    ///
    /// Takes some 400 passes over the tokens of all messages, by all threads.
    ///
    /// # Errors
    /// [`Error::TooFewSamples`]; what the word list says, which may hold a `robx`.
    pub fn tune(&self, options: &TuneOptions) -> Result<Tuned> {
        let folds = options.folds.clamp(2, SPAM_TUNE_FOLDS_MAX);
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
        let (tested, taught) = (matrix.tested(), matrix.taught());
        let (tokens, tried) = (self.tokens(), search.tried());
        let now = now.now;
        Ok(Tuned { tested, taught, tokens, tried, undated: 0, now, recut, recommended, expected })
    }

    /// Chooses by the folds of the older half, and counts on the newer.
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
                Some(true) => Role::Teaches,
                Some(false) => Role::Tested(0),
            })
            .collect();
        let newer = Matrix::new(self, &roles, 1);
        let test = Search::new(self, &newer, options.false_positives);
        let now = test.look(now);
        let recut = test.look(chosen.recut.parameters);
        let recommended = test.look(chosen.recommended.parameters);
        let (tested, taught, tokens) = (newer.tested(), newer.taught(), self.tokens());
        let expected = recommended.errors;
        Ok(Tuned { tested, taught, tokens, tried, undated, now, recut, recommended, expected })
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
