//! Measurements, and their comparison with the bars.

use std::time::Duration;

use barid_testkit::usage::Usage;

/// One run of one side.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) work: &'static str,
    pub(crate) side: &'static str,
    /// The time to compare: of the process from start to end, or the one given to
    /// [`Figures::add_time`].
    pub(crate) wall: Duration,
    /// The accounting of the whole process, if measured.
    pub(crate) usage: Option<Usage>,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) work: String,
    pub(crate) bar: String,
    pub(crate) measured: String,
    pub(crate) passed: bool,
    pub(crate) note: String,
}

/// All measurements of one `bench` run.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) samples: Vec<Sample>,
    pub(crate) bars: Vec<Bar>,
    pub(crate) notes: Vec<String>,
}

impl Figures {
    pub(crate) fn add(&mut self, work: &'static str, side: &'static str, usage: Usage) {
        self.add_sample(Sample { work, side, wall: usage.wall, usage: Some(usage) });
    }

    /// Adds the time of a part of a process.
    pub(crate) fn add_time(&mut self, work: &'static str, side: &'static str, wall: Duration) {
        self.add_sample(Sample { work, side, wall, usage: None });
    }

    fn add_sample(&mut self, sample: Sample) {
        println!("{:28} {:10} {}", sample.work, sample.side, seconds(sample.wall));
        self.samples.push(sample);
    }

    pub(crate) fn note(&mut self, text: String) {
        println!("{text}");
        self.notes.push(text);
    }

    /// Returns median, least and most of the wall times.
    pub(crate) fn wall(&self, work: &str, side: &str) -> Spread {
        let of_both = self.samples.iter().filter(|s| s.work == work && s.side == side);
        Spread::new(of_both.map(|sample| sample.wall).collect())
    }

    /// Adds a bar for the ratio of two medians.
    pub(crate) fn bar_ratio(
        &mut self,
        work: &str,
        (ours, theirs): (Spread, Spread),
        ratio_max: f64,
        than: &str,
    ) {
        let ratio = ours.median.as_secs_f64() / theirs.median.as_secs_f64();
        self.bars.push(Bar {
            work: work.to_owned(),
            bar: format!("at most {} of {than}", fraction(ratio_max)),
            measured: format!("{} to {}: {}", ours.text(), theirs.text(), fraction(ratio)),
            passed: ratio <= ratio_max,
            note: String::new(),
        });
    }

    /// Adds a bar for a time.
    pub(crate) fn bar_time(&mut self, work: &str, ours: Spread, most: Duration) {
        self.bars.push(Bar {
            work: work.to_owned(),
            bar: format!("at most {}", seconds(most)),
            measured: ours.text(),
            passed: ours.median <= most,
            note: String::new(),
        });
    }

    /// Adds a bar for memory; `ours` and `most` are in bytes, `bar` describes the limit.
    pub(crate) fn bar_memory(&mut self, work: &str, ours: u64, bar: String, most: u64) {
        self.bars.push(Bar {
            work: work.to_owned(),
            bar,
            measured: format!("{} of {}", megabytes(ours), megabytes(most)),
            passed: ours <= most,
            note: "peak of anonymous memory".to_owned(),
        });
    }
}

/// Median, least and most of some times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: Duration,
    pub(crate) least: Duration,
    pub(crate) most: Duration,
}

impl Spread {
    fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |index: usize| times.get(index).copied().unwrap_or_default();
        let last = times.len().max(1) - 1;
        // Of an even number of times, the mean of those in the middle.
        let median = (at(last / 2) + at(times.len() / 2)) / 2;
        Self { median, least: at(0), most: at(last) }
    }

    /// Formats the spread as `0.350 s (0.340-0.360)`.
    pub(crate) fn text(&self) -> String {
        let bare = |time| seconds(time).trim_end_matches(" s").to_owned();
        format!("{} ({}-{})", seconds(self.median), bare(self.least), bare(self.most))
    }
}

/// Formats seconds, with four decimals below 0.1 s and three otherwise.
pub(crate) fn seconds(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 0.1 { format!("{seconds:.4} s") } else { format!("{seconds:.3} s") }
}

pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Formats a ratio below 0.75 as `1/n`.
fn fraction(ratio: f64) -> String {
    if ratio >= 0.75 { format!("{ratio:.2}") } else { format!("1/{:.1}", 1.0 / ratio) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_stands_between_the_ends() {
        let spread = Spread::new([5, 1, 3].map(Duration::from_secs).to_vec());
        assert_eq!(spread.median, Duration::from_secs(3));
        assert_eq!(spread.text(), "3.000 s (1.000-5.000)");
        let even = Spread::new([8, 1, 2, 3].map(Duration::from_secs).to_vec());
        assert_eq!(even.median, Duration::from_millis(2500));
        assert_eq!(Spread::new(Vec::new()).median, Duration::ZERO);
    }

    #[test]
    fn a_ratio_below_one_is_a_fraction() {
        assert_eq!(fraction(0.125), "1/8.0");
        assert_eq!(fraction(2.0), "2.00");
    }

    #[test]
    fn a_bar_is_passed_or_missed() {
        let of = |ms| Spread::new(vec![Duration::from_millis(ms)]);
        let mut figures = Figures::default();
        figures.bar_ratio("a", (of(10), of(100)), 0.125, "x");
        figures.bar_ratio("b", (of(20), of(100)), 0.125, "x");
        figures.bar_time("c", of(20), Duration::from_millis(20));
        figures.bar_memory("d", 25, "e".into(), 24);
        let passed: Vec<_> = figures.bars.iter().map(|bar| bar.passed).collect();
        assert_eq!(passed, [true, false, true, false]);
    }
}
