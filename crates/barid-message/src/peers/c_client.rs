//! c-client 2007f: base subjects (`mail_strip_subject` over `utf8_mime2text`).

use std::ops::Range;

use crate::casemap::casemap_into;
use crate::words::{decode_base64, hex};
use crate::{decode_charset, decode_plain, unfold};

/// The longest encoded word that is decoded, in bytes (RFC 2047 §2).
const WORD_LEN_MAX: usize = 75;

/// The shortest encoded word, in bytes.
const WORD_LEN_MIN: usize = 9;

/// Writes c-client's base subject of a raw field body into `text`; returns its range, and `true` if
/// it had a mark.
///
/// Differs from RFC 5256: a subject with a malformed encoded word keeps its case; after white space
/// was packed, trailing marks and spaces stay, since c-client still looks for the end at its offset
/// before packing (and a `(fwd)` that happens to be there counts as a mark). c-client does not trim
/// fields; barid's scanner does, so that the result for a subject that ends in white space differs
/// a little.
pub(crate) fn base_subject(raw: &[u8], text: &mut Vec<u8>) -> (Range<usize>, bool) {
    let raw = unfold(raw);
    let raw = raw.split(|byte| *byte == 0).next().unwrap_or_default();
    text.clear();
    if raw.is_empty() {
        return (0..0, false);
    }
    if !canonical(raw, text) {
        text.clear();
        text.extend_from_slice(raw);
    }
    text.retain(|byte| *byte != 0);
    let unpacked = text.len();
    // The text after the packed text stays there, after a NUL, and is read once.
    let end = pack(text);
    strip(text, end, unpacked)
}

/// Packs white space in place and ends it with a NUL; returns the length.
fn pack(text: &mut Vec<u8>) -> usize {
    text.push(0);
    let mut end = 0;
    let mut last = b'x';
    for at in 0..text.len() - 1 {
        let byte = text[at];
        let blank = matches!(byte, b' ' | b'\t');
        if last == b' ' && blank {
            continue;
        }
        last = if byte == b'\t' { b' ' } else { byte };
        text[end] = last;
        end += 1;
    }
    text[end] = 0;
    end
}

fn strip(text: &mut [u8], mut end: usize, unpacked: usize) -> (Range<usize>, bool) {
    let (mut start, mut marked) = (0, false);
    let mut from = unpacked;
    loop {
        end = strip_trailers(text, start, end, from, &mut marked);
        while strip_leader(&text[..end], &mut start, &mut marked) {}
        let rest = &text[start..end];
        let head = rest.get(..5).is_some_and(|head| head.eq_ignore_ascii_case(b"[fwd:"));
        if !(head && rest.ends_with(b"]")) {
            return (start..end, marked);
        }
        end -= 1;
        text[end] = 0;
        start += 5;
        from = end;
        marked = true;
    }
}

/// Removes blanks and `(fwd)` downwards from `from`; the NUL at `end` stops it.
fn strip_trailers(
    text: &mut [u8],
    start: usize,
    mut end: usize,
    from: usize,
    marked: &mut bool,
) -> usize {
    let mut at = from;
    while at > start {
        let length = match text[at - 1] {
            b' ' | b'\t' => 1,
            b')' if at >= start + 5 && text[at - 5..at].eq_ignore_ascii_case(b"(fwd)") => {
                *marked = true;
                5
            }
            _ => break,
        };
        at -= length;
        text[at] = 0;
        end = end.min(at);
    }
    end
}

/// Removes one run of blanks, mark or blob from the start; `false` if there is none.
fn strip_leader(text: &[u8], start: &mut usize, marked: &mut bool) -> bool {
    let rest = &text[*start..];
    let is = |word: &[u8]| rest.get(..word.len()).is_some_and(|r| r.eq_ignore_ascii_case(word));
    let after = match rest.first() {
        Some(b' ' | b'\t') => Some(skip_blanks(text, *start + 1)),
        Some(b'[') => skip_blob(text, *start).filter(|after| *after < text.len()),
        Some(_) => {
            let length =
                [&b"re"[..], b"fwd", b"fw"].into_iter().find(|word| is(word)).map(<[u8]>::len);
            let after = length.and_then(|length| {
                let blob = skip_blob(text, skip_blanks(text, *start + length))?;
                (text.get(blob) == Some(&b':')).then_some(blob + 1)
            });
            *marked |= after.is_some();
            after
        }
        None => None,
    };
    if let Some(after) = after {
        *start = after;
    }
    after.is_some()
}

fn skip_blanks(text: &[u8], at: usize) -> usize {
    at + text[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
}

/// Returns the offset after a blob and its blanks, or `at` if there is no blob; `None` if it has
/// no end.
fn skip_blob(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'[') {
        return Some(at);
    }
    let inside = memchr::memchr2(b'[', b']', &text[at + 1..])?;
    let close = at + 1 + inside;
    (text[close] == b']').then(|| skip_blanks(text, close + 1))
}

