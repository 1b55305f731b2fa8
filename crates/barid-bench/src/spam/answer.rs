//! Answers of the filters, and their comparison.

use anyhow::{Result, ensure};

use super::step::{Side, Step};

/// Largest difference between two scores of a message that count as equal.
const SCORE_DIFFERENCE_MAX: f64 = 1e-12;

/// An answer to a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The lines of a list, sorted.
    Words(Vec<String>),
    /// The scores of messages, in their order.
    Scores(Vec<f64>),
    /// Number of messages learned or classified, for a filter that reads messages differently and
    /// so has other words and scores.
    Count(u64),
}

impl Answer {
    /// Parses the output of a side.
    pub(crate) fn new(side: Side, step: Step, text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty());
        match (side, step) {
            (Side::Spam, Step::Register) => Self::Count(lines.map(learned).sum()),
            (Side::Spam, _) => Self::Count(lines.count() as u64),
            (_, Step::Register | Step::Dump) => {
                // Entries about the list itself differ, except for the number of messages.
                let is_word = |line: &&str| !line.starts_with('.') || learned(line) > 0;
                let mut words: Vec<String> = lines.filter(is_word).map(str::to_owned).collect();
                words.sort_unstable();
                Self::Words(words)
            }
            _ => Self::Scores(lines.map(score).collect()),
        }
    }

    /// Checks that the answer equals that of another side.
    pub(crate) fn compare(&self, expected: &Self) -> Result<()> {
        match (self, expected) {
            (Self::Words(own), Self::Words(other)) => {
                let differs = own.iter().zip(other).find(|(own, other)| own != other);
                if let Some((own, other)) = differs {
                    ensure!(false, "the list has {own:?} where the first has {other:?}");
                }
                let (own, other) = (own.len(), other.len());
                ensure!(own == other, "the list has {own} lines, the first {other}");
            }
            (Self::Scores(own), Self::Scores(other)) => {
                let (count, wanted) = (own.len(), other.len());
                ensure!(count == wanted, "{count} scores instead of {wanted}");
                let pairs = own.iter().zip(other).enumerate();
                for (at, (own, other)) in pairs {
                    let is_same = (own - other).abs() <= SCORE_DIFFERENCE_MAX;
                    ensure!(is_same, "message {}: {own} instead of {other}", at + 1);
                }
            }
            (own, other) => {
                let (own, other) = (own.count(), other.count());
                ensure!(own == other, "{own} messages instead of {other}");
            }
        }
        Ok(())
    }

    fn count(&self) -> u64 {
        match self {
            Self::Words(lines) => lines.iter().map(|line| learned(line)).sum(),
            Self::Scores(scores) => scores.len() as u64,
            Self::Count(count) => *count,
        }
    }
}

/// Returns the number of messages in a line `.MSG_COUNT SPAM HAM DATE` of a dump; 0 for other
/// lines.
fn learned(line: &str) -> u64 {
    let counts = line.strip_prefix(".MSG_COUNT ").unwrap_or_default();
    counts.split(' ').take(2).filter_map(|count| count.parse::<u64>().ok()).sum()
}

/// Parses the score in a line; an invalid score becomes NaN, which equals nothing.
fn score(line: &str) -> f64 {
    line.trim().parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_compared() {
        let check = |step, own: (Side, &str), other: (Side, &str), is_same| {
            let [own, other] = [own, other].map(|(side, text)| Answer::new(side, step, text));
            assert_eq!(own.compare(&other).is_ok(), is_same, "{own:?} {other:?}");
        };
        let lists =
            [".MSG_COUNT 2 1 20261122\na 1 2 3\n", ".X 1\na 1 2 3\n.MSG_COUNT 2 1 20261122"];
        check(Step::Register, (Side::Bdb, lists[0]), (Side::DropIn, lists[1]), true);
        check(Step::Register, (Side::Spam, lists[0]), (Side::DropIn, lists[1]), true);
        check(Step::Dump, (Side::Bdb, lists[0]), (Side::DropIn, "a 1 2 3\n"), false);
        check(Step::Dump, (Side::Bdb, "a 1 2 3\n"), (Side::DropIn, "a 1 3 3\n"), false);
        let step = Step::ClassifyAll;
        check(step, (Side::Bdb, "0.5\n0.25\n"), (Side::DropIn, "0.5\n0.2500000000000001\n"), true);
        check(step, (Side::Bdb, "0.5\n0.25\n"), (Side::DropIn, "0.5\n"), false);
        check(step, (Side::Bdb, "0.5\n"), (Side::DropIn, "0.500001\n"), false);
        check(step, (Side::Bdb, "x\n"), (Side::DropIn, "x\n"), false);
        check(step, (Side::Spam, "a\nb\n"), (Side::DropIn, "0.5\n0.25\n"), true);
        check(step, (Side::Spam, "a\n"), (Side::DropIn, "0.5\n0.25\n"), false);
    }
}
