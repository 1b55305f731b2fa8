//! Why a message has its score.

use std::io::Write;

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

impl Explanation<'_> {
    /// Writes the table that `bogofilter -vvv` prints to the end of `to`, with `indent` before
    /// each line (two spaces in headers), and columns as wide as the longest token of
    /// `token_len_max` bytes takes.
    pub fn write_table(
        &self,
        parameters: &Parameters,
        indent: &str,
        token_len_max: usize,
        to: &mut Vec<u8>,
    ) {
        let wide = token_len_max + 2;
        let head = format!(
            "{indent}{:wide$} {:>6}    {:<6}    {:<6}    {:<6} U\n",
            "", "n", "pgood", "pbad", "fw"
        );
        to.extend_from_slice(head.as_bytes());
        for row in &self.rows {
            write_row(row, indent, token_len_max, to);
        }
        let Score { used, p, q, spamicity, min_dev, .. } = self.score;
        let Parameters { robs, robx, .. } = *parameters;
        let foot = format!(
            "{indent}{:<wide$} {used:>6} {p:>9.6} {q:>9.6} {spamicity:>9.6}\n\
             {indent}{:<wider$}  {robs:>9.6} {robx:>9.6} {min_dev:>9.6}\n",
            "N_P_Q_S_s_x_md",
            " ",
            wider = wide + 6
        );
        to.extend_from_slice(foot.as_bytes());
    }
}

fn write_row(row: &Row<'_>, indent: &str, token_len_max: usize, to: &mut Vec<u8>) {
    let Evidence { counts, totals } = row.evidence;
    let seen = counts.spam.wrapping_add(counts.ham);
    let pad = token_len_max.saturating_sub(row.token.len()).max(1);
    to.extend_from_slice(indent.as_bytes());
    to.push(b'"');
    to.extend_from_slice(row.token);
    let share = |count: u32, total: u32| f64::from(count) / f64::from(total);
    let probability = Number(row.probability);
    let written = if totals.ham == 0 && totals.spam == 0 {
        writeln!(to, "\"{:pad$} {seen:>6}  --------  --------  {probability} i", " ")
    } else {
        let flag = if row.is_used { '+' } else { '-' };
        let good = Number(share(counts.ham, totals.ham));
        let bad = Number(share(counts.spam, totals.spam));
        writeln!(to, "\"{:pad$} {seen:>6}  {good}  {bad}  {probability} {flag}", " ")
    };
    written.expect("because writing to memory does not fail");
}

/// A number with six decimals as C's `%8.6f` writes it.
struct Number(f64);

impl std::fmt::Display for Number {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            number if number.is_nan() => formatter.write_str("    -nan"),
            number if number.is_infinite() => formatter.write_str("     inf"),
            number => write!(formatter, "{number:8.6}"),
        }
    }
}
