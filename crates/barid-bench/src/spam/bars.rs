//! The bars that barid must reach.

use super::results::Results;
use super::step::{Side, Step};
use crate::lab::{Bar, megabytes};

/// The bars for time. A bar of `n` is passed with at most 1/`n` of the time of the fastest build.
const BARS: [(Step, Side, f64); 10] = [
    (Step::Register, Side::DropIn, 8.0),
    (Step::Register, Side::Spam, 8.0),
    (Step::ClassifyAll, Side::DropIn, 12.0),
    (Step::ClassifyAll, Side::Spam, 12.0),
    (Step::ClassifyEach, Side::DropIn, 2.0),
    (Step::ClassifyEach, Side::Spam, 2.0),
    (Step::ClassifyEach, Side::Daemon, 3.0),
    (Step::ClassifyCold, Side::DropIn, 4.0),
    (Step::ClassifyCold, Side::Spam, 4.0),
    (Step::Dump, Side::DropIn, 4.0),
];

/// Highest ratio of the time with the large list to that with the small one.
const LARGE_LIST_MAX: f64 = 1.5;

/// A list may have at most 1/`SIZE_PART` of Berkeley DB's size.
const SIZE_PART: f64 = 2.0;

/// Returns the bars whose measurements exist.
pub(super) fn bars(results: &Results) -> Vec<Bar> {
    let times = BARS.iter().filter_map(|(step, side, part)| of_time(results, *step, *side, *part));
    let own = [Side::DropIn, Side::Spam];
    let large = own.iter().filter_map(|side| of_large_list(results, *side));
    let size = own.iter().filter_map(|side| of_size(results, *side));
    times.chain(large).chain(size).collect()
}

fn of_time(results: &Results, step: Step, side: Side, part: f64) -> Option<Bar> {
    let best = results.best(step)?;
    let ratio = results.of(side, step).ratio(&results.of(best, step))?;
    let of = vec![step.to_string(), side.to_string()];
    Some(Bar::part(of, format!("1/{part} of {best}, the fastest"), ratio, part))
}

fn of_large_list(results: &Results, side: Side) -> Option<Bar> {
    let of = |step| results.of(side, step);
    let ratio = of(Step::ClassifyLarge).ratio(&of(Step::ClassifySmall))?.ratio;
    Some(Bar {
        of: vec![Step::ClassifyLarge.to_string(), side.to_string()],
        bar: format!("{LARGE_LIST_MAX} times the small list"),
        measured: format!("{ratio:.2}"),
        passed: ratio <= LARGE_LIST_MAX,
    })
}

fn of_size(results: &Results, side: Side) -> Option<Bar> {
    let size = |side| results.of(side, Step::Register).median(|f| megabytes(f.index_bytes));
    let (own, other) = (size(side)?, size(Side::Bdb)?);
    Some(Bar {
        of: vec!["size of the list".to_owned(), side.to_string()],
        bar: format!("1/{SIZE_PART} of {}", Side::Bdb),
        measured: format!("{own:.1} of {other:.1} MB"),
        passed: own <= other / SIZE_PART,
    })
}

#[cfg(test)]
mod tests {
    use super::super::results::Run;
    use super::*;
    use crate::lab::{self, Figures};

    #[test]
    fn bars_are_passed_or_missed() {
        let mut results = Results::default();
        for (side, step, seconds, index_bytes) in [
            (Side::DropIn, Step::Register, 1.0, 6_000_000),
            (Side::Bdb, Step::Register, 8.0, 10_000_000),
            (Side::Sqlite, Step::Register, 9.0, 1),
            (Side::Daemon, Step::ClassifyEach, 1.0, 0),
            (Side::Bdb, Step::ClassifyEach, 5.0, 0),
            (Side::Sqlite, Step::ClassifyEach, 2.0, 0),
            (Side::DropIn, Step::ClassifySmall, 1.0, 0),
            (Side::DropIn, Step::ClassifyLarge, 1.25, 0),
        ] {
            let figures = Figures { real_s: seconds, index_bytes, ..Figures::default() };
            results.runs.push(Run { round: 1, side, step, figures });
        }
        let text = lab::bars(&["work", "side"], &bars(&results)).text();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = text.lines().skip(1).map(words).collect();
        assert_eq!(
            lines,
            [
                "register spam and ham barid bogofilter 1/8 of bogofilter-bdb, the fastest \
                 1/8.0 pass",
                "classify, a process each barid bogofilter, daemon 1/3 of bogofilter-sqlite, the \
                 fastest 1/2.0 MISS",
                "classify, large list barid bogofilter 1.5 times the small list 1.25 pass",
                "size of the list barid bogofilter 1/2 of bogofilter-bdb 6.0 of 10.0 MB MISS",
            ]
        );
    }
}
