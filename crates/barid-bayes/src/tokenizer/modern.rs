//! Rules of the modern profiles: character references of HTML, words of scripts without spaces,
//! hosts of URLs, words in small letters, and pairs of words.

use super::classes::{self, BACK, FRONT, HEX};
use super::entities::{self, NAME_LEN_MAX};
use super::scan::{Scan, Tag, TokenKind};
use super::{Delivery, decode};

/// Most digits of a numeric character reference that are read.
const NUMBER_LEN_MAX: usize = 8;
/// Longest token of a host or a time zone, in bytes without its prefix.
const HOST_LEN_MAX: usize = 60;

impl Scan<'_> {
    /// Replaces a character reference after a word of `len` bytes (0: after no word) and scans
    /// the word again with it. A letter or digit replaces it, visible ASCII as well except `<`, `>`
    /// and `&`; characters of no width are dropped, all others become a space.
    pub(super) fn entity_modern(&mut self, len: usize) -> Option<(TokenKind, usize, usize)> {
        let found = self.entity_character(len);
        if self.is_interrupted {
            return None;
        }
        let Some((end, character)) = found.filter(|_| self.rescans_left > 0) else {
            return if len > 0 { self.plain_word(len) } else { self.skip(1) };
        };
        let mut again = std::mem::take(self.line);
        again.clear();
        again.extend_from_slice(&self.text.rest()[..len]);
        let mut utf8 = [0; 4];
        match character {
            '\u{AD}' | '\u{200B}'..='\u{200F}' | '\u{2060}' | '\u{FEFF}' => {}
            // It must not begin a tag or a character of its own.
            ' '..='~' if !matches!(character, '<' | '>' | '&') => again.push(character as u8),
            _ if character.is_alphanumeric() => {
                again.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
            }
            _ => again.push(b' '),
        }
        self.take(end);
        self.push_back(&again);
        *self.line = again;
        None
    }

    /// Returns the end of the character reference (`&...;`) at `start`, and its character.
    fn entity_character(&mut self, start: usize) -> Option<(usize, char)> {
        if self.peek(start + 1) != Some(b'#') {
            let mut end = start + 1;
            while end <= start + NAME_LEN_MAX
                && self.peek(end).is_some_and(|byte| byte.is_ascii_alphanumeric())
            {
                end += 1;
            }
            let character = entities::named(&self.text.rest()[start + 1..end])?;
            let is_ended = self.peek(end) == Some(b';');
            return Some((end + usize::from(is_ended), character));
        }
        let is_hex = matches!(self.peek(start + 2), Some(b'x' | b'X'));
        let digits = start + 2 + usize::from(is_hex);
        let mut end = digits;
        let is_digit =
            |byte: u8| if is_hex { classes::is(byte, HEX) } else { byte.is_ascii_digit() };
        while end < digits + NUMBER_LEN_MAX && self.peek(end).is_some_and(is_digit) {
            end += 1;
        }
        let text = &self.text.rest()[digits..end];
        if text.is_empty() {
            return None;
        }
        let base = if is_hex { 16 } else { 10 };
        let number = text.iter().fold(0_u32, |number, &digit| {
            number.wrapping_mul(base).wrapping_add(decode::hex(digit).unwrap_or(0).into())
        });
        let is_ended = self.peek(end) == Some(b';');
        Some((end + usize::from(is_ended), entities::numbered(number)))
    }

    /// Returns `true` if the next word is the host of a URL: `://` precedes it.
    pub(super) fn is_host(&self) -> bool {
        self.text.is_after(0, b"://")
    }
}

