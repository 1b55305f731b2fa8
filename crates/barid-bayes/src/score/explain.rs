//! Why a message has its score.

use super::{Choice, Evidence, Parameters, Score, Scorer};

/// What a token has to do with a score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<'a> {
    /// The token.
    pub token: &'a [u8],
    /// What is known of it.
    pub evidence: Evidence,
    /// How likely a message that holds it is spam; no number if one class has no message.
    pub probability: f64,
    /// Whether it counted.
    pub is_used: bool,
}

/// A score, and every token of the message: those that speak for ham first, equal ones in byte
/// order, those that say nothing last.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation<'a> {
    /// The score.
    pub score: Score,
    /// The tokens.
    pub rows: Vec<Row<'a>>,
}

impl Scorer {
    /// Scores a message as [`Scorer::score_evidence`] does, and keeps what each token had to do
    /// with it.
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
