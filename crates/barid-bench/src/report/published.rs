//! Figures of published reports, which stand beside what was measured here.

use std::path::Path;

use anyhow::{Result, ensure};

use super::csv::Csv;
use super::input::{at, text};

/// A figure that somebody published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublishedFigure {
    /// The bench that repeats the report.
    pub(super) bench: String,
    /// Author, subject and date.
    pub(super) report: String,
    pub(super) work: String,
    pub(super) system: String,
    /// The figure as it was published, with its unit.
    pub(super) value: String,
    /// The measured quantity that stands beside it: `seconds`, `peak` or `size`; else empty.
    pub(super) quantity: String,
    /// The step of the bench that does the same work.
    pub(super) step: String,
    /// The sides whose figures stand beside it.
    pub(super) sides: Vec<String>,
}

const COLUMNS: [&str; 8] =
    ["bench", "report", "work", "system", "value", "quantity", "step", "sides"];

/// Reads a file of published figures.
pub(super) fn read(path: &Path) -> Result<Vec<PublishedFigure>> {
    parse(path, &text(path)?)
}

fn parse(path: &Path, text: &str) -> Result<Vec<PublishedFigure>> {
    let table = Csv::parse(path, text)?;
    let columns = COLUMNS.join(",");
    ensure!(table.head == COLUMNS, at(path, 1, &format!("the columns must be {columns}")));
    let mut figures = Vec::with_capacity(table.rows.len());
    for (line, cells) in table.rows {
        let Ok::<[String; COLUMNS.len()], _>(cells) = cells.try_into() else { continue };
        let [bench, report, work, system, value, quantity, step, sides] = cells;
        let problem = format!("no quantity {quantity:?}; there are seconds, peak, size");
        let is_known = ["", "seconds", "peak", "size"].contains(&quantity.as_str());
        ensure!(is_known, at(path, line, &problem));
        let sides = sides.split(';').map(|side| side.trim().to_owned());
        let sides = sides.filter(|side| !side.is_empty()).collect();
        figures.push(PublishedFigure { bench, report, work, system, value, quantity, step, sides });
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_sides() {
        let path = Path::new("published.csv");
        let head = COLUMNS.join(",");
        let row =
            "mbox,\"T. S., 2004\",add headers,UW-IMAP,39:58,seconds,first sync,barid; c-client";
        let figures = parse(path, &format!("{head}\n{row}\n")).unwrap();
        assert_eq!(figures[0].sides, ["barid", "c-client"]);
        let error = |text: &str| parse(path, text).unwrap_err().to_string();
        let row = row.replace("seconds", "hours");
        let expected = "published.csv:2: no quantity \"hours\"; there are seconds, peak, size";
        assert_eq!(error(&format!("{head}\n{row}\n")), expected);
        assert!(error("a,b\n").starts_with("published.csv:1: the columns must be bench,"));
    }
}
