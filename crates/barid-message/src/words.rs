//! Unfolding (RFC 5322 §2.2.3) and encoded words (RFC 2047).
//!
//! Malformed encoded words are left unchanged: a word with an unknown charset or encoding, with
//! bytes outside the base64 alphabet, or without its end. Spaces inside a word, words glued to text
//! and characters split between neighbouring words are accepted: all occur.

use std::borrow::Cow;

use barid_charset::{Charset, encoding_named};
use encoding_rs::{Encoding, ISO_2022_JP, WINDOWS_1252};
use mail_parser::decoders::charsets::map::charset_decoder;
use memchr::memmem;

/// Removes the line ends from a raw field body; the white space after them stays.
pub fn unfold(raw: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\n', raw).is_none() {
        return Cow::Borrowed(raw);
    }
    let mut text = Vec::with_capacity(raw.len());
    for line in raw.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        text.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
    }
    Cow::Owned(text)
}

/// Unfolds a raw field body and decodes its encoded words.
///
/// Bytes above 127 outside of encoded words are decoded as UTF-8 if they are valid UTF-8, else as
/// windows-1252. Borrows if nothing changes; O(length).
pub fn decode_words(raw: &[u8]) -> Cow<'_, str> {
    let text = match unfold(raw) {
        Cow::Borrowed(text) => text,
        Cow::Owned(text) => return Cow::Owned(decode_unfolded(&text).into_owned()),
    };
    decode_unfolded(text)
}

/// Decodes bytes without encoded words: as UTF-8 if they are valid, else as windows-1252.
pub fn decode_plain(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => WINDOWS_1252.decode_without_bom_handling(bytes).0,
    }
}

/// Decodes bytes of a named charset; `None` if the charset is unknown and the bytes are not valid
/// UTF-8.
///
/// The charsets of the WHATWG Encoding Standard, those of `barid-charset`, and some others of old
/// mail from mail-parser, such as UTF-7, are known.
pub fn decode_charset<'a>(charset: &[u8], bytes: &'a [u8]) -> Option<Cow<'a, str>> {
    match KnownCharset::named(charset) {
        Some(KnownCharset::Standard(encoding)) => Some(encoding.decode_with_bom_removal(bytes).0),
        Some(KnownCharset::Other(charset)) => Some(Cow::Owned(charset.decode(bytes))),
        Some(KnownCharset::Old(decode)) => Some(Cow::Owned(decode(bytes))),
        None => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
    }
}

/// A charset that [`decode_charset`] knows, by its decoder.
enum KnownCharset {
    Standard(&'static Encoding),
    Other(Charset),
    Old(fn(&[u8]) -> String),
}

impl KnownCharset {
    fn named(name: &[u8]) -> Option<Self> {
        // The standard replaces a whole text in ISO-2022-KR by one U+FFFD.
        Encoding::for_label_no_replacement(name)
            .or_else(|| encoding_named(name))
            .map(Self::Standard)
            .or_else(|| Charset::named(name).map(Self::Other))
            .or_else(|| charset_decoder(name).map(Self::Old))
    }
}

/// Returns `true` if [`decode_charset`] knows a charset.
fn is_known(charset: &[u8]) -> bool {
    KnownCharset::named(charset).is_some()
}

fn decode_unfolded(text: &[u8]) -> Cow<'_, str> {
    let Some(first) = memmem::find(text, b"=?") else { return decode_plain(text) };
    let mut decoder = Decoder::default();
    let (mut plain, mut at) = (0, first);
    let mut after_word = false;
    while let Some(found) = memmem::find(&text[at..], b"=?") {
        let start = at + found;
        let Some(word) = EncodedWord::parse(&text[start..]) else {
            at = start + 2;
            continue;
        };
        if !(after_word && is_blank(&text[plain..start])) {
            decoder.push_plain(&text[plain..start]);
            plain = start;
        }
        if decoder.push_word(&word) {
            at = start + word.len;
            (plain, after_word) = (at, true);
        } else {
            (at, after_word) = (start + 2, false);
        }
    }
    decoder.push_plain(&text[plain..]);
    decoder.flush();
    Cow::Owned(decoder.out)
}

pub(crate) fn is_blank(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}

/// The text so far, and the bytes of the last words as long as their charset stays the same.
#[derive(Default)]
struct Decoder<'a> {
    out: String,
    charset: &'a [u8],
    pending: Vec<u8>,
}

