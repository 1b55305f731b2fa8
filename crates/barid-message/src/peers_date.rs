//! How Dovecot 2.3 and c-client 2007f read dates, for tests against them; see `docs/deviations.md`.

use barid_types::SentDate;

use crate::date::{Day, Time, month_number};
use crate::lexer::Lexer;

/// A date as Dovecot's `message_date_parse` reads it.
///
/// Stricter than [`crate::parse_date`]: the weekday has three letters and a comma, years have two
/// digits (from 1970) or four (from 1900), minutes and seconds two.
pub(crate) fn dovecot(raw: &[u8]) -> Option<SentDate> {
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
    Day { year: i64::from(year), month, day }.at(Time { hour, minute, second }, zone)
}

/// An atom that may be followed by anything, even by nothing.
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

/// Numeric zones without a check of the minutes, military letters as they were meant, `[ECMP][DS]T`.
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

/// Compares in upper case but counts from the letter as it stands.
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

/// A date as c-client's `mail_parse_date` reads it.
pub(crate) fn c_client(raw: &[u8]) -> Option<SentDate> {
    crate::parse_date(raw)
}
