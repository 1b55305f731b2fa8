//! The balance of the log odds for spam and for ham: the rule of the profile `modern`.
//!
//! Fisher's method tests if the tokens could be this extreme by chance, assuming that they are
//! independent. Hundreds of dependent tokens never could: both tails vanish, scores of long
//! messages are equal, and ham that has words of both kinds ties with spam. Here
//!
//! - a token's probability is as far from `robx` as its counts justify: counts are scaled to
//!   classes of one size, `n = spam' + ham'` of them, `p = spam' / n`, and the distance of `p`
//!   shrinks by `n / (n + robs)` and by the square of `1 - 3p(1 - p)`, which is 1 for a token of
//!   one class alone and a quarter for one that is as often in both (after the confidence factor of
//!   the filter OSBF-Lua);
//! - log odds are summed for spam and for ham in each [`MessagePart`] of a message, and a balance
//!   is divided by a power of its sum just below 1: tokens of one part depend on each other, so
//!   many of them prove hardly more than a few, while two parts prove more than one;
//! - evidence for ham counts more (`ns_esf`), since spam imitates ham and not the other way round;
//! - the part with most evidence for spam counts only in part, so that, for example, the headers of
//!   a new mailing list do not make spam of a message whose text is ham;
//! - a list that was trained with few messages has less weight.

use super::{Against, Evidence, MessagePart, Parameters, Weight};

/// Both classes are scaled to one size, at most this many times the size of the smaller one: a
/// token seen in few of many messages may be missing in a small class by chance.
const SCALE_MAX: f64 = 2.0;

/// The power of the evidence of a part by which its balance is divided: between 1/2 (tokens are
/// independent) and 1 (all of them mean the same).
const DEPENDENCE: f64 = 0.85;

/// Constant added to the evidence of a part, so that one or two tokens decide nothing.
const EVIDENCE_LEAST: f64 = 3.0;

/// Share of its balance that the part with most evidence for spam loses.
const STRONGEST_LOSES: f64 = 0.75;

/// Number of messages in the smaller class at which the balance has half its weight.
const LESSER_HALF: f64 = 10.0;

/// The balance whose score is (1 + 1/√2) / 2. The default cut-off for spam is at five times this
/// balance, that for ham at minus fifty times.
const UNIT: f64 = 0.04;

/// Returns the probability that a message with this token is spam; NaN if a class has no messages.
pub(super) fn probability(evidence: &Evidence, parameters: &Parameters) -> f64 {
    let Evidence { counts, totals, .. } = *evidence;
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

/// Least distance of a token's probability from 0 and 1, for any `robs`.
const LEAST: f64 = 1e-9;

/// Sums the log odds of the scored tokens.
pub(super) fn weigh(
    tokens: impl Iterator<Item = (MessagePart, f64)>,
    lesser: u32,
    min_dev: f64,
) -> Weight {
    let against = [Against::default(); MessagePart::COUNT];
    let mut weight = Weight { used: 0, against, lesser, min_dev };
    for (place, probability) in tokens {
        let odds = (probability / (1.0 - probability)).ln();
        let against = &mut weight.against[place as usize];
        against.ham += odds.max(0.0);
        against.spam += (-odds).max(0.0);
        weight.used += 1;
    }
    weight
}

/// Returns the score of a weight, from 0 to 1. It approaches both ends slowly, so that long
/// messages do not tie there.
pub(super) fn spamicity(weight: &Weight, parameters: &Parameters) -> f64 {
    let lesser = f64::from(weight.lesser);
    let places = weight.against.map(|against| of_place(&against, parameters));
    let strongest = places.into_iter().fold(0.0, f64::max);
    let balance = places.into_iter().sum::<f64>() - STRONGEST_LOSES * strongest;
    let units = balance * (lesser / (lesser + LESSER_HALF)) / UNIT;
    f64::midpoint(1.0, units / units.hypot(1.0))
}

/// Returns the balance of one part, above 0 for spam.
fn of_place(against: &Against, parameters: &Parameters) -> f64 {
    let (for_spam, for_ham) = (against.ham, against.spam);
    (parameters.sp_esf * for_spam - parameters.ns_esf * for_ham)
        / (EVIDENCE_LEAST + for_spam + for_ham).powf(DEPENDENCE)
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
        Evidence { counts, totals, place: MessagePart::Text }.probability(&parameters)
    }

    fn score(tokens: &[Counts], totals: Counts) -> f64 {
        let parameters = Parameters::new(Profile::Modern);
        let tokens = tokens.iter().map(|counts| (MessagePart::Text, *counts));
        Scorer::new().score(&parameters, totals, tokens).spamicity
    }

    #[test]
    fn counts_bear_a_distance() {
        let check = |token, totals, expected: f64| {
            let found = probability_of(token, totals);
            assert!((found - expected).abs() < 1e-9, "{token:?} {totals:?}: {found}");
        };
        let of_one_class = |seen: f64| 0.5 + 0.5 * seen / (seen + 0.8);
        check(counts(0, 0), TOTALS, 0.5);
        check(counts(7, 7), TOTALS, 0.5);
        check(counts(4, 0), TOTALS, of_one_class(4.0));
        check(counts(0, 4), TOTALS, 1.0 - of_one_class(4.0));
        check(counts(1, 0), TOTALS, of_one_class(1.0));
        // Three of four: 0.5 + 0.25 (1 - 9/16)² 4/4.8
        check(counts(3, 1), TOTALS, 0.5 + 0.25 * 0.4375 * 0.4375 * 4.0 / 4.8);
        // Half of the messages, twice each.
        check(counts(0, 1), counts(2000, 1000), 1.0 - of_one_class(2.0));
        // Scaled to no more than twice: few of very many messages prove little about a small class.
        check(counts(0, 1), counts(100_000, 1000), 1.0 - of_one_class(2.0));
        check(counts(25, 0), counts(100_000, 1000), of_one_class(0.5));
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
    fn two_places_say_more_than_one() {
        let parameters = Parameters::new(Profile::Modern);
        let (spam, ham) = (counts(50, 0), counts(0, 50));
        let score = |groups: &[(MessagePart, Counts, usize)]| {
            let tokens = groups
                .iter()
                .flat_map(|&(place, counts, times)| std::iter::repeat_n((place, counts), times));
            Scorer::new().score(&parameters, TOTALS, tokens)
        };
        let one = score(&[(MessagePart::Text, spam, 20)]);
        let two = score(&[(MessagePart::Text, spam, 10), (MessagePart::Header, spam, 10)]);
        assert!(one.spamicity < two.spamicity, "{one:?} {two:?}");
        assert!(one.used == two.used && (one.p - two.p).abs() < 1e-9, "{one:?} {two:?}");
        // Texts as those of ham outweigh headers as those of spam, however many words these have.
        let new_list = score(&[(MessagePart::Header, spam, 1000), (MessagePart::Text, ham, 20)]);
        assert!(new_list.spamicity < 0.5, "{new_list:?}");
    }

    #[test]
    fn few_messages_are_believed_less() {
        let tokens = [counts(5, 0); 4];
        let young = score(&tokens, counts(10, 10));
        let old = score(&tokens, TOTALS);
        assert!(0.5 < young && young < old, "{young} {old}");
        let parameters = Parameters::new(Profile::Modern);
        let score =
            Scorer::new().score(&parameters, counts(9, 0), [(MessagePart::Text, counts(9, 0))]);
        assert_eq!((score.spamicity, score.status, score.used), (0.5, Status::Unsure, 0));
    }
}
