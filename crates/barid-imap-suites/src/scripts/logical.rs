//! The lines of a script: comments removed, and literals put together.

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// Text as it is in the file.
    Text(Vec<u8>),
    /// The content of a literal, and `true` for one of bytes (`~{n}`).
    Literal(Vec<u8>, bool),
}

/// A line of the script with its literals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogicalLine {
    /// Number of the first line in the file.
    pub(super) number: usize,
    /// Its parts; the first is text.
    pub(super) segments: Vec<Segment>,
    /// `true` before the first empty line.
    pub(super) is_header: bool,
}

impl LogicalLine {
    /// Returns the first text.
    pub(super) fn text(&self) -> &[u8] {
        match self.segments.first() {
            Some(Segment::Text(text)) => text,
            _ => b"",
        }
    }

    /// Returns the parts without the first `len` bytes of the first text.
    pub(super) fn without(&self, len: usize) -> Vec<Segment> {
        let mut segments = self.segments.clone();
        if let Some(Segment::Text(text)) = segments.first_mut() {
            text.drain(..len.min(text.len()));
        }
        segments
    }
}

/// Writes parts as on the wire, with non-synchronising literals.
pub(super) fn wire(segments: &[Segment]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for segment in segments {
        match segment {
            Segment::Text(text) => bytes.extend_from_slice(text),
            Segment::Literal(content, is_binary) => {
                let mark = if *is_binary { "~" } else { "" };
                bytes.extend_from_slice(format!("{mark}{{{}+}}\r\n", content.len()).as_bytes());
                bytes.extend_from_slice(content);
            }
        }
    }
    bytes
}

/// Returns the lines of a script, or the number of the line with a literal that does not end.
pub(super) fn logical_lines(text: &[u8]) -> Result<Vec<LogicalLine>, usize> {
    let mut lines: Vec<LogicalLine> = Vec::new();
    let mut open: Option<OpenLiteral> = None;
    let mut is_header = true;
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate().map(|(n, l)| (n + 1, l)) {
        let (segments, rest) = match open.take() {
            Some(mut literal) => match line.strip_prefix(b"}}}") {
                None => {
                    literal.add(line);
                    open = Some(literal);
                    continue;
                }
                Some(rest) => {
                    let (mut line, content) = literal.finish();
                    line.segments.push(content);
                    (line, rest)
                }
            },
            None if line.is_empty() => {
                is_header = false;
                continue;
            }
            None if line.starts_with(b"#") => continue,
            None => (LogicalLine { number, segments: Vec::new(), is_header }, line),
        };
        let mut line = segments;
        match opens_literal(rest) {
            Some((before, is_binary)) => {
                line.segments.push(Segment::Text(before.to_vec()));
                open = Some(OpenLiteral { line, content: Vec::new(), end: 0, is_binary });
            }
            None => {
                line.segments.push(Segment::Text(rest.to_vec()));
                lines.push(line);
            }
        }
    }
    match open {
        Some(literal) => Err(literal.line.number),
        None => Ok(lines),
    }
}

/// Returns the text before `{{{` or `~{{{` at the end of a line, and `true` for the second.
fn opens_literal(line: &[u8]) -> Option<(&[u8], bool)> {
    let before = line.strip_suffix(b"{{{")?;
    Some(before.strip_suffix(b"~").map_or((before, false), |before| (before, true)))
}

/// A literal whose end has not been read.
struct OpenLiteral {
    line: LogicalLine,
    content: Vec<u8>,
    /// Length of the content without the end of its last line.
    end: usize,
    is_binary: bool,
}

impl OpenLiteral {
    fn add(&mut self, line: &[u8]) {
        self.content.extend_from_slice(line);
        self.end = self.content.len();
        self.content.extend_from_slice(if self.is_binary { b"\n" } else { b"\r\n" });
    }

    fn finish(mut self) -> (LogicalLine, Segment) {
        self.content.truncate(self.end);
        (self.line, Segment::Literal(self.content, self.is_binary))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_joined() {
        let text = "messages: 1\n# no\n\nok append ~{{{\na\r\nb\n\n}}} x {{{\nc\n\n}}})\nok noop\n";
        let lines = logical_lines(text.as_bytes()).unwrap();
        let wires: Vec<_> = lines.iter().map(|line| wire(&line.segments)).collect();
        let expected: [&[u8]; 3] =
            [b"messages: 1", b"ok append ~{5+}\r\na\r\nb\n x {3+}\r\nc\r\n)", b"ok noop"];
        assert_eq!(wires, expected);
        let numbers: Vec<_> = lines.iter().map(|line| (line.number, line.is_header)).collect();
        assert_eq!(numbers, [(1, true), (4, false), (12, false)]);
        assert_eq!(logical_lines(b"\nok a {{{\nb\n"), Err(2));
    }
}
