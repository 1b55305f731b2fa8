//! The bars that barid must reach.

use super::results::Results;
use super::step::{Program, Side, Step, Store, Work};
use crate::lab::{Bar, megabytes};

/// The formats of barid to which a bar applies.
#[derive(Clone, Copy, Debug)]
enum With {
    All,
    These(&'static [Store]),
}

/// The side that a bar compares with.
#[derive(Clone, Copy, Debug)]
enum Whom {
    /// A program with the same format.
    Same(Program),
    /// A fixed program and format.
    The(Side),
    /// A program with the format in which it is fastest.
    Best(Program),
}

/// The bars for time. A bar of `n` is passed with at most 1/`n` of the other side's time.
const BARS: [(Step, With, f64, Whom); 12] = {
    use Program::{CClient, Dovecot};
    use Store::{Maildir, Mbx, Mix};
    let uw_mix = Whom::The(Side::new(CClient, Mix));
    [
        (Step::again(Work::Select), With::All, 2.0, Whom::Best(Dovecot)),
        (Step::again(Work::Select), With::All, 10.0, Whom::Same(CClient)),
        (Step::first(Work::Select), With::These(&[Mbx, Mix]), 1.0, Whom::Same(CClient)),
        (Step::again(Work::Fetch), With::All, 3.0, Whom::Best(Dovecot)),
        (Step::again(Work::Fetch), With::All, 6.0, Whom::Same(CClient)),
        (Step::again(Work::All), With::All, 6.0, Whom::Best(Dovecot)),
        (Step::first(Work::Thread), With::All, 4.0, uw_mix),
        (Step::again(Work::Thread), With::All, 4.0, Whom::Best(Dovecot)),
        (Step::again(Work::Search), With::All, 5.0, Whom::Best(Dovecot)),
        (Step::first(Work::Convert), With::These(&[Mbx]), 15.0, Whom::Same(CClient)),
        (Step::first(Work::Convert), With::These(&[Mix]), 15.0, Whom::Same(CClient)),
        (Step::first(Work::Convert), With::These(&[Maildir]), 4.0, Whom::Same(Dovecot)),
    ]
};

/// Most megabytes that opening an mbox again may read from the disk.
const COLD_MB_MAX: f64 = 1.0;

/// Returns the bars whose measurements exist.
pub(super) fn bars(results: &Results) -> Vec<Bar> {
    let mut bars = Vec::new();
    for (step, with, part, whom) in BARS {
        for store in results.own().filter(|store| with.has(*store)) {
            bars.extend(bar_of_time(results, step, store, part, whom));
        }
    }
    bars.extend(cold(results));
    bars
}

impl With {
    fn has(self, store: Store) -> bool {
        match self {
            Self::All => true,
            Self::These(stores) => stores.contains(&store),
        }
    }
}

fn bar_of_time(results: &Results, step: Step, store: Store, part: f64, whom: Whom) -> Option<Bar> {
    let other = match whom {
        Whom::Same(program) => Side::new(program, store),
        Whom::The(side) => side,
        Whom::Best(program) => results.best(program, step)?,
    };
    let ratio =
        results.of(Side::new(Program::Barid, store), step).ratio(&results.of(other, step))?;
    let best = if matches!(whom, Whom::Best(_)) { ", its best" } else { "" };
    let of = if part > 1.0 { format!("1/{part} of") } else { "at most".to_owned() };
    let bar = format!("{of} {other}{best}");
    Some(Bar::part(vec![format!("{step}: {}", store.name())], bar, ratio, part))
}

/// Returns the bar for the bytes that opening an mbox again reads with cold caches.
fn cold(results: &Results) -> Option<Bar> {
    let (side, step) = (Side::new(Program::Barid, Store::Mbox), Step::again(Work::Select));
    let read = results.of(side, step).median(|f| megabytes(f.read_bytes));
    let read = read.filter(|_| results.is_cold)?;
    Some(Bar {
        of: vec![format!("{step}: {}", side.store.name())],
        bar: format!("reads less than {COLD_MB_MAX} MB from the disk"),
        measured: format!("{read:.3} MB of {:.1}", megabytes(results.bytes)),
        passed: read < COLD_MB_MAX,
    })
}

#[cfg(test)]
mod tests {
    use super::super::results::Run;
    use super::*;
    use crate::lab::{self, Figures};

    fn runs(side: Side, step: Step, seconds: &[f64]) -> Vec<Run> {
        let run = |(index, real_s): (usize, &f64)| {
            let figures = Figures { real_s: *real_s, read_bytes: 4096, ..Figures::default() };
            Run { round: index as u32, side, step, figures }
        };
        seconds.iter().enumerate().map(run).collect()
    }

    fn side(program: Program, store: Store) -> Side {
        Side::new(program, store)
    }

    #[test]
    fn bars_are_passed_or_missed() {
        let mut results = Results { is_cold: true, bytes: 1_400_000_000, ..Results::default() };
        let again = Step::again(Work::Select);
        for (side, seconds) in [
            (side(Program::Barid, Store::Mbox), [9.0, 0.004, 0.004]),
            (side(Program::CClient, Store::Mbox), [9.0, 0.030, 0.030]),
            (side(Program::Dovecot, Store::Maildir), [9.0, 0.012, 0.012]),
            (side(Program::Dovecot, Store::Sdbox), [9.0, 0.010, 0.010]),
        ] {
            results.runs.extend(runs(side, again, &seconds));
        }
        let text = lab::bars(&["work"], &bars(&results)).text();
        let lines: Vec<Vec<_>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        let lines: Vec<String> = lines.iter().map(|line| line.join(" ")).collect();
        assert_eq!(
            lines,
            [
                "select, again: mbox 1/2 of dovecot sdbox, its best 1/2.5 pass",
                "select, again: mbox 1/10 of c-client mbox 1/7.5 MISS",
                "select, again: mbox reads less than 1 MB from the disk 0.004 MB of 1400.0 pass",
            ]
        );
    }

    #[test]
    fn conversions_are_compared_by_format() {
        let mut results = Results::default();
        let step = Step::first(Work::Convert);
        for (side, seconds) in [
            (side(Program::Barid, Store::Mbx), [9.0, 1.0]),
            (side(Program::CClient, Store::Mbx), [9.0, 15.0]),
            (side(Program::Barid, Store::Maildir), [9.0, 1.0]),
            (side(Program::Dovecot, Store::Maildir), [9.0, 3.0]),
        ] {
            results.runs.extend(runs(side, step, &seconds));
        }
        let bars = bars(&results);
        let verdicts: Vec<_> = bars.iter().map(|bar| (bar.of[0].as_str(), bar.passed)).collect();
        let name = |store| format!("convert from mbox: {store}");
        assert_eq!(verdicts, [(&*name("mbx"), true), (&*name("maildir"), false)]);
    }
}
