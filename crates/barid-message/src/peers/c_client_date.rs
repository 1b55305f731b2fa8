//! c-client 2007f: dates (`mail_parse_date` and `mail_longdate`).
//!
//! c-client treats unknown zones as local time; here they are UTC, as on a machine whose zone is
//! UTC.

use barid_types::SentDate;

use crate::date::month_number;

/// The longest date that is read, its end included.
const LEN_MAX: usize = 1024;

/// The year in which c-client's calendar starts.
const BASE_YEAR: u64 = 1970;

/// The last year that fits c-client's record.
const YEAR_MAX: u64 = BASE_YEAR + 127;

/// Parses a date as c-client's `mail_parse_date` does.
pub(crate) fn date(raw: &[u8]) -> Option<SentDate> {
    let raw = crate::unfold(raw);
    let raw = raw.split(|byte| *byte == 0).next().unwrap_or_default();
    if raw.is_empty() || raw.len() >= LEN_MAX {
        return None;
    }
    let upper = raw.to_ascii_uppercase();
    let mut text = &upper[..];
    if let [a, b, c, b',', b' ', rest @ ..] = text
        && [a, b, c].iter().all(|letter| letter.is_ascii_alphabetic())
    {
        text = rest;
    }
    let (day, month, year) = day(&mut text)?;
    if day > 31 || month > 12 {
        return None;
    }
    let year = match year {
        0..=48 => year + 2000,
        49..=998 => year + 1900,
        _ => year,
    };
    if !(BASE_YEAR..=YEAR_MAX).contains(&year) {
        return None;
    }
    let time = if text.is_empty() { (0, 0, 0) } else { time(&mut text)? };
    Some(instant((day, month, year - BASE_YEAR), time, zone(text)))
}

/// Parses day, month and year in one of c-client's forms.
fn day(text: &mut &[u8]) -> Option<(u64, u64, u64)> {
    skip_spaces(text);
    let first = number(text).filter(|number| *number != 0)?;
    match text.first() {
        Some(b'/') => {
            *text = &text[1..];
            let day = digits(text).filter(|day| *day != 0)?;
            eat(text, b'/')?;
            let year = digits(text)?;
            text.is_empty().then_some((day, first, year))
        }
        Some(b' ' | b'-') => {
            while text[0] == b' ' && text.get(1) == Some(&b' ') {
                *text = &text[1..];
            }
            if text.get(1).is_some_and(u8::is_ascii_digit) {
                *text = &text[1..];
                let month = number(text).filter(|month| *month != 0)?;
                eat(text, b'-')?;
                let day = number(text).filter(|day| *day != 0)?;
                return text.is_empty().then_some((day, month, first));
            }
            named_month(text, first)
        }
        None => compact(first),
        Some(_) => None,
    }
}

