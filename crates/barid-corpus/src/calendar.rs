//! Seconds since 1970 as calendar dates, for the headers of generated mail.

use std::fmt::Write;

/// Names of the days, starting with Thursday, the day of 1970-01-01.
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A date and time of the proleptic Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// Abbreviated name of the day.
    pub weekday: &'static str,
    /// The year.
    pub year: i64,
    /// Abbreviated name of the month.
    pub month: &'static str,
    /// Day of the month, from 1.
    pub day: i64,
    /// The hour.
    pub hour: i64,
    /// The minute.
    pub minute: i64,
    /// The second.
    pub second: i64,
}

impl Calendar {
    /// Returns the date in UTC.
    pub fn new(unix_seconds: i64) -> Self {
        let days = unix_seconds.div_euclid(86_400);
        let second = unix_seconds.rem_euclid(86_400);
        // Years start in March, in eras of 400 years that begin on 0000-03-01.
        let from_era = days + 719_468;
        let era = from_era.div_euclid(146_097);
        let day_of_era = from_era.rem_euclid(146_097);
        let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
        let year_of_era = (day_of_era - leap_days) / 365;
        let first_day = 365 * year_of_era + year_of_era / 4 - year_of_era / 100;
        let day_of_year = day_of_era - first_day;
        let march_month = (5 * day_of_year + 2) / 153;
        let month = (march_month + 2) % 12;
        Self {
            weekday: DAYS[days.rem_euclid(7) as usize],
            year: era * 400 + year_of_era + i64::from(month < 2),
            month: MONTHS[month as usize],
            day: day_of_year - (153 * march_month + 2) / 5 + 1,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
        }
    }

    /// Returns `Mon, 1 Jan 2024 10:00:00 +0100`, with the date local to the zone.
    pub fn rfc5322(unix_seconds: i64, zone_minutes: i16) -> String {
        let date = Self::new(unix_seconds + i64::from(zone_minutes) * 60);
        let mut text = String::with_capacity(40);
        let sign = if zone_minutes < 0 { '-' } else { '+' };
        let zone = zone_minutes.unsigned_abs();
        let (zone_hour, zone_minute) = (zone / 60, zone % 60);
        let Self { weekday, year, month, day, hour, minute, second } = date;
        let clock = format_args!("{hour:02}:{minute:02}:{second:02}");
        write!(
            text,
            "{weekday}, {day} {month} {year} {clock} {sign}{zone_hour:02}{zone_minute:02}"
        )
        .expect("because writing to a string does not fail");
        text
    }

    /// Returns `Mon Jan  1 10:00:00 2024` in UTC, the form of From_ lines.
    pub fn asctime(unix_seconds: i64) -> String {
        let Self { weekday, year, month, day, hour, minute, second } = Self::new(unix_seconds);
        format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
    }

    /// Returns `` 1-Jan-2024 10:00:00 +0000`` in UTC, the form of mbx.
    pub fn mbx(unix_seconds: i64) -> String {
        let Self { year, month, day, hour, minute, second, .. } = Self::new(unix_seconds);
        format!("{day:2}-{month}-{year} {hour:02}:{minute:02}:{second:02} +0000")
    }

    /// Returns `20240101100000+0000` in UTC, the form of mix.
    pub fn mix(unix_seconds: i64) -> String {
        let Self { year, month, day, hour, minute, second, .. } = Self::new(unix_seconds);
        let month = MONTHS.iter().position(|name| *name == month).map_or(0, |at| at + 1);
        format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}+0000")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(unix_seconds: i64, expected: &str) {
        assert_eq!(Calendar::asctime(unix_seconds), expected);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        check(0, "Thu Jan  1 00:00:00 1970");
        check(951_782_400, "Tue Feb 29 00:00:00 2000");
        check(951_868_800, "Wed Mar  1 00:00:00 2000");
        check(1_704_103_199, "Mon Jan  1 09:59:59 2024");
        check(1_735_689_599, "Tue Dec 31 23:59:59 2024");
        check(-1, "Wed Dec 31 23:59:59 1969");
    }

    #[test]
    fn zones_shift_the_clock() {
        assert_eq!(Calendar::rfc5322(0, -330), "Wed, 31 Dec 1969 18:30:00 -0530");
    }
}
