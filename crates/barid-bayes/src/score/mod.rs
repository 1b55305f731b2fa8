//! Tokens to a score: Robinson's combination of probabilities by Fisher's method.
//!
//! What a token says is weighed against what an unknown one says; tokens far enough from 0.5 are
//! combined in the order of their bytes, because the last bits of the result depend on it.

mod balance;
mod chi;
mod explain;
mod format;
mod parameters;

pub use chi::chi2q;
pub use explain::{Explanation, Row};
pub use parameters::{Parameters, Rule, Status};

use parameters::EPS;

/// In how many messages of each class something was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Spam messages.
    pub spam: u32,
    /// Other messages.
    pub ham: u32,
}

/// A token as it is scored: in how many messages it was seen, of how many. Where several word
/// lists count, both are their sums, and the second may differ from token to token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Evidence {
    /// The messages that hold the token.
    pub counts: Counts,
    /// All messages.
    pub totals: Counts,
}

impl Evidence {
    /// How likely a message that holds the token is spam (Robinson's f(w), or what the rule makes
    /// of it). No number if one class has no message: such a token never counts.
    pub fn probability(&self, parameters: &Parameters) -> f64 {
        if parameters.rule == Rule::Balance {
            return balance::probability(self, parameters);
        }
        let seen = self.counts.spam.wrapping_add(self.counts.ham);
        if seen == 0 {
            return parameters.robx;
        }
        let spam = f64::from(self.counts.spam) * f64::from(self.totals.ham);
        let ham = f64::from(self.counts.ham) * f64::from(self.totals.spam);
        let seen = f64::from(seen);
        let share = spam / (spam + ham);
        (parameters.robs * parameters.robx + seen * share) / (parameters.robs + seen)
    }
}

/// What was found out about a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// How likely the message is spam, from 0 to 1.
    pub spamicity: f64,
    /// What that means.
    pub status: Status,
    /// How many tokens counted.
    pub used: usize,
    /// The evidence against ham: the chance of tokens so far from spam by accident; the log odds of
    /// tokens for spam with [`Rule::Balance`]. 0 with no token.
    pub p: f64,
    /// The evidence against spam.
    pub q: f64,
    /// How far from 0.5 tokens had to be.
    pub min_dev: f64,
}

/// What the tokens of a message weigh together. Scores with other size factors and cut-offs are
/// made of the same weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight {
    /// How many tokens counted.
    pub used: usize,
    /// The logarithm of the product of what each says against spam; with [`Rule::Balance`] the log
    /// odds of tokens that speak for ham, 0 or more.
    pub against_spam: f64,
    /// The same against ham.
    pub against_ham: f64,
    /// Messages that the lesser class of the word list has.
    pub lesser: u32,
    /// How far from 0.5 tokens had to be.
    pub min_dev: f64,
}

impl Weight {
    /// The score, with the size factors and cut-offs of `parameters`; the others must be those that
    /// it was weighed with.
    pub fn score(&self, parameters: &Parameters) -> Score {
        let &Self { used, min_dev, .. } = self;
        if used == 0 {
            let spamicity = parameters.robx;
            let status = parameters.status(spamicity);
            return Score { spamicity, status, used, p: 0.0, q: 0.0, min_dev };
        }
        if parameters.rule == Rule::Balance {
            let spamicity = balance::spamicity(self, parameters);
            let (p, q) = (self.against_ham, self.against_spam);
            return Score { spamicity, status: parameters.status(spamicity), used, p, q, min_dev };
        }
        let tail = |product: f64, esf: f64| {
            let tail = chi2q(-2.0 * (product * esf), 2.0 * used as f64 * esf);
            if tail < EPS { 0.0 } else { tail }
        };
        let p = tail(self.against_spam, parameters.sp_esf);
        let q = tail(self.against_ham, parameters.ns_esf);
        let spamicity = if parameters.sp_esf >= 1.0 && parameters.ns_esf >= 1.0 {
            (1.0 + q - p) / 2.0
        } else if p < EPS && q < EPS {
            0.5
        } else {
            q / (q + p)
        };
        Score { spamicity, status: parameters.status(spamicity), used, p, q, min_dev }
    }
}

/// Scores messages. What it needs is kept from message to message.
#[derive(Debug, Default)]
pub struct Scorer {
    probabilities: Vec<f64>,
    deviations: Vec<f64>,
}

impl Scorer {
    /// A scorer for any number of messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Scores a message by its distinct tokens in byte order, the unknown ones among them, all of
    /// them from word lists with the same numbers of messages.
    pub fn score(
        &mut self,
        parameters: &Parameters,
        totals: Counts,
        tokens: impl IntoIterator<Item = Counts>,
    ) -> Score {
        let evidence = tokens.into_iter().map(|counts| Evidence { counts, totals });
        self.score_evidence(parameters, evidence)
    }

    /// Scores a message by what is known of its distinct tokens, in byte order.
    pub fn score_evidence(
        &mut self,
        parameters: &Parameters,
        tokens: impl IntoIterator<Item = Evidence>,
    ) -> Score {
        self.weigh(parameters, tokens).score(parameters)
    }