impl<'a> Decoder<'a> {
    fn flush(&mut self) {
        if !self.pending.is_empty() {
            let text = decode_charset(self.charset, &self.pending);
            self.out.push_str(&text.unwrap_or_else(|| decode_plain(&self.pending)));
            self.pending.clear();
        }
    }

    fn push_plain(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.flush();
            self.out.push_str(&decode_plain(bytes));
        }
    }

    /// Adds a word; `false` if it cannot be decoded, in which case nothing is added.
    fn push_word(&mut self, word: &EncodedWord<'a>) -> bool {
        let encoding = Encoding::for_label(word.charset);
        let same = self.charset.eq_ignore_ascii_case(word.charset);
        // Each word in ISO-2022-JP starts and ends in ASCII; joined, the shifts between them would
        // be an error.
        if !same || encoding == Some(ISO_2022_JP) {
            self.flush();
            self.charset = word.charset;
        }
        let before = self.pending.len();
        let known = is_known(word.charset);
        let decoded = word.decode_into(&mut self.pending);
        let fresh = &self.pending[before..];
        let readable = known || std::str::from_utf8(fresh).is_ok();
        if !(decoded && readable) {
            self.pending.truncate(before);
            return false;
        }
        true
    }
}

/// `"=?" charset ["*" language] "?" encoding "?" encoded-text "?="` (RFC 2047 §2, RFC 2231 §5).
pub(crate) struct EncodedWord<'a> {
    pub(crate) charset: &'a [u8],
    pub(crate) encoding: u8,
    pub(crate) text: &'a [u8],
    /// The length of the whole word.
    pub(crate) len: usize,
}

impl<'a> EncodedWord<'a> {
    /// Parses the word that starts at the start of `bytes`, which are `=?` and what follows.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut marks = memchr::memchr_iter(b'?', bytes);
        let mut mark = || marks.next();
        let (open, charset_end, encoding_end, text_end) = (mark()?, mark()?, mark()?, mark()?);
        let encoding = match &bytes[charset_end + 1..encoding_end] {
            [encoding] => encoding.to_ascii_lowercase(),
            _ => return None,
        };
        let charset = &bytes[open + 1..charset_end];
        let charset = charset.split(|byte| *byte == b'*').next().unwrap_or(charset);
        let valid = bytes.get(text_end + 1) == Some(&b'=')
            && matches!(encoding, b'q' | b'b')
            && !charset.is_empty()
            && charset.iter().all(u8::is_ascii_graphic);
        let text = &bytes[encoding_end + 1..text_end];
        valid.then_some(Self { charset, encoding, text, len: text_end + 2 })
    }

    /// Appends the decoded bytes; `false` if the text contains bytes outside the base64 alphabet.
    pub(crate) fn decode_into(&self, out: &mut Vec<u8>) -> bool {
        if self.encoding == b'b' {
            return decode_base64(self.text, out) == 0;
        }
        decode_q(self.text, out);
        true
    }
}

/// Decodes the Q encoding (RFC 2047 §4.2); a `=` without two hexadecimal digits stays.
fn decode_q(text: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let pair = text.get(at + 1).zip(text.get(at + 2));
        let digits = pair.and_then(|(high, low)| Some(hex(*high)? << 4 | hex(*low)?));
        match (byte, digits) {
            (b'=', Some(decoded)) => {
                out.push(decoded);
                at += 2;
            }
            (b'_', _) => out.push(b' '),
            _ => out.push(byte),
        }
        at += 1;
    }
}

/// Returns the value of a hexadecimal digit.
pub(crate) fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}

/// Decodes base64 (RFC 4648 §4), skipping white space; returns the number of foreign bytes skipped.
///
/// Padding ends a group of four; a new group starts after it, since texts that were encoded
/// separately and then joined occur. The crate `base64` rejects such texts.
pub(crate) fn decode_base64(text: &[u8], out: &mut Vec<u8>) -> usize {
    let (mut bits, mut count, mut foreign) = (0u32, 0u32, 0);
    for &byte in text {
        let value = BASE64[byte as usize];
        match value {
            0..64 => {
                bits = bits << 6 | u32::from(value);
                count += 1;
                if count == 4 {
                    out.extend_from_slice(&[(bits >> 16) as u8, (bits >> 8) as u8, bits as u8]);
                    (bits, count) = (0, 0);
                }
            }
            PADDING => {
                flush_base64(bits, count, out);
                (bits, count) = (0, 0);
            }
            SPACE => {}
            _ => foreign += 1,
        }
    }
    flush_base64(bits, count, out);
    foreign
}

