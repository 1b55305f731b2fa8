//! Tokens of the form of a message, for the modern profile: the order of its header fields, the
//! patterns of addresses and of the Message-ID, and the form of URLs.
//!
//! Forms outlive words: a program that sends mail keeps the order of its fields while texts and
//! names change. Only fields that the sender's program or a mailing list writes are used, none that
//! hosts on the way add, and no names or hosts of receivers, so that the tokens depend only on the
//! message and not on the mailbox that it is in.

use super::Delivery;
use super::scan::Scan;
use super::work;

/// Fields that the sender's program or a mailing list writes.
const ORDERED: [&[u8]; 22] = [
    b"from",
    b"to",
    b"cc",
    b"subject",
    b"date",
    b"message-id",
    b"mime-version",
    b"content-type",
    b"content-transfer-encoding",
    b"x-mailer",
    b"user-agent",
    b"reply-to",
    b"references",
    b"in-reply-to",
    b"sender",
    b"x-priority",
    b"x-msmail-priority",
    b"x-mimeole",
    b"importance",
    b"organization",
    b"list-id",
    b"list-unsubscribe",
];

/// Most fields of a header that are read.
const FIELDS_MAX: usize = 500;
/// Most bytes of a field's value that are read.
const VALUE_LEN_MAX: usize = 1000;
/// Most bytes after the host of a URL that are read.
const PATH_LEN_MAX: usize = 250;
/// Longest name, and longest pattern, in a token.
const NAME_LEN_MAX: usize = 20;
const PATTERN_LEN_MAX: usize = 16;

impl Delivery<'_> {
    /// Delivers the forms of a message's header.
    pub(super) fn header_forms(&mut self, message: &[u8]) {
        let mut before = None;
        let mut values: [Option<&[u8]>; ORDERED.len()] = [None; ORDERED.len()];
        for (name, value) in Fields(message).take(FIELDS_MAX) {
            let known = ORDERED.iter().position(|known| name.eq_ignore_ascii_case(known));
            let Some(index) = known else { continue };
            if let Some(before) = before {
                self.form(b"order-", &[ORDERED[before], b">", ORDERED[index]]);
            }
            before = Some(index);
            values[index].get_or_insert(value);
        }
        let value = |name: &[u8]| {
            let index = ORDERED.iter().position(|known| *known == name)?;
            values[index]
        };
        for (name, field) in [(&b"from"[..], &b"from-"[..]), (b"to", b"to-")] {
            if let Some(value) = value(name) {
                self.how_written(field, value);
            }
        }
        if let Some(local) = value(b"from").and_then(local_part) {
            self.form(b"from-local-", &[&pattern(local)]);
        }
        if let Some(id) = value(b"message-id") {
            let end = memchr::memchr(b'@', id).unwrap_or(id.len());
            self.form(b"id-", &[&pattern(&id[..end])]);
        }
    }

    /// Delivers the style in which addresses are written, and the binary logarithm of their number.
    fn how_written(&mut self, field: &[u8], value: &[u8]) {
        let how: &[u8] = match value {
            _ if value.contains(&b'"') => b"quoted",
            [b'<', ..] => b"bracket",
            _ if value.contains(&b'<') => b"name",
            _ if value.contains(&b'(') => b"comment",
            _ => b"bare",
        };
        let addresses = value.iter().filter(|byte| **byte == b'@').count();
        self.form(field, &[how, &digit((addresses + 1).ilog2() as usize)]);
    }

    /// Delivers the form of a URL whose host is the next `len` bytes.
    pub(super) fn web_address(&mut self, scan: &Scan<'_>, len: usize) {
        let (host, rest) = scan.text.rest().split_at(len);
        let rest = &rest[..rest.len().min(PATH_LEN_MAX)];
        work::note(len + rest.len());
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"'<>".contains(byte);
        let rest = &rest[..rest.iter().position(ends).unwrap_or(rest.len())];
        if rest.first() == Some(&b'@') {
            self.form(b"url-", &[b"user"]);
        }
        if rest.first() == Some(&b':') {
            self.form(b"url-", &[b"port"]);
        }
        if host.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') {
            self.form(b"url-", &[b"numbers"]);
        } else {
            let top = memchr::memrchr(b'.', host).map_or(host, |at| &host[at + 1..]);
            self.form(b"url-", &[b"top-", &top[..top.len().min(NAME_LEN_MAX)]]);
            let dots = host.iter().filter(|byte| **byte == b'.').count();
            self.form(b"url-", &[b"dots", &digit(dots.min(4))]);
        }
        let path = memchr::memchr(b'/', rest).map_or(&b""[..], |at| &rest[at..]);
        self.form(b"url-", &[b"path", &digit((path.len() + 1).ilog2() as usize)]);
        for mark in b"?%".iter().filter(|mark| path.contains(mark)) {
            self.form(b"url-", &[&[*mark]]);
        }
        let depth = path.iter().filter(|byte| **byte == b'/').count();
        self.form(b"url-", &[b"depth", &digit(depth.min(5))]);
        let names = || path.split(|byte| matches!(byte, b'/' | b'?'));
        let first = names().nth(1).unwrap_or_default();
        self.form(b"url-", &[b"first-", &first[..first.len().min(NAME_LEN_MAX)]]);
        let file = path.split(|byte| *byte == b'?').next().unwrap_or_default();
        let file = memchr::memrchr(b'/', file).map_or(file, |at| &file[at..]);
        if let Some(at) = memchr::memrchr(b'.', file) {
            self.form(b"url-", &[b"file-", &file[at + 1..file.len().min(at + 6)]]);
        }
    }

    /// Delivers a form in small letters, unless it has a NUL, which no token in a word list may
    /// have.
    fn form(&mut self, what: &[u8], parts: &[&[u8]]) {
        self.full.clear();
        self.full.extend_from_slice(b"form:");
        self.full.extend_from_slice(what);
        for part in parts {
            if part.contains(&0) {
                return;
            }
            self.full.extend(part.iter().map(u8::to_ascii_lowercase));
        }
        (self.each)(self.full);
    }
}