/// Decodes words that stand alone and maps to titlecase; `false` at a malformed word.
fn canonical(raw: &[u8], text: &mut Vec<u8>) -> bool {
    let mut at = 0;
    while at < raw.len() {
        if let Some(word) = word(&raw[at..]) {
            let Some(bytes) = word.decode() else { return false };
            let decoded = decode_charset(word.charset, &bytes);
            let mut key = String::new();
            casemap_into(&decoded.unwrap_or_else(|| decode_plain(&bytes)), &mut key);
            text.extend_from_slice(key.as_bytes());
            at = behind_word(raw, at + word.len);
            continue;
        }
        // Copies up to and including the next white space.
        while let Some(&byte) = raw.get(at) {
            text.push(titlecase_byte(byte));
            at += 1;
            if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                break;
            }
        }
    }
    true
}

/// Skips the white space between two encoded words.
fn behind_word(raw: &[u8], at: usize) -> usize {
    let next = skip_blanks(raw, at);
    let room = next + WORD_LEN_MIN < raw.len();
    if room && raw[next..].starts_with(b"=?") { next } else { at }
}

struct Word<'a> {
    charset: &'a [u8],
    encoding: u8,
    text: &'a [u8],
    len: usize,
}

/// Parses an encoded word that ends at white space or at the end.
fn word(raw: &[u8]) -> Option<Word<'_>> {
    if raw.len() <= WORD_LEN_MIN || !raw.starts_with(b"=?") {
        return None;
    }
    let charset = token(&raw[2..])?;
    let at = 2 + charset.len() + 1;
    let encoding = token(&raw[at..])?;
    let [encoding] = *encoding else { return None };
    let start = at + 2;
    let length = raw[start..].iter().take_while(|b| **b != b'?' && b.is_ascii_graphic()).count();
    let end = start + length;
    let closed = raw[end..].starts_with(b"?=");
    let alone = matches!(raw.get(end + 2), None | Some(b' ' | b'\t' | b'\r' | b'\n'));
    let charset = charset.split(|byte| *byte == b'*').next().unwrap_or(charset);
    (closed && alone && end < WORD_LEN_MAX).then(|| Word {
        charset,
        encoding,
        text: &raw[start..end],
        len: end + 2,
    })
}

/// Returns the token before the next `?`.
fn token(raw: &[u8]) -> Option<&[u8]> {
    let length = raw.iter().position(|byte| *byte == b'?')?;
    let valid = |byte: &u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[].=".contains(byte);
    raw[..length].iter().all(valid).then(|| &raw[..length])
}

impl Word<'_> {
    fn decode(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        match self.encoding {
            b'b' | b'B' => (decode_base64(self.text, &mut bytes) == 0).then_some(bytes),
            b'q' | b'Q' => {
                let mut at = 0;
                while let Some(&byte) = self.text.get(at) {
                    at += 1;
                    match byte {
                        b'=' => {
                            let digits = self.text.get(at).zip(self.text.get(at + 1));
                            let (high, low) = digits?;
                            bytes.push(hex(*high)? << 4 | hex(*low)?);
                            at += 2;
                        }
                        b'_' => bytes.push(b' '),
                        _ => bytes.push(byte),
                    }
                }
                Some(bytes)
            }
            _ => None,
        }
    }
}

/// Returns the titlecase of a byte as if it were Latin-1, truncated to a byte.
fn titlecase_byte(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' | 0xe0..=0xf6 | 0xf8..=0xfe => byte - 32,
        0xb5 => 0x9c,
        0xff => 0x78,
        _ => byte,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Profile, base_subject};

    fn check(raw: &str, base: &str, marked: bool) {
        let found = base_subject(raw.as_bytes(), Profile::CClient);
        let text = String::from_utf8_lossy(&found.text).into_owned();
        assert_eq!((&*text, found.is_reply_or_forward), (base, marked), "{raw:?}");
    }

    #[test]
    fn as_the_rfc_says() {
        check("Re: foo", "FOO", true);
        check("Re: [x] Re[2]: foo", "FOO", true);
        check("[PATCH]", "[PATCH]", false);
        check("foo (fwd)", "FOO", true);
        check("[Fwd: Re: foo (fwd)]", "FOO", true);
        check("=?utf-8?q?Re:_caf=C3=A9?=", "CAFE\u{301}", true);
        check("", "", false);
    }

    #[test]
    fn where_it_leaves_the_rfc() {
        // Packed white space keeps what is at the end.
        check("foo  bar (fwd)", "FOO BAR (FWD)", false);
        check("foo  bar", "FOO BAR", false);
        // A malformed encoded word keeps the case of all.
        check("Re: Foo =?utf-8?q?=zz?=", "Foo =?utf-8?q?=zz?=", true);
        // Encoded words must stand alone.
        check("(=?utf-8?q?a=20b?=)", "(=?UTF-8?Q?A=20B?=)", false);
    }
}
