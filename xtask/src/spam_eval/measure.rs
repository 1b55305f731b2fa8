//! Spam missed at given shares of false positives, and its bootstrap interval.

use super::filter::Answers;
use super::mail::Random;

/// Shares of false positives: of ham that may be classified as spam.
pub(super) const RATES: [f64; 3] = [0.001, 0.003, 0.01];

/// Messages in the order of their scores, those most like spam first.
pub(super) struct Ranking {
    order: Vec<u32>,
    /// Ends of the groups of equal scores.
    ends: Vec<usize>,
}

impl Ranking {
    pub(super) fn new(answers: &Answers) -> Self {
        let mut order: Vec<u32> = (0..answers.len() as u32).collect();
        let score = |index: u32| answers[index as usize].score;
        order.sort_unstable_by(|one, other| score(*other).total_cmp(&score(*one)));
        let mut ends = Vec::new();
        for group in order.chunk_by(|one, other| score(*one) == score(*other)) {
            ends.push(ends.last().copied().unwrap_or(0) + group.len());
        }
        Self { order, ends }
    }

    /// Returns the number of spam messages missed at each of [`RATES`], where message `i` counts
    /// `weights[i]` times.
    pub(super) fn missed(&self, answers: &Answers, weights: &[u32]) -> [f64; RATES.len()] {
        let (mut spam, mut ham) = (0_u64, 0_u64);
        for (answer, weight) in answers.iter().zip(weights) {
            *if answer.is_spam { &mut spam } else { &mut ham } += u64::from(*weight);
        }
        let allowed = RATES.map(|rate| (rate * ham as f64) as u64);
        let (mut found, mut found_spam, mut found_ham) = ([0; RATES.len()], 0, 0);
        let mut start = 0;
        for end in &self.ends {
            for index in &self.order[start..*end] {
                let weight = u64::from(weights[*index as usize]);
                let is_spam = answers[*index as usize].is_spam;
                *if is_spam { &mut found_spam } else { &mut found_ham } += weight;
            }
            start = *end;
            if found_ham > allowed[RATES.len() - 1] {
                break;
            }
            for (found, allowed) in found.iter_mut().zip(allowed) {
                if found_ham <= allowed {
                    *found = found_spam;
                }
            }
        }
        found.map(|found| (spam - found) as f64)
    }
}

/// Returns the weights of messages in one resample with replacement: the times each was drawn.
pub(super) fn resample(count: usize, random: &mut Random) -> Vec<u32> {
    let mut weights = vec![0; count];
    for _ in 0..count {
        weights[random.below(count)] += 1;
    }
    weights
}

/// Returns the bounds between which 95 % of the values lie.
pub(super) fn interval(values: &mut [f64]) -> (f64, f64) {
    values.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        let index = (values.len().saturating_sub(1) as f64 * share).round() as usize;
        values.get(index).copied().unwrap_or_default()
    };
    (at(0.025), at(0.975))
}

#[cfg(test)]
mod tests {
    use super::super::report::Answer;
    use super::*;

    #[test]
    fn equal_scores_are_found_together() {
        let answer = |(score, is_spam)| Answer {
            is_spam,
            score,
            is_taken_for_spam: false,
            is_taken_for_ham: false,
        };
        let mut all: Vec<(f64, bool)> = vec![(0.9, true), (0.8, true), (0.8, false), (0.3, true)];
        all.extend((0..999).map(|_| (0.1, false)));
        let answers: Answers = all.into_iter().map(answer).collect();
        let ranking = Ranking::new(&answers);
        assert_eq!(ranking.missed(&answers, &vec![1; answers.len()]), [0.0, 0.0, 0.0]);
        let mut weights = vec![1; answers.len()];
        weights[2] = 2;
        assert_eq!(ranking.missed(&answers, &weights), [2.0, 0.0, 0.0]);
    }

    #[test]
    fn intervals_leave_out_the_ends() {
        let mut values: Vec<f64> = (0..1001).rev().map(f64::from).collect();
        assert_eq!(interval(&mut values), (25.0, 975.0));
        let drawn = resample(1000, &mut Random(1));
        assert_eq!(drawn.iter().sum::<u32>(), 1000);
    }
}
