//! Numbers and sizes for people.

/// Writes a number in decimal.
pub(crate) fn write_decimal(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Formats `1234567` as `1,234,567`.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number and its noun: `1 message`, `2,000 messages`.
pub(crate) fn counted(value: u64, noun: &str) -> String {
    let plural = match (value, noun.strip_suffix('y')) {
        (1, _) => noun.to_owned(),
        (_, Some(stem)) => format!("{stem}ies"),
        (_, None) if noun.ends_with('x') => format!("{noun}es"),
        (_, None) => format!("{noun}s"),
    };
    format!("{} {plural}", grouped(value))
}

/// Formats a size in decimal units: `17 bytes`, `4.5 KB`, `1.42 GB`.
pub(crate) fn size(bytes: u64) -> String {
    if bytes < 1000 {
        return counted(bytes, "byte");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut units = ["KB", "MB", "GB", "TB", "PB", "EB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    let decimals = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.decimals$} {unit}")
}

/// Formats a duration with the digits that matter: `0.08 ms`, `4.2 ms`, `42 ms`, `1.37 s`.
pub(crate) fn duration(time: std::time::Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    match ms {
        _ if ms < 0.995 => format!("{ms:.2} ms"),
        _ if ms < 9.95 => format!("{ms:.1} ms"),
        _ if ms < 999.5 => format!("{ms:.0} ms"),
        _ if ms < 99_950.0 => format!("{:.2} s", ms / 1000.0),
        _ => format!("{:.0} s", ms / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn numbers_are_grouped() {
        let expected = ["0", "999", "1,000", "361,052", "18,446,744,073,709,551,615"];
        for (value, expected) in [0, 999, 1000, 361_052, u64::MAX].into_iter().zip(expected) {
            assert_eq!(grouped(value), expected);
        }
        assert_eq!(counted(1, "message"), "1 message");
        assert_eq!(counted(0, "reply"), "0 replies");
        assert_eq!(counted(2, "mailbox"), "2 mailboxes");
    }

    #[test]
    fn sizes_have_three_digits() {
        let cases = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (999, "999 bytes"),
            (1000, "1.00 KB"),
            (9_996, "10.0 KB"),
            (999_499, "999 KB"),
            (999_500, "1.00 MB"),
            (1_420_000_000, "1.42 GB"),
            (u64::MAX, "18.4 EB"),
        ];
        cases.into_iter().for_each(|(bytes, expected)| assert_eq!(size(bytes), expected));
    }

    #[test]
    fn durations_fit_their_unit() {
        let cases = [(10, "0.01 ms"), (4230, "4.2 ms"), (42_300, "42 ms"), (1_370_000, "1.37 s")];
        for (micros, expected) in cases {
            assert_eq!(duration(Duration::from_micros(micros)), expected);
        }
        assert_eq!(duration(Duration::from_secs(100)), "100 s");
    }
}
