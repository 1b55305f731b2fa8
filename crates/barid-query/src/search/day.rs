//! Calendar days for searches by date.

use barid_types::CivilDay;

/// Seconds of a day.
const DAY_SECONDS: i64 = 86_400;

/// A day of the proleptic Gregorian calendar, counted from 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub i64);

/// Month names of IMAP dates.
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

impl Day {
    /// Returns the day of a point in time on a clock of that zone (RFC 9051 §6.4.4 disregards time
    /// and zone).
    #[must_use]
    pub fn in_zone(unix_seconds: i64, zone_minutes: i16) -> Self {
        Self((unix_seconds.saturating_add(i64::from(zone_minutes) * 60)).div_euclid(DAY_SECONDS))
    }

    /// Returns the day of a date; `None` if the date does not exist.
    #[must_use]
    pub fn of(year: i32, month: u32, day: u32) -> Option<Self> {
        CivilDay { year: year.into(), month, day }.since_1970().map(Self)
    }

    /// Returns year, month and day; the last day of all for one far outside of any calendar.
    #[must_use]
    pub fn date(self) -> (i64, u32, u32) {
        const LAST: CivilDay = CivilDay { year: i64::MAX, month: 12, day: 31 };
        let CivilDay { year, month, day } = CivilDay::after_1970(self.0).unwrap_or(LAST);
        (year, month, day)
    }

    /// Returns the day `days` days later.
    #[must_use]
    pub fn plus(self, days: i64) -> Self {
        Self(self.0.saturating_add(days))
    }

    /// Parses `date-text = date-day "-" date-month "-" date-year` (RFC 9051 §9).
    #[must_use]
    pub fn parse_imap(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || year.len() != 4 || !(1..=2).contains(&day.len()) {
            return None;
        }
        let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? + 1;
        Self::of(number(year)?, month as u32, number(day)?)
    }
}

/// Parses a number that consists of digits only.
pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<i64>) {
        assert_eq!(Day::parse_imap(text), expected.map(Day), "{text}");
    }

    #[test]
    fn dates_of_imap() {
        check("1-Jan-1970", Some(0));
        check("01-jan-1970", Some(0));
        check("29-Feb-2024", Some(19_782));
        check("31-DEC-1969", Some(-1));
        for bad in
            ["", "1-Jan", "30-Feb-2024", "0-Jan-2024", "1-Jan-24", "1-Foo-2024", "1-Jan-2024-1"]
        {
            check(bad, None);
        }
    }

    #[test]
    fn days_and_dates_are_each_others_inverse() {
        for days in (-800_000..800_000).step_by(17) {
            let (year, month, day) = Day(days).date();
            assert_eq!(Day::of(year as i32, month, day), Some(Day(days)));
        }
    }

    #[test]
    fn a_day_is_that_of_the_clock_that_was_looked_at() {
        assert_eq!(Day::in_zone(0, 0), Day(0));
        assert_eq!(Day::in_zone(0, -60), Day(-1));
        assert_eq!(Day::in_zone(86_399, 1), Day(1));
    }
}
