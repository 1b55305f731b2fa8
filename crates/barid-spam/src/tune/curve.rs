//! Errors of scored messages at different cut-offs.

use barid_bayes::{Counts, Parameters, Status};

/// Numbers of misclassified messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Errors {
    /// Ham classified as spam: false positives.
    pub ham_as_spam: u32,
    /// Ham classified as unsure.
    pub ham_unsure: u32,
    /// Spam classified as ham.
    pub spam_as_ham: u32,
    /// Spam classified as unsure.
    pub spam_unsure: u32,
}

impl Errors {
    /// Returns the number of spam not classified as spam: false negatives.
    pub fn missed(&self) -> u32 {
        self.spam_as_ham + self.spam_unsure
    }

    /// Counts a message with its score.
    pub(super) fn add(&mut self, is_spam: bool, spamicity: f64, parameters: &Parameters) {
        match (is_spam, parameters.status(spamicity)) {
            (false, Status::Spam) => self.ham_as_spam += 1,
            (false, Status::Unsure) => self.ham_unsure += 1,
            (true, Status::Ham) => self.spam_as_ham += 1,
            (true, Status::Unsure) => self.spam_unsure += 1,
            (true, Status::Spam) | (false, Status::Ham) => {}
        }
    }
}

/// Errors at one cut-off.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Point {
    /// The lowest score that counts as spam.
    pub cutoff: f64,
    /// Ham classified as spam.
    pub false_positives: u32,
    /// Spam not classified as spam.
    pub missed: u32,
}

/// A scored message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ScoredMessage {
    pub(super) spamicity: f64,
    pub(super) is_spam: bool,
    pub(super) fold: usize,
}

/// The cut-offs for spam and ham.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    pub(super) spam: f64,
    pub(super) ham: f64,
}

/// Range of cut-offs for ham: below it, next to nothing would be classified as ham, and above it,
/// messages that look equally like spam and ham would be.
const HAM_CUTOFF_MIN: f64 = 0.1;
const HAM_CUTOFF_MAX: f64 = 0.45;

/// Sorts messages by descending score.
pub(super) fn sort(scored: &mut [ScoredMessage]) {
    scored.sort_unstable_by(|one, other| other.spamicity.total_cmp(&one.spamicity));
}

/// Returns the errors at each cut-off, for messages in order: one point for each distinct score.
pub(super) fn curve(scored: &[ScoredMessage]) -> Vec<Point> {
    let all = counts(scored.iter());
    let (mut points, mut seen) = (Vec::new(), Counts::default());
    for group in groups(scored) {
        let own = counts(group.iter());
        (seen.spam, seen.ham) = (seen.spam + own.spam, seen.ham + own.ham);
        let (false_positives, missed) = (seen.ham, all.spam - seen.spam);
        points.push(Point { cutoff: group[0].spamicity, false_positives, missed });
    }
    points
}

/// Returns the mean share of spam that is missed at several allowed numbers of false positives:
/// those around `rate`, to reduce the effect of chance. The messages must be in order; those of
/// fold `excluded` are left out.
pub(super) fn missed_around(scored: &[ScoredMessage], excluded: usize, rate: f64) -> f64 {
    let kept = || scored.iter().filter(|one| one.fold != excluded);
    let all = counts(kept());
    if all.spam == 0 {
        return 0.0;
    }
    let allowed = SHARES_OF_RATE.map(|share| allowed(all.ham, rate * share));
    let most = allowed.into_iter().max().unwrap_or_default();
    let mut found = SHARES_OF_RATE.map(|_| 0);
    let mut seen = Counts::default();
    for group in groups(scored) {
        let own = counts(group.iter().filter(|one| one.fold != excluded));
        (seen.spam, seen.ham) = (seen.spam + own.spam, seen.ham + own.ham);
        if seen.ham > most {
            break;
        }
        for (found, allowed) in found.iter_mut().zip(allowed) {
            if seen.ham <= allowed {
                *found = seen.spam;
            }
        }
    }
    let missed = found.map(|found| f64::from(all.spam - found) / f64::from(all.spam));
    missed.iter().sum::<f64>() / missed.len() as f64
}

/// Multiples of the rate that are averaged.
const SHARES_OF_RATE: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];

/// Returns `share` of `count`, rounded down.
fn allowed(count: u32, share: f64) -> u32 {
    (f64::from(count) * share) as u32
}

