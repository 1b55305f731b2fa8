//! The values of a response.
//!
//! The parser is lenient where servers differ: an atom is whatever ends at a space. So a section
//! such as `BODY[HEADER.FIELDS (FROM)]` is three values, `BODY[HEADER.FIELDS`, a list and `]`, in a
//! response as well as in the pattern that it is compared with.

use std::fmt;

use crate::limits::NESTING_MAX;

/// A value in a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arg {
    /// `NIL`, as it was written.
    Nil(Vec<u8>),
    /// An atom: whatever is not quoted, up to the next space.
    Atom(Vec<u8>),
    /// The content of a quoted string or a literal.
    String(Vec<u8>),
    /// A list in parentheses.
    List(Vec<Arg>),
}

impl Arg {
    /// Returns the bytes of a value that is not a list.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Nil(bytes) | Self::Atom(bytes) | Self::String(bytes) => Some(bytes),
            Self::List(_) => None,
        }
    }

    /// Returns the text of an atom.
    pub fn atom(&self) -> Option<&[u8]> {
        match self {
            Self::Atom(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the values of a list.
    pub fn list(&self) -> Option<&[Arg]> {
        match self {
            Self::List(args) => Some(args),
            _ => None,
        }
    }

    /// Returns `true` if this is an atom with this text, whatever its case.
    pub fn is_atom(&self, text: &str) -> bool {
        self.atom().is_some_and(|atom| atom.eq_ignore_ascii_case(text.as_bytes()))
    }
}

/// Error in a response: its text and the offset in the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgError {
    /// The error.
    pub text: &'static str,
    /// Offset in bytes.
    pub offset: usize,
}

impl fmt::Display for ArgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.text, self.offset)
    }
}

/// Parses a response without its tag: `OK [UNSEEN 1] text`, `2 FETCH (UID 7)`. Literals have their
/// wire form. The text of a status response becomes atoms, whatever its brackets and quotes.
///
/// # Errors
/// If a list, a string or a literal does not end.
pub fn parse_args(line: &[u8]) -> Result<Vec<Arg>, ArgError> {
    let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    let is_status = ["OK", "NO", "BAD", "BYE", "PREAUTH"]
        .iter()
        .any(|status| word.eq_ignore_ascii_case(status.as_bytes()));
    if !is_status {
        return Parser::new(line).parse();
    }
    let mut args = vec![Arg::Atom(word.to_vec())];
    let rest = line.get(word.len() + 1..).unwrap_or_default();
    let code_len = code_len(rest);
    if code_len > 0 {
        let of_code = Parser::new(&rest[..code_len]).parse();
        args.extend(
            of_code.map_err(|error| ArgError { offset: error.offset + word.len() + 1, ..error })?,
        );
    }
    let words = rest[code_len..].split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    args.extend(words.map(|word| Arg::Atom(word.to_vec())));
    Ok(args)
}

/// Returns the length of the response code with its brackets that a status text starts with; 0 if
/// it has none.
pub fn code_len(text: &[u8]) -> usize {
    if !text.starts_with(b"[") {
        return 0;
    }
    let mut is_quoted = false;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b']' if !is_quoted => return at + 1,
            _ => {}
        }
    }
    0
}

/// Lists that are open, from the outermost, and the place in the line.
struct Parser<'l> {
    line: &'l [u8],
    at: usize,
    open: Vec<Vec<Arg>>,
}

impl<'l> Parser<'l> {
    fn new(line: &'l [u8]) -> Self {
        Self { line, at: 0, open: vec![Vec::new()] }
    }

    fn parse(mut self) -> Result<Vec<Arg>, ArgError> {
        while let Some(byte) = self.line.get(self.at).copied() {
            match byte {
                b' ' => self.at += 1,
                b'(' => {
                    if self.open.len() > NESTING_MAX {
                        return Err(self.error("lists are nested too deeply"));
                    }
                    self.at += 1;
                    self.open.push(Vec::new());
                }
                b')' if self.open.len() > 1 => {
                    self.at += 1;
                    let list = self.open.pop().unwrap_or_default();
                    self.push(Arg::List(list));
                }
                b'"' => self.quoted()?,
                b'{' | b'~' => match self.literal()? {
                    Some(bytes) => self.push(Arg::String(bytes)),
                    None => self.atom(),
                },
                _ => self.atom(),
            }
        }
        let args = self.open.pop().unwrap_or_default();
        if self.open.is_empty() { Ok(args) } else { Err(self.error("a list does not end")) }
    }

