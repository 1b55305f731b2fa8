//! Dates (RFC 5322 §3.3 and §4.3), read leniently.
//!
//! ```text
//! date-time = [day-name [","]] day month year [hour ":" minute [":" second]] [zone]
//! ```
//!
//! Also read: the order of C's `asctime` (`Mon Jan  2 15:04:05 2006`), ISO 8601, dashes or dots
//! between day, month and year, dots in the time, full names, `AM` and `PM`, comments anywhere. A
//! missing time is midnight; a missing or unknown zone is UTC (RFC 5256 §2.2).

use barid_types::{CivilDay, SentDate};

/// Parses a raw `Date` body; `None` if it cannot be read as a date.
///
/// Never allocates; takes some 50 ns.
pub fn parse_date(raw: &[u8]) -> Option<SentDate> {
    let mut cursor = Cursor { text: raw, at: 0 };
    cursor.skip_blanks();
    let word = cursor.letters();
    let month = if word.is_empty() {
        None
    } else {
        cursor.skip_separators();
        month_number(word).or_else(|| {
            let word = cursor.letters();
            cursor.skip_separators();
            month_number(word)
        })
    };
    let date = match month {
        Some(month) => return month_first(&mut cursor, month),
        None => day_first(&mut cursor)?,
    };
    let time = cursor.time()?;
    let zone = cursor.zone();
    instant(date, time, zone)
}

/// A time of day.
#[derive(Clone, Copy, Default)]
pub(crate) struct Time {
    pub(crate) hour: u32,
    pub(crate) minute: u32,
    pub(crate) second: u32,
}

/// Returns the instant at a time of a day in a zone; a leap second counts as the one before.
pub(crate) fn instant(day: CivilDay, time: Time, zone_minutes: i16) -> Option<SentDate> {
    let Time { hour, minute, second } = time;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let second_of_day = hour * 3600 + minute * 60 + second.min(59);
    let local = day.since_1970()? * 86_400 + i64::from(second_of_day);
    Some(SentDate { unix_seconds: local - i64::from(zone_minutes) * 60, zone_minutes })
}

/// Reads `day month year` with spaces, dashes or dots between them, or ISO 8601's `year-month-day`.
fn day_first(cursor: &mut Cursor<'_>) -> Option<CivilDay> {
    let (first, digits) = cursor.number()?;
    cursor.skip_separators();
    if digits == 4 {
        let (month, _) = cursor.number()?;
        cursor.skip_separators();
        let (day, _) = cursor.number()?;
        cursor.skip_blanks();
        cursor.letters();
        return Some(CivilDay { year: i64::from(first), month, day });
    }
    if digits > 2 {
        return None;
    }
    let month = month_number(cursor.letters())?;
    cursor.skip_separators();
    let (year, digits) = cursor.number()?;
    Some(CivilDay { year: full_year(year, digits)?, month, day: first })
}

/// Reads `month day time [zone] year [zone]`, as C's `asctime` and Unix `date` write it, or
/// `month day[,] year time`.
fn month_first(cursor: &mut Cursor<'_>, month: u32) -> Option<SentDate> {
    let (day, _) = cursor.number()?;
    cursor.skip_separators();
    let before = cursor.at;
    let (year, digits) = cursor.number()?;
    if digits == 4 {
        let date = CivilDay { year: full_year(year, digits)?, month, day };
        let time = cursor.time()?;
        let zone = cursor.zone();
        return instant(date, time, zone);
    }
    cursor.at = before;
    let time = cursor.time()?;
    cursor.skip_blanks();
    let zone =
        if cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) { 0 } else { cursor.zone() };
    cursor.skip_blanks();
    let (year, digits) = cursor.number()?;
    let zone = if zone == 0 { cursor.zone() } else { zone };
    instant(CivilDay { year: full_year(year, digits)?, month, day }, time, zone)
}

/// Returns the full year of one with two or three digits (RFC 5322 §4.3); years before 1900 are not
/// dates of mail.
fn full_year(year: u32, digits: usize) -> Option<i64> {
    let year = match (digits, year) {
        (2, 0..=49) => year + 2000,
        (2 | 3, _) => year + 1900,
        (4, 1900..) => year,
        // Years since 1900 with a zero before them, written by mailers that failed in 2000.
        (4, 100..=199) => year + 1900,
        _ => return None,
    };
    Some(i64::from(year))
}

