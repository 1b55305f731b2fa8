//! Numbers as C's `printf` writes them.

use std::io::Write as _;

/// Maximum number of digits after the point.
const PRECISION_MAX: usize = 1_000;
/// Maximum number of characters to which a number is padded.
const WIDTH_MAX: usize = 1_000;

/// Flags, width and precision of a conversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) left: bool,
    pub(super) plus: bool,
    pub(super) space: bool,
    pub(super) alternate: bool,
    pub(super) zeros: bool,
    pub(super) width: usize,
    pub(super) precision: Option<usize>,
}

/// Writes a number for a conversion letter of `e`, `f`, `g` or their capitals.
pub(super) fn number(value: f64, spec: Spec, letter: u8, to: &mut Vec<u8>) {
    let precision = spec.precision.unwrap_or(6).min(PRECISION_MAX);
    let mut digits = match letter.to_ascii_lowercase() {
        _ if !value.is_finite() => special(value),
        b'e' => exponential(value.abs(), precision),
        b'g' => general(value.abs(), precision.max(1), spec.alternate),
        _ => format!("{:.precision$}", value.abs()),
    };
    if spec.alternate && precision == 0 && letter.eq_ignore_ascii_case(&b'f') {
        digits.push('.');
    }
    if letter.is_ascii_uppercase() {
        digits.make_ascii_uppercase();
    }
    let sign = match () {
        () if value.is_sign_negative() => "-",
        () if spec.plus => "+",
        () if spec.space => " ",
        () => "",
    };
    let fill = spec.width.min(WIDTH_MAX).saturating_sub(sign.len() + digits.len());
    let pad = |byte: u8, to: &mut Vec<u8>| to.resize(to.len() + fill, byte);
    let is_zeros = spec.zeros && !spec.left && value.is_finite();
    if !spec.left && !is_zeros {
        pad(b' ', to);
    }
    to.extend_from_slice(sign.as_bytes());
    if is_zeros {
        pad(b'0', to);
    }
    to.extend_from_slice(digits.as_bytes());
    if spec.left {
        pad(b' ', to);
    }
}

fn special(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { "inf".to_owned() }
}

fn exponential(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

fn general(value: f64, precision: usize, keeps_zeros: bool) -> String {
    let text = exponential(value, precision - 1);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    let without_zeros = |text: &str| -> String {
        match keeps_zeros || !text.contains('.') {
            true => text.to_owned(),
            false => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        }
    };
    match usize::try_from(i64::from(power) + 4) {
        Ok(above) if above < precision + 4 => {
            let decimals = precision + 3 - above;
            without_zeros(&format!("{value:.decimals$}"))
        }
        _ => format!("{}e{exponent}", without_zeros(digits)),
    }
}

/// Writes the result of `printf` for a format and one number. Directives other than a conversion of
/// a number, which C leaves undefined, are written unchanged. The result is cut to `len_max` bytes,
/// as in bogofilter's buffer.
pub(super) fn print(format: &[u8], value: f64, len_max: usize, to: &mut Vec<u8>) {
    let start = to.len();
    let mut rest = format;
    while let Some(at) = memchr::memchr(b'%', rest) {
        to.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        if rest.first() == Some(&b'%') {
            to.push(b'%');
            rest = &rest[1..];
            continue;
        }
        let (spec, len) = parse(rest);
        match rest.get(len) {
            Some(letter @ (b'e' | b'f' | b'g' | b'E' | b'F' | b'G')) => {
                number(value, spec, *letter, to);
                rest = &rest[len + 1..];
            }
            _ => to.push(b'%'),
        }
    }
    to.extend_from_slice(rest);
    to.truncate(start + len_max);
}

/// Parses the part between `%` and the letter, and returns its length too.
fn parse(text: &[u8]) -> (Spec, usize) {
    let mut spec = Spec::default();
    let mut at = 0;
    loop {
        match text.get(at) {
            Some(b'-') => spec.left = true,
            Some(b'+') => spec.plus = true,
            Some(b' ') => spec.space = true,
            Some(b'#') => spec.alternate = true,
            Some(b'0') => spec.zeros = true,
            _ => break,
        }
        at += 1;
    }
    let decimal = |mut at: usize| {
        let mut number = 0_usize;
        while let Some(digit @ b'0'..=b'9') = text.get(at) {
            number = number.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
            at += 1;
        }
        (number, at)
    };
    (spec.width, at) = decimal(at);
    if text.get(at) == Some(&b'.') {
        let (precision, end) = decimal(at + 1);
        (spec.precision, at) = (Some(precision), end);
    }
    if text.get(at) == Some(&b'l') {
        at += 1;
    }
    (spec, at)
}

/// Writes a formatted text.
pub(super) fn text(to: &mut Vec<u8>, args: std::fmt::Arguments<'_>) {
    to.write_fmt(args).expect("because memory takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_c() {
        let check = |format: &str, value: f64, expected: &str| {
            let mut found = Vec::new();
            print(format.as_bytes(), value, 100, &mut found);
            assert_eq!(String::from_utf8_lossy(&found), expected, "{format} {value}");
        };
        check("%0.6f", 0.5, "0.500000");
        check("%f", 1.0, "1.000000");
        check("%8.2f|", 0.125, "    0.12|");
        check("%-8.2f|", 0.135, "0.14    |");
        check("%08.2f", 0.5, "00000.50");
        check("%+.1e", 5.069e-8, "+5.1e-08");
        check("%.0e", 1.0, "1e+00");
        check("%g", 5.068_911_31e-8, "5.06891e-08");
        check("%g", 0.0, "0");
        check("%g", 1.0, "1");
        check("%g", 0.000_123_456_789, "0.000123457");
        check("%g", 0.000_099_999_99, "0.0001");
        check("%g", 0.000_012_345, "1.2345e-05");
        check("%.3g", 999.9, "1e+03");
        check("%.6g", 999_999.6, "1e+06");
        check("%#.3g", 1.0, "1.00");
        check("%.0f", 0.5, "0");
        check("%#.0f", 1.5, "2.");
        check("%G", 1e-9, "1E-09");
        check("100%% %.2f", 0.5, "100% 0.50");
        check("%d", 0.5, "%d");
        check("%", 0.5, "%");
    }

    #[test]
    fn long_numbers_are_cut() {
        let mut found = b"is ".to_vec();
        print(b"%.30f", 0.5, 19, &mut found);
        assert_eq!(found, b"is 0.50000000000000000");
    }
}
