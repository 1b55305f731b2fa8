//! Days of the proleptic Gregorian calendar.
//!
//! The crate jiff does the same, but its instants end a day before the year 9999 does, and its
//! arithmetic with days of a calendar is too slow for a date of every message. The tests compare
//! both.

/// A day of the calendar; the year 0 is the one before the year 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CivilDay {
    /// The year.
    pub year: i64,
    /// The month, from 1.
    pub month: u32,
    /// The day of the month, from 1.
    pub day: u32,
}

/// Days of 400 years.
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: i64 = 719_468;

impl CivilDay {
    /// Returns the days since 1970-01-01; `None` if the month has no such day.
    pub fn since_1970(self) -> Option<i64> {
        let Self { year, month, day } = self;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = match month {
            2 => 28 + u32::from(leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        if !(1..=length).contains(&day) {
            return None;
        }
        // Years are counted from March, so that the leap day is the last.
        let (shifted, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let day_of_year = i64::from((153 * month + 2) / 5 + day - 1);
        let leap_days = shifted.div_euclid(4) - shifted.div_euclid(100) + shifted.div_euclid(400);
        Some(shifted * 365 + leap_days + day_of_year - EPOCH)
    }

    /// Returns the day that is `days` days after 1970-01-01; `None` far outside of any calendar.
    pub fn after_1970(days: i64) -> Option<Self> {
        let shifted = days.checked_add(EPOCH)?;
        let (era, of_era) = (shifted.div_euclid(ERA_DAYS), shifted.rem_euclid(ERA_DAYS));
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = (of_year - (153 * from_march + 2) / 5 + 1) as u32;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 } as u32;
        Some(Self { year: year + era * 400 + i64::from(month <= 2), month, day })
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::Date;

    use super::*;

    #[test]
    fn days_are_those_of_another_calendar() {
        let mut date = Date::constant(-9999, 1, 1);
        let first = CivilDay { year: -9999, month: 1, day: 1 };
        let mut days = first.since_1970().unwrap();
        assert_eq!(CivilDay { year: 1970, month: 1, day: 1 }.since_1970(), Some(0));
        loop {
            let (month, day) = (date.month() as u32, date.day() as u32);
            let civil = CivilDay { year: i64::from(date.year()), month, day };
            assert_eq!((civil.since_1970(), CivilDay::after_1970(days)), (Some(days), Some(civil)));
            match date.tomorrow() {
                Ok(next) => (date, days) = (next, days + 1),
                Err(_) => break,
            }
        }
        assert_eq!(date, Date::MAX);
    }

    #[test]
    fn a_day_that_no_month_has_is_none() {
        for (year, month, day) in [(2025, 2, 29), (1900, 2, 29), (2026, 4, 31), (2026, 13, 1)] {
            assert_eq!(CivilDay { year, month, day }.since_1970(), None);
        }
        for (month, day) in [(0, 1), (1, 0), (1, 32)] {
            assert_eq!(CivilDay { year: 2026, month, day }.since_1970(), None);
        }
        assert_eq!(CivilDay::after_1970(i64::MAX), None);
        assert!(CivilDay::after_1970(i64::MIN).is_some());
    }
}
