//! The part of Markdown that benches write: headings, paragraphs, lists, tables and code.

use std::iter::Peekable;
use std::path::Path;
use std::str::Lines;

use anyhow::{Result, ensure};

use super::input::at;

/// A block of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// A heading with its level, from 1.
    Heading(usize, String),
    Paragraph(String),
    List(Vec<String>),
    Code(String),
    Table(MarkdownTable),
}

/// A table of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MarkdownTable {
    pub(super) head: Vec<String>,
    /// `true` for each column that is aligned right.
    pub(super) is_right: Vec<bool>,
    pub(super) rows: Vec<Vec<String>>,
}

/// A bar of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BarResult {
    /// The cells that name it, joined: the work and the side.
    pub(super) name: String,
    pub(super) bar: String,
    pub(super) measured: String,
    pub(super) is_passed: bool,
}

impl MarkdownTable {
    /// Returns the bars, if this is a table of them: its last column has no name and says `pass` or
    /// `MISS`.
    pub(super) fn bars(&self) -> Option<Vec<BarResult>> {
        let bar = self.head.iter().position(|name| name == "bar")?;
        let measured = self.head.iter().position(|name| name == "measured")?;
        let result = |row: &Vec<String>| {
            let is_passed = verdict(row.last()?)?;
            let name = row.get(..bar)?.join(", ");
            let (bar, measured) = (row.get(bar)?.clone(), row.get(measured)?.clone());
            Some(BarResult { name, bar, measured, is_passed })
        };
        self.rows.iter().map(result).collect()
    }
}

/// Returns whether a cell says that a bar was passed; `None` if it says neither.
pub(super) fn verdict(cell: &str) -> Option<bool> {
    match cell.trim_matches('*') {
        "pass" => Some(true),
        "miss" | "MISS" => Some(false),
        _ => None,
    }
}

/// Lines with their numbers.
struct Source<'a> {
    path: &'a Path,
    lines: Peekable<Lines<'a>>,
    /// The line that was taken last, counted from 1.
    line: usize,
}

impl<'a> Source<'a> {
    fn take(&mut self) -> Option<&'a str> {
        let line = self.lines.next()?;
        self.line += 1;
        Some(line)
    }

    /// Takes the next line if it fulfils a condition.
    fn take_if(&mut self, condition: impl Fn(&str) -> bool) -> Option<&'a str> {
        let is_wanted = self.lines.peek().is_some_and(|line| condition(line));
        if is_wanted { self.take() } else { None }
    }
}

/// Parses a document; `path` is named in errors.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<Block>> {
    let mut source = Source { path, lines: text.lines().peekable(), line: 0 };
    let mut blocks = Vec::new();
    while let Some(line) = source.take() {
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        if line.trim().is_empty() {
            continue;
        }
        blocks.push(if line.starts_with("```") {
            code(&mut source)?
        } else if level > 0 && line.as_bytes().get(level) == Some(&b' ') {
            Block::Heading(level, line.get(level..).unwrap_or_default().trim().to_owned())
        } else if line.starts_with('|') {
            Block::Table(table(&mut source, line)?)
        } else if let Some(item) = line.strip_prefix("- ") {
            list(&mut source, item)
        } else {
            let mut text = line.trim().to_owned();
            while let Some(more) = source.take_if(|line| !starts_block(line)) {
                text.extend([" ", more.trim()]);
            }
            Block::Paragraph(text)
        });
    }
    Ok(blocks)
}

/// Returns `true` if a line ends a paragraph or an item.
fn starts_block(line: &str) -> bool {
    let starts = ["#", "|", "- ", "```"];
    line.trim().is_empty() || starts.iter().any(|start| line.starts_with(start))
}

fn code(source: &mut Source<'_>) -> Result<Block> {
    let first = source.line;
    let mut text = String::new();
    loop {
        let Some(line) = source.take() else {
            return Err(at(source.path, first, "a block of code does not end"));
        };
        if line.starts_with("```") {
            return Ok(Block::Code(text));
        }
        text.extend([line, "\n"]);
    }
}

