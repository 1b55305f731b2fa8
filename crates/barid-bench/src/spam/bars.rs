//! What barid must reach.

use super::results::Results;
use super::step::{Side, Step};
use crate::Ratio;
use crate::table::Table;

/// Something that is measured against a bar.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    work: String,
    side: Side,
    bar: String,
    measured: String,
    passed: bool,
}

/// The bars of time: a part of that of the fastest build.
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

/// How much longer a message may take with the large list than with the small one.
const LARGE_LIST_MAX: f64 = 1.5;

/// The part of Berkeley DB's size that a list may have.
const SIZE_PART: f64 = 2.0;

/// The bars that can be told of, as what they need was measured.
pub(crate) fn bars(results: &Results) -> Vec<Bar> {
    let times = BARS.iter().filter_map(|(step, side, part)| of_time(results, *step, *side, *part));
    let own = [Side::DropIn, Side::Spam];
    let large = own.iter().filter_map(|side| of_large_list(results, *side));
    let size = own.iter().filter_map(|side| of_size(results, *side));
    times.chain(large).chain(size).collect()
}

fn of_time(results: &Results, step: Step, side: Side, part: f64) -> Option<Bar> {
    let best = results.best(step)?;
    let ratio = results.ratio(step, side, best)?;
    Some(Bar {
        work: step.to_string(),
        side,
        bar: format!("1/{part} of {best}, the fastest"),
        measured: ratio.text_with_spread(),
        passed: ratio.ratio <= 1.0 / part,
    })
}

fn of_large_list(results: &Results, side: Side) -> Option<Bar> {
    let seconds = |step| results.values(side, step, |figures| figures.real_s);
    let ratio = Ratio::of(&seconds(Step::ClassifyLarge), &seconds(Step::ClassifySmall))?;
    Some(Bar {
        work: Step::ClassifyLarge.to_string(),
        side,
        bar: format!("{LARGE_LIST_MAX} times the small list"),
        measured: format!("{:.2}", ratio.ratio),
        passed: ratio.ratio <= LARGE_LIST_MAX,
    })
}

fn of_size(results: &Results, side: Side) -> Option<Bar> {
    let bytes = |figures: &crate::mbox::Figures| figures.index_bytes as f64;
    let median = |side| Some(results.spread(side, Step::Register, bytes)?.median);
    let (own, other) = (median(side)?, median(Side::Bdb)?);
    Some(Bar {
        work: "size of the list".to_owned(),
        side,
        bar: format!("1/{SIZE_PART} of {}", Side::Bdb),
        measured: format!("{:.1} of {:.1} MB", own / 1e6, other / 1e6),
        passed: own <= other / SIZE_PART,
    })
}

/// As a table.
pub(crate) fn table(bars: &[Bar]) -> Table {
    let mut table = Table::new(5, ["work", "side", "bar", "measured", ""]);
    for bar in bars {
        let verdict = if bar.passed { "pass" } else { "MISS" };
        let side = bar.side.to_string();
        let cells = [&bar.work, &side, &bar.bar, &bar.measured, verdict];
        table.row(cells.map(str::to_owned).into());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::results::Run;
    use super::*;
    use crate::mbox::Figures;

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
        let text = table(&bars(&results)).text();
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
