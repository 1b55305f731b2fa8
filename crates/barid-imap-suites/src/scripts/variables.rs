//! Variables of a script.

use std::collections::BTreeMap;

/// A part of a text with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Text, whose case does not count in a response.
    Text(Vec<u8>),
    /// `${case:text}`: text whose case counts.
    Case(Vec<u8>),
    /// `$name` or `${name}`.
    Variable(String),
    /// `$n`: the place of a message.
    Sequence(u32),
    /// `$`: anything.
    Any,
}

/// Takes a text apart. `$$` is a dollar; a `${` without end is text.
pub(super) fn tokens(text: &[u8]) -> Vec<Token> {
    let (mut tokens, mut plain, mut at) = (Vec::new(), Vec::new(), 0);
    while let Some(byte) = text.get(at).copied() {
        at += 1;
        if byte != b'$' {
            plain.push(byte);
            continue;
        }
        if text.get(at) == Some(&b'$') {
            plain.push(b'$');
            at += 1;
            continue;
        }
        let (name, end) = variable_name(text, at);
        if !plain.is_empty() {
            tokens.push(Token::Text(std::mem::take(&mut plain)));
        }
        tokens.push(named(name));
        at = end;
    }
    if !plain.is_empty() {
        tokens.push(Token::Text(plain));
    }
    tokens
}

/// Returns the name behind a dollar, and where the text goes on.
fn variable_name(text: &[u8], start: usize) -> (&[u8], usize) {
    if text.get(start) == Some(&b'{')
        && let Some(len) = text[start..].iter().position(|byte| *byte == b'}')
    {
        return (&text[start + 1..start + len], start + len + 1);
    }
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let len = text[start..].iter().position(|byte| !is_part(byte));
    let end = len.map_or(text.len(), |len| start + len);
    (&text[start..end], end)
}

fn named(name: &[u8]) -> Token {
    if let Some(text) = name.strip_prefix(b"case:") {
        return Token::Case(text.to_vec());
    }
    let name = String::from_utf8_lossy(name).into_owned();
    match name.parse() {
        _ if name.is_empty() => Token::Any,
        Ok(number) => Token::Sequence(number),
        Err(_) => Token::Variable(name),
    }
}

/// Values of variables.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables {
    values: BTreeMap<String, Vec<u8>>,
    /// The last `$modseqN`: N and its value.
    last_modseq: (u64, u64),
}

impl Variables {
    /// Returns the value of a variable.
    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        self.values.get(name).map(Vec::as_slice)
    }

    /// Sets a variable.
    pub(super) fn set(&mut self, name: &str, value: &[u8]) {
        self.values.insert(name.to_owned(), value.to_vec());
    }

    /// Removes a variable.
    pub(super) fn remove(&mut self, name: &str) {
        self.values.remove(name);
    }

    /// Sets a variable that a response has shown. Returns `false` if it cannot have this value:
    /// a `$modseqN` that is not above the one before by the difference of their N.
    pub(super) fn bind(&mut self, name: &str, value: &[u8]) -> bool {
        if let Some(index) = name.strip_prefix("modseq").and_then(|index| index.parse().ok()) {
            let number = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            let (Some(number), (last_index, last)) = (number, self.last_modseq) else {
                return false;
            };
            if index < last_index || number < last + (index - last_index) {
                return false;
            }
            self.last_modseq = (index, number);
        }
        self.set(name, value);
        true
    }

    /// Fills the variables of a command.
    ///
    /// # Errors
    /// The name of a variable without value, or a message that is gone.
    pub(super) fn expand(&self, text: &[u8], places: &Places) -> Result<Vec<u8>, String> {
        let mut expanded = Vec::new();
        for token in tokens(text) {
            match token {
                Token::Text(text) | Token::Case(text) => expanded.extend_from_slice(&text),
                Token::Any => expanded.push(b'$'),
                Token::Sequence(number) => {
                    let place = places.get(number).ok_or(format!("message {number} is gone"))?;
                    expanded.extend_from_slice(place.to_string().as_bytes());
                }
                Token::Variable(name) => {
                    let value = self.get(&name).ok_or(format!("${name} has no value"))?;
                    expanded.extend_from_slice(value);
                }
            }
        }
        Ok(expanded)
    }
}

/// The places of the messages that were there when a command was sent; 0 for one that is gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Vec<u32>);

impl Places {
    /// Messages 1 to `count`.
    pub(super) fn new(count: u32) -> Self {
        Self((1..=count).collect())
    }

    /// Returns the present place of a message.
    pub(super) fn get(&self, number: u32) -> Option<u32> {
        let place = self.0.get(usize::try_from(number.checked_sub(1)?).ok()?);
        place.copied().filter(|place| *place > 0)
    }

    /// Follows an EXPUNGE.
    pub(super) fn expunge(&mut self, gone: u32) {
        for place in &mut self.0 {
            if *place == gone {
                *place = 0;
            } else if *place > gone {
                *place -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_apart() {
        let variable = |name: &str| Token::Variable(name.to_owned());
        let text = |text: &str| Token::Text(text.as_bytes().to_vec());
        let check = |from: &str, expected: &[Token]| assert_eq!(tokens(from.as_bytes()), expected);
        check(
            "a$b_1,$2:${c}d",
            &[
                text("a"),
                variable("b_1"),
                text(","),
                Token::Sequence(2),
                text(":"),
                variable("c"),
                text("d"),
            ],
        );
        check("$$hello $", &[text("$hello "), Token::Any]);
        check("${case:In Box}", &[Token::Case(b"In Box".to_vec())]);
        check("`|[}", &[text("`|[}")]);
    }

    #[test]
    fn commands_are_filled() {
        let mut variables = Variables::default();
        variables.set("a", b"x");
        let mut places = Places::new(3);
        places.expunge(2);
        let check = |text: &str, expected: Result<&str, &str>| {
            let found = variables.expand(text.as_bytes(), &places);
            let found = found.map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned));
        };
        check("$a${a}1 $3 $$x", Ok("xx1 2 $x"));
        check("$2", Err("message 2 is gone"));
        check("$b", Err("$b has no value"));
    }

    #[test]
    fn mod_sequences_rise() {
        let mut variables = Variables::default();
        assert!(!variables.bind("modseq2", b"1"));
        assert!(variables.bind("modseq2", b"10"));
        assert!(!variables.bind("modseq5", b"12"));
        assert!(variables.bind("modseq5", b"13"));
        assert!(variables.bind("modseq_x", b"1"));
        assert_eq!(variables.get("modseq5"), Some(&b"13"[..]));
    }
}
