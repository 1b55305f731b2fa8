//! Progress of long work, on a terminal only.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use barid::{LongOperation, Progress, Unit};

use super::number::grouped;

/// Shorter work shows no progress.
const QUIET: Duration = Duration::from_millis(300);
/// Least time between two updates of the line.
const INTERVAL: Duration = Duration::from_millis(100);

/// A line on standard error that is overwritten as the work progresses, and removed when it is
/// done.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    started: Instant,
    /// The flag that is set when a signal requests the end.
    stop: Option<Arc<AtomicBool>>,
    line: Mutex<Line>,
}

/// The contents of the line.
#[derive(Debug)]
struct Line {
    /// The work at the last update, and its start.
    work: Option<(LongOperation, Instant)>,
    /// Time of the last update; `None` while the line is not shown.
    written: Option<Instant>,
}

impl ProgressLine {
    /// Starts the clock. The line indicates when `stop` is set.
    pub(crate) fn new(stop: Option<Arc<AtomicBool>>) -> Self {
        let line = Mutex::new(Line { work: None, written: None });
        Self { started: Instant::now(), stop, line }
    }

    /// Shows the progress, if an update is due. May be called from any thread; returns at once if
    /// another thread is updating.
    pub(crate) fn update(&self, progress: &Progress) {
        let Ok(mut line) = self.line.try_lock() else { return };
        let since = match line.work {
            Some((work, since)) if work == progress.work => since,
            // The first work began with the clock, the next ones with their first report.
            last => {
                let since = last.map_or(self.started, |_| Instant::now());
                line.work = Some((progress.work, since));
                since
            }
        };
        let is_early = self.started.elapsed() < QUIET;
        if is_early || line.written.is_some_and(|at| at.elapsed() < INTERVAL) {
            return;
        }
        line.written = Some(Instant::now());
        let is_stopped = self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
        let text = format!("\r{}\x1b[K", describe(progress, since.elapsed(), is_stopped));
        // A terminal that rejects output is not a reason to stop working.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        if let Ok(mut line) = self.line.lock()
            && line.written.take().is_some()
        {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Formats progress: `reading  45 %  123 MB/s  3 s left`.
fn describe(progress: &Progress, elapsed: Duration, is_stopped: bool) -> String {
    let verb = match progress.work {
        LongOperation::Keep
        | LongOperation::Change
        | LongOperation::Convert
        | LongOperation::Train
        | LongOperation::Classify
        | LongOperation::Tune
        | LongOperation::Repair
        | LongOperation::Index
            if is_stopped =>
        {
            "ending after this step"
        }
        LongOperation::Scan => "reading",
        LongOperation::Recover => "finishing an interrupted change",
        LongOperation::Keep => "keeping",
        LongOperation::Change => "writing",
        LongOperation::Convert => "copying",
        LongOperation::Train => "learning",
        LongOperation::Classify => "classifying",
        LongOperation::Tune => "trying",
        LongOperation::Repair => "repairing",
        LongOperation::Index => "indexing",
    };
    let Progress { unit, done, total, .. } = *progress;
    let seconds = elapsed.as_secs_f64().max(0.001);
    let rate = done as f64 / seconds;
    if total == 0 || done == 0 {
        return format!("{verb}  {}", grouped(done));
    }
    let done = done.min(total);
    let percent = done as f64 / total as f64 * 100.0;
    let left = time_left((total - done) as f64 / rate);
    format!("{verb}  {percent:.0} %  {}/s  {left} left", scaled(rate, unit))
}

/// Formats a time: `3 s`, `2 min 5 s`, `1 h 12 min`.
fn time_left(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Formats a rate with up to three digits: `812`, `54.2 k`, `1.2 GB`.
fn scaled(rate: f64, unit: Unit) -> String {
    let (value, prefix) = match rate {
        _ if rate < 1e3 => (rate, ""),
        _ if rate < 1e6 => (rate / 1e3, "k"),
        _ if rate < 1e9 => (rate / 1e6, "M"),
        _ => (rate / 1e9, "G"),
    };
    let decimals = usize::from(value < 99.95 && !prefix.is_empty());
    match (prefix, unit) {
        ("", Unit::Messages | Unit::Trials | Unit::Steps) => format!("{value:.0}"),
        ("", Unit::Bytes) => format!("{value:.0} bytes"),
        (prefix, Unit::Messages | Unit::Trials | Unit::Steps) => {
            format!("{value:.decimals$} {prefix}")
        }
        ("k", Unit::Bytes) => format!("{value:.decimals$} KB"),
        (prefix, Unit::Bytes) => format!("{value:.decimals$} {prefix}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(work: LongOperation, unit: Unit, done: u64, total: u64, millis: u64, expected: &str) {
        let progress = Progress { work, unit, done, total };
        assert_eq!(describe(&progress, Duration::from_millis(millis), false), expected);
    }

    #[test]
    fn progress_tells_rate_and_time_left() {
        let check = |done, total, millis, expected| {
            check(LongOperation::Scan, Unit::Messages, done, total, millis, expected);
        };
        check(0, 100, 1000, "reading  0");
        check(5, 0, 1000, "reading  5");
        check(50, 100, 1000, "reading  50 %  50/s  1 s left");
        check(54_200, 108_400, 1000, "reading  50 %  54.2 k/s  1 s left");
        check(200, 100, 1000, "reading  100 %  200/s  0 s left");
        check(10, 1300, 1000, "reading  1 %  10/s  2 min 9 s left");
        check(1, 7801, 1000, "reading  0 %  1/s  2 h 10 min left");
    }

    #[test]
    fn bytes_are_told_in_bytes() {
        let check = |work, done, total, millis, expected| {
            check(work, Unit::Bytes, done, total, millis, expected);
        };
        let (half, whole) = (700_000_000, 1_400_000_000);
        check(LongOperation::Scan, half, whole, 500, "reading  50 %  1.4 GB/s  1 s left");
        check(LongOperation::Change, half, whole, 2000, "writing  50 %  350 MB/s  2 s left");
        check(LongOperation::Change, 5_000, 10_000, 1000, "writing  50 %  5.0 KB/s  1 s left");
        let recovery = "finishing an interrupted change  50 %  70.0 MB/s  10 s left";
        check(LongOperation::Recover, half, whole, 10_000, recovery);
        let progress =
            Progress { work: LongOperation::Change, unit: Unit::Bytes, done: half, total: whole };
        let stopped = describe(&progress, Duration::from_secs(2), true);
        assert_eq!(stopped, "ending after this step  50 %  350 MB/s  2 s left");
    }
}
