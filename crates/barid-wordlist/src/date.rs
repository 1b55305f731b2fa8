//! Dates as bogofilter writes them, and days since 1970.

use barid_vfs::{Vfs, local_zone_minutes};

use barid_types::CivilDay;

/// Returns the days since 1970-01-01 of a date YYYYMMDD; `None` if there is no such date or it is
/// before 1970.
pub fn day_of(date: u32) -> Option<u32> {
    let (year, month, day) = (i64::from(date / 10_000), date / 100 % 100, date % 100);
    u32::try_from(CivilDay { year, month, day }.since_1970().filter(|_| year <= 9999)?).ok()
}

/// Returns the date YYYYMMDD of a day, counted from 1970-01-01; 0 for days after the year 9999.
pub fn date_of(day: u32) -> u32 {
    let date = CivilDay::after_1970(i64::from(day)).filter(|date| date.year <= 9999);
    date.map_or(0, |date| date.year as u32 * 10_000 + date.month * 100 + date.day)
}

/// Returns the date of today in the time zone of this machine, YYYYMMDD.
pub fn today(vfs: &dyn Vfs) -> u32 {
    let seconds = vfs.now().unix_seconds();
    let zone = i64::from(local_zone_minutes(vfs, seconds)) * 60;
    let day = (seconds + zone).div_euclid(86_400);
    u32::try_from(day).map_or(0, date_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_agree() {
        let check = |date: u32, day: Option<u32>| assert_eq!(day_of(date), day, "{date}");
        check(19_700_101, Some(0));
        check(20_000_229, Some(11_016));
        check(20_261_122, Some(20_779));
        check(20_250_229, None);
        check(20_261_301, None);
        check(20_260_431, None);
        check(0, None);
        check(19_691_231, None);
        check(u32::MAX, None);
        for day in 0..200_000 {
            assert_eq!(day_of(date_of(day)), Some(day));
        }
    }
}
