//! Scores a message by its tokens: Robinson's probabilities, combined by Fisher's method.
//!
//! The probability of a token is a weighted mean of its share in spam and the prior of unknown
//! tokens. Tokens far enough from 0.5 are combined in byte order, because the order decides the
//! last bits of the floating-point result.

mod balance;
mod chi;
mod explain;
mod format;
mod message_part;
mod parameters;

pub use chi::chi2q;
pub use explain::{Explanation, Row};
pub use message_part::MessagePart;
pub use parameters::{Parameters, Rule, Status};

use parameters::EPS;

/// Number of messages of each class, for instance of those that contain a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Number of spam messages.
    pub spam: u32,
    /// Number of other messages.
    pub ham: u32,
}

/// The counts that a token is scored by: messages that contain it, and all messages. Where several
/// word lists are used, both are sums over them, and `totals` may differ from token to token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Evidence {
    /// Numbers of messages that contain the token.
    pub counts: Counts,
    /// Numbers of all messages.
    pub totals: Counts,
    /// The part of the message that the token comes from; only [`Rule::Balance`] uses it.
    pub place: MessagePart,
}

impl Evidence {
    /// Returns the probability, from 0 to 1, that a message with this token is spam: Robinson's
    /// f(w) with [`Rule::Fisher`], a formula of its own with [`Rule::Balance`].
    ///
    /// NaN where one class has no messages to compare with: for every token with [`Rule::Balance`],
    /// for tokens seen before with [`Rule::Fisher`]. A token whose probability is NaN is not
    /// scored.
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

/// The score of a message, its class, and the figures that bogofilter reports with them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The score, from 0 (ham) to 1 (spam).
    pub spamicity: f64,
    /// The class that the cut-offs give to the score.
    pub status: Status,
    /// Number of tokens that were scored.
    pub used: usize,
    /// With [`Rule::Fisher`], the chi-squared tail probability of the product of `1 - f(w)`: the
    /// chance that unrelated tokens look so much like spam, near 0 for spam. With
    /// [`Rule::Balance`], the sum of the log odds of tokens for spam. 0 if no token was scored.
    pub p: f64,
    /// The same for ham: of the product of `f(w)`, near 0 for ham; or the sum of the log odds for
    /// ham.
    pub q: f64,
    /// Least distance from 0.5 of a scored token's probability.
    pub min_dev: f64,
}

/// The combined evidence of a message's tokens, before size factors and cut-offs are applied: one
/// weight can be scored with several of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight {
    /// Number of tokens that were scored.
    pub used: usize,
    /// The evidence by [`MessagePart`] with [`Rule::Balance`]; else all of it in the first element.
    pub against: [Against; MessagePart::COUNT],
    /// Number of messages in the smaller class of the word list.
    pub lesser: u32,
    /// Least distance from 0.5 of a scored token's probability.
    pub min_dev: f64,
}

/// Logarithms of the evidence against each class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Against {
    /// With [`Rule::Fisher`], the logarithm of the product of `1 - f(w)`, 0 or less; with
    /// [`Rule::Balance`], the sum of the log odds of tokens for ham, 0 or more.
    pub spam: f64,
    /// With [`Rule::Fisher`], the logarithm of the product of `f(w)`; with [`Rule::Balance`], the
    /// sum of the log odds of tokens for spam.
    pub ham: f64,
}

