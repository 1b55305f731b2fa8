//! Values with units: sizes and times.

use std::time::Duration;

/// Units of sizes, in bytes; the decimal ones are for those who copy them from a data sheet.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kb", 1 << 10),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1 << 20),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1 << 30),
    ("gib", 1 << 30),
    ("t", 1 << 40),
    ("tb", 1 << 40),
    ("tib", 1 << 40),
];

/// Units of times, in seconds.
const TIME_UNITS: &[(&str, u64)] = &[
    ("s", 1),
    ("second", 1),
    ("seconds", 1),
    ("min", 60),
    ("m", 60),
    ("minute", 60),
    ("minutes", 60),
    ("h", 3600),
    ("hour", 3600),
    ("hours", 3600),
    ("d", 86_400),
    ("day", 86_400),
    ("days", 86_400),
];

/// Parses a size such as `50 MB`; units are powers of 1024.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let error = || format!("{text:?} is not a size such as \"50 MB\" or \"10 GB\"");
    with_unit(text, SIZE_UNITS).ok_or_else(error)
}

/// Parses a time such as `30 s`, `5 min`, `2 h` or `7 days`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let error = || format!("{text:?} is not a time such as \"30 s\", \"5 min\" or \"7 days\"");
    with_unit(text, TIME_UNITS).map(Duration::from_secs).ok_or_else(error)
}

fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim().to_ascii_lowercase();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

/// Returns a size with its largest whole unit.
pub(super) fn size_text(size: u64) -> String {
    let units = [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)];
    let unit = units.into_iter().find(|(_, factor)| size > 0 && size.is_multiple_of(*factor));
    match unit {
        Some((unit, factor)) => format!("{} {unit}", size / factor),
        None => format!("{size} bytes"),
    }
}

/// Returns a time with its largest whole unit.
pub(super) fn time_text(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [("days", 86_400), ("h", 3600), ("min", 60)];
    let unit = units.into_iter().find(|(_, factor)| seconds > 0 && seconds.is_multiple_of(*factor));
    match unit {
        Some((unit, factor)) => format!("{} {unit}", seconds / factor),
        None => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(size(text).ok(), expected);
        check("50 MB", Some(50 << 20));
        check("10GiB", Some(10 << 30));
        check("7", Some(7));
        check("99999999999 TB", None);
        check("five", None);
        check("", None);
        check("5 parsecs", None);
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(time(text).ok(), expected.map(Duration::from_secs), "{text}");
        };
        check("30 s", Some(30));
        check("5min", Some(300));
        check("2 h", Some(7200));
        check("7 days", Some(604_800));
        check("7", None);
        assert_eq!(size_text(50 << 20), "50 MB");
        assert_eq!(size_text(1000), "1000 bytes");
        assert_eq!(time_text(Duration::from_secs(7200)), "2 h");
        assert_eq!(time_text(Duration::from_secs(61)), "61 s");
    }
}