    /// Weighs what is known of the distinct tokens of a message, in byte order: all of a score but
    /// what its size factors and cut-offs make of it.
    pub fn weigh(
        &mut self,
        parameters: &Parameters,
        tokens: impl IntoIterator<Item = Evidence>,
    ) -> Weight {
        self.probabilities.clear();
        let (tokens, mut lesser) = (tokens.into_iter(), 0);
        self.probabilities.extend(tokens.map(|evidence| {
            lesser = lesser.max(evidence.totals.spam.min(evidence.totals.ham));
            evidence.probability(parameters)
        }));
        let choice = self.choose(parameters);
        let min_dev = choice.min_dev();
        if parameters.rule == Rule::Balance {
            let chosen = self.probabilities.iter().copied().filter(|one| choice.takes(*one));
            return balance::weigh(chosen, lesser, min_dev);
        }
        let (mut against_spam, mut against_ham) = (Product::default(), Product::default());
        let mut used = 0;
        for &probability in self.probabilities.iter().filter(|one| choice.takes(**one)) {
            against_spam.multiply(1.0 - probability);
            against_ham.multiply(probability);
            used += 1;
        }
        let (against_spam, against_ham) = (against_spam.ln(), against_ham.ln());
        Weight { used, against_spam, against_ham, lesser, min_dev }
    }

    /// Which tokens count.
    fn choose(&mut self, parameters: &Parameters) -> Choice {
        let far = Choice::Beyond(parameters.min_dev);
        let count = self.probabilities.iter().filter(|one| far.takes(**one)).count();
        if !parameters.is_bounded(count) {
            return far;
        }
        self.deviations.clear();
        let numbers = self.probabilities.iter().map(|one| (one - 0.5).abs());
        self.deviations.extend(numbers.filter(|deviation| !deviation.is_nan()));
        let last = parameters.bound().min(self.deviations.len());
        let Some(last) = last.checked_sub(1) else { return far };
        let (_, boundary, _) =
            self.deviations.select_nth_unstable_by(last, |one, other| other.total_cmp(one));
        Choice::From(*boundary)
    }
}

/// Which tokens count.
#[derive(Clone, Copy, Debug)]
enum Choice {
    /// Those farther from 0.5 than this.
    Beyond(f64),
    /// Those at least as far from 0.5 as this.
    From(f64),
}

impl Choice {
    /// Whether a token counts; what is no number never does.
    fn takes(self, probability: f64) -> bool {
        let deviation = (probability - 0.5).abs();
        match self {
            Self::Beyond(min_dev) => deviation > min_dev,
            Self::From(min_dev) => deviation >= min_dev,
        }
    }

    fn min_dev(self) -> f64 {
        match self {
            Self::Beyond(min_dev) | Self::From(min_dev) => min_dev,
        }
    }
}

/// A product of many small numbers: a mantissa, and a power of two once it is too small.
#[derive(Clone, Copy, Debug)]
struct Product {
    mantissa: f64,
    exponent: i64,
}

impl Default for Product {
    fn default() -> Self {
        Self { mantissa: 1.0, exponent: 0 }
    }
}

impl Product {
    fn multiply(&mut self, factor: f64) {
        self.mantissa *= factor;
        if self.mantissa < 1e-200 && self.mantissa > 0.0 {
            // By powers of two, so that no bit changes.
            if self.mantissa.is_subnormal() {
                self.mantissa *= 2.0_f64.powi(64);
                self.exponent -= 64;
            }
            let bits = self.mantissa.to_bits() >> 52;
            let exponent = i64::try_from(bits).unwrap_or(0) - 1022;
            self.mantissa = f64::from_bits(self.mantissa.to_bits() & !(0x7FF << 52) | 1022 << 52);
            self.exponent += exponent;
        }
    }

    fn ln(self) -> f64 {
        self.mantissa.ln() + self.exponent as f64 * 2.0_f64.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(spam: u32, ham: u32) -> Counts {
        Counts { spam, ham }
    }

    fn check(tokens: &[Counts], totals: Counts, expected: (f64, usize)) {
        let score = Scorer::new().score(&Parameters::default(), totals, tokens.iter().copied());
        let error = (score.spamicity - expected.0).abs();
        assert!(error < 5e-7 && error < 1e-5 * expected.0, "{score:?}");
        assert_eq!(score.used, expected.1);
    }

    /// What bogofilter 1.2.5 answers.
    #[test]
    fn known_scores() {
        let totals = counts(2, 1);
        let ham = [counts(0, 1); 6];
        check(&ham, totals, (5.068_911_31e-8, 6));
        check(&[&ham[..], &[counts(2, 0)]].concat(), totals, (0.158_504, 7));
        check(&[], totals, (0.52, 0));
        check(&[counts(0, 0), counts(1, 1)], totals, (0.52, 0));
        // Of two messages without a class to compare with nothing follows.
        check(&[counts(1, 0)], counts(1, 0), (0.52, 0));
    }

    #[test]
    fn the_number_of_tokens_is_bounded() {
        let tokens: Vec<_> = (0..40).map(|index| counts(index, 40 - index)).collect();
        let mut scorer = Scorer::new();
        let mut used = |parameters: Parameters| {
            scorer.score(&parameters, counts(100, 100), tokens.iter().copied()).used
        };
        let default = Parameters::default();
        assert_eq!(used(default), 9);
        assert_eq!(used(Parameters { token_count: 4, ..default }), 4);
        assert_eq!(used(Parameters { token_count_min: 20, ..default }), 20);
        assert_eq!(used(Parameters { token_count_min: 5, ..default }), 9);
        assert_eq!(used(Parameters { token_count_max: 6, ..default }), 6);
        assert_eq!(used(Parameters { token_count_min: 90, ..default }), 40);
    }

    #[test]
    fn products_keep_their_logarithm() {
        let mut product = Product::default();
        for _ in 0..100_000 {
            product.multiply(1e-5);
        }
        let expected = 100_000.0 * 1e-5_f64.ln();
        assert!((product.ln() / expected - 1.0).abs() < 1e-12);
    }
}