impl Delivery<'_> {
    /// Delivers a word of `len` bytes: its tokens as a host, and the words of one script each that
    /// it consists of.
    pub(super) fn modern_word(&mut self, scan: &mut Scan<'_>, found: TokenKind, len: usize) {
        if scan.is_host() {
            self.hosts(scan, len);
        }
        if found == TokenKind::Host {
            return;
        }
        let is_kept = super::is_text(scan);
        let text = scan.text.rest();
        if !is_kept {
            return;
        }
        if text[..len].iter().all(|byte| *byte < 0xE3) {
            return self.modern_part(scan, 0, len);
        }
        let mut start = 0;
        while start < len {
            let (end, is_dense) = segment(&scan.text.rest()[start..len]);
            let end = start + end;
            if is_dense {
                self.pairs(scan, start, end);
            } else {
                self.modern_part(scan, start, end);
            }
            start = end;
        }
    }

    /// Delivers the word between `start` and `end`, if there is one of a valid length.
    fn modern_part(&mut self, scan: &mut Scan<'_>, start: usize, end: usize) {
        let text = &scan.text.rest()[start..end];
        let first = text.iter().position(|&byte| classes::is(byte, FRONT));
        let last = text.iter().rposition(|&byte| classes::is(byte, BACK));
        let (Some(first), Some(last)) = (first, last) else { return };
        let word = text.get(first..=last).unwrap_or_default();
        let lens = scan.options.token_len_min..=scan.options.token_len_bound();
        if lens.contains(&word.len()) {
            self.token.clear();
            self.token.extend_from_slice(word);
            self.deliver(scan);
        }
    }

    /// Delivers every two adjacent characters as a token, or the only character.
    fn pairs(&mut self, scan: &mut Scan<'_>, start: usize, end: usize) {
        let mut at = start;
        loop {
            let text = &scan.text.rest()[at..end];
            let first = character_len(text);
            let second = text.get(first..).map_or(0, character_len);
            if second == 0 && at > start {
                return;
            }
            self.token.clear();
            self.token.extend_from_slice(&text[..first + second]);
            self.deliver(scan);
            if second == 0 {
                return;
            }
            at += first;
        }
    }

    /// Delivers the domain of a host: its last two labels, in small letters. It usually separates
    /// spam and ham better than the whole host, which is a word as well.
    pub(super) fn hosts(&mut self, scan: &Scan<'_>, len: usize) {
        let host = &scan.text.rest()[..len];
        let is_name = host.iter().any(|byte| !byte.is_ascii_digit() && *byte != b'.');
        let dots = host.iter().enumerate().rev().filter(|(_, byte)| **byte == b'.');
        let start = dots.map(|(at, _)| at + 1).nth(1).filter(|_| is_name);
        self.small(b"url:", &host[start.unwrap_or(0)..]);
        if scan.is_paired() && scan.tag.is_none() {
            self.web_address(scan, len);
        }
    }

    /// Delivers a name in small letters, unless it is longer than [`HOST_LEN_MAX`].
    fn small(&mut self, prefix: &[u8], name: &[u8]) {
        if name.len() > HOST_LEN_MAX {
            return;
        }
        self.full.clear();
        self.full.extend_from_slice(prefix);
        self.full.extend(name.iter().map(u8::to_ascii_lowercase));
        (self.each)(self.full);
    }

    /// Delivers tokens of header lines whose words are not tokens: the time zone of `Date` and the
    /// host of `Message-ID`. `line` begins with a field name of `name_len` bytes.
    pub(super) fn line(&mut self, line: &[u8], name_len: usize) {
        let (name, value) = line.split_at(name_len);
        if name.eq_ignore_ascii_case(b"date") {
            let mut words = value.split(|byte| *byte == b' ');
            let zone = words.find(|word| word.len() >= 5 && matches!(word[0], b'+' | b'-'));
            if let Some(zone) = zone {
                self.small(b"zone:", zone);
            }
        } else if name.eq_ignore_ascii_case(b"message-id") {
            let host = memchr::memchr(b'@', value).map(|at| &value[at + 1..]);
            let host = host.unwrap_or(b"none");
            let len = memchr::memchr(b'>', host).unwrap_or(host.len());
            self.small(b"mid:", &host[..len]);
        }
    }

    /// Delivers a word in small letters, and its pair with the word before: in texts, and in the
    /// headers of [`is_telling`].
    pub(super) fn paired_word(&mut self, prefix: &[u8], tag: Option<Tag>, word: &[u8]) {
        self.full.clear();
        self.full.extend_from_slice(prefix);
        self.full.extend(word.iter().map(u8::to_ascii_lowercase));
        (self.each)(self.full);
        let neighbours = &mut *self.neighbours;
        if neighbours.tag != tag {
            neighbours.forget();
            neighbours.tag = tag;
        }
        if !tag.map_or_else(|| neighbours.count(), is_telling) {
            return;
        }
        neighbours.push_small(word);
        let earlier = neighbours.word(1);
        if !earlier.is_empty() {
            pair(self.full, [prefix, earlier, b"*", neighbours.word(0)]);
            (self.each)(self.full);
        }
    }

    /// Delivers the tokens that [`Profile::Modern1`](crate::Profile::Modern1) adds to a word: the
    /// word in small letters, and in the headers of [`is_telling`] its pair with the word before.
    pub(super) fn more(&mut self, tag: Option<Tag>, word: &[u8]) {
        let prefix = tag.map_or(&b""[..], Tag::prefix);
        if word.iter().any(u8::is_ascii_uppercase) {
            self.full.clear();
            self.full.extend_from_slice(prefix);
            self.full.extend(word.iter().map(u8::to_ascii_lowercase));
            (self.each)(self.full);
        }
        let is_paired = tag.is_some_and(is_telling);
        let neighbours = &mut *self.neighbours;
        if is_paired && neighbours.tag == tag && !neighbours.word(0).is_empty() {
            pair(self.full, [prefix, neighbours.word(0), b"*", word]);
            (self.each)(self.full);
        }
        neighbours.tag = tag;
        neighbours.push(if is_paired { word } else { b"" });
    }
}

