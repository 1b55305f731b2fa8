//! Dates, spans of time and sizes in the short form.

use super::super::day::number;
use super::super::program::DateRange;
use super::super::{Day, SearchError};

/// The kinds of search keys by date.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DateKey {
    Since,
    Before,
    On,
}

/// Parses `2024`, `2024-05`, `2024-05-17`, `today`, `yesterday`, `7d`, and for [`DateKey::On`] two
/// of them with `..` between.
pub(super) fn dates(
    key: &str,
    kind: DateKey,
    text: &str,
    today: Day,
) -> Result<DateRange, SearchError> {
    let bad = || SearchError::bad(key, "date such as 2024-05-17, 2024-05, 2024, today or 7d", text);
    let one = |text: &str| period(text, today).ok_or_else(bad);
    Ok(match (kind, text.split_once("..")) {
        (DateKey::Since, _) => DateRange { from: Some(one(text)?.0), to: None },
        (DateKey::Before, _) => DateRange { from: None, to: Some(one(text)?.0) },
        (DateKey::On, None) => {
            let (from, to) = one(text)?;
            DateRange { from: Some(from), to: Some(to) }
        }
        (DateKey::On, Some((from, to))) => {
            let from = (!from.is_empty()).then(|| one(from)).transpose()?;
            let to = (!to.is_empty()).then(|| one(to)).transpose()?;
            DateRange { from: from.map(|period| period.0), to: to.map(|period| period.1) }
        }
    })
}

/// Returns the first day of a period and the day after its last.
fn period(text: &str, today: Day) -> Option<(Day, Day)> {
    let day = |day: Day| Some((day, day.plus(1)));
    match &*text.to_ascii_lowercase() {
        "today" => return day(today),
        "yesterday" => return day(today.plus(-1)),
        _ => {}
    }
    if let Some(ago) = days_ago(text) {
        return day(today.plus(-ago));
    }
    if let Some(imap) = Day::parse_imap(text) {
        return day(imap);
    }
    let mut parts = text.split('-');
    let year = parts.next().filter(|year| year.len() == 4)?;
    let year: i32 = number(year)?;
    match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => Some((Day::of(year, 1, 1)?, Day::of(year, 12, 31)?.plus(1))),
        (Some(month), None, _) => {
            let month = number(month)?;
            let first = Day::of(year, month, 1)?;
            let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            Some((first, Day::of(next.0, next.1, 1)?))
        }
        (Some(month), Some(date), None) => day(Day::of(year, number(month)?, number(date)?)?),
        _ => None,
    }
}

/// Parses `7d`, `2w`, `3m`, `1y`. Returns days.
fn days_ago(text: &str) -> Option<i64> {
    let unit = text.chars().last().filter(char::is_ascii)?;
    let count: i64 = number(&text[..text.len() - 1]).filter(|count| *count < 1_000_000)?;
    let days = match unit.to_ascii_lowercase() {
        'd' => 1,
        'w' => 7,
        'm' => 30,
        'y' => 365,
        _ => return None,
    };
    Some(count * days)
}

/// Parses `90s`, `15min`, `2h`, `7d`, `2w`, `3m`, `1y`, or seconds alone.
pub(super) fn seconds(key: &str, text: &str) -> Result<u32, SearchError> {
    let what = "span of time such as 2h, 7d or 1y (dates are for `before:` and `since:`)";
    let bad = || SearchError::bad(key, what, text);
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let count: u64 = number(&text[..split]).ok_or_else(bad)?;
    let unit = match &*text[split..].to_ascii_lowercase() {
        // A year, and not the minutes that it would be.
        "" if (1900..2200).contains(&count) => return Err(bad()),
        "" | "s" => 1,
        "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        "m" => 30 * 86_400,
        "y" => 365 * 86_400,
        _ => return Err(bad()),
    };
    let seconds = count.checked_mul(unit).and_then(|seconds| u32::try_from(seconds).ok());
    seconds.filter(|seconds| *seconds > 0).ok_or_else(bad)
}

/// Parses `1M`, `500k`, `2G`, or bytes alone.
pub(super) fn size(key: &str, text: &str) -> Result<u64, SearchError> {
    let bad = || SearchError::bad(key, "size such as 20000, 500k or 1M", text);
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let count: u64 = number(&text[..split]).ok_or_else(bad)?;
    let shift = match &*text[split..].to_ascii_lowercase() {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _ => return Err(bad()),
    };
    count.checked_mul(1 << shift).ok_or_else(bad)
}
