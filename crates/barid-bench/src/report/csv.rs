//! Tables of values separated by commas.

use std::path::Path;

use anyhow::{Result, ensure};

use super::input::at;
use crate::limits::RUN_ROWS_MAX;

/// A table with the line of each row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Csv {
    pub(super) head: Vec<String>,
    /// Rows with as many cells as the head, each with its line, counted from 1.
    pub(super) rows: Vec<(usize, Vec<String>)>,
}

impl Csv {
    /// Parses the text of a file; `path` is named in errors. Quoted cells may contain commas and
    /// doubled quotes, but no line ends.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self> {
        let mut table = Self::default();
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            if line.trim().is_empty() {
                continue;
            }
            let cells = cells(line).map_err(|problem| at(path, number, problem))?;
            if table.head.is_empty() {
                table.head = cells;
                continue;
            }
            let (have, need) = (cells.len(), table.head.len());
            let problem = format!("{have} cells in a row, {need} in the head");
            ensure!(have == need, at(path, number, &problem));
            let problem = format!("more than {RUN_ROWS_MAX} rows");
            ensure!(table.rows.len() < RUN_ROWS_MAX, at(path, number, &problem));
            table.rows.push((number, cells));
        }
        ensure!(!table.head.is_empty(), at(path, 1, "no head of a table"));
        Ok(table)
    }

    /// Returns the index of the first of some columns that the table has.
    pub(super) fn column(&self, names: &[&str]) -> Option<usize> {
        names.iter().find_map(|name| self.head.iter().position(|column| column == name))
    }
}

/// Returns the cells of a line.
fn cells(line: &str) -> Result<Vec<String>, &'static str> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let Some(cell) = cells.last_mut() else { continue };
        match c {
            '"' if !is_quoted && cell.is_empty() => is_quoted = true,
            '"' if is_quoted && chars.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' if is_quoted => is_quoted = false,
            ',' if !is_quoted => cells.push(String::new()),
            other => cell.push(other),
        }
    }
    if is_quoted { Err("a quoted cell does not end") } else { Ok(cells) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_may_be_quoted() {
        let check = |line: &str, expected: &[&str]| assert_eq!(cells(line).unwrap(), expected);
        check("a,b,", &["a", "b", ""]);
        check("0,\"a, b\",\"say \"\"x\"\"\"", &["0", "a, b", "say \"x\""]);
        assert!(cells("a,\"b").is_err());
    }

    #[test]
    fn errors_name_the_line() {
        let check = |text: &str, expected: &str| {
            let error = Csv::parse(Path::new("r/raw.csv"), text).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check("a,b\n1,2\n\n1,2,3\n", "r/raw.csv:4: 3 cells in a row, 2 in the head");
        check("a,b\n\"1,2\n", "r/raw.csv:2: a quoted cell does not end");
        check("\n", "r/raw.csv:1: no head of a table");
    }
}
