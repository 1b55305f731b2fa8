//! Tables: text cut and padded to a number of terminal columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The mark of cut text.
const ELLIPSIS: &str = "…";

/// The alignment of text in its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// At the left.
    Left,
    /// At the right.
    Right,
}

/// Returns the number of columns that a text takes; control characters must have been made visible.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// Appends `text` cut to at most `cells` columns; returns the columns that it takes.
pub(crate) fn write_cut(out: &mut Vec<u8>, text: &str, cells: usize) -> usize {
    if text.len() <= cells {
        // A character takes at most as many columns as bytes.
        out.extend_from_slice(text.as_bytes());
        return width(text);
    }
    let full = width(text);
    if full <= cells {
        out.extend_from_slice(text.as_bytes());
        return full;
    }
    let (mut taken, mut end) = (0, 0);
    for (at, c) in text.char_indices() {
        let next = taken + c.width().unwrap_or(0);
        if next + 1 > cells {
            break;
        }
        (taken, end) = (next, at + c.len_utf8());
    }
    out.extend_from_slice(&text.as_bytes()[..end]);
    if taken < cells {
        out.extend_from_slice(ELLIPSIS.as_bytes());
        taken += 1;
    }
    taken
}

/// Appends `text` cut and padded to exactly `cells` columns.
pub(crate) fn write_left(out: &mut Vec<u8>, text: &str, cells: usize) {
    let taken = write_cut(out, text, cells);
    pad(out, cells - taken);
}

/// Appends `text` after blanks, in at least `cells` columns.
pub(crate) fn write_right(out: &mut Vec<u8>, text: &str, cells: usize) {
    pad(out, cells.saturating_sub(width(text)));
    out.extend_from_slice(text.as_bytes());
}

/// Appends `cells` blanks.
pub(crate) fn pad(out: &mut Vec<u8>, cells: usize) {
    out.resize(out.len() + cells, b' ');
}

/// Rows of text in columns as wide as their widest cell, two blanks apart.
#[derive(Debug)]
pub(crate) struct Table {
    aligns: &'static [Align],
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates an empty table with these columns.
    pub(crate) fn new(aligns: &'static [Align]) -> Self {
        Self { aligns, rows: Vec::new() }
    }

    /// Adds a row with one text per column; the texts must consist of visible characters.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.aligns.len(), "a row has a cell for each column");
        self.rows.push(cells.into());
    }

    /// Appends the table, each line after `indent`.
    pub(crate) fn write(&self, out: &mut Vec<u8>, indent: &str) {
        let widths: Vec<usize> = (0..self.aligns.len())
            .map(|column| self.rows.iter().map(|row| width(&row[column])).max().unwrap_or(0))
            .collect();
        for row in &self.rows {
            out.extend_from_slice(indent.as_bytes());
            for (column, (cell, cells)) in row.iter().zip(&widths).enumerate() {
                if column > 0 {
                    out.extend_from_slice(b"  ");
                }
                match self.aligns[column] {
                    Align::Left => write_left(out, cell, *cells),
                    Align::Right => write_right(out, cell, *cells),
                }
            }
            let end = out.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1);
            out.truncate(end);
            out.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, cells: usize, expected: &str) {
        let mut out = Vec::new();
        write_left(&mut out, text, cells);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn texts_fill_their_cells() {
        check("", 3, "   ");
        check("abc", 3, "abc");
        check("abcd", 3, "ab…");
        check("abcd", 1, "…");
        check("abcd", 0, "");
        check("Grüße", 6, "Grüße ");
        check("Grüße!", 5, "Grüß…");
        check("日本語", 6, "日本語");
        check("日本語", 5, "日本…");
        check("日本語", 4, "日… ");
        check("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…");
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
        table.row(["a".into(), "1".into(), "x".into()]);
        table.row(["日本".into(), "1,000".into(), String::new()]);
        let mut out = Vec::new();
        table.write(&mut out, "  ");
        assert_eq!(String::from_utf8(out).unwrap(), "  a         1  x\n  日本  1,000\n");
    }
}
