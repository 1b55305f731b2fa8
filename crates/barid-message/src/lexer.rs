//! The tokens of structured fields (RFC 5322 §3.2), read leniently.
//!
//! 8-bit bytes are atom text. Comments nest by a counter, without recursion. Line ends inside a
//! token are folds and fall away.

/// The input does not match the grammar; the position is then undefined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

pub(crate) type Lexed<T> = Result<T, Broken>;

/// A position in a raw field body.
#[derive(Clone, Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    /// The text of the comment that was skipped last.
    comment: Option<std::ops::Range<usize>>,
    unterminated: bool,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, comment: None, unterminated: false }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(crate) fn at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn seek(&mut self, at: usize) {
        self.at = at.min(self.text.len());
    }

    /// Returns the unread text.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    /// Returns `true` if an unterminated comment, quoted string or literal was met. It reaches to
    /// the end of the text, and callers stop there so that the text is not read repeatedly.
    pub(crate) fn unterminated(&self) -> bool {
        self.unterminated
    }

    /// Skips `byte` if it comes next. Returns `true` if it did.
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Discards the comment that was skipped last.
    pub(crate) fn forget_comment(&mut self) {
        self.comment = None;
    }

    /// Returns the text of the comment that was skipped last, unquoted and unfolded.
    pub(crate) fn comment(&self) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        push_unquoted(&self.text[self.comment.clone()?], &mut text);
        Some(text)
    }

    /// Reads `[CFWS]`; fails at an unterminated comment.
    pub(crate) fn skip_cfws(&mut self) -> Lexed<()> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.at += 1,
                Some(b'(') => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_comment(&mut self) -> Lexed<()> {
        let start = self.at + 1;
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'(' => depth += 1,
                b')' if depth == 1 => {
                    self.comment = Some(start..self.at - 1);
                    return Ok(());
                }
                b')' => depth -= 1,
                b'\\' => self.skip_quoted()?,
                _ => {}
            }
        }
        self.unterminated = true;
        Err(Broken)
    }

    /// Skips the byte after a backslash. Line ends and NUL cannot be quoted and are not skipped.
    fn skip_quoted(&mut self) -> Lexed<()> {
        let Some(quoted) = self.peek() else {
            self.unterminated = true;
            return Err(Broken);
        };
        self.at += usize::from(!matches!(quoted, b'\r' | b'\n' | 0));
        Ok(())
    }

    /// Returns the atom text from here, perhaps empty.
    pub(crate) fn atext(&mut self) -> &'a [u8] {
        self.take_while(is_atext)
    }

    pub(crate) fn take_while(&mut self, mut accept: impl FnMut(u8) -> bool) -> &'a [u8] {
        let start = self.at;
        while self.peek().is_some_and(&mut accept) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// Reads `atom = 1*atext [CFWS]`
    pub(crate) fn atom(&mut self) -> Lexed<&'a [u8]> {
        let atom = self.atext();
        if atom.is_empty() {
            return Err(Broken);
        }
        self.skip_cfws()?;
        Ok(atom)
    }

    /// Reads `dot-atom = 1*atext *("." 1*atext)` with `[CFWS]` around the dots, which RFC 822
    /// allowed.
    pub(crate) fn dot_atom(&mut self, out: &mut Vec<u8>) -> Lexed<()> {
        loop {
            let atom = self.atext();
            if atom.is_empty() {
                return Err(Broken);
            }
            out.extend_from_slice(atom);
            self.skip_cfws()?;
            if !self.eat(b'.') {
                return Ok(());
            }
            out.push(b'.');
            self.skip_cfws()?;
        }
    }

    /// Reads a local part with dots anywhere, as they occur: `.a..b.`
    pub(crate) fn loose_dot_atom(&mut self, out: &mut Vec<u8>) -> Lexed<()> {
        let before = out.len();
        loop {
            while self.eat(b'.') {
                out.push(b'.');
            }
            if self.peek().is_some_and(is_atext) {
                out.extend_from_slice(self.atom()?);
            }
            if self.peek() != Some(b'.') {
                return if out.len() > before { Ok(()) } else { Err(Broken) };
            }
        }
    }

    /// Reads `quoted-string [CFWS]`, unquoted; the lexer is at the opening quote.
    pub(crate) fn quoted_string(&mut self, out: &mut Vec<u8>) -> Lexed<()> {
        let start = self.at + 1;
        self.at = start;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'"' => {
                    push_unquoted(&self.text[start..self.at - 1], out);
                    return self.skip_cfws();
                }
                b'\\' => self.skip_quoted()?,
                _ => {}
            }
        }
        self.unterminated = true;
        Err(Broken)
    }

    /// Reads `phrase = 1*(word / ".")`, the words joined by one space each.
    pub(crate) fn phrase(&mut self, out: &mut Vec<u8>) -> Lexed<()> {
        if self.peek() == Some(b'.') {
            return Err(Broken);
        }
        loop {
            if self.peek() == Some(b'"') {
                self.quoted_string(out)?;
            } else {
                out.extend_from_slice(self.take_while(|byte| is_atext(byte) || byte == b'.'));
                self.skip_cfws()?;
            }
            match self.peek() {
                Some(byte) if is_atext(byte) || byte == b'"' || byte == b'.' => out.push(b' '),
                _ => return Ok(()),
            }
        }
    }

    /// Reads `domain = dot-atom / domain-literal`; the lexer follows the `@`.
    pub(crate) fn domain(&mut self, out: &mut Vec<u8>) -> Lexed<()> {
        self.skip_cfws()?;
        if self.peek() == Some(b'[') { self.domain_literal(out) } else { self.dot_atom(out) }
    }

    /// Reads `domain-literal = "[" *dtext "]" [CFWS]`, kept with its brackets and backslashes.
    pub(crate) fn domain_literal(&mut self, out: &mut Vec<u8>) -> Lexed<()> {
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'[' => return Err(Broken),
                b']' => {
                    let literal = &self.text[start..self.at];
                    out.extend(literal.iter().filter(|byte| !matches!(byte, b'\r' | b'\n')));
                    return self.skip_cfws();
                }
                b'\\' => self.skip_quoted()?,
                _ => {}
            }
        }
        self.unterminated = true;
        Err(Broken)
    }
}

