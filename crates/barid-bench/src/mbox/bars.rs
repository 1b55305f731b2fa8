//! The bars that barid must reach.

use super::results::Results;
use super::step::{Side, Step};
use crate::lab::{Bar, Figures, megabytes};

/// A limit.
#[derive(Clone, Copy, Debug)]
enum Limit {
    /// Real time: at most 1/`n` of another side's at a step.
    Part(f64, Side, Step),
    /// Real time in milliseconds.
    Millis(f64),
    /// Number of calls that wait for the disk.
    Barriers(u64),
    /// Resident memory: at most 1/`n` of another side's.
    Memory(f64, Side),
    /// Bytes made dirty, except in cache and state: at most a multiple of the file size.
    Written(f64),
}

/// All bars.
const BARS: [(Step, Limit); 19] = [
    (Step::Sync, Limit::Part(6.0, Side::Dovecot, Step::Sync)),
    (Step::Sync, Limit::Part(35.0, Side::CClient, Step::Sync)),
    (Step::Sync, Limit::Part(1.0, Side::Copy, Step::Copy)),
    (Step::Sync, Limit::Barriers(300)),
    (Step::Sync, Limit::Memory(3.0, Side::Dovecot)),
    (Step::Sync, Limit::Written(1.05)),
    (Step::FlagOne, Limit::Millis(10.0)),
    (Step::FlagOne, Limit::Barriers(6)),
    (Step::FlagAll, Limit::Part(4.0, Side::Dovecot, Step::FlagAll)),
    (Step::ExpungeSmall, Limit::Millis(15.0)),
    (Step::ExpungeSmall, Limit::Part(100.0, Side::Dovecot, Step::ExpungeSmall)),
    (Step::ExpungeSmall, Limit::Part(40.0, Side::CClient, Step::ExpungeSmall)),
    (Step::ExpungeLarge, Limit::Millis(60.0)),
    (Step::ExpungeLarge, Limit::Part(100.0, Side::Dovecot, Step::ExpungeLarge)),
    (Step::ExpungeLarge, Limit::Part(40.0, Side::CClient, Step::ExpungeLarge)),
    (Step::ExpungeThird, Limit::Part(3.0, Side::Dovecot, Step::ExpungeThird)),
    (Step::ExpungeThird, Limit::Part(3.0, Side::CClient, Step::ExpungeThird)),
    (Step::Append, Limit::Part(3.0, Side::Dovecot, Step::Append)),
    (Step::AppendBatch, Limit::Part(3.0, Side::Dovecot, Step::AppendBatch)),
];

/// Returns the bars whose measurements exist.
pub(super) fn bars(results: &Results) -> Vec<Bar> {
    BARS.iter().filter_map(|(step, limit)| limit.of(results, *step)).collect()
}

impl Limit {
    fn of(self, results: &Results, step: Step) -> Option<Bar> {
        let ours = results.of(Side::Barid, step);
        let of = vec![step.name().to_owned()];
        let (bar, measured, passed) = match self {
            Self::Part(part, side, other) => {
                let ratio = ours.ratio(&results.of(side, other))?;
                return Some(Bar::part(of, part_of(part, side), ratio, part));
            }
            Self::Millis(most) => {
                let millis = ours.median(|figures| figures.real_s * 1e3)?;
                (format!("at most {most} ms"), format!("{millis:.1} ms"), millis <= most)
            }
            Self::Barriers(most) => {
                let count = ours.counted(|figures| figures.barriers)?;
                (format!("at most {most} barriers"), format!("{count} barriers"), count <= most)
            }
            Self::Memory(part, side) => {
                let peak = |figures: &Figures| megabytes(figures.maxrss_bytes);
                let (ours, theirs) = (ours.median(peak)?, results.of(side, step).median(peak)?);
                let bar = format!("{} peak of memory", part_of(part, side));
                (bar, format!("{ours:.1} of {theirs:.1} MB"), ours <= theirs / part)
            }
            Self::Written(most) => {
                let times = ours.median(|figures| {
                    let mailbox = figures.write_bytes.saturating_sub(figures.index_bytes);
                    mailbox as f64 / figures.file_bytes.max(1) as f64
                })?;
                let bar = format!("writes at most {most} times the file");
                (bar, format!("{times:.3} times"), times <= most)
            }
        };
        Some(Bar { of, bar, measured, passed })
    }
}

fn part_of(part: f64, side: Side) -> String {
    let part = if part > 1.0 { format!("1/{part} of") } else { "less than".to_owned() };
    let name = match side {
        Side::Copy => "cp and sync",
        Side::Barid => "barid's",
        Side::Dovecot | Side::DovecotLazy => "Dovecot's",
        Side::CClient => "c-client's",
    };
    format!("{part} {name}")
}

#[cfg(test)]
mod tests {
    use super::super::results::Run;
    use super::*;
    use crate::lab;

    fn results(side: Side, step: Step, seconds: &[f64]) -> Results {
        let run = |(index, real_s): (usize, &f64)| {
            let figures = Figures { real_s: *real_s, barriers: Some(7), ..Figures::default() };
            Run { round: index as u32, side, step, figures }
        };
        let runs = seconds.iter().enumerate().map(run).collect();
        Results { runs }
    }

    #[test]
    fn bars_are_passed_or_missed() {
        let mut all = results(Side::Barid, Step::FlagOne, &[9.0, 0.009, 0.011]);
        let ours = results(Side::Barid, Step::ExpungeThird, &[9.0, 1.0, 1.2]);
        let theirs = results(Side::Dovecot, Step::ExpungeThird, &[9.0, 4.0, 4.4]);
        all.runs.extend(ours.runs.into_iter().chain(theirs.runs));
        let lines = lab::bars(&["work"], &bars(&all)).text();
        let lines: Vec<Vec<_>> =
            lines.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[0].join(" "), "flag one at most 10 ms 10.0 ms pass");
        assert_eq!(lines[1].join(" "), "flag one at most 6 barriers 7 barriers MISS");
        let third = "expunge every third 1/3 of Dovecot's 1/3.8 (1/4.0-1/3.7) pass";
        assert_eq!(lines[2].join(" "), third);
    }
}
