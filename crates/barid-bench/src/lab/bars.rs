//! Bars that barid must reach.

use super::{Ratio, Table};

/// A measurement compared with a bar.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    /// The subject of the bar, one cell each.
    pub(crate) of: Vec<String>,
    pub(crate) bar: String,
    pub(crate) measured: String,
    pub(crate) passed: bool,
}

impl Bar {
    /// Returns a bar that is passed if `ratio` is at most 1/`part`.
    pub(crate) fn part(of: Vec<String>, bar: String, ratio: Ratio, part: f64) -> Self {
        let passed = ratio.ratio <= 1.0 / part;
        Self { of, bar, measured: ratio.text_with_spread(), passed }
    }
}

/// Returns the bars as a table, with `of` as the head of the columns of [`Bar::of`].
pub(crate) fn bars(of: &[&str], bars: &[Bar]) -> Table {
    let mut table = Table::new(of.len() + 3, of.iter().copied().chain(["bar", "measured", ""]));
    for Bar { of, bar, measured, passed } in bars {
        let verdict = if *passed { "pass" } else { "MISS" };
        let rest = [bar, measured, verdict].map(str::to_owned);
        table.row(of.iter().cloned().chain(rest).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_passed_or_missed() {
        let bar = |part| {
            let ratio = Ratio { ratio: 0.25, least: 0.25, most: 0.25 };
            Bar::part(vec!["work".into()], format!("1/{part}"), ratio, part)
        };
        let expected = "of    bar  measured\n\
                        work  1/4  1/4.0     pass\n\
                        work  1/5  1/4.0     MISS\n";
        assert_eq!(bars(&["of"], &[bar(4.0), bar(5.0)]).text(), expected);
    }
}
