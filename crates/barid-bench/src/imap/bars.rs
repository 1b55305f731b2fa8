//! The bars that barid must reach.

use super::results::Results;
use super::step::{MailFormat, Side, Step, Work};
use crate::lab::{Bar, Figures, Ratio, megabytes};

/// A limit. One of `n` is passed with at most 1/`n` of Dovecot's figure.
#[derive(Clone, Copy, Debug)]
enum Limit {
    /// CPU time of the server, of Dovecot in one of its setups.
    Cpu(f64, Side),
    /// Real time.
    Real(f64),
    /// Proportional set size.
    Memory(f64),
    /// Real time in milliseconds.
    Millis(f64),
}

use MailFormat::{Maildir, Mbox};

const BARS: [(Work, MailFormat, Limit); 24] = [
    (Work::Login, Maildir, Limit::Cpu(6.0, Side::Dovecot)),
    (Work::Login, Maildir, Limit::Cpu(3.0, Side::DovecotKept)),
    (Work::IdleUsers, Maildir, Limit::Memory(10.0)),
    (Work::IdleOne, Maildir, Limit::Memory(50.0)),
    (Work::Push, Maildir, Limit::Millis(100.0)),
    (Work::Append, Maildir, Limit::Real(1.0)),
    (Work::Append, Mbox, Limit::Real(1.0)),
    (Work::AppendMany, Mbox, Limit::Real(4.0)),
    (Work::Move, Maildir, Limit::Real(1.0)),
    (Work::SelectFirst, Maildir, Limit::Real(1.0)),
    (Work::SelectFirst, Mbox, Limit::Real(5.0)),
    (Work::SelectAgain, Maildir, Limit::Real(1.0)),
    (Work::SelectAgain, Mbox, Limit::Real(1.0)),
    (Work::Flags, Maildir, Limit::Cpu(3.0, Side::Dovecot)),
    (Work::Flags, Mbox, Limit::Cpu(3.0, Side::Dovecot)),
    (Work::SearchAll, Maildir, Limit::Cpu(3.0, Side::Dovecot)),
    (Work::SearchAll, Mbox, Limit::Cpu(3.0, Side::Dovecot)),
    (Work::Envelope, Maildir, Limit::Cpu(4.0, Side::Dovecot)),
    (Work::Envelope, Mbox, Limit::Cpu(4.0, Side::Dovecot)),
    (Work::Bodies, Maildir, Limit::Real(2.0)),
    (Work::Bodies, Mbox, Limit::Real(2.0)),
    (Work::SearchText, Maildir, Limit::Cpu(3.0, Side::Dovecot)),
    (Work::SearchText, Mbox, Limit::Cpu(3.0, Side::Dovecot)),
    (Work::Thread, Mbox, Limit::Cpu(20.0, Side::Dovecot)),
];

/// Returns the CPU time of a run.
pub(crate) fn cpu(figures: &Figures) -> f64 {
    figures.user_s + figures.sys_s
}

fn pss(figures: &Figures) -> f64 {
    megabytes(figures.pss_bytes)
}

fn real(figures: &Figures) -> f64 {
    figures.real_s
}

/// Returns the ratio of a figure of barid to that of another side.
pub(crate) fn ratio(
    results: &Results,
    step: Step,
    side: Side,
    figure: fn(&Figures) -> f64,
) -> Option<Ratio> {
    let (ours, theirs) = (results.of(Side::Barid, step), results.of(side, step));
    let ratio = Ratio::of(&ours.values(figure), &theirs.values(figure));
    // Less than a tick says nothing.
    ratio.filter(|ratio| ratio.least > 0.0)
}

/// Returns the bars whose measurements exist.
pub(super) fn bars(results: &Results) -> Vec<Bar> {
    let one = |(work, format, limit): &(Work, MailFormat, Limit)| {
        limit.of(results, Step { work: *work, format: *format })
    };
    BARS.iter().filter_map(one).collect()
}

impl Limit {
    fn of(self, results: &Results, step: Step) -> Option<Bar> {
        let of = vec![step.to_string()];
        let (part, side, figure, what): (_, _, fn(&Figures) -> f64, _) = match self {
            Self::Cpu(part, side) => (part, side, cpu, "CPU time"),
            Self::Real(part) => (part, Side::Dovecot, real, "real time"),
            Self::Memory(part) => (part, Side::Dovecot, pss, "PSS"),
            Self::Millis(most) => {
                let millis = results.of(Side::Barid, step).median(|f| f.real_s * 1e3)?;
                return Some(Bar {
                    of,
                    bar: format!("at most {most} ms"),
                    measured: format!("{millis:.1} ms"),
                    passed: millis <= most,
                });
            }
        };
        let bar = match part {
            1.0 => format!("at most the {what} of {side}"),
            _ => format!("1/{part} of the {what} of {side}"),
        };
        Some(Bar::part(of, bar, ratio(results, step, side, figure)?, part))
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::Run;
    use super::*;
    use crate::lab;

    #[test]
    fn bars_are_passed_or_missed() {
        let mut results = Results::default();
        for (side, work, user_s, pss_bytes) in [
            (Side::Barid, Work::Login, 1.0, 0),
            (Side::Dovecot, Work::Login, 5.0, 0),
            (Side::DovecotKept, Work::Login, 4.0, 0),
            (Side::Barid, Work::IdleUsers, 0.0, 10),
            (Side::Dovecot, Work::IdleUsers, 0.0, 1000),
            (Side::Barid, Work::Push, 0.0, 0),
        ] {
            let figures = Figures { user_s, pss_bytes, real_s: 0.05, ..Figures::default() };
            let step = Step { work, format: Maildir };
            results.runs.push(Run { round: 1, side, step, figures });
        }
        let text = lab::bars(&["work"], &bars(&results)).text();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = text.lines().skip(1).map(words).collect();
        let expected = [
            "login maildir 1/6 of the CPU time of dovecot 1/5.0 MISS",
            "login maildir 1/3 of the CPU time of dovecot service_count=0 1/4.0 pass",
            "idle-users maildir 1/10 of the PSS of dovecot 1/100 pass",
            "push maildir at most 100 ms 50.0 ms pass",
        ];
        assert_eq!(lines, expected);
    }
}