/// Returns `true` for header fields whose words make pairs. IP addresses in them make pairs as
/// well: without these, less spam is found at the same false positives.
fn is_telling(tag: Tag) -> bool {
    matches!(tag, Tag::To | Tag::From | Tag::ReturnPath | Tag::Subject | Tag::Received)
}

/// Writes the pair of two words to `to`: prefix, first word, separator, second word.
fn pair(to: &mut Vec<u8>, parts: [&[u8]; 4]) {
    to.clear();
    parts.into_iter().for_each(|part| to.extend_from_slice(part));
}

/// Returns the length in bytes of the first character, by its first byte.
fn character_len(text: &[u8]) -> usize {
    let len = match text.first() {
        None => 0,
        Some(..0xC0) => 1,
        Some(..0xE0) => 2,
        Some(..0xF0) => 3,
        Some(_) => 4,
    };
    len.min(text.len())
}

/// Returns the length in bytes of the run at the start of `text` whose characters are all
/// [`is_dense`] or all not, and `true` if they are.
fn segment(text: &[u8]) -> (usize, bool) {
    let is_dense = is_dense(text);
    let mut end = 0;
    while end < text.len() && self::is_dense(&text[end..]) == is_dense {
        end += character_len(&text[end..]);
    }
    (end, is_dense)
}

