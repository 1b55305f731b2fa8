//! Reports of `bogoutil` on a word list.

use barid_bayes::{Evidence, Parameters};
use barid_wordlist::{Counts, WordList};

use super::Result;
use super::printf::text;

/// Number of intervals of the histogram.
const INTERVALS: usize = 20;
/// Number of marks of its longest bar.
const BAR_LEN_MAX: u64 = 48;

fn probability(counts: Counts, totals: Counts, parameters: &Parameters) -> f64 {
    let of = |counts: Counts| barid_bayes::Counts { spam: counts.spam, ham: counts.ham };
    let evidence = Evidence { counts: of(counts), totals: of(totals), ..Evidence::default() };
    evidence.probability(parameters)
}

/// A table of words and their counts, in the format of `bogoutil -w` and `-p`.
#[derive(Debug)]
pub struct WordTable {
    totals: Counts,
    with_probability: bool,
}

impl WordTable {
    /// Writes the head of a table.
    ///
    /// # Errors
    /// [`super::Error::List`].
    pub fn new(list: &mut dyn WordList, with_probability: bool, to: &mut Vec<u8>) -> Result<Self> {
        let totals = if with_probability { list.totals()? } else { Counts::default() };
        match with_probability {
            true => text(
                to,
                format_args!("{:<30} {:>6}  {:>6}  {:>6}\n", "", "spam", "good", "  Fisher"),
            ),
            false => text(to, format_args!("{:<30} {:>6} {:>6}\n", "", "spam", "good")),
        }
        Ok(Self { totals, with_probability })
    }

    /// Adds a word, if it is in the list.
    ///
    /// # Errors
    /// [`super::Error::List`].
    pub fn add(&self, list: &mut dyn WordList, word: &[u8], to: &mut Vec<u8>) -> Result<()> {
        let Some(entry) = list.entry(word)? else { return Ok(()) };
        to.extend_from_slice(word);
        to.resize(to.len() + 30_usize.saturating_sub(word.len()), b' ');
        match self.with_probability {
            true => {
                let probability = probability(entry.counts(), self.totals, &Parameters::default());
                let shown = if probability.is_nan() {
                    "-nan".to_owned()
                } else {
                    format!("{probability:.6}")
                };
                text(to, format_args!(" {:>6}  {:>6}  {shown}\n", entry.spam, entry.ham));
            }
            false => text(to, format_args!(" {:>6} {:>6}\n", entry.spam, entry.ham)),
        }
        Ok(())
    }
}

/// Number of words of one class only, and of those seen once.
#[derive(Clone, Copy, Debug, Default)]
struct Pure {
    all: u64,
    once: u64,
}

/// Writes the output of `bogoutil -H`; with `verbose` 1 without words seen once, with 2 without
/// words of one class only.
///
/// # Errors
/// [`super::Error::List`].
pub fn histogram(list: &mut dyn WordList, verbose: u32, to: &mut Vec<u8>) -> Result<()> {
    let totals = list.totals()?;
    // Plain shares: words never seen have no weight.
    let parameters = Parameters { robx: 0.0, robs: 0.0, ..Parameters::default() };
    let mut bars = [0_u64; INTERVALS];
    let (mut ham, mut spam) = (Pure::default(), Pure::default());
    list.scan(&mut |token, entry| {
        if token.first() == Some(&b'.') {
            return true;
        }
        let share = probability(entry.counts(), totals, &parameters) * INTERVALS as f64;
        // A share that is not a number is counted in the last interval.
        let index = if share.is_nan() { INTERVALS } else { share as usize };
        bars[index.min(INTERVALS - 1)] += 1;
        if entry.spam == 0 {
            ham.all += 1;
            ham.once += u64::from(entry.ham == 1);
        }
        if entry.ham == 0 {
            spam.all += 1;
            spam.once += u64::from(entry.spam == 1);
        }
        true
    })?;
    let (title, without) = match verbose {
        0 => ("Histogram\n", (0, 0)),
        1 => ("Histogram without hapaxes\n", (ham.once, spam.once)),
        2 => ("Histogram without pure ham and spam\n", (ham.all, spam.all)),
        _ => ("", (0, 0)),
    };
    to.extend_from_slice(title.as_bytes());
    bars[0] = bars[0].saturating_sub(without.0);
    bars[INTERVALS - 1] = bars[INTERVALS - 1].saturating_sub(without.1);
    let count = write_bars(&bars, to);
    write_pure((ham, spam), count, verbose, to);
    Ok(())
}

/// Writes the bars. Returns the number of their words.
fn write_bars(bars: &[u64; INTERVALS], to: &mut Vec<u8>) -> u64 {
    text(to, format_args!("{:>5}{:>8}  {:>3}  {}\n", "score", "count", "pct", "histogram"));
    let longest = bars.iter().copied().max().unwrap_or(0);
    let count = bars.iter().sum();
    for (index, bar) in bars.iter().enumerate() {
        let share = Percent(*bar, count);
        let start = index as f64 / INTERVALS as f64;
        let marks = match longest {
            ..=BAR_LEN_MAX => *bar,
            longest => (bar * BAR_LEN_MAX).div_ceil(longest),
        };
        text(to, format_args!("{start:.2} {bar:>8} {share} {}\n", "#".repeat(marks as usize)));
    }
    text(to, format_args!("tot  {count:>8}\n"));
    count
}

fn write_pure((ham, spam): (Pure, Pure), count: u64, verbose: u32, to: &mut Vec<u8>) {
    for (name, ham, spam) in [("hapaxes:", ham.once, spam.once), ("   pure:", ham.all, spam.all)] {
        match verbose {
            0 => {
                let (of_ham, of_spam) = (Percent(ham, count), Percent(spam, count));
                let args =
                    format_args!("{name}  ham {ham:>7} ({of_ham}%), spam {spam:>7} ({of_spam}%)\n");
                text(to, args);
            }
            _ => text(to, format_args!("{name}  ham {ham:>7}, spam {spam:>7}\n")),
        }
    }
}

/// A part of a whole.
struct Percent(u64, u64);

impl std::fmt::Display for Percent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.1 {
            0 => formatter.write_str(" -nan"),
            whole => write!(formatter, "{:5.2}", 100.0 * self.0 as f64 / whole as f64),
        }
    }
}