/// The fields of a header in order: names, and values with their continuation lines.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut end = line_len(self.0);
            if matches!(self.0, [] | [b'\n', ..] | [b'\r', b'\n', ..]) {
                return None;
            }
            while matches!(self.0.get(end), Some(b' ' | b'\t')) {
                end += line_len(&self.0[end..]);
            }
            let (field, rest) = self.0.split_at(end);
            work::note(end);
            self.0 = rest;
            if let Some(colon) = memchr::memchr(b':', field) {
                let value = field[colon + 1..].trim_ascii();
                let value = value[..value.len().min(VALUE_LEN_MAX)].trim_ascii_end();
                return Some((&field[..colon], value));
            }
        }
    }
}

fn line_len(text: &[u8]) -> usize {
    memchr::memchr(b'\n', text).map_or(text.len(), |at| at + 1)
}

/// Returns the text before the last `@` of a field, without the name of its owner.
fn local_part(value: &[u8]) -> Option<&[u8]> {
    let local = &value[..memchr::memrchr(b'@', value)?];
    let is_local = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-+".contains(byte);
    let start = local.iter().rposition(|byte| !is_local(byte)).map_or(0, |at| at + 1);
    Some(&local[start..])
}

/// Writes kinds of bytes instead of the bytes, each run once: `x12-ab` is `a0-a`. Small letters are
/// `a`, capital letters `n`.
fn pattern(text: &[u8]) -> Vec<u8> {
    let kind = |byte: &u8| match byte {
        b'0'..=b'9' => b'0',
        b'a'..=b'z' => b'a',
        b'A'..=b'Z' => b'n',
        b'!'..=b'~' => *byte,
        _ => b'?',
    };
    let mut kinds: Vec<u8> = text.iter().map(kind).collect();
    kinds.dedup();
    kinds.truncate(PATTERN_LEN_MAX);
    kinds
}

/// A number below 10 as a digit; larger ones are 9.
fn digit(number: usize) -> [u8; 1] {
    [b'0' + number.min(9) as u8]
}

#[cfg(test)]
mod tests {
    use crate::options::{Options, Profile};
    use crate::tokenizer::Tokenizer;

    /// The forms of a message, without their prefix.
    fn check(message: &str, expected: &str) {
        let mut forms = Vec::new();
        let mut tokenizer = Tokenizer::new(Options::new(Profile::Modern));
        tokenizer.tokens(message.as_bytes(), &mut |token| {
            forms.extend(token.strip_prefix(b"form:").map(<[u8]>::to_vec));
        });
        assert_eq!(String::from_utf8_lossy(&forms.join(&b' ')), expected, "{message:?}");
    }

    #[test]
    fn order_of_fields() {
        check(
            "X-To: a\nDate: 1\nReceived: b\nMIME-Version: 1.0\n\nCc: c\n",
            "order-date>mime-version",
        );
        check(
            "From a@b Mon\nDATE : 1\nCc: a\n b\nDate: 2\nno field\nSender: c\n",
            "order-cc>date order-date>sender",
        );
        check("", "");
    }

    #[test]
    fn addresses() {
        check("From: \"A B\" <Ab.c12@mail.example.com>\n\n", "from-quoted1 from-local-na.a0");
        check("To: a@b, <c@d.e>\n\n", "to-name1");
        check("To: undisclosed\n\n", "to-bare0");
        check("Message-ID: <00A1bc$d@e>\n\n", "id-<0n0a$a");
    }

    #[test]
    fn addresses_of_the_web() {
        check(
            "\nhttp://www.Example.com/Buy/now.php?a=%20 and http://1.2.3.4:80/\n",
            "url-top-com url-dots2 url-path4 url-? url-% url-depth2 url-first-buy url-file-php \
             url-port url-numbers url-path1 url-depth1 url-first-",
        );
        check("X: http://a.example/\n\n", "");
    }
}
