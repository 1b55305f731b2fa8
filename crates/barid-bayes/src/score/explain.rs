//! Explanations of scores: every token of a message with its probability.

use super::{Choice, Evidence, Parameters, Score, Scorer};

/// The part of one token in a score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<'a> {
    /// The token.
    pub token: &'a [u8],
    /// The counts of the token.
    pub evidence: Evidence,
    /// Probability that a message with this token is spam, see [`Evidence::probability`]; may be
    /// NaN.
    pub probability: f64,
    /// `true` if the token was scored.
    pub is_used: bool,
}

/// A score and every token of the message, in the order of their probabilities: ham first, equal
/// ones in byte order, NaN last.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation<'a> {
    /// The score.
    pub score: Score,
    /// The tokens.
    pub rows: Vec<Row<'a>>,
}

impl Scorer {
    /// Scores a message as [`Scorer::score_evidence`] does, and returns the part of each token.
    pub fn explain<'a>(
        &mut self,
        parameters: &Parameters,
        tokens: impl IntoIterator<Item = (&'a [u8], Evidence)>,
    ) -> Explanation<'a> {
        let row = |(token, evidence): (&'a [u8], Evidence)| {
            let probability = evidence.probability(parameters);
            Row { token, evidence, probability, is_used: false }
        };
        let mut rows: Vec<_> = tokens.into_iter().map(row).collect();
        let score = self.score_evidence(parameters, rows.iter().map(|row| row.evidence));
        let choice: Choice = self.choose(parameters);
        for row in &mut rows {
            row.is_used = choice.takes(row.probability);
        }
        rows.sort_by(|one, other| {
            let first = one.probability.is_nan().cmp(&other.probability.is_nan());
            first
                .then(one.probability.total_cmp(&other.probability))
                .then_with(|| one.token.cmp(other.token))
        });
        Explanation { score, rows }
    }
}
