//! Rules of HTML.
//!
//! A word followed by tags ends there if one of the tags breaks the text, or if white space
//! follows the tags. Otherwise the word continues after the tags (`vi<b>ag</b>ra`): it is moved
//! there, and the tags are scanned first.

use super::classes::{self, BLANK, HEX};
use super::decode;
use super::scan::{Scan, ScanState, TokenKind};

/// Tags that break the text, by the names of their opening tags.
const BREAKS: [&[u8]; 22] = [
    b"p",
    b"br",
    b"li",
    b"h1",
    b"h2",
    b"h3",
    b"h4",
    b"h5",
    b"h6",
    b"hr",
    b"title",
    b"table",
    b"center",
    b"dd",
    b"dt",
    b"iframe",
    b"img",
    b"input",
    b"select",
    b"td",
    b"textarea",
    b"th",
];

/// Tags that break the text where they open and where they close; those above do where they open.
const BREAKS_BOTH: [&[u8]; 11] = [
    b"div",
    b"blockquote",
    b"pre",
    b"dir",
    b"dl",
    b"fieldset",
    b"legend",
    b"form",
    b"menu",
    b"ol",
    b"ul",
];

/// Further tags that break the text in a browser; only the modern profiles know them.
const BREAKS_MODERN: [&[u8]; 24] = [
    b"tr",
    b"body",
    b"head",
    b"html",
    b"style",
    b"script",
    b"thead",
    b"tbody",
    b"tfoot",
    b"caption",
    b"option",
    b"button",
    b"label",
    b"article",
    b"section",
    b"header",
    b"footer",
    b"main",
    b"nav",
    b"figure",
    b"figcaption",
    b"address",
    b"object",
    b"video",
];

/// Most bytes of a tag in which the end of its name is searched.
const NAME_LEN_MAX: usize = 16;

const DOCTYPE: &[u8] = b"<!DOCTYPE HTML PUBLIC ";

/// Tags after a word.
struct Tags {
    /// End of the last tag.
    end: usize,
    /// Start of the last tag.
    last_start: usize,
    count: usize,
    breaks: bool,
}

