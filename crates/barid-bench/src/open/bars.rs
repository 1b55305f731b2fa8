//! The bars that barid must reach.

use super::results::Results;
use super::step::{Side, Step};
use crate::lab::{Bar, Measured, Ratio, megabytes};

/// Bars for time: a step of barid, at most 1/`part` of the step of a side.
const BARS: [(&str, Step, f64, Side, Step); 8] = {
    use Side::{Barid, Dovecot, NeoMutt};
    [
        ("populate a Maildir", Step::MaildirFirst, 12.0, NeoMutt, Step::MaildirFirst),
        ("again: the newest 50 by date", Step::MaildirNewest, 100.0, NeoMutt, Step::MaildirReload),
        ("again: all lines", Step::MaildirAll, 8.0, NeoMutt, Step::MaildirReload),
        ("first open of an mbox", Step::MboxFirst, 8.0, Dovecot, Step::MboxFirst),
        ("open it again", Step::MboxAgain, 2.0, Dovecot, Step::MboxAgain),
        ("one message delivered, then open", Step::MboxDelivered, 0.5, Barid, Step::MboxUnchanged),
        ("thread again", Step::ThreadAgain, 4.0, Dovecot, Step::ThreadAgain),
        ("a Maildir ten times as large", Step::MillionNewest, 1.0 / 3.0, Barid, Step::SmallNewest),
    ]
};

/// Most seconds of the first threading.
const THREAD_S_MAX: f64 = 0.5;
/// Most megabytes of memory when the mbox is opened again.
const AGAIN_MB_MAX: f64 = 24.0;
/// Least ratio of NeoMutt's peak of memory to barid's when a Maildir is populated.
const MEMORY_PART: f64 = 4.0;

/// Returns the bars whose measurements exist.
pub(super) fn bars(results: &Results) -> Vec<Bar> {
    let times = BARS.iter().filter_map(|(work, step, part, side, other)| {
        let ratio = results.of(Side::Barid, *step).ratio(&results.of(*side, *other))?;
        let bar = match *part {
            part if part > 1.0 => format!("1/{part} of {side}, {other}"),
            part => format!("{} times {other}", (1.0 / part).round()),
        };
        Some(Bar::part(vec![(*work).to_owned()], bar, ratio, *part))
    });
    times
        .chain(populate_memory(results))
        .chain(again_memory(results))
        .chain(thread(results))
        .collect()
}

fn thread(results: &Results) -> Option<Bar> {
    let seconds = results.of(Side::Barid, Step::ThreadFirst).median(|f| f.real_s)?;
    Some(Bar {
        of: vec!["thread, first time".to_owned()],
        bar: format!("at most {THREAD_S_MAX} s"),
        measured: format!("{seconds:.3} s"),
        passed: seconds <= THREAD_S_MAX,
    })
}

/// Returns the peak of anonymous memory in bytes; of a run that ended before the first sample, of
/// all resident memory.
fn memory(measured: &Measured<'_>) -> Option<f64> {
    let anonymous = measured.counted(|f| f.anon_bytes).map(|bytes| bytes as f64);
    anonymous.or_else(|| measured.median(|f| f.maxrss_bytes as f64))
}

fn populate_memory(results: &Results) -> Option<Bar> {
    let of = |side| memory(&results.of(side, Step::MaildirFirst));
    let ratio = Ratio::of(&[of(Side::Barid)?], &[of(Side::NeoMutt)?])?;
    let bar = format!("1/{MEMORY_PART} of neomutt's peak of memory");
    Some(Bar::part(vec!["populate a Maildir".to_owned()], bar, ratio, MEMORY_PART))
}

fn again_memory(results: &Results) -> Option<Bar> {
    let measured = results.of(Side::Barid, Step::MboxAgain);
    measured.median(|f| f.real_s)?;
    let used = megabytes(memory(&measured)? as u64);
    Some(Bar {
        of: vec!["open it again".to_owned()],
        bar: format!("at most {AGAIN_MB_MAX} MB of memory"),
        measured: format!("{used:.1} MB"),
        passed: used <= AGAIN_MB_MAX,
    })
}

#[cfg(test)]
mod tests {
    use super::super::results::Run;
    use super::*;
    use crate::lab::Figures;

    #[test]
    fn bars_are_passed_or_missed() {
        let mut results = Results::default();
        for (side, step, seconds, memory) in [
            (Side::Barid, Step::MaildirFirst, 1.0, 20_000_000),
            (Side::NeoMutt, Step::MaildirFirst, 11.0, 90_000_000),
            (Side::Barid, Step::MboxUnchanged, 0.002, 0),
            (Side::Barid, Step::MboxDelivered, 0.003, 0),
            (Side::Barid, Step::MboxAgain, 0.002, 25_000_000),
            (Side::Barid, Step::ThreadFirst, 0.6, 0),
            (Side::Barid, Step::MillionNewest, 0.004, 0),
            (Side::Barid, Step::SmallNewest, 0.001, 0),
        ] {
            let figures = Figures { real_s: seconds, maxrss_bytes: memory, ..Figures::default() };
            results.runs.push(Run { round: 1, side, step, figures });
        }
        let bars = bars(&results);
        let verdicts: Vec<_> = bars.iter().map(|bar| (bar.bar.as_str(), bar.passed)).collect();
        let expected = [
            ("1/12 of neomutt, maildir populate", false),
            ("2 times mbox without change", true),
            ("3 times maildir beside million", false),
            ("1/4 of neomutt's peak of memory", true),
            ("at most 24 MB of memory", false),
            ("at most 0.5 s", false),
        ];
        assert_eq!(verdicts, expected);
    }
}