impl Weight {
    /// Returns the score with the size factors and cut-offs of `parameters`. All other parameters
    /// must be those that the message was weighed with.
    pub fn score(&self, parameters: &Parameters) -> Score {
        let &Self { used, min_dev, .. } = self;
        if used == 0 {
            let spamicity = parameters.robx;
            let status = parameters.status(spamicity);
            return Score { spamicity, status, used, p: 0.0, q: 0.0, min_dev };
        }
        if parameters.rule == Rule::Balance {
            let spamicity = balance::spamicity(self, parameters);
            let p = self.against.iter().map(|against| against.ham).sum();
            let q = self.against.iter().map(|against| against.spam).sum();
            return Score { spamicity, status: parameters.status(spamicity), used, p, q, min_dev };
        }
        let tail = |product: f64, esf: f64| {
            let tail = chi2q(-2.0 * (product * esf), 2.0 * used as f64 * esf);
            if tail < EPS { 0.0 } else { tail }
        };
        let p = tail(self.against[0].spam, parameters.sp_esf);
        let q = tail(self.against[0].ham, parameters.ns_esf);
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

/// Scores messages one after the other. Its buffers are reused from message to message.
#[derive(Debug, Default)]
pub struct Scorer {
    probabilities: Vec<f64>,
    places: Vec<MessagePart>,
    deviations: Vec<f64>,
}

impl Scorer {
    /// Returns a scorer for any number of messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Scores a message by the counts of its distinct tokens in byte order, including unknown
    /// tokens, with the same `totals` for all of them.
    pub fn score(
        &mut self,
        parameters: &Parameters,
        totals: Counts,
        tokens: impl IntoIterator<Item = (MessagePart, Counts)>,
    ) -> Score {
        let tokens = tokens.into_iter();
        let evidence = tokens.map(|(place, counts)| Evidence { counts, totals, place });
        self.score_evidence(parameters, evidence)
    }

    /// Scores a message by the evidence of its distinct tokens in byte order, including unknown
    /// tokens.
    pub fn score_evidence(
        &mut self,
        parameters: &Parameters,
        tokens: impl IntoIterator<Item = Evidence>,
    ) -> Score {
        self.weigh(parameters, tokens).score(parameters)
    }

    /// Combines the evidence of a message's distinct tokens, in byte order: everything that a score
    /// takes except the size factors and cut-offs.
    pub fn weigh(
        &mut self,
        parameters: &Parameters,
        tokens: impl IntoIterator<Item = Evidence>,
    ) -> Weight {
        self.probabilities.clear();
        self.places.clear();
        let (tokens, mut lesser) = (tokens.into_iter(), 0);
        self.probabilities.extend(tokens.map(|evidence| {
            lesser = lesser.max(evidence.totals.spam.min(evidence.totals.ham));
            self.places.push(evidence.place);
            evidence.probability(parameters)
        }));
        let choice = self.choose(parameters);
        let min_dev = choice.min_dev();
        if parameters.rule == Rule::Balance {
            let tokens = self.places.iter().copied().zip(self.probabilities.iter().copied());
            let chosen = tokens.filter(|(_, probability)| choice.takes(*probability));
            return balance::weigh(chosen, lesser, min_dev);
        }
        let (mut against_spam, mut against_ham) = (Product::default(), Product::default());
        let mut used = 0;
        for &probability in self.probabilities.iter().filter(|one| choice.takes(**one)) {
            against_spam.multiply(1.0 - probability);
            against_ham.multiply(probability);
            used += 1;
        }
        let mut against = [Against::default(); MessagePart::COUNT];
        against[0] = Against { spam: against_spam.ln(), ham: against_ham.ln() };
        Weight { used, against, lesser, min_dev }
    }

    /// Returns which of the `probabilities` are scored.
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

/// The rule by which tokens are scored or left out.
#[derive(Clone, Copy, Debug)]
enum Choice {
    /// Tokens farther from 0.5 than this are scored.
    Beyond(f64),
    /// Tokens at least as far from 0.5 as this are scored.
    From(f64),
}

impl Choice {
    /// Returns `true` if a token of this probability is scored; NaN never is.
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

/// A product of many small numbers without underflow: `mantissa * 2^exponent`.
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

    fn of_texts(tokens: &[Counts]) -> impl Iterator<Item = (MessagePart, Counts)> {
        tokens.iter().map(|counts| (MessagePart::Text, *counts))
    }

    fn check(tokens: &[Counts], totals: Counts, expected: (f64, usize)) {
        let score = Scorer::new().score(&Parameters::default(), totals, of_texts(tokens));
        let error = (score.spamicity - expected.0).abs();
        assert!(error < 5e-7 && error < 1e-5 * expected.0, "{score:?}");
        assert_eq!(score.used, expected.1);
    }

    /// Expected scores are those of bogofilter 1.2.5.
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
            scorer.score(&parameters, counts(100, 100), of_texts(&tokens)).used
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