fn list(source: &mut Source<'_>, first: &str) -> Block {
    let mut items = vec![first.trim().to_owned()];
    loop {
        if let Some(item) = source.take_if(|line| line.starts_with("- ")) {
            items.push(item.get(2..).unwrap_or_default().trim().to_owned());
        } else if let Some(more) = source.take_if(|line| !starts_block(line)) {
            items.iter_mut().last().into_iter().for_each(|item| item.extend([" ", more.trim()]));
        } else {
            return Block::List(items);
        }
    }
}

fn table(source: &mut Source<'_>, head: &str) -> Result<MarkdownTable> {
    let head = cells(head);
    let Some(rule) = source.take_if(|line| line.starts_with('|')) else {
        return Err(at(source.path, source.line, "a table without a rule below its head"));
    };
    let is_rule = |cell: &String| cell.contains('-') && cell.chars().all(|c| "-: ".contains(c));
    let rule = cells(rule);
    let problem = "no rule below the head of a table";
    ensure!(rule.iter().all(is_rule), at(source.path, source.line, problem));
    let is_right = rule.iter().map(|cell| cell.ends_with(':')).collect();
    let mut table = MarkdownTable { head, is_right, rows: Vec::new() };
    while let Some(line) = source.take_if(|line| line.starts_with('|')) {
        let row = cells(line);
        let (have, need) = (row.len(), table.head.len());
        let problem = format!("{have} cells in a row, {need} in the head");
        ensure!(have == need, at(source.path, source.line, &problem));
        table.rows.push(row);
    }
    Ok(table)
}

/// Returns the cells of a row; a stroke after a backslash belongs to the cell.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let Some(cell) = cells.last_mut() else { continue };
        match c {
            '\\' if chars.next_if_eq(&'|').is_some() => cell.push('|'),
            '|' => cells.push(String::new()),
            other => cell.push(other),
        }
    }
    // What follows the last stroke is no cell.
    if cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &str) -> Result<Vec<Block>> {
        parse(Path::new("summary.md"), text)
    }

    #[test]
    fn a_summary_is_blocks() {
        let text = "# Title\n\n- one\n  more\n- two\nA line\nand another\n\n```\nrun <x>\n```\n\
                    | a | b |\n| --- | ---: |\n| x \\| y | 1 |\n";
        let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let expected = [
            Block::Heading(1, "Title".into()),
            Block::List(strings(&["one more", "two A line and another"])),
            Block::Code("run <x>\n".into()),
            Block::Table(MarkdownTable {
                head: strings(&["a", "b"]),
                is_right: vec![false, true],
                rows: vec![strings(&["x | y", "1"])],
            }),
        ];
        assert_eq!(blocks(text).unwrap(), expected);
        assert_eq!(blocks("#no\nx\n").unwrap(), [Block::Paragraph("#no x".into())]);
    }

    #[test]
    fn bars_are_found_by_their_head() {
        let head = "| work | side | bar | measured | |\n| --- | --- | --- | --- | --- |\n";
        let text = format!("{head}| a | b | 1/2 | 1/3 | pass |\n| c | d | 1/2 | 2 | **miss** |\n");
        let parsed = blocks(&text).unwrap();
        let [Block::Table(table)] = &parsed[..] else { panic!("{parsed:?}") };
        let bars = table.bars().unwrap();
        let verdicts: Vec<_> = bars.iter().map(|bar| (bar.name.as_str(), bar.is_passed)).collect();
        assert_eq!(verdicts, [("a, b", true), ("c, d", false)]);
    }

    #[test]
    fn errors_name_the_line() {
        let check = |text: &str, expected: &str| {
            assert_eq!(blocks(text).unwrap_err().to_string(), expected);
        };
        check("x\n```\ny\n", "summary.md:2: a block of code does not end");
        check("| a |\n\nx", "summary.md:1: a table without a rule below its head");
        check("| a |\n| b |\n", "summary.md:2: no rule below the head of a table");
        let rows = "\n| a | b |\n| --- | --- |\n| 1 |\n";
        check(rows, "summary.md:4: 1 cells in a row, 2 in the head");
    }
}
