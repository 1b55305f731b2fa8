//! Dovecot 2.3: dates (`message_date_parse`) and the canonical form of subjects
//! (`message_header_decode_utf8` with `uni_utf8_to_decomposed_titlecase`).

use barid_types::{CivilDay, SentDate};
use encoding_rs::{Encoding, UTF_8};
use unicode_normalization::UnicodeNormalization;

use crate::casemap::{casemap_into, titlecase};
use crate::date::{Time, instant, month_number};
use crate::lexer::Lexer;
use crate::words::{EncodedWord, is_blank};

/// Parses a date as Dovecot's `message_date_parse` does.
///
/// Stricter than [`crate::parse_date`]: the weekday has three letters and a comma, years have two
/// digits (from 1970) or four (from 1900), minutes and seconds two.
pub(crate) fn date(raw: &[u8]) -> Option<SentDate> {
    let mut lexer = Lexer::new(raw);
    lexer.skip_cfws().ok()?;
    let mut token = lexer.atom().ok()?;
    if token.len() == 3 {
        if !lexer.eat(b',') {
            return None;
        }
        lexer.skip_cfws().ok();
        token = lexer.atom().ok()?;
    }
    let day = number(token, 1..=2)?;
    let month = month_number(lexer.atom().ok()?)?;
    let year = lexer.atom().ok()?;
    let year = match (year.len(), number(year, 2..=4)?) {
        (2, year @ 70..) => year + 1900,
        (2, year) => year + 2000,
        (4, year @ 1900..) => year,
        _ => return None,
    };
    let hour = number(lexer.atom().ok()?, 1..=2)?;
    if !separator(&mut lexer) {
        return None;
    }
    let minute = number(last_atom(&mut lexer)?, 2..=2)?;
    let second = match separator(&mut lexer) {
        true => number(last_atom(&mut lexer)?, 2..=2)?,
        false => 0,
    };
    let zone = if lexer.at_end() { 0 } else { dovecot_zone(last_atom(&mut lexer)?) };
    let day = CivilDay { year: i64::from(year), month, day };
    instant(day, Time { hour, minute, second }, zone)
}

/// Reads an atom, with anything or nothing after it.
fn last_atom<'a>(lexer: &mut Lexer<'a>) -> Option<&'a [u8]> {
    lexer.atom().ok()
}

fn separator(lexer: &mut Lexer<'_>) -> bool {
    let found = lexer.eat(b':') || lexer.eat(b'.');
    if found {
        lexer.skip_cfws().ok();
    }
    found
}

fn number(token: &[u8], digits: std::ops::RangeInclusive<usize>) -> Option<u32> {
    let valid = digits.contains(&token.len()) && token.iter().all(u8::is_ascii_digit);
    valid.then(|| token.iter().fold(0, |value, digit| value * 10 + u32::from(digit - b'0')))
}

/// Reads a zone: numeric without a check of the minutes, military letters in their intended sense,
/// `[ECMP][DS]T`.
fn dovecot_zone(zone: &[u8]) -> i16 {
    match *zone {
        [sign @ (b'+' | b'-'), ref digits @ ..] if digits.len() == 4 => {
            let Some(value) = number(digits, 4..=4) else { return 0 };
            let minutes = (value / 100 * 60 + value % 100) as i16;
            if sign == b'+' { minutes } else { -minutes }
        }
        [letter] => dovecot_military(letter),
        [area, kind, b'T'] => {
            let hours = match area.to_ascii_uppercase() {
                b'E' => -5,
                b'C' => -6,
                b'M' => -7,
                b'P' => -8,
                _ => return 0,
            };
            match kind.to_ascii_uppercase() {
                b'D' => hours * 60 + 60,
                b'S' => hours * 60,
                _ => 0,
            }
        }
        _ => 0,
    }
}

/// Returns the offset of a military zone. Like Dovecot, it compares in upper case but counts from
/// the letter as written.
fn dovecot_military(letter: u8) -> i16 {
    let from_a = i16::from(letter) - i16::from(b'A');
    match letter.to_ascii_uppercase() {
        ..=b'I' => (from_a + 1) * 60,
        b'J' => 0,
        b'K'..=b'M' => from_a * 60,
        b'N'..=b'Y' => (i16::from(b'M') - i16::from(letter)) * 60,
        _ => 0,
    }
}

/// Decodes a subject and maps it to titlecase, to the extent that Dovecot does.
///
/// Every encoded word is decoded separately. Invalid UTF-8 becomes U+FFFD, once for a run. The text
/// of a word in an unknown charset is not mapped, and the white space between a word and a broken
/// word after it is removed.
pub(crate) fn casemapped(raw: &[u8], text: &mut Vec<u8>) {
    decode(raw, &mut push_casemapped, text);
}