/// Returns cut-offs with which at most a share `rate` of ham is classified as spam, and of spam as
/// ham as far as possible. The messages must be in order; those of fold `excluded` are left out. A
/// message without known tokens has the score `unknown`, and is not spam.
pub(super) fn cut(scored: &[ScoredMessage], excluded: usize, rate: f64, unknown: f64) -> Cut {
    let kept = || scored.iter().filter(|one| one.fold != excluded);
    let all = counts(kept());
    let ham_scores = kept().filter(|one| !one.is_spam).map(|one| one.spamicity);
    let beyond = ham_scores.clone().nth(allowed(all.ham, rate) as usize);
    let beyond = beyond.unwrap_or(0.0).max(unknown);
    let least = kept().map(|one| one.spamicity).take_while(|score| *score > beyond).last();
    let spam = least.map_or(1.0, |least| short_between(beyond, least));
    let spam_scores = kept().rev().filter(|one| one.is_spam).map(|one| one.spamicity);
    let above = spam_scores.clone().nth(allowed(all.spam, rate) as usize).unwrap_or(1.0);
    let most = kept().rev().map(|one| one.spamicity).take_while(|score| *score < above).last();
    let ham = most.map_or(0.0, |most| short_between(most, above));
    Cut { spam, ham: ham.clamp(HAM_CUTOFF_MIN, HAM_CUTOFF_MAX).min(spam) }
}

/// Returns a number above `low` and not above `high`, with few digits if possible.
fn short_between(low: f64, high: f64) -> f64 {
    let middle = f64::midpoint(low, high);
    (2..=17)
        .filter_map(|digits| format!("{middle:.digits$}").parse().ok())
        .find(|number| low < *number && *number <= high)
        .unwrap_or(high)
}

/// Returns the groups of messages with the same score, for messages in order.
fn groups(scored: &[ScoredMessage]) -> impl Iterator<Item = &[ScoredMessage]> {
    scored.chunk_by(|one, other| one.spamicity == other.spamicity)
}

fn counts<'a>(scored: impl Iterator<Item = &'a ScoredMessage>) -> Counts {
    let mut counts = Counts::default();
    for one in scored {
        *if one.is_spam { &mut counts.spam } else { &mut counts.ham } += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages in order: `s` is spam, `h` ham, of the fold 0, or of the fold 1 if large.
    fn scored(text: &str, scores: &[f64]) -> Vec<ScoredMessage> {
        let scored = text.chars().zip(scores).map(|(kind, spamicity)| ScoredMessage {
            spamicity: *spamicity,
            is_spam: kind.eq_ignore_ascii_case(&'s'),
            fold: usize::from(kind.is_ascii_uppercase()),
        });
        let mut scored: Vec<ScoredMessage> = scored.collect();
        sort(&mut scored);
        scored
    }

    #[test]
    fn a_curve_has_a_point_for_each_score() {
        let scored = scored("sshshh", &[1.0, 0.9, 0.9, 0.5, 0.2, 0.0]);
        let points: Vec<_> = curve(&scored)
            .iter()
            .map(|point| (point.cutoff, point.false_positives, point.missed))
            .collect();
        assert_eq!(points, [(1.0, 0, 2), (0.9, 1, 1), (0.5, 1, 0), (0.2, 2, 0), (0.0, 3, 0)]);
    }

    #[test]
    fn cut_offs_lie_between_scores() {
        let check = |text, scores: &[f64], rate, excluded, expected| {
            let Cut { spam, ham } = cut(&scored(text, scores), excluded, rate, 0.0);
            assert_eq!((spam, ham), expected, "{text}");
        };
        check("ssshh", &[1.0, 0.9, 0.8, 0.4, 0.3], 0.0, 9, (0.6, 0.45));
        check("sshhs", &[1.0, 0.9, 0.8, 0.4, 0.3], 0.0, 9, (0.85, 0.1));
        check("sshhs", &[1.0, 0.9, 0.8, 0.4, 0.3], 0.5, 9, (0.6, 0.45));
        check("hsshs", &[1.0, 1.0, 0.8, 0.4, 0.3], 0.0, 9, (1.0, 0.1));
        check("sshHs", &[1.0, 0.9, 0.2, 0.95, 0.3], 0.0, 1, (0.25, 0.25));
    }

    #[test]
    fn what_nobody_knows_is_no_spam() {
        let check = |text, scores: &[f64], unknown, expected| {
            assert_eq!(cut(&scored(text, scores), 9, 0.0, unknown).spam, expected, "{text}");
        };
        check("ssshh", &[1.0, 0.9, 0.5, 0.4, 0.3], 0.4, 0.45);
        check("ssshh", &[1.0, 0.9, 0.5, 0.4, 0.3], 0.52, 0.71);
        check("sshh", &[0.5, 0.4, 0.1, 0.1], 0.52, 1.0);
    }

    #[test]
    fn what_is_missed_is_counted_without_a_fold() {
        let check = |text, scores: &[f64], rate, excluded, expected: f64| {
            let missed = missed_around(&scored(text, scores), excluded, rate);
            assert!((missed - expected).abs() < 1e-12, "{text}: {missed}");
        };
        check("sshs", &[1.0, 0.9, 0.8, 0.4], 0.0, 9, 1.0 / 3.0);
        check("sshs", &[1.0, 0.9, 0.9, 0.4], 0.0, 9, 2.0 / 3.0);
        check("ssHs", &[1.0, 0.9, 0.9, 0.4], 0.0, 1, 0.0);
        check("sshsh", &[1.0, 0.9, 0.9, 0.4, 0.0], 0.5, 9, (4.0 / 3.0) / 5.0);
    }
}