/// Reads `day month-name year` with one separator throughout.
fn named_month(text: &mut &[u8], day: u64) -> Option<(u64, u64, u64)> {
    let separator = text[0];
    if text.len() < 5 {
        return None;
    }
    let month =
        month_number(&text[1..4]).filter(|_| text[1..4].iter().all(u8::is_ascii_uppercase))?;
    if text[4] == separator {
        *text = &text[5..];
    } else {
        let letters = text[4..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        *text = &text[4 + letters..];
        eat(text, separator)?;
    }
    skip_spaces(text);
    if let Some(year) = digits(text)
        && matches!(text.first(), None | Some(b' '))
    {
        return Some((day, u64::from(month), year));
    }
    compact(u64::from(month))
}

/// Splits `yyyymmdd`, one number, into day, month and year.
fn compact(number: u64) -> Option<(u64, u64, u64)> {
    (number >= BASE_YEAR * 10_000).then_some((number % 100, number / 100 % 100, number / 10_000))
}

/// Reads `SP hour ":" minute [":" second]`
fn time(text: &mut &[u8]) -> Option<(u64, u64, u64)> {
    *text = &text[1..];
    let hour = number(text).unwrap_or(0);
    eat(text, b':')?;
    let minute = number(text).unwrap_or(0);
    let second = match eat(text, b':') {
        Some(()) => number(text).unwrap_or(0),
        None => 0,
    };
    (hour <= 23 && minute <= 59 && second <= 60).then_some((hour, minute, second))
}

/// Returns the minutes east of UTC of the text after the time.
fn zone(mut text: &[u8]) -> i64 {
    if text.first() == Some(&b' ') {
        skip_spaces(&mut text);
        if !text.first().is_some_and(u8::is_ascii_alphabetic) {
            return numeric_zone(text);
        }
    } else if eat(&mut text, b'-').is_none() {
        return 0;
    }
    named_zone(text) * 60
}

fn numeric_zone(text: &[u8]) -> i64 {
    let (west, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let minutes = match *digits {
        [a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'5', d @ b'0'..=b'9', ..] => {
            let value = |high: u8, low: u8| i64::from(high - b'0') * 10 + i64::from(low - b'0');
            // c-client's record has four bits for the hours.
            value(a, b) % 16 * 60 + value(c, d)
        }
        _ => 0,
    };
    if west { -minutes } else { minutes }
}

/// Returns the hours east of UTC of a zone name; `name` must end after the third letter.
fn named_zone(name: &[u8]) -> i64 {
    match name {
        b"A" | b"MET" => 1,
        b"B" | b"EET" => 2,
        b"I" | b"JST" => 9,
        b"P" | b"ADT" => -3,
        b"Q" | b"AST" | b"EDT" => -4,
        b"R" | b"EST" | b"CDT" => -5,
        b"S" | b"CST" | b"MDT" => -6,
        b"T" | b"MST" | b"PDT" => -7,
        b"U" | b"PST" | b"YDT" => -8,
        b"V" | b"YST" => -9,
        b"W" | b"HST" => -10,
        [letter @ b'C'..=b'H'] => i64::from(letter - b'A') + 1,
        [letter @ b'K'..=b'M'] => i64::from(letter - b'A'),
        [letter @ b'N'..=b'Y'] => -(i64::from(letter - b'N') + 1),
        _ => 0,
    }
}

/// Converts without a check that the month has the day; dates before 1970 do not exist.
fn instant(date: (u64, u64, u64), time: (u64, u64, u64), zone_minutes: i64) -> SentDate {
    let ((day, month, years), (hour, minute, second)) = (date, time);
    let year = years + BASE_YEAR;
    let month = month.max(1);
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = (day.max(1) - 1 + 30 * (month - 1) + (month + u64::from(month > 8)) / 2) as i64
        + (year / 400) as i64
        - (BASE_YEAR / 400) as i64
        - ((year / 100) as i64 - (BASE_YEAR / 100) as i64)
        - if month < 3 { i64::from(leap) } else { 2 }
        + (years * 365 + (years + BASE_YEAR % 4) / 4) as i64;
    let minutes = days * 1440 + (hour * 60 + minute) as i64 - zone_minutes;
    let unix_seconds = if minutes < 0 { 0 } else { minutes * 60 + second as i64 };
    SentDate { unix_seconds, zone_minutes: zone_minutes as i16 }
}

fn skip_spaces(text: &mut &[u8]) {
    while let [b' ', rest @ ..] = text {
        *text = rest;
    }
}

fn eat(text: &mut &[u8], byte: u8) -> Option<()> {
    *text = text.strip_prefix(&[byte])?;
    Some(())
}

/// Reads a number that starts with a digit.
fn digits(text: &mut &[u8]) -> Option<u64> {
    text.first().is_some_and(u8::is_ascii_digit).then(|| number(text))?
}

/// Parses a number as C's `strtoul` does, after white space and a sign; without digits returns
/// `None` and reads nothing.
fn number(text: &mut &[u8]) -> Option<u64> {
    let mut rest = *text;
    while let [b' ' | b'\t'..=b'\r', tail @ ..] = rest {
        rest = tail;
    }
    let negative = rest.first() == Some(&b'-');
    if let [b'+' | b'-', tail @ ..] = rest {
        rest = tail;
    }
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if length == 0 {
        return None;
    }
    let value = rest[..length].iter().try_fold(0_u64, |value, digit| {
        value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    });
    *text = &rest[length..];
    match value {
        None => Some(u64::MAX),
        Some(value) if negative => Some(value.wrapping_neg()),
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<i64>) {
        assert_eq!(date(text.as_bytes()).map(|date| date.unix_seconds), expected, "{text:?}");
    }

    #[test]
    fn forms() {
        check("Sat, 1 Jan 2000 00:00:00 +0000", Some(946_684_800));
        check("1-Jan-2000 00:00:00-EST", Some(946_702_800));
        check("1 Jan 2000 00:00:00 -1600", Some(946_684_800));
        check("1/1/2000", Some(946_684_800));
        check("20000101", Some(946_684_800));
        check("2000-01-01", Some(946_684_800));
        check("1 January 00 00:00 PST", Some(946_713_600));
        check("Saturday, 1 Jan 2000 00:00:00 +0000", None);
        check("Sat Jan 1 00:00:00 2000", None);
        check("31 Feb 2000", Some(951_955_200));
        check("", None);
    }
}