/// Returns `true` if [`pack_white_space`] may differ from packing every run to one space.
pub(crate) fn packs_oddly(raw: &[u8]) -> bool {
    raw.windows(2).any(|pair| matches!(pair, [b' ', b'\n' | b'\r']))
}

/// Appends `from` with its white space packed as `pack_whitespace` does: from the first place that
/// needs it. A space before a line end is not such a place, so that two spaces are left there.
pub(crate) fn pack_white_space(from: &[u8], text: &mut Vec<u8>) {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let needs_packing = |at: &usize| match from[*at] {
        b' ' => matches!(from.get(at + 1), Some(b' ' | b'\t')),
        byte => is_blank(&byte),
    };
    let first = (0..from.len()).find(needs_packing).unwrap_or(from.len());
    text.extend_from_slice(&from[..first]);
    let mut was_blank = false;
    for byte in &from[first..] {
        match is_blank(byte) {
            false => text.push(*byte),
            true if !was_blank => text.push(b' '),
            true => {}
        }
        was_blank = is_blank(byte);
    }
}

/// Decodes a text without mapping it; see [`casemapped`].
pub(crate) fn decoded(raw: &[u8]) -> String {
    let mut text = Vec::new();
    decode(raw, &mut push_unmapped, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Appends bytes that should be UTF-8.
type Push = dyn FnMut(&[u8], &mut Vec<u8>);

fn decode(raw: &[u8], push: &mut Push, text: &mut Vec<u8>) {
    let raw = raw.split(|byte| *byte == 0).next().unwrap_or(raw);
    let (mut plain, mut at) = (0, 0);
    while let Some(found) = memchr::memmem::find(&raw[at..], b"=?") {
        let start = at + found;
        if start != plain && !is_blank(&raw[plain..start]) {
            push(&raw[plain..start], text);
        }
        at = start + 2;
        plain = start;
        if let Some((length, charset, bytes)) = word(&raw[start..]) {
            at = start + length;
            plain = at;
            push_word(charset, &bytes, push, text);
        }
    }
    push(&raw[plain..], text);
}

/// Parses an encoded word. Returns its length, charset and bytes. Bytes outside the base64 alphabet
/// end the text.
fn word(bytes: &[u8]) -> Option<(usize, &[u8], Vec<u8>)> {
    let word = EncodedWord::parse(bytes)?;
    let mut text = Vec::new();
    word.decode_into(&mut text);
    Some((word.len, word.charset, text))
}

fn push_word(charset: &[u8], bytes: &[u8], push: &mut Push, text: &mut Vec<u8>) {
    match Encoding::for_label(charset) {
        Some(encoding) if encoding == UTF_8 => push(bytes, text),
        Some(encoding) => {
            let decoded = encoding.decode_with_bom_removal(bytes).0;
            push(decoded.as_bytes(), text);
        }
        None => push_unmapped(bytes, text),
    }
}

fn push_unmapped(bytes: &[u8], text: &mut Vec<u8>) {
    push_valid(bytes, text, &mut |valid, text| text.extend_from_slice(valid.as_bytes()));
}

fn push_casemapped(bytes: &[u8], text: &mut Vec<u8>) {
    push_valid(bytes, text, &mut |valid, text| {
        let mut key = String::new();
        casemap_one_step(valid, &mut key);
        text.extend_from_slice(key.as_bytes());
    });
}

/// Calls `push` with the valid UTF-8 and one U+FFFD for every invalid run.
fn push_valid(bytes: &[u8], text: &mut Vec<u8>, push: &mut dyn FnMut(&str, &mut Vec<u8>)) {
    for chunk in bytes.utf8_chunks() {
        push(chunk.valid(), text);
        if !chunk.invalid().is_empty() && !text.ends_with("\u{fffd}".as_bytes()) {
            text.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

/// Maps to titlecase and decomposes by one step only: for `\u{1d6}` only the last accent.
///
/// Detected by composing all but the last character of the full decomposition; characters whose
/// compatibility decomposition has several steps are decomposed fully.
pub(crate) fn casemap_one_step(text: &str, key: &mut String) {
    for character in text.chars() {
        let title = titlecase(character);
        if matches!(title, '\u{1c5}' | '\u{1c8}' | '\u{1cb}' | '\u{1f2}') {
            // Digraphs stay whole.
            key.push(title);
            continue;
        }
        let mut parts = [character; 4];
        let mut length = 0;
        unicode_normalization::char::decompose_canonical(title, |part| {
            if let Some(slot) = parts.get_mut(length) {
                *slot = part;
            }
            length += 1;
        });
        let hangul = ('\u{ac00}'..='\u{d7a3}').contains(&character);
        if (3..=4).contains(&length) && !hangul {
            key.extend(parts[..length - 1].iter().copied().nfc());
            key.push(parts[length - 1]);
        } else {
            casemap_into(character.encode_utf8(&mut [0; 4]), key);
        }
    }
}
