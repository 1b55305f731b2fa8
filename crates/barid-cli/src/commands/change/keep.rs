//! The limit on kept expunges: a size, or `no`.

use std::fmt;
use std::str::FromStr;

/// Limit in bytes; `None` to keep nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keep(pub(super) Option<u64>);

/// Units of a size; decimal, as in the program's output.
const UNITS: [(&str, u64); 4] = [("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000), ("", 1)];

impl Keep {
    /// Returns a round size that is at least `bytes`.
    pub(super) fn at_least(bytes: u64) -> Self {
        let unit = if bytes > 1_000_000 { 1_000_000 } else { 1_000 };
        Self(Some(bytes.div_ceil(unit).saturating_mul(unit)))
    }
}

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let upper = text.trim().to_ascii_uppercase();
        if upper == "NO" {
            return Ok(Self(None));
        }
        let end = upper.find(|c: char| !c.is_ascii_digit()).unwrap_or(upper.len());
        let (digits, unit) = upper.split_at(end);
        let unit = unit.trim_start();
        let unit = unit.strip_suffix('B').unwrap_or(unit);
        let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
        let bytes = digits.parse::<u64>().ok().zip(factor);
        let bytes = bytes.and_then(|(value, factor)| value.checked_mul(factor));
        bytes.map(|bytes| Self(Some(bytes))).ok_or_else(|| {
            "a size is a number, optionally followed by K, M or G, as in 64M; `no` keeps nothing"
                .to_owned()
        })
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(bytes) = self.0 else { return f.write_str("no") };
        let fits = |(_, factor): &&(&str, u64)| bytes >= *factor && bytes.is_multiple_of(*factor);
        let (unit, factor) =
            UNITS.iter().rev().filter(|unit| !unit.0.is_empty()).find(fits).unwrap_or(&("", 1));
        write!(f, "{}{unit}", bytes / factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<Option<u64>>) {
        assert_eq!(text.parse::<Keep>().ok().map(|keep| keep.0), expected, "{text}");
    }

    #[test]
    fn sizes_have_units() {
        check("64M", Some(Some(64_000_000)));
        check("64 mb", Some(Some(64_000_000)));
        check("17", Some(Some(17)));
        check("3kb", Some(Some(3_000)));
        check("2G", Some(Some(2_000_000_000)));
        check("0", Some(Some(0)));
        check("no", Some(None));
        for wrong in ["", "M", "-1", "1T", "1.5M", "yes", "99999999999G", "1 2"] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_size_is_shown_as_it_can_be_given() {
        for text in ["64M", "17", "3K", "2G", "1500K", "0", "no"] {
            assert_eq!(text.parse::<Keep>().unwrap().to_string(), text);
        }
        let enough = [(1, "1K"), (64_000_001, "65M"), (2_000_000_000, "2G")];
        for (bytes, text) in enough {
            assert_eq!(Keep::at_least(bytes).to_string(), text);
        }
    }
}
