//! Explanations as bogofilter writes them.

use super::{Evidence, Explanation, Parameters, Row, Score};
use crate::limits::TOKEN_LEN_MAX;

/// Intervals of a histogram.
const INTERVALS: usize = 10;
/// Marks of its longest bar.
const BAR_LEN_MAX: usize = 48;

impl Explanation<'_> {
    /// Writes the histogram that `bogofilter -vv` prints to the end of `to`, with `indent` before
    /// each line.
    pub fn write_histogram(&self, parameters: &Parameters, indent: &str, to: &mut Vec<u8>) {
        to.extend_from_slice(indent.as_bytes());
        to.extend_from_slice(b" int  cnt   prob  spamicity histogram\n");
        let bars = self.bars(parameters);
        let longest = bars.iter().map(|bar| bar.count).max().unwrap_or(0);
        for (index, bar) in bars.iter().enumerate() {
            let start = index as f64 / INTERVALS as f64;
            let mean = if bar.count > 0 { bar.sum / bar.count as f64 } else { 0.0 };
            let marks = match longest {
                ..=BAR_LEN_MAX => bar.count,
                longest => (bar.count * BAR_LEN_MAX).div_ceil(longest),
            };
            let line = format!(
                "{indent}{start:.2} {:>4} {mean:.6} {:.6} {}\n",
                bar.count,
                bar.spamicity,
                "#".repeat(marks)
            );
            to.extend_from_slice(line.as_bytes());
        }
    }

    fn bars(&self, parameters: &Parameters) -> [Bar; INTERVALS] {
        let mut bars = [Bar::default(); INTERVALS];
        let mut rows = self.rows.iter().peekable();
        let (mut ln_p, mut ln_q) = (0.0, 0.0);
        let used = self.score.used as f64;
        for (index, bar) in bars.iter_mut().enumerate() {
            let end = (index + 1) as f64 / INTERVALS as f64;
            while let Some(row) = rows.next_if(|row| row.probability < end) {
                if row.is_used {
                    bar.count += 1;
                    bar.sum += row.probability;
                    ln_p += (1.0 - row.probability).ln();
                    ln_q += row.probability.ln();
                }
            }
            let (p, q) = (1.0 - f64::exp(ln_p / used), 1.0 - f64::exp(ln_q / used));
            bar.spamicity = match self.score.used {
                0 => parameters.robx,
                _ if p + q < f64::EPSILON => 0.0,
                _ => (1.0 + (p - q) / (p + q)) / 2.0,
            };
        }
        bars
    }

    /// Writes the table that `bogofilter -R` prints, which R reads, as
    /// [`Explanation::write_table`].
    pub fn write_r_table(
        &self,
        parameters: &Parameters,
        indent: &str,
        token_len_max: usize,
        to: &mut Vec<u8>,
    ) {
        let wide = token_len_max.min(TOKEN_LEN_MAX) + 2;
        let head = format!(
            "{indent}{:wide$} {:>6}    {:<6}    {:<6}    {:<6}  {:<6}    {:<6} U\n",
            "", "n", "pgood", "pbad", "fw", "invfwlog", "fwlog"
        );
        to.extend_from_slice(head.as_bytes());
        for row in &self.rows {
            let logarithms = [1.0 - row.probability, row.probability].map(f64::ln);
            write_row(row, indent, token_len_max, Some(logarithms), to);
        }
        let Score { used, p, q, spamicity, min_dev, .. } = self.score;
        let numbers = [p, q, spamicity, parameters.robs, parameters.robx].map(scientific);
        let foot = format!(
            "{indent}{:<24} {used:>6} {} {min_dev:5.3}\n",
            "N_P_Q_S_s_x_md",
            numbers.join(" ")
        );
        to.extend_from_slice(foot.as_bytes());
    }

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
        let wide = token_len_max.min(TOKEN_LEN_MAX) + 2;
        let head = format!(
            "{indent}{:wide$} {:>6}    {:<6}    {:<6}    {:<6} U\n",
            "", "n", "pgood", "pbad", "fw"
        );
        to.extend_from_slice(head.as_bytes());
        for row in &self.rows {
            write_row(row, indent, token_len_max, None, to);
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

/// The scored tokens whose probabilities are in one interval.
#[derive(Clone, Copy, Debug, Default)]
struct Bar {
    count: usize,
    sum: f64,
    /// Combined score of the scored tokens up to the end of the interval.
    spamicity: f64,
}

fn write_row(
    row: &Row<'_>,
    indent: &str,
    token_len_max: usize,
    logarithms: Option<[f64; 2]>,
    to: &mut Vec<u8>,
) {
    let Evidence { counts, totals, .. } = row.evidence;
    let seen = counts.spam.wrapping_add(counts.ham);
    let pad = token_len_max.saturating_sub(row.token.len()).max(1);
    to.extend_from_slice(indent.as_bytes());
    to.push(b'"');
    to.extend_from_slice(row.token);
    let share = |count: u32, total: u32| Number(f64::from(count) / f64::from(total)).to_string();
    let (flag, good, bad) = if totals.ham == 0 && totals.spam == 0 {
        ('i', "--------".to_owned(), "--------".to_owned())
    } else {
        let flag = if row.is_used { '+' } else { '-' };
        (flag, share(counts.ham, totals.ham), share(counts.spam, totals.spam))
    };
    let probability = Number(row.probability);
    let logarithms = logarithms
        .map_or_else(String::new, |[against, of]| format!("{indent}{against:10.5}{of:10.5}"));
    let rest =
        format!("\"{:pad$} {seen:>6}  {good}  {bad}  {probability}{logarithms} {flag}\n", " ");
    to.extend_from_slice(rest.as_bytes());
}

/// A number as C's `%9.2e` writes it.
fn scientific(number: f64) -> String {
    let text = format!("{number:.2e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{:>9}", format!("{digits}e{sign}{exponent:0>2}"))
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
