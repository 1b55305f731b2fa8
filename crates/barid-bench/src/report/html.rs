//! HTML as text. Every element is closed, so that a page is well-formed XML as well.

use std::fmt::Write as _;

use super::markdown::{Block, MarkdownTable, verdict};

/// Escapes text for elements and quoted attributes; characters that XML does not have become
/// U+FFFD.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(printable(other)),
        }
    }
    escaped
}

/// Returns a character, or U+FFFD for one that XML does not have.
pub(super) fn printable(c: char) -> char {
    let is_odd = c.is_control() && !matches!(c, '\n' | '\t');
    if is_odd || matches!(c, '\u{fffe}' | '\u{ffff}') { '\u{fffd}' } else { c }
}

/// Returns escaped text in which `code` and **strong** parts of Markdown are elements, and links
/// are their text: what they lead to is not beside the page.
pub(super) fn inline(text: &str) -> String {
    let mut html = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '[']) {
        let (before, marked) = rest.split_at(at);
        html.push_str(&escaped(before));
        let taken = enclosed(marked, "`", "`")
            .map(|(inner, after)| (format!("<code>{}</code>", escaped(inner)), after))
            .or_else(|| {
                let (inner, after) = enclosed(marked, "**", "**")?;
                Some((format!("<strong>{}</strong>", escaped(inner)), after))
            })
            .or_else(|| {
                let (inner, after) = enclosed(marked, "[", "](")?;
                let (_, after) = after.split_once(')')?;
                Some((escaped(inner.trim_matches('`')), after))
            });
        rest = match taken {
            Some((element, after)) => {
                html.push_str(&element);
                after
            }
            None => {
                // Each mark is one byte long.
                let (mark, after) = marked.split_at(1);
                html.push_str(mark);
                after
            }
        };
    }
    html.push_str(&escaped(rest));
    html
}

/// Returns what stands between two marks, and what follows the second.
fn enclosed<'a>(text: &'a str, open: &str, close: &str) -> Option<(&'a str, &'a str)> {
    text.strip_prefix(open)?.split_once(close).filter(|(inner, _)| !inner.is_empty())
}

/// A page being written.
#[derive(Debug, Default)]
pub(super) struct Html {
    pub(super) text: String,
}

impl Html {
    /// Adds a line of HTML as it is.
    pub(super) fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("because writing to a string does not fail");
    }

    /// Adds an element with text in which marks of Markdown count.
    pub(super) fn element(&mut self, name: &str, text: &str) {
        self.line(format_args!("<{name}>{}</{name}>", inline(text)));
    }

    /// Adds blocks of Markdown; headings become smaller by `levels`.
    pub(super) fn blocks(&mut self, blocks: &[Block], levels: usize) {
        for block in blocks {
            match block {
                Block::Heading(level, text) => {
                    self.element(&format!("h{}", (level + levels).min(6)), text);
                }
                Block::Paragraph(text) => self.element("p", text),
                Block::List(items) => {
                    self.line(format_args!("<ul>"));
                    items.iter().for_each(|item| self.element("li", item));
                    self.line(format_args!("</ul>"));
                }
                Block::Code(text) => {
                    let text = escaped(text);
                    self.line(format_args!("<div class=\"wide\"><pre>{text}</pre></div>"));
                }
                Block::Table(table) => self.table(table),
            }
        }
    }

    /// Adds a table in a box of its own, in which it scrolls if it is too wide.
    pub(super) fn table(&mut self, table: &MarkdownTable) {
        let is_right = |column: usize| table.is_right.get(column) == Some(&true);
        self.line(format_args!("<div class=\"wide\" tabindex=\"0\"><table>\n<thead><tr>"));
        for (column, name) in table.head.iter().enumerate() {
            let class = if is_right(column) { " class=\"number\"" } else { "" };
            self.line(format_args!("<th{class}>{}</th>", inline(name)));
        }
        self.line(format_args!("</tr></thead>\n<tbody>"));
        for row in &table.rows {
            let mut cells = String::new();
            for (column, cell) in row.iter().enumerate() {
                let class = match verdict(cell) {
                    Some(true) => " class=\"pass\"",
                    Some(false) => " class=\"miss\"",
                    None if is_right(column) => " class=\"number\"",
                    None => "",
                };
                let text = match verdict(cell) {
                    Some(true) => "passed".to_owned(),
                    Some(false) => "missed".to_owned(),
                    None => inline(cell),
                };
                cells.extend([&format!("<td{class}>"), text.as_str(), "</td>"]);
            }
            self.line(format_args!("<tr>{cells}</tr>"));
        }
        self.line(format_args!("</tbody></table></div>"));
    }

    /// Adds a part that is folded away until it is wanted.
    pub(super) fn folded(&mut self, summary: &str, content: impl FnOnce(&mut Self)) {
        self.line(format_args!("<details><summary>{}</summary>", inline(summary)));
        content(self);
        self.line(format_args!("</details>"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_escaped() {
        let check = |text: &str, expected: &str| assert_eq!(inline(text), expected);
        check("<script>'\"&", "&lt;script&gt;&#39;&quot;&amp;");
        check("`<b>` and **<i>**", "<code>&lt;b&gt;</code> and <strong>&lt;i&gt;</strong>");
        check("[`x`](javascript:alert(1)) *", "x) *");
        check("a ` b * c [d] **", "a ` b * c [d] **");
        check("\u{1b}[0m\0", "\u{fffd}[0m\u{fffd}");
    }
}