/// Returns the number of a month by its first three letters.
pub(crate) fn month_number(word: &[u8]) -> Option<u32> {
    let [a, b, c, ..] = *word else { return None };
    Some(match [a | 0x20, b | 0x20, c | 0x20] {
        [b'j', b'a', b'n'] => 1,
        [b'f', b'e', b'b'] => 2,
        [b'm', b'a', b'r'] => 3,
        [b'a', b'p', b'r'] => 4,
        [b'm', b'a', b'y'] => 5,
        [b'j', b'u', b'n'] => 6,
        [b'j', b'u', b'l'] => 7,
        [b'a', b'u', b'g'] => 8,
        [b's', b'e', b'p'] => 9,
        [b'o', b'c', b't'] => 10,
        [b'n', b'o', b'v'] => 11,
        [b'd', b'e', b'c'] => 12,
        _ => return None,
    })
}

/// Returns the minutes east of UTC of a zone name (RFC 5322 §4.3 and a few that occur); the
/// military letters were defined with the wrong sign, so that they mean nothing.
fn zone_minutes(name: &[u8]) -> i16 {
    let mut upper = [0; 4];
    let Some(upper) = upper.get_mut(..name.len()) else { return 0 };
    upper.copy_from_slice(name);
    upper.make_ascii_uppercase();
    let hours = match &*upper {
        b"EDT" => -4,
        b"EST" | b"CDT" => -5,
        b"CST" | b"MDT" => -6,
        b"MST" | b"PDT" => -7,
        b"PST" => -8,
        b"BST" | b"CET" | b"MET" | b"MEZ" => 1,
        b"CEST" | b"MEST" | b"MESZ" | b"EET" => 2,
        b"EEST" | b"MSK" => 3,
        b"MSD" => 4,
        b"JST" | b"KST" => 9,
        _ => 0,
    };
    hours * 60
}

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Skips white space and comments; an unfinished comment reaches to the end.
    fn skip_blanks(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'(' => depth += 1,
                b')' if depth > 0 => depth -= 1,
                b' ' | b'\t' | b'\r' | b'\n' => {}
                b'\\' if depth > 0 && self.at + 1 < self.text.len() => self.at += 1,
                _ if depth > 0 => {}
                _ => return,
            }
            self.at += 1;
        }
    }

    /// Skips white space, comments and the `,`, `.`, `-` and `/` between the parts of a date.
    fn skip_separators(&mut self) {
        self.skip_blanks();
        while matches!(self.peek(), Some(b',' | b'.' | b'-' | b'/')) {
            self.at += 1;
            self.skip_blanks();
        }
    }

    fn letters(&mut self) -> &'a [u8] {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphabetic()) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// Reads a number of at most 8 digits. Returns it and the number of its digits.
    fn number(&mut self) -> Option<(u32, usize)> {
        let start = self.at;
        let mut value = 0;
        while let Some(byte @ b'0'..=b'9') = self.peek() {
            if self.at - start == 8 {
                return None;
            }
            value = value * 10 + u32::from(byte - b'0');
            self.at += 1;
        }
        (self.at > start).then_some((value, self.at - start))
    }

    /// Reads `hour ":" minute [":" second]`, or midnight if nothing like it follows.
    fn time(&mut self) -> Option<Time> {
        self.skip_separators();
        let Some((hour, digits)) = self.number() else { return Some(Time::default()) };
        let mut time = Time { hour, ..Time::default() };
        if digits > 2 {
            return None;
        }
        if !self.time_separator() {
            return None;
        }
        time.minute = self.number()?.0;
        if self.time_separator() {
            time.second = self.number()?.0;
            if self.eat(b'.') || self.eat(b',') {
                while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                    self.at += 1;
                }
            }
        }
        self.half_day(&mut time);
        Some(time)
    }

    fn time_separator(&mut self) -> bool {
        self.skip_blanks();
        let found = self.eat(b':') || self.eat(b'.');
        self.skip_blanks();
        found
    }

    /// Reads `AM` or `PM` after a time.
    fn half_day(&mut self, time: &mut Time) {
        let before = self.at;
        self.skip_blanks();
        let word = self.letters();
        if word.eq_ignore_ascii_case(b"pm") {
            time.hour += if time.hour < 12 { 12 } else { 0 };
        } else if word.eq_ignore_ascii_case(b"am") {
            time.hour = if time.hour == 12 { 0 } else { time.hour };
        } else {
            self.at = before;
        }
    }

    /// Reads a zone in minutes east of UTC; 0 if it is missing or unknown.
    fn zone(&mut self) -> i16 {
        self.skip_blanks();
        let name = self.letters();
        let utc = [&b"GMT"[..], b"UTC", b"UT"].iter().any(|utc| name.eq_ignore_ascii_case(utc));
        if !(name.is_empty() || utc) {
            return zone_minutes(name);
        }
        // Of `+-0500`, which occurs, the second sign counts.
        let mut sign = 0;
        while let Some(byte @ (b'+' | b'-')) = self.peek() {
            sign = if byte == b'+' { 1 } else { -1 };
            self.at += 1;
        }
        if sign == 0 {
            return 0;
        }
        let Some((mut value, mut digits)) = self.number() else { return 0 };
        if digits == 2 && (self.eat(b':') || self.eat(b'-')) {
            let Some((minutes, 2)) = self.number() else { return 0 };
            (value, digits) = (value * 100 + minutes, 4);
        }
        let (hours, minutes) = if digits <= 2 { (value, 0) } else { (value / 100, value % 100) };
        if digits > 4 || minutes > 59 {
            return 0;
        }
        sign * (hours * 60 + minutes) as i16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(i64, i16)>) {
        let found = parse_date(text.as_bytes());
        assert_eq!(found.map(|date| (date.unix_seconds, date.zone_minutes)), expected, "{text:?}");
    }

    #[test]
    fn examples_of_rfc_5322() {
        check("Fri, 21 Nov 1997 09:55:06 -0600", Some((880_127_706, -360)));
        check("Tue, 1 Jul 2003 10:52:37 +0200", Some((1_057_049_557, 120)));
        check("Thu, 13 Feb 1969 23:32:54 -0330", Some((-27_723_426, -210)));
        check(
            "Thu,\r\n      13\r\n        Feb\r\n          1969\r\n      23:32\r\n               -0330 (Newfoundland Time)",
            Some((-27_723_480, -210)),
        );
        check("21 Nov 97 09:55:06 GMT", Some((880_106_106, 0)));
        check("Fri, 21 Nov 1997 09(comment):   55  :  06 -0600", Some((880_127_706, -360)));
    }

    #[test]
    fn forms_that_occur() {
        let new_year = 946_684_800;
        check("1 Jan 2000 00:00:00 +0000", Some((new_year, 0)));
        check("Sat Jan  1 00:00:00 2000", Some((new_year, 0)));
        check("Sat Jan  1 00:00:00 EST 2000", Some((new_year + 18_000, -300)));
        check("Sat Jan  1 00:00:00 2000 +0100", Some((new_year - 3600, 60)));
        check("Saturday, 01-Jan-00 00:00:00 GMT", Some((new_year, 0)));
        check("2000-01-01T00:00:00+01:00", Some((new_year - 3600, 60)));
        check("2000-01-01 00:00:00.123 Z", Some((new_year, 0)));
        check("Sat, 1 Jan 100 00:00:00 +0000", Some((new_year, 0)));
        check("Sat, 1 January 2000", Some((new_year, 0)));
        check("Sat, 1 Jan 2000 12:00:00 AM", Some((new_year, 0)));
        check("Sat 1 Jan 2000 00.00.00 GMT+0100", Some((new_year - 3600, 60)));
        check("January 1, 2000 00:00", Some((new_year, 0)));
        check("Sat, 01 Jan 0100 00:00:00 -0100", Some((new_year + 3600, -60)));
        check("Sat, 1 Jan 2000 0:0:0 +05-30", Some((new_year - 19_800, 330)));
        check("Sat, 1 Jan 2000 0:0:0 +-0500", Some((new_year + 18_000, -300)));
        check("2000/01/01 Sat 00:00:00 CST", Some((new_year + 21_600, -360)));
        check("1 Jan 2000 00:00:00 A", Some((new_year, 0)));
        check("1 Jan 2000 00:00:00 +9999", Some((new_year, 0)));
        check("31 Dec 1999 23:59:60 -0000", Some((new_year - 1, 0)));
        check("29 Feb 2000 00:00", Some((new_year + 59 * 86_400, 0)));
    }

    #[test]
    fn what_is_no_date() {
        for text in [
            "",
            "now",
            "1",
            "1 Jan",
            "30 Feb 2000 00:00",
            "0 Jan 2000 00:00",
            "1 Foo 2000 00:00",
            "1 Jan 2000 24:00",
            "1 Jan 2000 00:60",
            "1 Jan 999999999 00:00",
            "1 Jan 1066 00:00",
            "(((",
            "(\\",
            "1 Jan (\\",
            "(\\",
            "1 Jan (\\",
            "Mon,",
        ] {
            check(text, None);
        }
    }
}