/// Returns `true` if a byte is allowed in an atom; 8-bit bytes are, since they occur.
pub(crate) fn is_atext(byte: u8) -> bool {
    ATEXT[byte as usize]
}

const ATEXT: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let special = matches!(
            byte as u8,
            b' ' | b'"'
                | b'('
                | b')'
                | b','
                | b'.'
                | b':'
                | b';'
                | b'<'
                | b'>'
                | b'@'
                | b'['
                | b'\\'
                | b']'
        );
        table[byte] = byte > 32 && byte != 127 && !special;
        byte += 1;
    }
    table
};

/// Appends the inside of a quoted string or a comment without backslashes and folds.
fn push_unquoted(inside: &[u8], out: &mut Vec<u8>) {
    let mut bytes = inside.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.peek() {
                Some(b'\r' | b'\n' | 0) | None => out.push(byte),
                Some(_) => out.extend(bytes.next()),
            },
            b'\r' if bytes.peek() == Some(&b'\n') => {}
            b'\n' => {}
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        let check = |text: &str, parse: fn(&mut Lexer<'_>, &mut Vec<u8>) -> Lexed<()>, expected| {
            let mut out = Vec::new();
            let mut lexer = Lexer::new(text.as_bytes());
            let result = parse(&mut lexer, &mut out);
            let out = String::from_utf8_lossy(&out).into_owned();
            let rest = String::from_utf8_lossy(&text.as_bytes()[lexer.position()..]).into_owned();
            let found = result.map(|()| (out, rest));
            assert_eq!(found.as_ref().map(|(a, b)| (&**a, &**b)).ok(), expected, "{text:?}");
        };
        check("a.b (c(d)e) . c x", |l, out| l.dot_atom(out), Some(("a.b.c", "x")));
        check("a.", |l, out| l.dot_atom(out), None);
        check("a (b", |l, out| l.dot_atom(out), None);
        check("\"a\\\"b\r\n c\" x", |l, out| l.quoted_string(out), Some(("a\"b c", "x")));
        check("\"a", |l, out| l.quoted_string(out), None);
        check("J. \"R. R.\"  Doe <", |l, out| l.phrase(out), Some(("J. R. R. Doe", "<")));
        check(".x", |l, out| l.phrase(out), None);
        check("[1\n.2] x", |l, out| l.domain(out), Some(("[1.2]", "x")));
        check(".a..b.@", |l, out| l.loose_dot_atom(out), Some((".a..b.", "@")));
        let nested = format!("{}{}a", "(".repeat(100_000), ")".repeat(100_000));
        check(&nested, |l, out| l.phrase(out), Some((" a", "")));
    }
}
