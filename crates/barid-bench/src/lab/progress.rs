//! Progress of a bench.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Screen;

/// Prints the current step of a bench and estimates the time left.
pub(crate) struct Progress<'a> {
    pub(crate) screen: &'a mut dyn Screen,
    started: Instant,
    done: usize,
    total: usize,
}

impl<'a> Progress<'a> {
    /// Creates the progress of a bench that starts now and will print `total` lines.
    pub(crate) fn new(screen: &'a mut dyn Screen, total: usize) -> Self {
        Self { screen, started: Instant::now(), done: 0, total }
    }

    /// Prints the next step: ` 1 - first sync - barid`.
    pub(crate) fn say(&mut self, line: &str) -> Result<()> {
        self.screen.line(line)?;
        let left = left(self.started.elapsed(), self.done, self.total);
        self.screen.status(&format!("{} of {}{left}", self.done, self.total));
        self.done += 1;
        Ok(())
    }
}

/// Estimates the time left.
fn left(elapsed: Duration, done: usize, total: usize) -> String {
    if done == 0 {
        return String::new();
    }
    let seconds = elapsed.as_secs_f64() / done as f64 * total.saturating_sub(done) as f64;
    match seconds {
        _ if seconds < 90.0 => format!(", about {seconds:.0} s left"),
        _ if seconds < 5400.0 => format!(", about {:.0} min left", seconds / 60.0),
        _ => format!(", about {:.1} h left", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_rounded() {
        let check = |seconds, done, total, expected| {
            assert_eq!(left(Duration::from_secs(seconds), done, total), expected);
        };
        check(9, 0, 5, "");
        check(9, 3, 5, ", about 6 s left");
        check(60, 1, 5, ", about 4 min left");
        check(3600, 1, 5, ", about 4.0 h left");
    }
}
