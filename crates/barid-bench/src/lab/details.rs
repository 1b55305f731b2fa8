//! All figures: as a table, as CSV, as JSON.

use std::fmt::Display;

use serde::Serialize;

use super::{Figures, Measured, Spread, Table};

/// A column of the table of details.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    head: &'static str,
    decimals: usize,
    figure: Figure,
}

/// The source of a column.
#[derive(Clone, Copy, Debug)]
enum Figure {
    /// The median of the timed runs.
    Median(fn(&Figures) -> f64),
    /// The figure of the round that is not timed.
    Counted(fn(&Figures) -> Option<f64>),
}

impl Column {
    /// Creates a column with the median of the timed runs.
    pub(crate) const fn median(
        head: &'static str,
        decimals: usize,
        figure: fn(&Figures) -> f64,
    ) -> Self {
        Self { head, decimals, figure: Figure::Median(figure) }
    }

    /// Creates a column with the figure of the round that is not timed.
    pub(crate) const fn counted(
        head: &'static str,
        decimals: usize,
        figure: fn(&Figures) -> Option<f64>,
    ) -> Self {
        Self { head, decimals, figure: Figure::Counted(figure) }
    }

    fn cell(&self, measured: &Measured<'_>) -> String {
        let (value, decimals) = match self.figure {
            Figure::Median(figure) => (measured.median(figure), self.decimals),
            Figure::Counted(figure) => (measured.counted(figure), self.decimals),
        };
        value.map_or_else(String::new, |value| format!("{value:.decimals$}"))
    }
}

/// The columns that every bench has.
const COLUMNS: [Column; 6] = [
    Column::median("user s", 3, |f| f.user_s),
    Column::median("sys s", 3, |f| f.sys_s),
    Column::median("resident MB", 1, |f| megabytes(f.maxrss_bytes)),
    Column::counted("anonymous MB", 1, |f| f.anon_bytes.map(megabytes)),
    Column::median("read MB", 1, |f| megabytes(f.read_chars)),
    Column::median("written MB", 1, |f| megabytes(f.write_chars)),
];

/// Returns all figures except real time, with a row for each step and side; `own` are the bench's
/// own columns. Columns without a figure are left out.
pub(crate) fn details<Step: Display, Side: Display>(
    rows: &[(Step, Side, Measured<'_>)],
    own: &[Column],
) -> Table {
    let has_figures =
        |column: &&Column| rows.iter().any(|(_, _, measured)| !column.cell(measured).is_empty());
    let columns = || COLUMNS.iter().chain(own).filter(has_figures);
    let mut table = Table::new(2, ["step", "side"].into_iter().chain(columns().map(|c| c.head)));
    for (step, side, measured) in rows {
        let names = [step.to_string(), side.to_string()];
        let cells = columns().map(|column| column.cell(measured));
        table.row(names.into_iter().chain(cells).collect());
    }
    table
}

pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The columns of `raw.csv` that every bench has.
pub(crate) const CSV_HEAD: &str = "real_s,user_s,sys_s,maxrss_bytes,anon_bytes,read_chars,\
                                   write_chars,read_bytes,write_bytes";

/// Returns the columns of [`CSV_HEAD`] for a run.
pub(crate) fn csv(figures: &Figures) -> String {
    let f = figures;
    format!(
        "{:.6},{:.6},{:.6},{},{},{},{},{},{}",
        f.real_s,
        f.user_s,
        f.sys_s,
        f.maxrss_bytes,
        optional(f.anon_bytes),
        f.read_chars,
        f.write_chars,
        f.read_bytes,
        f.write_bytes
    )
}

/// Formats a number for CSV; empty if missing.
pub(crate) fn optional(number: Option<u64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

/// The fields that a JSON line has in every bench.
#[derive(Serialize)]
pub(crate) struct Spreads {
    runs: usize,
    real_s: Spread,
    user_s: Spread,
    sys_s: Spread,
    maxrss_bytes: Spread,
    read_chars: Spread,
    write_chars: Spread,
}

impl Spreads {
    /// Returns the spreads; `None` if there is no timed run.
    pub(crate) fn of(measured: &Measured<'_>) -> Option<Self> {
        Some(Self {
            runs: measured.len(),
            real_s: measured.spread(|f| f.real_s)?,
            user_s: measured.spread(|f| f.user_s)?,
            sys_s: measured.spread(|f| f.sys_s)?,
            maxrss_bytes: measured.spread(|f| f.maxrss_bytes as f64)?,
            read_chars: measured.spread(|f| f.read_chars as f64)?,
            write_chars: measured.spread(|f| f.write_chars as f64)?,
        })
    }
}