impl Scan<'_> {
    /// Matches `<`, in any state.
    pub(super) fn angle(&mut self) -> Option<(TokenKind, usize, usize)> {
        if let Some(end) = self.doctype() {
            if !self.is_interrupted {
                self.state = ScanState::Html;
            }
            return self.skip(end);
        }
        if self.state != ScanState::Html {
            return self.skip(1);
        }
        let (state, len) = if self.peek(1) == Some(b'!') {
            match self.is_at(2, b"--") {
                true => (ScanState::StrictComment, 4),
                false => (ScanState::LooseComment, 2),
            }
        } else if let Some(len) = self.counted_tag() {
            (ScanState::Tag, len)
        } else {
            (ScanState::OtherTag, 1)
        };
        if !self.is_interrupted {
            self.state = state;
        }
        self.skip(len)
    }

    /// Returns the length of `<a `, `<img ` or `<font `, the tags whose words are tokens.
    fn counted_tag(&mut self) -> Option<usize> {
        let name: &[u8] = match self.peek(1)?.to_ascii_lowercase() {
            b'a' => b"a",
            b'i' => b"img",
            b'f' => b"font",
            _ => return None,
        };
        let end = 1 + name.len();
        (self.is_at(1, name) && is_space(self.peek(end)?)).then_some(end + 1)
    }

    /// Returns the end of a document type declaration, which is the last `>` of the line.
    fn doctype(&mut self) -> Option<usize> {
        if !self.is_at(0, DOCTYPE) {
            return None;
        }
        let mut last = None;
        let mut at = DOCTYPE.len();
        loop {
            // An earlier search recorded the places after which nothing more follows.
            let mut start = self.text.place(at);
            if self.no_bracket.contains(&start) {
                at += (self.no_bracket.end - start) as usize;
                start = self.no_bracket.start;
            }
            match self.find(at, b'>', true) {
                Some(found) => {
                    last = Some(found + 1);
                    at = found + 1;
                }
                None if self.is_interrupted => return None,
                None => {
                    let rest = self.text.rest();
                    let line_end = memchr::memchr(b'\n', rest.get(at..).unwrap_or_default());
                    let end = line_end.map_or(rest.len(), |len| at + len);
                    self.no_bracket = start..self.text.place(end.max(at));
                    return last;
                }
            }
        }
    }

    /// Matches a word of `len` bytes with `<` after it.
    pub(super) fn word_before_tags(&mut self, len: usize) -> Option<(TokenKind, usize, usize)> {
        let tags = self.tags(len);
        let next = self.peek(tags.end);
        if self.is_interrupted {
            return None;
        }
        if tags.count == 0 || tags.breaks || next.is_some_and(is_space) {
            return self.plain_word(len);
        }
        let end = if next.is_some() { tags.end } else { tags.last_start };
        if end == len || self.rescans_left == 0 {
            return self.plain_word(len);
        }
        let cut = self.shorten(len);
        let (len, end) = (len - cut, end - cut);
        self.text.rotate(len, end);
        self.rescans_left = self.rescans_left.saturating_sub(end as u64);
        self.no_bracket.start = self.no_bracket.start.max(self.text.place(end));
        self.at_line_start = false;
        None
    }

    /// Shortens the word of `len` bytes in front if it is too long for a token whatever follows, so
    /// that moving it costs little. Returns the number of bytes removed.
    fn shorten(&mut self, len: usize) -> usize {
        let kept = self.options.token_len_bound() + 1;
        if self.is_modern() || len <= kept {
            return 0;
        }
        self.text.consume(len - kept);
        self.text.fill(kept, b'a');
        len - kept
    }

    /// Returns the complete tags from `start` on, one after the other.
    fn tags(&mut self, start: usize) -> Tags {
        let mut tags = Tags { end: start, last_start: start, count: 0, breaks: false };
        while self.peek(tags.end) == Some(b'<') {
            let Some(close) = self.find(tags.end + 1, b'>', false) else { break };
            let inside = &self.text.rest()[tags.end + 1..close];
            tags.breaks |= if self.is_modern() { breaks_modern(inside) } else { breaks(inside) };
            tags.last_start = tags.end;
            tags.end = close + 1;
            tags.count += 1;
        }
        tags
    }

    /// Matches `&#101;` after a word of `len` bytes (0: after no word): a printable ASCII
    /// character replaces it, and is scanned again together with the word.
    pub(super) fn entity(&mut self, len: usize) -> Option<(TokenKind, usize, usize)> {
        if self.is_modern() {
            return self.entity_modern(len);
        }
        let Some((end, value)) = self.entity_value(len) else {
            return if len > 0 { self.plain_word(len) } else { self.skip(1) };
        };
        if self.is_interrupted {
            return None;
        }
        if self.rescans_left == 0 {
            return if len > 0 { self.plain_word(len) } else { self.skip(end) };
        }
        let cut = self.shorten(len);
        let (len, end) = (len - cut, end - cut);
        let mut again = std::mem::take(self.line);
        again.clear();
        let text = self.text.rest();
        match u8::try_from(value) {
            Ok(byte @ b' '..=b'~') => {
                again.extend_from_slice(&text[..len]);
                again.push(byte);
            }
            _ if len > 0 => {
                again.extend_from_slice(&text[..end - 1]);
                again.push(b' ');
            }
            _ => {}
        }
        self.take(end);
        self.push_back(&again);
        *self.line = again;
        None
    }

    /// Returns the end of a numeric character reference at `start`, and its value as bogofilter
    /// reads it: up to four hexadecimal digits, or decimal digits up to the first other byte.
    fn entity_value(&mut self, start: usize) -> Option<(usize, i32)> {
        if self.peek(start + 1) != Some(b'#') {
            return None;
        }
        let digits = start + 2 + usize::from(matches!(self.peek(start + 2), Some(b'x' | b'X')));
        let end = self.run(digits, HEX);
        if end == digits || self.peek(end) != Some(b';') {
            return None;
        }
        let text = &self.text.rest()[start + 2..end];
        if !text[0].is_ascii_digit() {
            let hex = text[1..].iter().take(4);
            let value = hex
                .fold(0, |value, &digit| value << 4 | i32::from(decode::hex(digit).unwrap_or(0)));
            return Some((end + 1, value));
        }
        let decimal = text.iter().take_while(|digit| digit.is_ascii_digit());
        let value = decimal.fold(0_i64, |value, digit| {
            value.saturating_mul(10).saturating_add(i64::from(digit - b'0'))
        });
        Some((end + 1, value as i32))
    }

    /// Matches `/` and the bytes after it up to and including percent escapes (`%41`), in a tag:
    /// the escapes are decoded, and all of it is scanned again.
    pub(super) fn escapes(&mut self) -> Option<(TokenKind, usize, usize)> {
        let mut at = 1;
        while self.peek(at).is_some_and(|byte| !matches!(byte, b'/' | b'%' | b' ' | b'\t' | b'\n'))
        {
            at += 1;
        }
        let start = at;
        let is_hex = |byte: Option<u8>| byte.is_some_and(|byte| classes::is(byte, HEX));
        while self.peek(at) == Some(b'%') && is_hex(self.peek(at + 1)) && is_hex(self.peek(at + 2))
        {
            at += 3;
        }
        if at == start || self.is_interrupted || self.rescans_left == 0 {
            return self.skip(1);
        }
        let mut again = std::mem::take(self.line);
        again.clear();
        let text = self.text.rest();
        again.extend_from_slice(&text[..start]);
        for escape in text[start..at].chunks_exact(3) {
            let [high, low] = [escape[1], escape[2]].map(|digit| decode::hex(digit).unwrap_or(0));
            again.push(high << 4 | low);
        }
        self.take(at);
        self.push_back(&again);
        *self.line = again;
        None
    }
}

