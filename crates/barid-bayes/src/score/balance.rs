//! The balance of the log odds for spam and for ham: the rule of the profile `modern`.
//!
//! Fisher's method asks if tokens could look so by accident, and hundreds of tokens that depend on
//! each other never could: both tails vanish, scores of long messages are equal, and ham that has
//! words of both kinds ties with spam. Here
//!
//! - a token's probability is as far from `robx` as its counts bear: counts are scaled to classes
//!   of one size, `n = spam' + ham'` of them, `p = spam' / n`, and the distance of `p` shrinks by
//!   `n / (n + robs)` and by the square of `1 - 3p(1 - p)`, which is 1 for a token of one class
//!   alone and a quarter for one that is as often in both (after the confidence factor of the
//!   filter OSBF-Lua);
//! - log odds are summed for spam and for ham, and the balance is divided by a power of their sum
//!   below 1, so that many tokens say more than few and do not say it once each;
//! - evidence for ham counts more (`ns_esf`), since spam imitates ham and not the other way round;
//! - a list of few messages is believed less.

use super::{Evidence, Parameters, Weight};

/// A class is scaled to at most so many times the messages of the lesser one: a token that is in
/// few of many messages of the one may be in as many of the other.
const SCALE_MAX: f64 = 4.0;

/// The power of the whole evidence by which the balance is divided: between 1/2 (tokens are
/// independent) and 1 (all of them say the same).
const DEPENDENCE: f64 = 0.75;

/// Messages of the lesser class with which a list is half believed.
const LESSER_HALF: f64 = 10.0;

/// The balance whose score is (1 + 1/√2) / 2. The default cut-offs are five times as far.
const UNIT: f64 = 0.1;

/// Returns how likely a message that holds the token is spam.
pub(super) fn probability(evidence: &Evidence, parameters: &Parameters) -> f64 {
    let Evidence { counts, totals } = *evidence;
    if totals.spam == 0 || totals.ham == 0 {
        return f64::NAN;
    }
    let (all_spam, all_ham) = (f64::from(totals.spam), f64::from(totals.ham));
    let size = all_spam.max(all_ham).min(SCALE_MAX * all_spam.min(all_ham));
    let spam = f64::from(counts.spam) * (size / all_spam);
    let ham = f64::from(counts.ham) * (size / all_ham);
    let seen = spam + ham;
    if seen <= 0.0 {
        return parameters.robx;
    }
    let share = spam / seen;
    let purity = 1.0 - 3.0 * share * (1.0 - share);
    let confidence = purity * purity * (seen / (seen + parameters.robs));
    // Shares of damaged counts may lie beyond 1.
    (parameters.robx + confidence * (share - parameters.robx)).clamp(LEAST, 1.0 - LEAST)
}

/// No token is surer than this, whatever `robs` is.
const LEAST: f64 = 1e-9;

/// Weighs the tokens that count.
pub(super) fn weigh(probabilities: impl Iterator<Item = f64>, lesser: u32, min_dev: f64) -> Weight {
    let mut weight = Weight { used: 0, against_spam: 0.0, against_ham: 0.0, lesser, min_dev };
    for probability in probabilities {
        let odds = (probability / (1.0 - probability)).ln();
        weight.against_ham += odds.max(0.0);
        weight.against_spam += (-odds).max(0.0);
        weight.used += 1;
    }
    weight
}

/// Returns the score of a weight, from 0 to 1. It approaches both ends so slowly that no two
/// messages tie there.
pub(super) fn spamicity(weight: &Weight, parameters: &Parameters) -> f64 {
    let (for_spam, for_ham) = (weight.against_ham, weight.against_spam);
    let lesser = f64::from(weight.lesser);
    let balance = (parameters.sp_esf * for_spam - parameters.ns_esf * for_ham)
        / (1.0 + for_spam + for_ham).powf(DEPENDENCE);
    let units = balance * (lesser / (lesser + LESSER_HALF)) / UNIT;
    f64::midpoint(1.0, units / units.hypot(1.0))
}

#[cfg(test)]
mod tests {
    use super::super::{Counts, Scorer, Status};
    use super::*;
    use crate::options::Profile;

    const TOTALS: Counts = Counts { spam: 1000, ham: 1000 };

    fn counts(spam: u32, ham: u32) -> Counts {
        Counts { spam, ham }
    }

    fn probability_of(counts: Counts, totals: Counts) -> f64 {
        let parameters = Parameters::new(Profile::Modern);
        Evidence { counts, totals }.probability(&parameters)
    }

    fn score(tokens: &[Counts], totals: Counts) -> f64 {
        let parameters = Parameters::new(Profile::Modern);
        Scorer::new().score(&parameters, totals, tokens.iter().copied()).spamicity
    }

    #[test]
    fn counts_bear_a_distance() {
        let check = |token, totals, expected: f64| {
            let found = probability_of(token, totals);
            assert!((found - expected).abs() < 1e-9, "{token:?} {totals:?}: {found}");
        };
        check(counts(0, 0), TOTALS, 0.5);
        check(counts(7, 7), TOTALS, 0.5);
        // 0.5 + 0.5 n / (n + 1)
        check(counts(4, 0), TOTALS, 0.9);
        check(counts(0, 4), TOTALS, 0.1);
        check(counts(1, 0), TOTALS, 0.75);
        // Three of four: 0.5 + 0.25 (1 - 9/16)² 4/5
        check(counts(3, 1), TOTALS, 0.5 + 0.25 * 0.4375 * 0.4375 * 0.8);
        // A quarter of the messages, four times each.
        check(counts(0, 1), counts(4000, 1000), 0.1);
        // No more than four times, and few of very many say little of what a few messages hold.
        check(counts(0, 1), counts(100_000, 1000), 0.1);
        check(counts(25, 0), counts(100_000, 1000), 0.75);
        assert!(probability_of(counts(1, 0), counts(5, 0)).is_nan());
        assert!(probability_of(counts(u32::MAX, 0), counts(1, 1)) < 1.0);
    }

    #[test]
    fn scores_are_in_order() {
        let (spam, ham, both) = (counts(50, 0), counts(0, 50), counts(50, 50));
        assert_eq!(score(&[], TOTALS), 0.5);
        assert_eq!(score(&[both, counts(0, 0)], TOTALS), 0.5);
        let rising = [
            vec![ham; 3000],
            vec![ham; 300],
            vec![ham; 20],
            vec![ham, spam, spam],
            vec![spam],
            vec![spam; 20],
            vec![spam; 300],
            vec![spam; 3000],
        ];
        let scores: Vec<f64> = rising.iter().map(|tokens| score(tokens, TOTALS)).collect();
        assert!(scores.windows(2).all(|pair| pair[0] < pair[1]), "{scores:?}");
        assert!((0.0..=1.0).contains(&scores[0]) && (0.0..=1.0).contains(&scores[7]));
        // Words of both kinds leave ham in doubt, not as sure spam.
        let mixed = [vec![spam; 100], vec![ham; 50]].concat();
        assert!((0.01..0.99).contains(&score(&mixed, TOTALS)), "{}", score(&mixed, TOTALS));
    }

    #[test]
    fn few_messages_are_believed_less() {
        let tokens = [counts(5, 0); 4];
        let young = score(&tokens, counts(10, 10));
        let old = score(&tokens, TOTALS);
        assert!(0.5 < young && young < old, "{young} {old}");
        let parameters = Parameters::new(Profile::Modern);
        let score = Scorer::new().score(&parameters, counts(9, 0), [counts(9, 0)]);
        assert_eq!((score.spamicity, score.status, score.used), (0.5, Status::Unsure, 0));
    }
}
