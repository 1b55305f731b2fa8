//! Addresses of a field, decoded for people and programs.
//!
//! Most fields are a plain list of `Name <local@domain>`. Such addresses are taken from the header
//! unchanged; only names with encoded words or 8-bit text are decoded. Everything else (comments,
//! groups, escapes, malformed text) goes through the parser of the library, with the same result
//! and some allocations.

use std::borrow::Cow;

use barid::message::{decode_words, parse_addresses};

use crate::limits::ADDRESSES_MAX;

/// One address of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Person<'a> {
    /// The group that contains the address; the only value for an empty group.
    pub(crate) group: Option<&'a str>,
    /// The display name.
    pub(crate) name: Option<&'a str>,
    /// `local@domain`, or the part that exists.
    pub(crate) address: Option<&'a str>,
}

/// Visits the addresses of a plain list. Returns `false` if the list is not plain; the addresses
/// visited until then must be discarded. All addresses are printable ASCII without quotes and
/// backslashes.
pub(crate) fn visit_plain(raw: &[u8], visit: &mut dyn FnMut(Option<&str>, &str)) -> bool {
    for item in PlainList::new(raw).take(ADDRESSES_MAX) {
        match item {
            Ok((b"", address)) => visit(None, address),
            Ok((name, address)) => visit(Some(&decode_words(name)), address),
            Err(NotPlain) => return false,
        }
    }
    true
}

/// Visits the addresses of any raw field body, at most [`ADDRESSES_MAX`].
pub(crate) fn visit_parsed(raw: &[u8], visit: &mut dyn FnMut(Person<'_>)) {
    let addresses = parse_addresses(raw);
    let mut group: Option<Cow<'_, str>> = None;
    let mut empty = false;
    let mut joined = String::new();
    for address in addresses.iter().take(ADDRESSES_MAX) {
        match (&address.mailbox, &address.host) {
            (None, None) => {
                if empty {
                    visit(Person { group: group.as_deref(), name: None, address: None });
                }
                (group, empty) = (None, false);
            }
            (Some(name), None) => (group, empty) = (Some(decode_words(name)), true),
            (mailbox, host) => {
                joined.clear();
                joined.push_str(&decode_words(mailbox.as_deref().unwrap_or_default()));
                if let Some(host) = host.as_deref().filter(|host| !host.is_empty()) {
                    joined.push('@');
                    joined.push_str(&decode_words(host));
                }
                let name = address.name.as_deref().map(decode_words);
                let name = name.as_deref().filter(|name| !name.is_empty());
                let address = Some(joined.as_str()).filter(|joined| !joined.is_empty());
                visit(Person { group: group.as_deref(), name, address });
                empty = false;
            }
        }
    }
}

/// A list of only `local@domain` and `Name <local@domain>`.
struct PlainList<'a> {
    rest: &'a [u8],
}

/// The error for a list that is not plain.
#[derive(Debug)]
struct NotPlain;

/// A name, not decoded and possibly empty, and an address.
type Plain<'a> = (&'a [u8], &'a str);

impl<'a> PlainList<'a> {
    fn new(raw: &'a [u8]) -> Self {
        Self { rest: raw }
    }

    fn skip_space(&mut self) {
        while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    fn eat(&mut self, byte: u8) -> Result<(), NotPlain> {
        let (first, rest) = self.rest.split_first().ok_or(NotPlain)?;
        self.rest = rest;
        if *first == byte { Ok(()) } else { Err(NotPlain) }
    }

    /// Takes the bytes before the first one whose class is in `stops`.
    fn take(&mut self, stops: u8) -> &'a [u8] {
        let stop = |byte: &u8| CLASS[usize::from(*byte)] & stops != 0;
        let end = self.rest.iter().position(stop).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        text
    }

    fn address(&mut self) -> Result<Plain<'a>, NotPlain> {
        let name = if let [b'"', quoted @ ..] = self.rest {
            self.rest = quoted;
            let name = self.take(NO_QUOTED);
            self.eat(b'"')?;
            self.skip_space();
            name
        } else {
            let text = self.take(NO_NAME);
            if self.rest.first() != Some(&b'<') {
                return Ok((b"", check_address(text.trim_ascii_end())?));
            }
            text.trim_ascii_end()
        };
        check_name(name)?;
        self.eat(b'<')?;
        let address = check_address(self.take(NO_NAME))?;
        self.eat(b'>')?;
        self.skip_space();
        Ok((name, address))
    }
}