fn flush_base64(bits: u32, count: u32, out: &mut Vec<u8>) {
    match count {
        2 => out.push((bits >> 4) as u8),
        3 => out.extend_from_slice(&[(bits >> 10) as u8, (bits >> 2) as u8]),
        _ => {}
    }
}

const PADDING: u8 = 64;
const SPACE: u8 = 65;
const FOREIGN: u8 = 66;

const BASE64: [u8; 256] = {
    let mut table = barid_charset::base64_values(FOREIGN);
    table[b'=' as usize] = PADDING;
    table[b' ' as usize] = SPACE;
    table[b'\t' as usize] = SPACE;
    table[b'\r' as usize] = SPACE;
    table[b'\n' as usize] = SPACE;
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &[u8], expected: &str) {
        assert_eq!(decode_words(raw), expected, "{}", raw.escape_ascii());
    }

    #[test]
    fn examples_of_rfc_2047_section_8() {
        check(b"(=?ISO-8859-1?Q?a?=)", "(a)");
        check(b"(=?ISO-8859-1?Q?a?= b)", "(a b)");
        check(b"(=?ISO-8859-1?Q?a?= =?ISO-8859-1?Q?b?=)", "(ab)");
        check(b"(=?ISO-8859-1?Q?a?=  =?ISO-8859-1?Q?b?=)", "(ab)");
        check(b"(=?ISO-8859-1?Q?a?=\r\n  =?ISO-8859-1?Q?b?=)", "(ab)");
        check(b"(=?ISO-8859-1?Q?a_b?=)", "(a b)");
        check(b"(=?ISO-8859-1?Q?a?= =?ISO-8859-2?Q?_b?=)", "(a b)");
        check(
            b"=?US-ASCII*EN?Q?Keith_Moore?= <moore@cs.utk.edu>",
            "Keith Moore <moore@cs.utk.edu>",
        );
        check(b"=?ISO-8859-1?Q?Andr=E9?= Pirard", "Andr\u{e9} Pirard");
        check(
            b"=?ISO-8859-1?B?SWYgeW91IGNhbiByZWFkIHRoaXMgeW8=?=\n =?ISO-8859-2?B?dSB1bmRlcnN0YW5k\
              IHRoZSBleGFtcGxlLg==?=",
            "If you can read this you understand the example.",
        );
    }

    #[test]
    fn characters_split_between_words_are_joined() {
        check(b"=?utf-8?q?=C3?= =?UTF-8?b?qQ==?=", "\u{e9}");
        check(b"=?utf-8?q?=C3?= x", "\u{fffd} x");
    }

    #[test]
    fn words_with_shifts_are_decoded_one_by_one() {
        let word = "=?iso-2022-jp?b?GyRCRnwbKEI=?=";
        check(format!("{word} {word}").as_bytes(), "\u{65e5}\u{65e5}");
    }

    #[test]
    fn what_is_broken_stays() {
        for text in
            ["=?", "=?utf-8", "=?utf-8?q?a", "=?utf-8?q?a?", "=?utf-8?x?a?=", "=??q?a?=", "a=?=?"]
        {
            check(text.as_bytes(), text);
        }
        check(b"=?nope?q?=FF?= =?utf-8?q?ok?=", "=?nope?q?=FF?= ok");
        check(b"=?nope?q?fine?=", "fine");
        check(b"=?utf-7?q?Fr+APY-sche?=", "Fr\u{f6}sche");
        check(b"=?utf-8?b?a!b?=", "=?utf-8?b?a!b?=");
        check(b"=?utf-8?q?=X1=?=", "=X1=");
        check(b"x=?utf-8?q?a b?=y", "xa by");
    }

    #[test]
    fn eight_bit_text_is_utf8_or_windows_1252() {
        check("caf\u{e9}".as_bytes(), "caf\u{e9}");
        check(b"caf\xe9 \x80", "caf\u{e9} \u{20ac}");
        check(b"caf\xe9 =?utf-8?q?=C3=A9?=", "caf\u{e9} \u{e9}");
    }

    #[test]
    fn folds_go_and_their_white_space_stays() {
        assert_eq!(&*unfold(b"a\r\n b\n\tc"), b"a b\tc");
        assert!(matches!(decode_words(b"plain"), Cow::Borrowed(_)));
    }
}
