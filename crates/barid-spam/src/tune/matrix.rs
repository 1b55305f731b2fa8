//! The evidence for each token of each tested message: the number of messages with the token among
//! those that train its fold.

use barid_bayes::{Counts, Evidence, MessagePart, Parameters, Scorer, Weight};
use barid_wordlist::Class;

use super::samples::Samples;

/// Role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Not used.
    Out,
    /// Trains all folds.
    Trains,
    /// Tested in this fold, and trains all others.
    Tested(usize),
}

/// The table.
#[derive(Debug)]
pub(super) struct Matrix {
    pub(super) rows: Vec<Row>,
    /// For each token of each row.
    tokens: Vec<(MessagePart, Counts)>,
    /// Numbers of training messages, for each fold.
    totals: Vec<Counts>,
    pub(super) folds: usize,
    /// Mean spam probability of the tokens that are in many messages.
    pub(super) robx: Option<f64>,
}

/// A tested message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) is_spam: bool,
    pub(super) fold: usize,
    start: usize,
    count: usize,
}

impl Matrix {
    pub(super) fn new(samples: &Samples<'_>, roles: &[Role], folds: usize) -> Self {
        let classes: Vec<Class> = samples.classes().collect();
        let mut all = vec![Counts::default(); samples.tokens()];
        let mut all_messages = Counts::default();
        for (index, role) in roles.iter().enumerate().filter(|(_, role)| **role != Role::Out) {
            debug_assert!(!matches!(role, Role::Tested(fold) if *fold >= folds));
            count(samples, index, classes[index], &mut all);
            add(&mut all_messages, classes[index]);
        }
        let len: usize = (0..roles.len())
            .filter(|index| matches!(roles[*index], Role::Tested(_)))
            .map(|index| samples.tokens_of(index).len())
            .sum();
        let places: Vec<MessagePart> = samples.places().collect();
        let mut tokens = Vec::with_capacity(len);
        let (mut rows, mut totals) = (Vec::new(), Vec::with_capacity(folds));
        for fold in 0..folds {
            let tested = || (0..roles.len()).filter(|index| roles[*index] == Role::Tested(fold));
            let mut own = vec![Counts::default(); samples.tokens()];
            let mut own_messages = Counts::default();
            for index in tested() {
                count(samples, index, classes[index], &mut own);
                add(&mut own_messages, classes[index]);
            }
            for index in tested() {
                let start = tokens.len();
                let numbers = samples.tokens_of(index).iter().map(|token| *token as usize);
                let evidence = |token: usize| (places[token], minus(all[token], own[token]));
                tokens.extend(numbers.map(evidence));
                let (is_spam, count) = (classes[index] == Class::Spam, tokens.len() - start);
                rows.push(Row { is_spam, fold, start, count });
            }
            totals.push(minus(all_messages, own_messages));
        }
        let robx = robx(&all, all_messages);
        Self { rows, tokens, totals, folds, robx }
    }

    /// Weighs a message.
    pub(super) fn weigh(&self, scorer: &mut Scorer, parameters: &Parameters, row: &Row) -> Weight {
        let totals = self.totals[row.fold];
        let tokens = &self.tokens[row.start..row.start + row.count];
        let evidence = |&(place, counts)| Evidence { counts, totals, place };
        scorer.weigh(parameters, tokens.iter().map(evidence))
    }

    /// Returns the numbers of tested messages.
    pub(super) fn tested(&self) -> Counts {
        let spam = self.rows.iter().filter(|row| row.is_spam).count();
        Counts { spam: spam as u32, ham: (self.rows.len() - spam) as u32 }
    }

    /// Returns the numbers of training messages, as the mean of all folds.
    pub(super) fn trained(&self) -> Counts {
        let mean = |of: fn(&Counts) -> u32| {
            let sum: u64 = self.totals.iter().map(|totals| u64::from(of(totals))).sum();
            (sum / self.totals.len().max(1) as u64) as u32
        };
        Counts { spam: mean(|it| it.spam), ham: mean(|it| it.ham) }
    }
}

/// Computes the value as [`barid_wordlist::robx`] does.
fn robx(counts: &[Counts], messages: Counts) -> Option<f64> {
    if messages.spam == 0 || messages.ham == 0 {
        return None;
    }
    let scale = f64::from(messages.spam) / f64::from(messages.ham);
    let often = counts.iter().filter(|counts| counts.spam + counts.ham >= ROBX_SEEN_MIN);
    let (mut sum, mut tokens) = (0.0, 0_u32);
    for counts in often {
        let (spam, ham) = (f64::from(counts.spam), f64::from(counts.ham));
        sum += spam / (ham * scale + spam);
        tokens += 1;
    }
    // A word list stores this number of digits.
    (tokens > 0).then(|| (sum / f64::from(tokens) * 1e6).round() / 1e6)
}

/// Minimum number of messages with a token for it to count in that mean.
const ROBX_SEEN_MIN: u32 = 10;

fn count(samples: &Samples<'_>, message: usize, class: Class, counts: &mut [Counts]) {
    for token in samples.tokens_of(message) {
        add(&mut counts[*token as usize], class);
    }
}

fn add(counts: &mut Counts, class: Class) {
    match class {
        Class::Spam => counts.spam += 1,
        Class::Ham => counts.ham += 1,
    }
}

fn minus(all: Counts, own: Counts) -> Counts {
    Counts { spam: all.spam - own.spam, ham: all.ham - own.ham }
}