fn is_space(byte: u8) -> bool {
    byte == b'\n' || classes::is(byte, BLANK)
}

/// Returns `true` if a tag breaks the text for bogofilter; `inside` is the text between its angle
/// brackets.
fn breaks(inside: &[u8]) -> bool {
    let len = inside.iter().take(NAME_LEN_MAX).position(|&byte| is_space(byte));
    let name = &inside[..len.unwrap_or(inside.len())];
    let is_name = |known: &[u8]| name.eq_ignore_ascii_case(known);
    match name.strip_prefix(b"/") {
        Some(name) => BREAKS_BOTH.iter().any(|known| name.eq_ignore_ascii_case(known)),
        None => BREAKS.into_iter().any(is_name) || BREAKS_BOTH.into_iter().any(is_name),
    }
}

/// Returns `true` if a tag breaks the text in a browser. Unlike [`breaks`], it treats opening,
/// closing and empty tags (`<br/>`) alike.
fn breaks_modern(inside: &[u8]) -> bool {
    let name = inside.strip_prefix(b"/").unwrap_or(inside);
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'/';
    let len = name.iter().take(NAME_LEN_MAX).position(is_end).unwrap_or(name.len());
    let is_name = |known: &&[u8]| name[..len].eq_ignore_ascii_case(known);
    BREAKS.iter().chain(&BREAKS_BOTH).chain(&BREAKS_MODERN).any(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(inside: &str, expected: (bool, bool)) {
        let inside = inside.as_bytes();
        assert_eq!((breaks(inside), breaks_modern(inside)), expected, "{inside:?}");
    }

    #[test]
    fn tags_that_break() {
        check("P", (true, true));
        check("br", (true, true));
        check("br/", (false, true));
        check("br /", (true, true));
        check("/p", (false, true));
        check("/div", (true, true));
        check("div class=x", (true, true));
        check("tr", (false, true));
        check("b", (false, false));
        check("/span", (false, false));
        check("", (false, false));
    }
}