/// Checks that a name has no stray blanks.
fn check_name(name: &[u8]) -> Result<(), NotPlain> {
    let stray = name.starts_with(b" ") || name.ends_with(b" ");
    if stray || name.windows(2).any(|pair| pair == b"  ") { Err(NotPlain) } else { Ok(()) }
}

/// Checks that a text is `local@domain`, both non-empty, without blanks, a stray `@` or dot, or
/// encoded words.
fn check_address(text: &[u8]) -> Result<&str, NotPlain> {
    let (mut before, mut ats) = (b'.', 0);
    for byte in text {
        match (before, byte) {
            (_, b' ') | (b'.' | b'@', b'.' | b'@') | (b'=', b'?') => return Err(NotPlain),
            (_, b'@') => ats += 1,
            _ => {}
        }
        before = *byte;
    }
    if ats != 1 || matches!(before, b'.' | b'@') || !text.is_ascii() {
        return Err(NotPlain);
    }
    std::str::from_utf8(text).map_err(|_| NotPlain)
}

impl<'a> Iterator for PlainList<'a> {
    type Item = Result<Plain<'a>, NotPlain>;

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_space();
        if self.rest.is_empty() {
            return None;
        }
        let found = self.address();
        match (&found, self.rest) {
            (Ok(_), [b',', rest @ ..]) => self.rest = rest,
            (Ok(_), []) => {}
            _ => {
                self.rest = &[];
                return Some(Err(NotPlain));
            }
        }
        Some(found)
    }
}

/// Bytes that end an unquoted name or an address: all except atext, dot, `@`, blank and 8-bit.
const NO_NAME: u8 = 1;
/// Bytes that end the inside of a quoted name.
const NO_QUOTED: u8 = 2;

const CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 0x80 {
        table[byte as usize] = match byte {
            0..b' ' | 0x7f | b'"' | b'\\' => NO_NAME | NO_QUOTED,
            b'(' | b')' | b',' | b':' | b';' | b'<' | b'>' | b'[' | b']' => NO_NAME,
            _ => 0,
        };
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn check_parsed(raw: &str, expected: &[&str]) {
        let mut found = Vec::new();
        visit_parsed(raw.as_bytes(), &mut |person| {
            let part = |part: Option<&str>| part.unwrap_or("-").to_owned();
            found.push([part(person.group), part(person.name), part(person.address)].join("|"));
        });
        assert_eq!(found, expected, "{raw}");
    }

    /// Checks that a plain list gives the same addresses both ways.
    fn check_plain(raw: &str, expected: &[&str]) {
        let mut found = Vec::new();
        let plain = visit_plain(raw.as_bytes(), &mut |name, address| {
            found.push(format!("-|{}|{address}", name.unwrap_or("-")));
        });
        assert!(plain, "{raw}");
        assert_eq!(found, expected, "{raw}");
        check_parsed(raw, expected);
    }

    fn check(raw: &str, expected: &[&str]) {
        assert!(!visit_plain(raw.as_bytes(), &mut |_, _| {}), "{raw}");
        check_parsed(raw, expected);
    }

    #[test]
    fn plain_lists() {
        check_plain("a@b", &["-|-|a@b"]);
        check_plain("Ann <a@b.c>", &["-|Ann|a@b.c"]);
        check_plain("<a@b>", &["-|-|a@b"]);
        check_plain(
            "\"Doe, John\" <j@d>, K. <k@d>,\r\n\tl@d",
            &["-|Doe, John|j@d", "-|K.|k@d", "-|-|l@d"],
        );
        check_plain("=?utf-8?q?J=C3=BCrg?= X <j@d>, Jürg <j@d>", &["-|Jürg X|j@d", "-|Jürg|j@d"]);
        check_plain("\"=?utf-8?q?J=C3=BCrg?= (ä)\" <j@d>", &["-|Jürg (ä)|j@d"]);
        check_plain("=?utf-8?q?a?= =?utf-8?q?b?= <j@d>", &["-|ab|j@d"]);
        check_plain("", &[]);
    }

    #[test]
    fn the_rest_goes_through_the_parser() {
        check("\"a \\\" b\" <j@d>", &["-|a \" b|j@d"]);
        check("team: a@b, C <c@d>;", &["team|-|a@b", "team|C|c@d"]);
        check("J (comment) <j@d>", &["-|J|j@d"]);
        check("a@b c", &["-|-|a@b"]);
        check("undisclosed-recipients:;", &["undisclosed-recipients|-|-"]);
        check("j@d (John Doe)", &["-|John Doe|j@d"]);
    }
}
