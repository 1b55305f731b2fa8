//! The From_ line: separates the messages of an mbox and gives the date of arrival.
//!
//! Programs disagree on what is a From_ line, so where one of them sees two messages another sees
//! one. Each [`FromProfile`] accepts exactly what its program accepts; [`FromProfile::Union`]
//! accepts what any of them does. Sources: c-client's `VALID` (unix.h), Dovecot's
//! `mbox_from_parse` (mbox-from.c), NeoMutt's `PREX_MBOX_FROM` and `PREX_MBOX_FROM_LAX` (prex.c).

use std::cell::RefCell;

use barid_types::{CivilDay, InternalDate};
use jiff::civil::DateTime;

use super::MboxMailbox;

/// Program whose rules decide which lines are From_ lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FromProfile {
    /// A line that any of the others accepts.
    #[default]
    Union,
    /// c-client (UW IMAP, Alpine): parsed from the end, fixed columns, any sender.
    CClient,
    /// Dovecot: parsed from the front, no unquoted space in the sender, any zone.
    Dovecot,
    /// NeoMutt: a regular expression; the sender may be missing or `user at host`.
    Mutt,
}

/// The date of a From_ line as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FromDate {
    year: i16,
    month: i8,
    day: i8,
    hour: i8,
    minute: i8,
    second: i8,
    /// Minutes east of UTC; local time if `None`.
    zone: Option<i16>,
}

/// Parses `line` (without its line end) as a From_ line. Returns `None` if it is not one, and
/// `Some(None)` if it separates messages but no date can be read from it.
pub(super) fn parse(line: &[u8], profile: FromProfile) -> Option<Option<FromDate>> {
    let rest = line.strip_prefix(b"From ")?;
    match profile {
        FromProfile::CClient => c_client(line, profile),
        FromProfile::Dovecot => dovecot(rest),
        FromProfile::Mutt => mutt(rest),
        FromProfile::Union => match c_client(line, profile) {
            Some(Some(date)) => Some(Some(date)),
            undated => dovecot(rest).or_else(|| mutt(rest)).or(undated),
        },
    }
}

/// Applies c-client's test, backwards from the end of the line. It compares only spaces, colons and
/// signs, so a line can pass whose date is invalid.
fn c_client(line: &[u8], profile: FromProfile) -> Option<Option<FromDate>> {
    let mut end = line.len();
    if end >= 41 {
        let space = memchr::memrchr(b' ', &line[..end])?;
        if space >= 12 && line[..=space].ends_with(b" remote from ") {
            end = space - 12;
        }
    }
    if end < 27 || memchr::memchr(0, line).is_some() {
        return None;
    }
    let at = |back: usize| if back <= end { line[end - back] } else { 0 };
    let sign = |back: usize| matches!(at(back), b'+' | b'-');
    let (zone, tail) = if at(5) == b' ' {
        match () {
            () if at(8) == b':' => (None, 5),
            () if at(9) == b' ' => (Some(9), 9),
            () if at(11) == b' ' && sign(10) => (Some(11), 11),
            () => return None,
        }
    } else if at(4) == b' ' {
        (at(9) == b' ').then_some((Some(4), 9))?
    } else {
        (at(6) == b' ' && at(11) == b' ' && sign(5)).then_some((Some(6), 11))?
    };
    if at(tail + 3) != b':' {
        return None;
    }
    let has_seconds = at(tail + 6) == b':';
    let day_end = tail + if has_seconds { 9 } else { 6 };
    if [0, 3, 7, 11].iter().any(|back| at(day_end + back) != b' ') {
        return None;
    }
    let from_end = |back: usize, len: usize| &line[end - back..end - back + len];
    let year = match zone {
        Some(4) => from_end(8, 4),
        Some(6) => from_end(10, 4),
        _ => from_end(4, 4),
    };
    let zone = match zone {
        None => Some(None),
        Some(4) => zone_name(from_end(3, 3), profile).map(Some),
        Some(6) => zone_offset(from_end(5, 5)).map(Some),
        Some(9) => zone_name(from_end(8, 3), profile).map(Some),
        Some(_) => zone_offset(from_end(10, 5)).map(Some),
    };
    let second = if has_seconds { number(from_end(tail + 2, 2)) } else { Some(0) };
    let date = || {
        Some(FromDate {
            year: number(year)?,
            month: month(from_end(day_end + 6, 3))?,
            day: number(trim_start(from_end(day_end + 2, 2)))? as i8,
            hour: number(from_end(day_end - 1, 2))? as i8,
            minute: number(from_end(day_end - 4, 2))? as i8,
            second: second? as i8,
            zone: zone?,
        })
    };
    Some(date())
}

/// Reads the bytes of a line forwards; beyond the end are NULs, which match nothing.
struct LineCursor<'a>(&'a [u8]);

impl<'a> LineCursor<'a> {
    fn peek(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn skip(&mut self, len: usize) {
        self.0 = self.0.get(len..).unwrap_or_default();
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek(0) == byte).then(|| self.skip(1))
    }

    fn spaces(&mut self) -> usize {
        let len = self.0.iter().take_while(|byte| **byte == b' ').count();
        self.skip(len);
        len
    }

