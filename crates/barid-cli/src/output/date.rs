//! Dates for people and for programs.
//!
//! A date is shown in the zone in which it was written: that needs no time zone database, and is
//! what the message contains. The calendar is the proleptic Gregorian one.

use barid_types::CivilDay;

/// Minutes in a day; a larger offset from UTC is not a zone.
const ZONE_MINUTES_MAX: i16 = 24 * 60;

/// A point in time as date and time of day in some zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Civil {
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
    zone_minutes: i16,
}

impl Civil {
    /// Converts a point in time; `None` outside the years 0 to 9999, which RFC 3339 cannot
    /// represent.
    fn new(unix_seconds: i64, zone_minutes: i16) -> Option<Self> {
        let zone_minutes = if zone_minutes.abs() < ZONE_MINUTES_MAX { zone_minutes } else { 0 };
        let local = unix_seconds.checked_add(i64::from(zone_minutes) * 60)?;
        let (days, seconds) = (local.div_euclid(86_400), local.rem_euclid(86_400) as u32);
        let CivilDay { year, month, day } = CivilDay::after_1970(days)?;
        let year = u32::try_from(year).ok().filter(|year| *year <= 9999)?;
        Some(Self {
            year,
            month,
            day,
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            zone_minutes,
        })
    }
}

/// Writes `2024-03-05T14:22:10+02:00` (RFC 3339 §5.6); returns `false` if the year does not have
/// four digits.
pub(crate) fn write_rfc3339(out: &mut Vec<u8>, unix_seconds: i64, zone_minutes: i16) -> bool {
    let Some(civil) = Civil::new(unix_seconds, zone_minutes) else { return false };
    let mut text = *b"0000-00-00T00:00:00+00:00";
    put_date(&mut text, &civil);
    put(&mut text[11..13], civil.hour);
    put(&mut text[14..16], civil.minute);
    put(&mut text[17..19], civil.second);
    if civil.zone_minutes == 0 {
        out.extend_from_slice(&text[..19]);
        out.push(b'Z');
        return true;
    }
    let zone = u32::from(civil.zone_minutes.unsigned_abs());
    text[19] = if civil.zone_minutes < 0 { b'-' } else { b'+' };
    put(&mut text[20..22], zone / 60);
    put(&mut text[23..25], zone % 60);
    out.extend_from_slice(&text);
    true
}

/// Columns that [`write_short`] fills.
pub(crate) const SHORT_WIDTH: usize = 16;

/// Writes `2024-03-05 14:22`, or blanks if the year does not have four digits.
pub(crate) fn write_short(out: &mut Vec<u8>, unix_seconds: i64, zone_minutes: i16) {
    let Some(civil) = Civil::new(unix_seconds, zone_minutes) else {
        out.extend_from_slice(&[b' '; SHORT_WIDTH]);
        return;
    };
    let mut text = *b"0000-00-00 00:00";
    put_date(&mut text, &civil);
    put(&mut text[11..13], civil.hour);
    put(&mut text[14..16], civil.minute);
    out.extend_from_slice(&text);
}

fn put_date(text: &mut [u8], civil: &Civil) {
    put(&mut text[0..4], civil.year);
    put(&mut text[5..7], civil.month);
    put(&mut text[8..10], civil.day);
}

/// Fills `digits` with the decimal digits of `value`, with leading zeros.
fn put(digits: &mut [u8], mut value: u32) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(unix_seconds: i64, zone_minutes: i16, expected: &str, expected_short: &str) {
        let mut out = Vec::new();
        assert_eq!(write_rfc3339(&mut out, unix_seconds, zone_minutes), !expected.is_empty());
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let mut out = Vec::new();
        write_short(&mut out, unix_seconds, zone_minutes);
        assert_eq!(String::from_utf8(out).unwrap(), expected_short);
    }

    #[test]
    fn dates() {
        check(0, 0, "1970-01-01T00:00:00Z", "1970-01-01 00:00");
        check(-1, 0, "1969-12-31T23:59:59Z", "1969-12-31 23:59");
        check(951_782_400, 0, "2000-02-29T00:00:00Z", "2000-02-29 00:00");
        check(1_709_641_330, 120, "2024-03-05T14:22:10+02:00", "2024-03-05 14:22");
        check(1_709_641_330, -570, "2024-03-05T02:52:10-09:30", "2024-03-05 02:52");
        check(253_402_300_799, 0, "9999-12-31T23:59:59Z", "9999-12-31 23:59");
        check(-62_167_219_200, 0, "0000-01-01T00:00:00Z", "0000-01-01 00:00");
    }

    #[test]
    fn what_cannot_be_written_is_left_out() {
        let blank = " ".repeat(SHORT_WIDTH);
        check(253_402_300_800, 0, "", &blank);
        check(i64::MAX, 60, "", &blank);
        check(i64::MIN, -60, "", &blank);
        check(0, i16::MIN + 1, "1970-01-01T00:00:00Z", "1970-01-01 00:00");
    }
}