/// Returns `true` if the first character is of a script without spaces (Chinese, Japanese), or of
/// one with so many word endings that pairs of characters classify better than words (Korean).
fn is_dense(text: &[u8]) -> bool {
    let bytes = &text[..character_len(text)];
    let character = std::str::from_utf8(bytes).ok().and_then(|text| text.chars().next());
    character.is_some_and(|character| {
        matches!(
            character,
            '\u{3040}'..='\u{30FF}'
                | '\u{3400}'..='\u{4DBF}'
                | '\u{4E00}'..='\u{9FFF}'
                | '\u{AC00}'..='\u{D7AF}'
                | '\u{F900}'..='\u{FAFF}'
                | '\u{20000}'..='\u{3FFFF}'
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::limits::PAIRED_WORDS_MAX;
    use crate::options::{Options, Profile};
    use crate::tokenizer::Tokenizer;

    fn check(message: &str, expected: &str) {
        check_bytes(message.as_bytes(), expected);
    }

    /// Checks the tokens of the first version of the profile.
    fn check_bytes(message: &[u8], expected: &str) {
        check_profile(Profile::Modern1, message, expected);
    }

    fn check_pairs(message: &str, expected: &str) {
        check_profile(Profile::Modern, message.as_bytes(), expected);
    }

    /// Checks the tokens of a message, except those of its form, which `shape` tests.
    fn check_profile(profile: Profile, message: &[u8], expected: &str) {
        let mut tokens = Vec::new();
        let mut tokenizer = Tokenizer::new(Options::new(profile));
        tokenizer.tokens(message, &mut |token| tokens.push(token.to_vec()));
        tokens.retain(|token| !token.starts_with(b"form:"));
        let tokens = tokens.join(&b' ');
        assert_eq!(String::from_utf8_lossy(&tokens), expected, "{message:?}");
    }

    /// Checks the tokens of a text in HTML, without those of its header.
    fn check_html(text: &str, expected: &str) {
        let head = "head:Content-Type head:content-type head:text head:html ";
        check(&format!("Content-Type: text/html\n\n{text}"), &(head.to_owned() + expected));
    }

    #[test]
    fn tags_that_break_the_text() {
        check_html("two<br/>three<b>four</b>", "two threefour");
        check_html("<title>my title</title><p>one</p>two<tr>six", "title one two six");
    }

    #[test]
    fn characters_of_html() {
        check_html("caf&eacute; na&#239;ve &amp;more one&nbsp;two", "café naïve more one two");
        check_html("via&shy;gra f&#x200b;ree &#102;ive &lt;b&gt;old", "viagra free five old");
        check_html("a&b; &none; &#; &#99999999; &amp;lt;bold", "none bold");
    }

    #[test]
    fn text_that_does_not_say_its_charset() {
        check("X: café\n\ncafé\n", "head:café café");
        check_bytes(b"\ncaf\xE9\n", "café");
        check_bytes(
            b"Content-type: text/plain; charset=iso-8859-1\n\n\x93one\x94",
            "head:Content-type head:content-type head:text head:plain head:charset \
             head:iso-8859-1 \u{201C}one\u{201D}",
        );
    }

    #[test]
    fn words_of_headers() {
        let long = "abcdefghijklmnopqrstuvwxyzabcd";
        check(&format!("X: {long} {long}e\n\n"), &format!("head:{long}"));
        check("Subject: Buy now\nTo: you\n", "subj:Buy subj:buy subj:now subj:Buy*now to:you");
        check(
            "Date: Mon, 1 Jan 2001 12:00:00 +0800\nMessage-Id: <a@B.example>\n",
            "zone:+0800 head:Date head:date mid:b.example head:Message-Id head:message-id",
        );
    }

    #[test]
    fn hosts_of_the_web() {
        check(
            "\nhttp://www.Example.com/path",
            "http url:example.com www.Example.com www.example.com path",
        );
        check("\nhttp://1.2.3.4/", "http url:1.2.3.4 1.2.3.4");
        check_html("<form action=\"http://a.b.example/x\">", "url:b.example");
    }

    #[test]
    fn scripts_without_spaces() {
        check("\n你好吗 好\n", "你好 好吗 好");
        check("\nabc東京def\n", "abc 東京 def");
        check("\n안녕하세요\n", "안녕 녕하 하세 세요");
    }

    #[test]
    fn neighbours_in_texts() {
        check_pairs("\nBuy it now\n", "buy now buy*now");
        check_pairs(
            "\none two three\n\nfour.\n",
            "one two one*two three two*three four three*four",
        );
        check_pairs("\n你好吗\n", "你好 好吗 你好*好吗");
        // Not from part to part.
        check_pairs(
            "Content-Type: multipart/x; boundary=b\n\n--b\n\none\n--b\nX-Part: \n\ntwo\n--b--\n",
            "head:content-type head:multipart one mime:x-part two",
        );
    }

    #[test]
    fn neighbours_in_headers() {
        check_pairs(
            "Subject: Buy it Now again\nTo: You\nX-Mailer: One Two\n",
            "subj:buy subj:now subj:buy*now subj:again subj:now*again to:you head:x-mailer \
             head:one head:two",
        );
        check_pairs(
            "Date: Mon, 1 Jan 2001 12:00:00 +0800\nMessage-Id: <a@B.example>\n",
            "zone:+0800 head:date mid:b.example head:message-id",
        );
        check_pairs(
            "Received: from host ([192.0.2.1]) by relay\n",
            "rcvd:from rcvd:host rcvd:from*host rcvd:192.0.2.1 rcvd:host*192.0.2.1 rcvd:relay \
             rcvd:192.0.2.1*relay",
        );
    }

    #[test]
    fn pairs_of_long_texts_end() {
        let mut tokenizer = Tokenizer::new(Options::new(Profile::Modern));
        let text: String = (0..10_000).map(|word| format!("word{word} ")).collect();
        let (mut words, mut pairs) = (0, 0);
        tokenizer.tokens(format!("\n{text}\n").as_bytes(), &mut |token| {
            *if token.contains(&b'*') { &mut pairs } else { &mut words } += 1;
        });
        assert_eq!((words, pairs), (10_000, PAIRED_WORDS_MAX - 1));
    }
}