    /// Reads exactly `len` digits.
    fn digits(&mut self, len: usize) -> Option<i16> {
        let value = number(self.0.get(..len)?)?;
        self.skip(len);
        Some(value)
    }

    fn month(&mut self) -> Option<i8> {
        let month = month(self.0.get(..3)?)?;
        self.skip(3);
        Some(month)
    }

    fn word(&mut self) -> &'a [u8] {
        let len = self.0.iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
        let (word, rest) = self.0.split_at(len);
        self.0 = rest;
        word
    }
}

/// Applies Dovecot's test, forwards. A numeric zone before the year is skipped unread, as in
/// Dovecot.
fn dovecot(rest: &[u8]) -> Option<Option<FromDate>> {
    let mut cursor = LineCursor(rest);
    if cursor.peek(0) == b'"' {
        let mut escaped = false;
        let quoted = rest[1..].iter().position(|byte| {
            let end = *byte == b'"' && !escaped;
            escaped = *byte == b'\\';
            end
        })?;
        cursor.skip(quoted + 2);
    }
    cursor.skip(memchr::memchr(b' ', cursor.0)?);
    cursor.spaces();
    // The line end counts as one of the 21 bytes that Dovecot requires.
    if cursor.0.len() < 20 {
        return None;
    }
    cursor.skip(4);
    let mut date = FromDate::default();
    let dovecot_month = |cursor: &mut LineCursor<'_>| {
        if cursor.0.starts_with(b"???") {
            cursor.skip(3);
            return cursor.eat(b' ').map(|()| 1);
        }
        let month = cursor.month()?;
        cursor.eat(b' ').map(|()| month)
    };
    let mut ahead = LineCursor(cursor.0);
    let alternate = match dovecot_month(&mut ahead) {
        Some(month) => {
            cursor = ahead;
            date.month = month;
            false
        }
        None => true,
    };
    if alternate {
        cursor.skip(1);
        date.day = one_or_two_digits(&mut cursor)?;
        cursor.eat(b' ')?;
        date.month = dovecot_month(&mut cursor)?;
        date.year = cursor.digits(4)?;
        cursor.skip(1);
    } else {
        if cursor.peek(0) == b' ' {
            cursor.skip(1);
        }
        date.day = one_or_two_digits(&mut cursor)?;
        cursor.eat(b' ')?;
    }
    date.day = date.day.max(1);
    date.hour = cursor.digits(2)? as i8;
    cursor.eat(b':')?;
    date.minute = cursor.digits(2)? as i8;
    if cursor.eat(b':').is_some() {
        date.second = cursor.digits(2)? as i8;
    }
    if !alternate {
        cursor.eat(b' ')?;
        if number(cursor.0.get(..4)?).is_none() {
            cursor.skip(memchr::memchr(b' ', cursor.0).unwrap_or(cursor.0.len()));
            cursor.skip(1);
        }
        date.year = cursor.digits(4)?;
    }
    if cursor.eat(b' ').is_some() {
        date.zone = cursor.0.get(..5).and_then(zone_offset);
    }
    Some(Some(date))
}

fn one_or_two_digits(cursor: &mut LineCursor<'_>) -> Option<i8> {
    let len = if cursor.peek(1).is_ascii_digit() { 2 } else { 1 };
    cursor.digits(len).map(|value| value as i8)
}

/// Applies NeoMutt's regular expressions: the strict one accepts nothing that the lax one does not.
fn mutt(rest: &[u8]) -> Option<Option<FromDate>> {
    let mut sender = LineCursor(rest);
    sender.word();
    let mut at_host = LineCursor(sender.0.strip_prefix(b" at ").unwrap_or_default());
    if !at_host.word().is_empty()
        && let Some(date) = mutt_date(at_host.0)
    {
        return Some(Some(date));
    }
    mutt_date(sender.0).or_else(|| mutt_date(rest)).map(Some)
}

fn mutt_date(text: &[u8]) -> Option<FromDate> {
    let mut cursor = LineCursor(text);
    cursor.spaces();
    let mut date = FromDate::default();
    if !WEEKDAYS.iter().any(|day| cursor.0.get(..3).is_some_and(|d| d.eq_ignore_ascii_case(day))) {
        return None;
    }
    cursor.skip(3);
    some_spaces(&mut cursor)?;
    date.month = cursor.month()?;
    let spaces = some_spaces(&mut cursor)?;
    let two = cursor.peek(1).is_ascii_digit();
    if !two && spaces < 2 {
        return None;
    }
    date.day = one_or_two_digits(&mut cursor)?;
    some_spaces(&mut cursor)?;
    date.hour = cursor.digits(2)? as i8;
    cursor.eat(b':')?;
    date.minute = cursor.digits(2)? as i8;
    if cursor.eat(b':').is_some() {
        date.second = cursor.digits(2)? as i8;
    }
    some_spaces(&mut cursor)?;
    if matches!(cursor.peek(0), b'+') {
        cursor.skip(1);
        cursor.digits(4)?;
        cursor.eat(b' ')?;
    } else {
        let zone = |byte: &&u8| byte.is_ascii_alphabetic() || **byte == b' ';
        cursor.skip(cursor.0.iter().take_while(zone).count());
    }
    date.year = match cursor.digits(4) {
        Some(year) => year,
        None => match cursor.digits(2)? {
            year @ 70.. => 1900 + year,
            year => 2000 + year,
        },
    };
    Some(date)
}

