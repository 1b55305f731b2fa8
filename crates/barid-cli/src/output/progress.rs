//! Progress of long work, on a terminal only.

use std::io::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::number::grouped;

/// Work shorter than this shows nothing.
const QUIET: Duration = Duration::from_millis(300);
/// How often the line is written anew.
const INTERVAL: Duration = Duration::from_millis(100);

/// A line on standard error that is overwritten as the work goes on, and removed when it is done.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    /// What is done, at the beginning of the line.
    verb: &'static str,
    started: Instant,
    /// When the line was last written; `None` while it is not there.
    written: Mutex<Option<Instant>>,
}

impl ProgressLine {
    /// Starts the clock.
    pub(crate) fn new(verb: &'static str) -> Self {
        Self { verb, started: Instant::now(), written: Mutex::new(None) }
    }

    /// Shows how far the work is, if that is due. Called from any thread; one that finds another
    /// writing goes on.
    pub(crate) fn update(&self, done: u64, total: u64) {
        let elapsed = self.started.elapsed();
        if elapsed < QUIET {
            return;
        }
        let Ok(mut written) = self.written.try_lock() else { return };
        if written.is_some_and(|at| at.elapsed() < INTERVAL) {
            return;
        }
        *written = Some(Instant::now());
        let line = format!("\r{}\x1b[K", describe(self.verb, done, total, elapsed));
        // A terminal that takes no output is no reason to stop working.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        if let Ok(mut written) = self.written.lock()
            && written.take().is_some()
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

/// `reading  45 %  123,456/s  3 s left`
fn describe(verb: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(0.001);
    let rate = done as f64 / seconds;
    if total == 0 || done == 0 {
        return format!("{verb}  {}", grouped(done));
    }
    let done = done.min(total);
    let percent = done as f64 / total as f64 * 100.0;
    let left = (total - done) as f64 / rate;
    format!("{verb}  {percent:.0} %  {}/s  {left:.0} s left", scaled(rate))
}

/// A rate with three digits: `812`, `54.2 k`, `1.20 G`.
fn scaled(rate: f64) -> String {
    let (value, unit) = match rate {
        _ if rate < 1e3 => return format!("{rate:.0}"),
        _ if rate < 1e6 => (rate / 1e3, "k"),
        _ if rate < 1e9 => (rate / 1e6, "M"),
        _ => (rate / 1e9, "G"),
    };
    format!("{value:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_tells_rate_and_time_left() {
        let check = |done, total, millis, expected| {
            assert_eq!(describe("reading", done, total, Duration::from_millis(millis)), expected);
        };
        check(0, 100, 1000, "reading  0");
        check(5, 0, 1000, "reading  5");
        check(50, 100, 1000, "reading  50 %  50/s  1 s left");
        check(54_200, 108_400, 1000, "reading  50 %  54.2 k/s  1 s left");
        check(700_000_000, 1_400_000_000, 500, "reading  50 %  1.4 G/s  0 s left");
        check(200, 100, 1000, "reading  100 %  200/s  0 s left");
    }
}
