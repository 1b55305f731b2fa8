//! Median and spread of measurements and of ratios.

use serde::Serialize;

/// Statistics of several measurements of the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median; of an even number of values the mean of the middle two.
    pub median: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
}

impl Spread {
    /// Returns the spread of some values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some(Self { median, mean, least, most })
    }

    /// Formats median, least and most as seconds, with 1, 2 or 4 decimals by size.
    pub(crate) fn seconds(&self) -> String {
        let digits = |value: f64| match value {
            _ if value >= 10.0 => format!("{value:.1}"),
            _ if value >= 1.0 => format!("{value:.2}"),
            _ => format!("{value:.4}"),
        };
        self.text(digits)
    }

    /// Formats median, least and most, each as `digits` formats it; only the median if the others
    /// look the same.
    pub(crate) fn text(&self, digits: fn(f64) -> String) -> String {
        let [median, least, most] = [self.median, self.least, self.most].map(digits);
        if least == most { median } else { format!("{median} ({least}-{most})") }
    }
}

/// The ratio of one side to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The ratio of the medians.
    pub ratio: f64,
    /// The smallest ratio of two consecutive runs.
    pub least: f64,
    /// The largest ratio of two consecutive runs.
    pub most: f64,
}

impl Ratio {
    /// Returns the ratio of `ours` to `theirs`, where runs of equal index were made one after the
    /// other; `None` if either is empty or `theirs` is zero.
    pub fn of(ours: &[f64], theirs: &[f64]) -> Option<Self> {
        let median = Spread::of(theirs.iter().copied())?.median;
        let ratio = Spread::of(ours.iter().copied())?.median / median;
        let pairs = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs);
        let spread = Spread::of(pairs)?;
        let is_sound = ratio.is_finite() && spread.most.is_finite();
        is_sound.then_some(Self { ratio, least: spread.least, most: spread.most })
    }

    /// Formats the ratio: `1/9.8`, or `1.25` if it is not clearly below 1.
    pub fn text(&self) -> String {
        fraction(self.ratio)
    }

    /// Formats the ratio with its spread: `1/9.8 (1/10.1-1/9.2)`; without the spread if it is
    /// empty.
    pub fn text_with_spread(&self) -> String {
        let (least, most) = (fraction(self.least), fraction(self.most));
        if least == most {
            return self.text();
        }
        format!("{} ({least}-{most})", self.text())
    }
}

/// Formats a ratio below 0.95 as `1/n`.
fn fraction(ratio: f64) -> String {
    match ratio {
        _ if ratio >= 0.95 => format!("{ratio:.2}"),
        _ if ratio > 1.0 / 99.95 => format!("1/{:.1}", 1.0 / ratio),
        _ => format!("1/{:.0}", 1.0 / ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_stands_in_the_middle() {
        let spread = Spread::of([5.0, 1.0, 3.0]).unwrap();
        assert_eq!((spread.median, spread.least, spread.most, spread.mean), (3.0, 1.0, 5.0, 3.0));
        assert_eq!(Spread::of([1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn ratios_are_fractions() {
        let check = |ours: &[f64], theirs: &[f64], expected: &str| {
            assert_eq!(Ratio::of(ours, theirs).unwrap().text_with_spread(), expected);
        };
        check(&[1.0, 2.0, 1.0], &[10.0, 10.0, 20.0], "1/10.0 (1/20.0-1/5.0)");
        check(&[1.0], &[8.0], "1/8.0");
        check(&[5.0, 6.0], &[4.0, 6.0], "1.10 (1.00-1.25)");
        check(&[0.001], &[1.5], "1/1500");
        assert_eq!(Ratio::of(&[1.0], &[]), None);
        assert_eq!(Ratio::of(&[1.0], &[0.0]), None);
    }
}