    fn push(&mut self, arg: Arg) {
        if let Some(list) = self.open.last_mut() {
            list.push(arg);
        }
    }

    fn error(&self, text: &'static str) -> ArgError {
        ArgError { text, offset: self.at }
    }

    fn atom(&mut self) {
        let rest = &self.line[self.at..];
        let is_end = |byte: &u8| *byte == b' ' || (*byte == b')' && self.open.len() > 1);
        let len = rest.iter().position(is_end).unwrap_or(rest.len());
        let text = rest[..len].to_vec();
        self.at += len;
        let is_nil = text.eq_ignore_ascii_case(b"NIL");
        self.push(if is_nil { Arg::Nil(text) } else { Arg::Atom(text) });
    }

    fn quoted(&mut self) -> Result<(), ArgError> {
        let (mut text, mut at) = (Vec::new(), self.at + 1);
        loop {
            match self.line.get(at) {
                None => return Err(self.error("a string does not end")),
                Some(b'"') => break,
                Some(b'\\') => {
                    let escaped = self.line.get(at + 1);
                    text.push(*escaped.ok_or_else(|| self.error("a string does not end"))?);
                    at += 2;
                }
                Some(byte) => {
                    text.push(*byte);
                    at += 1;
                }
            }
        }
        self.at = at + 1;
        self.push(Arg::String(text));
        Ok(())
    }

    /// Reads a literal; `None` if there is none here.
    fn literal(&mut self) -> Result<Option<Vec<u8>>, ArgError> {
        let rest = &self.line[self.at..];
        let braces = rest.strip_prefix(b"~").unwrap_or(rest);
        let Some(end) = memchr::memmem::find(braces, b"}\r\n") else { return Ok(None) };
        let digits = braces[..end].strip_prefix(b"{").unwrap_or_default();
        let digits = digits.strip_suffix(b"+").unwrap_or(digits);
        let is_len = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let len = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        let Some(len) = len.filter(|_| is_len) else { return Ok(None) };
        let start = self.at + (rest.len() - braces.len()) + end + 3;
        let end = usize::checked_add(start, len).filter(|end| *end <= self.line.len());
        let end = end.ok_or_else(|| self.error("a literal does not end"))?;
        self.at = end;
        Ok(Some(self.line[start..end].to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        assert_eq!(format!("{:?}", shown(&parse_args(line.as_bytes()).unwrap())), expected);
    }

    /// Writes values in a short form: `a`, `'string'`, `-` for NIL.
    fn shown(args: &[Arg]) -> Vec<String> {
        args.iter()
            .map(|arg| match arg {
                Arg::Nil(_) => "-".to_owned(),
                Arg::Atom(text) => String::from_utf8_lossy(text).into_owned(),
                Arg::String(text) => format!("'{}'", String::from_utf8_lossy(text)),
                Arg::List(args) => format!("({})", shown(args).join(" ")),
            })
            .collect()
    }

    #[test]
    fn values_are_told_apart() {
        check(r#"LIST (\A) "/" nil"#, r#"["LIST", "(\\A)", "'/'", "-"]"#);
        check("1 FETCH (X {3}\r\na)b Y ~{1}\r\n()", r#"["1", "FETCH", "(X 'a)b' Y '(')"]"#);
        check(r#"S "a\"b\\" {x} ~y"#, r#"["S", "'a\"b\\'", "{x}", "~y"]"#);
        check("THREAD (1)(2 (3)(4))", r#"["THREAD", "(1)", "(2 (3) (4))"]"#);
        check("F BODY[H (A B)] x)", r#"["F", "BODY[H", "(A B)", "]", "x)"]"#);
    }

    #[test]
    fn texts_may_contain_anything() {
        check("OK [X (a b)] It's (\"so", r#"["OK", "[X", "(a b)", "]", "It's", "(\"so"]"#);
        check("no [unclosed (x", r#"["no", "[unclosed", "(x"]"#);
        check("BAD", r#"["BAD"]"#);
    }

    #[test]
    fn ends_are_demanded() {
        let check = |line: &str| parse_args(line.as_bytes()).unwrap_err().text;
        assert_eq!(check("F (a"), "a list does not end");
        assert_eq!(check("F \"a"), "a string does not end");
        assert_eq!(check("F {5}\r\nabc"), "a literal does not end");
        assert_eq!(check(&"(".repeat(NESTING_MAX + 1)), "lists are nested too deeply");
    }
}
