//! The result table of a corpus.

use std::fmt::Write as _;

use super::Evaluation;
use super::filter::Answers;
use super::mail::Random;
use super::measure::{RATES, Ranking, interval, resample};

/// The table of one corpus.
#[derive(Debug, Default)]
pub(super) struct Table {
    text: String,
}

/// Missed spam and false positives of a split.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    missed: [f64; RATES.len()],
    missed_at_cutoffs: f64,
    ham_as_spam: f64,
    ham_unsure: f64,
}

impl Figures {
    fn of(answers: &Answers) -> Self {
        let count = |is: &dyn Fn(&super::report::Answer) -> bool| {
            answers.iter().filter(|answer| is(answer)).count() as f64
        };
        Self {
            missed: Ranking::new(answers).missed(answers, &vec![1; answers.len()]),
            missed_at_cutoffs: count(&|it| it.is_spam && !it.is_taken_for_spam),
            ham_as_spam: count(&|it| !it.is_spam && it.is_taken_for_spam),
            ham_unsure: count(&|it| !it.is_spam && !it.is_taken_for_spam && !it.is_taken_for_ham),
        }
    }

    fn cells(&self) -> [f64; RATES.len() + 3] {
        let [one, two, three] = self.missed;
        [one, two, three, self.missed_at_cutoffs, self.ham_as_spam, self.ham_unsure]
    }
}

impl Table {
    /// Adds the rows of a mode: the results of each profile on each split, and their difference.
    pub(super) fn add(
        &mut self,
        mode: &str,
        names: &[&str],
        answers: &[Vec<Answers>],
        evaluation: &Evaluation,
    ) {
        let mut means = Vec::new();
        for (name, answers) in names.iter().zip(answers) {
            let figures: Vec<_> = answers.iter().map(Figures::of).collect();
            let column = |index: usize| figures.iter().map(move |it| it.cells()[index]);
            let mean = |index| column(index).sum::<f64>() / figures.len().max(1) as f64;
            let cells: Vec<String> = (0..RATES.len() + 3)
                .map(|index| match figures.len() {
                    1 => format!("{}", mean(index)),
                    _ => format!("{:.1} ({})", mean(index), column(index).fold(0.0, f64::max)),
                })
                .collect();
            means.push(mean(RATES.len()));
            let _ = writeln!(self.text, "| {mode}, {name} | {} |", cells.join(" | "));
        }
        if let [measure, own] = answers {
            let cells = differences(measure, own, evaluation)
                .map(|(difference, low, high)| format!("{difference:+.1} [{low:+.1}, {high:+.1}]"));
            let share = match means[0] {
                0.0 => "–".to_owned(),
                missed => format!("{:.0} %", 100.0 * means[1] / missed),
            };
            let cells = cells.join(" | ");
            let _ = writeln!(self.text, "| {mode}, difference | {cells} | {share} | | |");
        }
    }

    /// Returns the table as Markdown.
    pub(super) fn text(&self) -> String {
        let mut text = String::from("\n| spam missed, mean (worst) ");
        for rate in RATES {
            let _ = write!(text, "| at {} % ", rate * 100.0);
        }
        text += "| at the cut-offs | ham as spam | ham unsure |\n";
        text += &"| --- ".repeat(RATES.len() + 4);
        text + "|\n" + &self.text
    }
}

/// Returns `own` minus `measure` in spam missed at each of [`RATES`]: the mean over all splits, and
/// the bounds of the interval with 95 % of the resamples. Both use the same resamples.
fn differences(
    measure: &[Answers],
    own: &[Answers],
    evaluation: &Evaluation,
) -> [(f64, f64, f64); RATES.len()] {
    let mut random = Random(evaluation.seed);
    let mut found = [(); RATES.len()].map(|()| Vec::new());
    let rankings: Vec<_> = measure
        .iter()
        .zip(own)
        .map(|(measure, own)| (Ranking::new(measure), Ranking::new(own)))
        .collect();
    let splits = || rankings.iter().zip(measure.iter().zip(own));
    for round in 0..=evaluation.resamples {
        let mut sums = [0.0; RATES.len()];
        for ((of_measure, of_own), (measure, own)) in splits() {
            let weights = match round {
                0 => vec![1; own.len()],
                _ => resample(own.len(), &mut random),
            };
            let theirs = of_measure.missed(measure, &weights);
            let ours = of_own.missed(own, &weights);
            for (sum, (ours, theirs)) in sums.iter_mut().zip(ours.into_iter().zip(theirs)) {
                *sum += (ours - theirs) / rankings.len() as f64;
            }
        }
        for (found, sum) in found.iter_mut().zip(sums) {
            found.push(sum);
        }
    }
    found.map(|mut values| {
        let difference = values.remove(0);
        let (low, high) = interval(&mut values);
        (difference, low, high)
    })
}
