//! Dates as bogofilter writes them, and as days.

/// The day since 1970-01-01 of a date YYYYMMDD; `None` if there is no such day.
pub fn day_of(date: u32) -> Option<u32> {
    let (year, month, day) = (i64::from(date / 10_000), date / 100 % 100, date % 100);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    // Years that begin in March have their leap day last.
    let shifted = year - i64::from(month <= 2);
    let (era, of_era) = (shifted / 400, shifted % 400);
    let of_year = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let days = u32::try_from(days).ok()?;
    (date_of(days) == date).then_some(days)
}

/// The date YYYYMMDD of a day since 1970-01-01.
pub fn date_of(day: u32) -> u32 {
    let days = u64::from(day) + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    (year * 10_000 + month * 100 + day) as u32
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
