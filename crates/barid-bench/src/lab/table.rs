//! Tables as text and as Markdown.

/// Rows of cells under a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Number of leading columns that contain words, aligned left.
    words: usize,
}

impl Table {
    /// Creates an empty table; the first `words` columns contain words, the others numbers.
    pub(crate) fn new<'a>(words: usize, head: impl IntoIterator<Item = &'a str>) -> Self {
        Self { head: head.into_iter().map(str::to_owned).collect(), rows: Vec::new(), words }
    }

    /// Returns `true` if the table has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row, which must have a cell for each column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.head.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// Adds a row of names and cells, unless all cells are empty.
    pub(crate) fn row_of(
        &mut self,
        names: impl IntoIterator<Item = String>,
        cells: impl IntoIterator<Item = String>,
    ) {
        let cells: Vec<String> = cells.into_iter().collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            self.row(names.into_iter().chain(cells).collect());
        }
    }

    /// Formats the table with columns as wide as their widest cell, two blanks apart.
    pub(crate) fn text(&self) -> String {
        let lines = || std::iter::once(&self.head).chain(&self.rows);
        let widths: Vec<usize> = (0..self.head.len())
            .map(|column| lines().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for row in lines() {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let pad = " ".repeat(width - cell.chars().count());
                let gap = if column > 0 { "  " } else { "" };
                match column < self.words {
                    true => line.extend([gap, cell, &pad]),
                    false => line.extend([gap, &pad, cell]),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Formats the table as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let rule: Vec<String> = (0..self.head.len())
            .map(|column| if column < self.words { "---" } else { "---:" }.to_owned())
            .collect();
        let mut text = String::new();
        for row in [&self.head, &rule].into_iter().chain(&self.rows) {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            text.extend(["| ", &cells.join(" | "), " |\n"]);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(2, ["store", "method", "real"]);
        table.row(["lmdb", "none", "0.125"].map(str::to_owned).into());
        table.row(["kyotocabinet", "", "12.000"].map(str::to_owned).into());
        table
    }

    #[test]
    fn words_stand_left_and_numbers_right() {
        let expected = "store         method    real\n\
                        lmdb          none     0.125\n\
                        kyotocabinet          12.000\n";
        assert_eq!(table().text(), expected);
    }

    #[test]
    fn markdown_has_a_rule() {
        let expected = "| store | method | real |\n| --- | --- | ---: |\n\
                        | lmdb | none | 0.125 |\n| kyotocabinet |  | 12.000 |\n";
        assert_eq!(table().markdown(), expected);
    }
}
