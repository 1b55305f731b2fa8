//! Values in normal form.

use super::super::generate::UIDVALIDITY;
use crate::wire::Arg;

/// Values of UIDVALIDITY that a script begins with.
const FIXED_UIDVALIDITIES: u32 = 100;

/// Returns values in one spelling: strings after a quote (`'x`), NIL as `NIL`, lists in
/// parentheses. Runs of white space in strings are one space, as servers unfold fields differently.
pub(super) fn serialised(args: &[Arg]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::new();
    // The last step is the next one.
    let mut steps: Vec<Step<'_>> = Vec::new();
    push_spaced(&mut steps, args);
    while let Some(step) = steps.pop() {
        match step {
            Step::Byte(byte) => out.push(byte),
            Step::Value(Arg::Nil(_)) => out.extend_from_slice(b"NIL"),
            Step::Value(Arg::Atom(text)) => out.extend_from_slice(text),
            Step::Value(Arg::String(text)) => {
                out.push(b'\'');
                out.extend_from_slice(&packed(text));
            }
            Step::Value(Arg::List(args)) => {
                out.push(b'(');
                steps.push(Step::Byte(b')'));
                push_spaced(&mut steps, args);
            }
        }
    }
    out
}

/// A part of a text that is being written.
enum Step<'a> {
    Value(&'a Arg),
    Byte(u8),
}

fn push_spaced<'a>(steps: &mut Vec<Step<'a>>, args: &'a [Arg]) {
    for (number, arg) in args.iter().enumerate().rev() {
        steps.push(Step::Value(arg));
        if number > 0 {
            steps.push(Step::Byte(b' '));
        }
    }
}

/// Returns a text in which runs of white space are one space.
fn packed(text: &[u8]) -> Vec<u8> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let words = text.split(is_space).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(&b' ')
}

/// Returns the words of a list, sorted; system flags and attributes in lower case.
pub(super) fn sorted_words(list: Option<&Arg>) -> Vec<u8> {
    let args = list.and_then(Arg::list).unwrap_or_default();
    let mut words: Vec<Vec<u8>> = args
        .iter()
        .filter_map(Arg::bytes)
        .map(|word| if word.starts_with(b"\\") { word.to_ascii_lowercase() } else { word.to_vec() })
        .collect();
    words.sort();
    words.join(&b' ')
}

/// Returns the numbers of SEARCH, sorted, and `MODSEQ` if the answer has one.
pub(super) fn numbers(args: &[Arg]) -> Vec<u8> {
    let mut sorted = args.to_vec();
    sorted.sort_by_key(|arg| arg.bytes().and_then(number));
    numbers_in_order(&sorted)
}

/// Returns numbers, and `MODSEQ` if one is in a list.
pub(super) fn numbers_in_order(args: &[Arg]) -> Vec<u8> {
    let numbers = args.iter().filter_map(|arg| number(arg.bytes()?));
    let mut words: Vec<String> = numbers.map(|number| number.to_string()).collect();
    if args.iter().any(|arg| matches!(arg, Arg::List(_))) {
        words.push("MODSEQ".to_owned());
    }
    words.join(" ").into_bytes()
}

pub(super) fn number(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Returns the numbers of a set, in the order of the set; `None` if it is not one, or is too long.
pub(super) fn expanded(set: &[u8]) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in std::str::from_utf8(set).ok()?.split(',') {
        let (first, last) = part.split_once(':').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first.abs_diff(last) > 100_000 {
            return None;
        }
        if first <= last {
            numbers.extend(first..=last);
        } else {
            numbers.extend((last..=first).rev());
        }
    }
    Some(numbers)
}

/// Returns a set as ascending ranges; anything else as it is.
pub(super) fn number_set(set: &[u8]) -> Vec<u8> {
    let Some(mut numbers) = expanded(set) else { return set.to_vec() };
    numbers.sort_unstable();
    numbers.dedup();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let ranges = ranges.into_iter().map(|(first, last)| {
        if first == last { first.to_string() } else { format!("{first}:{last}") }
    });
    ranges.collect::<Vec<_>>().join(",").into_bytes()
}

/// Returns a UIDVALIDITY that a script began with; `V` for one that the server has chosen.
pub(super) fn uidvalidity(value: &[u8]) -> Vec<u8> {
    let fixed = u64::from(UIDVALIDITY)..u64::from(UIDVALIDITY + FIXED_UIDVALIDITIES);
    match number(value) {
        Some(number) if !fixed.contains(&number) => b"V".to_vec(),
        _ => value.to_vec(),
    }
}

/// Returns the seconds since 1970 of ` 7-Feb-2024 17:06:23 +0200`; other text as it is.
pub(super) fn date(value: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(value);
    unix_seconds(text.trim()).map_or_else(|| value.to_vec(), |s| s.to_string().into_bytes())
}

fn unix_seconds(text: &str) -> Option<i64> {
    const MONTHS: &str = "janfebmaraprmayjunjulaugsepoctnovdec";
    let (date, rest) = text.split_once(' ')?;
    let (time, zone) = rest.split_once(' ')?;
    let parts: Vec<&str> = date.split('-').chain(time.split(':')).collect();
    let [day, month, year, hour, minute, second] = parts.as_slice() else { return None };
    let month = MONTHS.find(&month.to_ascii_lowercase()).filter(|at| at % 3 == 0)? / 3 + 1;
    let (mut year, month): (i64, i64) = (year.parse().ok()?, i64::try_from(month).ok()?);
    let day: i64 = day.parse().ok()?;
    // Days since 1970-01-01 of the Gregorian calendar, with years that start in March.
    let shifted = (month + 9) % 12;
    year -= i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    let days =
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let clock = hour.parse::<i64>().ok()? * 3600 + minute.parse::<i64>().ok()? * 60;
    let clock = clock + second.parse::<i64>().ok()?;
    let zone: i64 = zone.parse().ok()?;
    let zone_minutes = zone / 100 * 60 + zone % 100;
    Some((days - 719_468) * 86_400 + clock - zone_minutes * 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::parse_args;

    #[test]
    fn dates_are_instants() {
        let check = |text: &str, expected: &str| {
            assert_eq!(String::from_utf8(date(text.as_bytes())).unwrap(), expected);
        };
        check(" 1-Jan-1970 00:00:00 +0000", "0");
        check("22-Feb-2008 17:06:23 +0200", "1203692783");
        check("29-Feb-2024 23:59:59 -0530", "1709270999");
        check("gibberish", "gibberish");
    }

    #[test]
    fn sets_are_sorted() {
        let check = |set: &str, expected: &str| {
            assert_eq!(String::from_utf8(number_set(set.as_bytes())).unwrap(), expected);
        };
        check("5,1:3,4", "1:5");
        check("9:7,1", "1,7:9");
        check("1:*", "1:*");
        assert_eq!(expanded(b"3:1,9"), Some(vec![3, 2, 1, 9]));
    }

    #[test]
    fn values_have_one_spelling() {
        let check = |line: &str, expected: &str| {
            let args = parse_args(line.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(serialised(&args)).unwrap(), expected);
        };
        check("A (nil \"x  y\" {3}\r\nx\ty)(B)", "A (NIL 'x y 'x y) (B)");
        check("()", "()");
    }

    #[test]
    fn only_fixed_uidvalidities_count() {
        assert_eq!(uidvalidity(b"1000002"), b"1000002");
        assert_eq!(uidvalidity(b"1700000000"), b"V");
    }
}
