//! Tables of the classification results.

use std::fmt::Write as _;

/// The result of one program for one message, and the message's true class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) is_spam: bool,
    pub(super) score: f64,
    pub(super) is_taken_for_spam: bool,
    pub(super) is_taken_for_ham: bool,
}

/// The results of one program for all messages, with its default parameters and with tuned ones.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) name: String,
    pub(super) plain: Vec<Answer>,
    pub(super) tuned: Vec<Answer>,
}

/// Numbers of false positives for which the table lists the spam missed.
const ALLOWED: [usize; 7] = [0, 1, 2, 4, 8, 16, 32];

/// Returns the tables of one experiment as Markdown.
pub(super) fn text(title: &str, runs: &[Run]) -> String {
    let count = |is_spam| {
        runs.first().map_or(0, |run| run.plain.iter().filter(|it| it.is_spam == is_spam).count())
    };
    let mut text = format!("\n{title}: {} spam, {} ham.\n\n", count(true), count(false));
    text += "| | ham as spam | ham unsure | spam as ham | spam unsure | spam missed |\n";
    text += "| --- | --- | --- | --- | --- | --- |\n";
    let settings = |run: &Run| {
        let both = [(run.name.clone(), run.plain.clone())];
        let tuned = (format!("{}, tuned", run.name), run.tuned.clone());
        both.into_iter().chain((!tuned.1.is_empty()).then_some(tuned))
    };
    let all: Vec<(String, Vec<Answer>)> = runs.iter().flat_map(settings).collect();
    for (name, answers) in &all {
        let counts = Counts::of(answers);
        let Counts { ham_as_spam, ham_unsure, spam_as_ham, spam_unsure } = counts;
        let missed = spam_as_ham + spam_unsure;
        let cells = [ham_as_spam, ham_unsure, spam_as_ham, spam_unsure, missed];
        row(&mut text, name, &cells);
    }
    let allowed = ALLOWED.map(|count| count.to_string()).join(" | ");
    let _ = write!(text, "\n| spam missed at so many ham as spam | {allowed} |\n| --- |");
    text += &" --- |".repeat(ALLOWED.len());
    text.push('\n');
    for (name, answers) in &all {
        row(&mut text, name, &ALLOWED.map(|allowed| missed_at(answers, allowed)));
    }
    for (label, is_tuned) in [("", false), (", tuned", true)] {
        let of = |name: &str| {
            let found = all.iter().find(|(known, _)| *known == format!("{name}{label}"));
            found.map(|(_, answers)| answers)
        };
        if let (Some(theirs), Some(ours)) = (of("bogofilter itself"), of("barid, profile modern")) {
            compare(&mut text, is_tuned, theirs, ours);
        }
    }
    text
}

/// Writes the spam that barid misses at bogofilter's number of false positives, and the false
/// positives that it has at bogofilter's number of missed spam.
fn compare(text: &mut String, is_tuned: bool, theirs: &[Answer], ours: &[Answer]) {
    let counts = Counts::of(theirs);
    let (positives, missed) = (counts.ham_as_spam, counts.spam_as_ham + counts.spam_unsure);
    let how = if is_tuned { "Tuned, at" } else { "At" };
    let _ = writeln!(
        text,
        "\n{how} bogofilter's {positives} false positives modern misses {} spam, bogofilter \
         {missed}; where it misses no more than that, it has {} false positives.",
        missed_at(ours, positives),
        positives_at(ours, missed)
    );
}

fn row(text: &mut String, name: &str, cells: &[usize]) {
    let cells: Vec<String> = cells.iter().map(usize::to_string).collect();
    let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    ham_as_spam: usize,
    ham_unsure: usize,
    spam_as_ham: usize,
    spam_unsure: usize,
}

impl Counts {
    fn of(answers: &[Answer]) -> Self {
        let mut counts = Self::default();
        for answer in answers {
            match (answer.is_spam, answer.is_taken_for_spam, answer.is_taken_for_ham) {
                (false, true, _) => counts.ham_as_spam += 1,
                (false, false, false) => counts.ham_unsure += 1,
                (true, false, true) => counts.spam_as_ham += 1,
                (true, false, false) => counts.spam_unsure += 1,
                (true, true, _) | (false, false, true) => {}
            }
        }
        counts
    }
}

/// Returns the points of the error curve for falling scores: the number of ham messages at or above
/// the score, and of spam messages below it.
pub(super) fn points(answers: &[Answer]) -> Vec<(usize, usize)> {
    let mut order: Vec<(f64, bool)> = answers.iter().map(|it| (it.score, it.is_spam)).collect();
    order.sort_unstable_by(|one, other| other.0.total_cmp(&one.0));
    let spam = order.iter().filter(|(_, is_spam)| *is_spam).count();
    let (mut points, mut ham_seen, mut spam_seen) = (vec![(0, spam)], 0, 0);
    for group in order.chunk_by(|one, other| one.0 == other.0) {
        let own = group.iter().filter(|(_, is_spam)| *is_spam).count();
        (spam_seen, ham_seen) = (spam_seen + own, ham_seen + group.len() - own);
        points.push((ham_seen, spam - spam_seen));
    }
    points
}

/// Returns the fewest spam messages missed with at most `allowed` false positives.
fn missed_at(answers: &[Answer], allowed: usize) -> usize {
    let within = points(answers).into_iter().filter(|(positives, _)| *positives <= allowed);
    within.map(|(_, missed)| missed).min().unwrap_or_default()
}

/// Returns the fewest false positives with at most `allowed` spam messages missed.
fn positives_at(answers: &[Answer], allowed: usize) -> usize {
    let within = points(answers).into_iter().filter(|(_, missed)| *missed <= allowed);
    within.map(|(positives, _)| positives).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_read_both_ways() {
        let answer = |(score, is_spam)| Answer {
            is_spam,
            score,
            is_taken_for_spam: score >= 0.9,
            is_taken_for_ham: score <= 0.2,
        };
        let answers =
            [(1.0, true), (1.0, true), (0.9, false), (0.8, true), (0.8, false), (0.1, true)];
        let answers = answers.map(answer);
        let missed = [0, 1, 2, 3].map(|allowed| missed_at(&answers, allowed));
        assert_eq!(missed, [2, 2, 0, 0]);
        let positives = [0, 1, 2, 4].map(|allowed| positives_at(&answers, allowed));
        assert_eq!(positives, [2, 2, 0, 0]);
        let counts = Counts::of(&answers);
        let expected = Counts { ham_as_spam: 1, ham_unsure: 1, spam_as_ham: 1, spam_unsure: 1 };
        assert_eq!(counts, expected);
    }
}
