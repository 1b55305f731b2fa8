//! Dates for people and for programs.
//!
//! A date is shown in the zone in which it was written: that needs no time zone database, and is
//! what the message contains. The calendar is the proleptic Gregorian one.

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
        let (year, month, day) = date_of_days(days)?;
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

/// Returns the date that is `days` days after 1970-01-01, within the years 0 to 9999.
///
/// Years are counted from March, so that the leap day ends one; 400 years have 146,097 days.
fn date_of_days(days: i64) -> Option<(u32, u32, u32)> {
    let shifted = days.checked_add(719_468)?;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (0..=9999).contains(&year).then_some((year as u32, month as u32, day as u32))
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

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let mut expected = (1970, 1, 1);
        for days in 0..146_097 {
            assert_eq!(date_of_days(days), Some(expected));
            let (year, month, day) = expected;
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let lengths = [31, 28 + u32::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            expected = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (_, last) if last == lengths[month as usize - 1] => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
    }
}