fn some_spaces(cursor: &mut LineCursor<'_>) -> Option<usize> {
    Some(cursor.spaces()).filter(|spaces| *spaces > 0)
}

fn trim_start(text: &[u8]) -> &[u8] {
    text.strip_prefix(b" ").unwrap_or(text)
}

/// Parses one to four digits.
fn number(text: &[u8]) -> Option<i16> {
    if text.is_empty() || text.len() > 4 {
        return None;
    }
    text.iter().try_fold(0, |value: i16, byte| {
        byte.is_ascii_digit().then(|| value * 10 + i16::from(byte - b'0'))
    })
}

fn month(text: &[u8]) -> Option<i8> {
    let month = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(text))?;
    Some(month as i8 + 1)
}

/// Parses `+hhmm` or `-hhmm`; in minutes.
fn zone_offset(text: &[u8]) -> Option<i16> {
    let digits = number(text.get(1..5)?)?;
    let minutes = digits / 100 * 60 + digits % 100;
    match text[0] {
        b'+' => Some(minutes),
        b'-' => Some(-minutes),
        _ => None,
    }
}

/// Parses a zone of three letters, in minutes, with the offsets of c-client's `mail_parse_date`
/// and, in the union, a few more. An unknown name is read as UTC (RFC 5322 §4.3).
fn zone_name(text: &[u8], profile: FromProfile) -> Option<i16> {
    let hours = match text {
        b"ADT" => -3,
        b"AST" | b"EDT" => -4,
        b"EST" | b"CDT" => -5,
        b"CST" | b"MDT" => -6,
        b"MST" | b"PDT" => -7,
        b"PST" | b"YDT" => -8,
        b"YST" => -9,
        b"HST" => -10,
        b"MET" => 1,
        b"EET" => 2,
        b"JST" => 9,
        b"BST" | b"CET" if profile == FromProfile::Union => 1,
        b"MSK" if profile == FromProfile::Union => 3,
        _ => 0,
    };
    text.iter().all(u8::is_ascii_alphabetic).then_some(hours * 60)
}

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
const WEEKDAYS: [&[u8]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];

/// Days whose offset is cached: a mailbox is mostly in order, so few are needed.
const DAYS: usize = 256;
const NO_DAY: i64 = i64::MIN;

/// The local zone, with a cache of the offsets of recently used days.
pub(super) struct LocalZone<'a> {
    mailbox: &'a MboxMailbox,
    /// Days that have one offset from the first to the last second: day since 1970, and seconds.
    days: RefCell<[(i64, i32); DAYS]>,
}

impl<'a> LocalZone<'a> {
    pub(super) fn new(mailbox: &'a MboxMailbox) -> Self {
        Self { mailbox, days: RefCell::new([(NO_DAY, 0); DAYS]) }
    }

    /// Converts a date to an instant; `None` if the calendar does not have it. A local time that
    /// occurs twice means its first occurrence; for one that a clock change skips, the offset
    /// before the change is used.
    pub(super) fn resolve(&self, date: &FromDate) -> Option<InternalDate> {
        let second = date.second.min(59);
        let civil =
            DateTime::new(date.year, date.month, date.day, date.hour, date.minute, second, 0)
                .ok()?;
        let (month, day) = (date.month as u32, date.day as u32);
        let days = CivilDay { year: i64::from(date.year), month, day }.since_1970()?;
        let of_day = i64::from(date.hour) * 3600 + i64::from(date.minute) * 60 + i64::from(second);
        let as_utc = days * 86_400 + of_day;
        if let Some(zone_minutes) = date.zone {
            let unix_seconds = as_utc - i64::from(zone_minutes) * 60;
            return Some(InternalDate { unix_seconds, zone_minutes });
        }
        let slot = days.rem_euclid(DAYS as i64) as usize;
        let known = self.days.borrow()[slot];
        let offset = if known.0 == days { known.1 } else { self.offset(days, slot, civil)? };
        Some(InternalDate {
            unix_seconds: as_utc - i64::from(offset),
            zone_minutes: (offset / 60) as i16,
        })
    }

    fn offset(&self, days: i64, slot: usize, civil: DateTime) -> Option<i32> {
        let at = |civil: DateTime| {
            let zoned = self.mailbox.zone().to_ambiguous_zoned(civil).compatible().ok()?;
            Some(zoned.offset().seconds())
        };
        let offset = at(civil)?;
        let whole_day = at(civil.start_of_day()) == Some(offset)
            && at(civil.end_of_day()) == Some(offset)
            && at(civil.date().at(12, 0, 0, 0)) == Some(offset);
        if whole_day {
            self.days.borrow_mut()[slot] = (days, offset);
        }
        Some(offset)
    }
}
