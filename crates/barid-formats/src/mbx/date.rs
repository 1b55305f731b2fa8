//! The internal date in the line before a message: `dd-Mmm-yyyy hh:mm:ss +zzzz`.

use barid_types::InternalDate;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Years that c-client can read. A line with another year makes it refuse the whole mailbox.
const YEARS: std::ops::RangeInclusive<i16> = 1970..=2097;
/// The last second of those years.
const LAST: i64 = 4_039_372_799;
/// Exclusive limit of a zone that is written, in minutes.
const ZONE_MAX: i16 = 24 * 60;

/// Parses a date. Returns `None` if c-client would refuse it. (c-client reads a few more forms,
/// which no program writes.)
pub(super) fn parse(text: &[u8]) -> Option<InternalDate> {
    let text = std::str::from_utf8(text).ok()?.trim_start_matches(' ');
    let (date, rest) = text.split_once(' ')?;
    let (time, zone) = rest.trim_start_matches(' ').split_once(' ')?;
    let mut date = date.split('-');
    let day = number(date.next()?, 1..=2)?;
    let name = date.next()?;
    let month = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name))? + 1;
    let year = number(date.next()?, 1..=4)?;
    let year = if year < 49 { year + 2000 } else { year };
    let year = if year < 999 { year + 1900 } else { year };
    let mut time = time.split(':');
    let hour = number(time.next()?, 1..=2)?;
    let minute = number(time.next()?, 1..=2)?;
    let second = number(time.next()?, 1..=2)?;
    if date.next().is_some() || time.next().is_some() || !YEARS.contains(&year) {
        return None;
    }
    // Days and seconds that c-client accepts but that do not exist become the nearest ones that do.
    let (second, day) = (second.min(59), day.clamp(1, 31));
    let civil = (0..4).find_map(|less| {
        let day = (day - less) as i8;
        DateTime::new(year, month as i8, day, hour as i8, minute as i8, second as i8, 0).ok()
    })?;
    let zone_minutes = zone_minutes(zone.trim_start_matches(' '));
    let offset = Offset::from_seconds(i32::from(zone_minutes) * 60).ok()?;
    let unix_seconds = offset.to_timestamp(civil).ok()?.as_second();
    Some(InternalDate { unix_seconds, zone_minutes })
}

fn number(digits: &str, len: std::ops::RangeInclusive<usize>) -> Option<i16> {
    let sound = len.contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    sound.then(|| digits.parse().ok())?
}

/// Returns the minutes east of UTC; 0 if the text is not a zone, as in c-client.
fn zone_minutes(zone: &str) -> i16 {
    let (sign, digits) = match zone.as_bytes() {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    let [a, b, c @ b'0'..=b'5', d, ..] = digits else { return 0 };
    let value = |digit: &u8| digit.is_ascii_digit().then(|| i16::from(digit - b'0'));
    let minutes = || Some(value(a)? * 600 + value(b)? * 60 + value(c)? * 10 + value(d)?);
    let minutes = minutes().filter(|minutes| *minutes < ZONE_MAX);
    sign * minutes.unwrap_or(0)
}

/// Padding of the day of a date to two characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Day {
    /// With a space: a date that was given.
    Spaced,
    /// With a zero: the time of appending.
    Zeroed,
}

/// Formats a date as c-client does. A date that c-client could not read again is moved into its
/// years.
pub(super) fn format(date: InternalDate, day: Day) -> String {
    let zone = if date.zone_minutes.unsigned_abs() < ZONE_MAX.unsigned_abs() {
        date.zone_minutes
    } else {
        0
    };
    let civil = |seconds: i64, zone: i16| {
        let offset = Offset::from_seconds(i32::from(zone) * 60).unwrap_or(Offset::UTC);
        let seconds = seconds.clamp(-LAST, 2 * LAST);
        offset.to_datetime(Timestamp::from_second(seconds).unwrap_or_default())
    };
    let mut local = (civil(date.unix_seconds, zone), zone);
    if !YEARS.contains(&local.0.year()) {
        local = (civil(date.unix_seconds.clamp(0, LAST), 0), 0);
    }
    let (civil, zone) = local;
    let (sign, minutes) = (if zone < 0 { '-' } else { '+' }, zone.unsigned_abs());
    let number = match day {
        Day::Spaced => format!("{:2}", civil.day()),
        Day::Zeroed => format!("{:02}", civil.day()),
    };
    format!(
        "{number}-{}-{} {:02}:{:02}:{:02} {sign}{:02}{:02}",
        MONTHS[civil.month() as usize - 1],
        civil.year(),
        civil.hour(),
        civil.minute(),
        civil.second(),
        minutes / 60,
        minutes % 60,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(i64, i16)>) {
        let expected = expected
            .map(|(unix_seconds, zone_minutes)| InternalDate { unix_seconds, zone_minutes });
        assert_eq!(parse(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn dates_are_read() {
        check(" 2-Dec-1992 05:53:22 -0700", Some((723_300_802, -420)));
        check("02-dec-1992 05:53:22 -0700", Some((723_300_802, -420)));
        check("2-Dec-92 12:53:22 +0000", Some((723_300_802, 0)));
        check("31-Feb-2014 00:00:60 +0530", Some((1_393_525_859, 330)));
        check("24-Oct-2014 14:42:03 -0500", Some((1_414_179_723, -300)));
        check("24-Fab-2014 14:42:03 -0500", None);
        check("24-Oct-2014 14:43: -0500", None);
        check("24-Oct-2014 25:43:00 -0500", None);
        check("24-Oct-1969 14:43:00 -0500", None);
        check("24-Oct-2098 14:43:00 -0500", None);
        check("24-Oct-2014", None);
        check("", None);
    }

    #[test]
    fn dates_are_written() {
        let text = |unix_seconds, zone_minutes| {
            format(InternalDate { unix_seconds, zone_minutes }, Day::Spaced)
        };
        assert_eq!(text(723_300_802, -420), " 2-Dec-1992 05:53:22 -0700");
        assert_eq!(text(723_300_802, 345), " 2-Dec-1992 18:38:22 +0545");
        assert_eq!(text(0, -60), " 1-Jan-1970 00:00:00 +0000");
        assert_eq!(text(-5, 0), " 1-Jan-1970 00:00:00 +0000");
        assert_eq!(text(i64::MAX, 0), "31-Dec-2097 23:59:59 +0000");
        assert_eq!(text(5, 30_000), " 1-Jan-1970 00:00:05 +0000");
        let now = InternalDate { unix_seconds: 723_300_802, zone_minutes: 0 };
        assert_eq!(format(now, Day::Zeroed), "02-Dec-1992 12:53:22 +0000");
        for seconds in (0..4_000_000_000).step_by(9_999_991) {
            let zone_minutes = (seconds % 2700 - 1350) as i16;
            let date = InternalDate { unix_seconds: seconds + 100_000, zone_minutes };
            assert_eq!(parse(format(date, Day::Spaced).as_bytes()), Some(date));
        }
    }
}
