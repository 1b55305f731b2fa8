//! The tables, compared with those of the C library by its own program.

use std::collections::BTreeMap;

use barid_testkit::peers::Iconv;

use super::{Bounds, Charset};

/// Charsets of several bytes by a name of the C library.
const SEVERAL: [&str; 10] =
    ["BIG5", "GB2312", "GBK", "GB18030", "EUC-KR", "UHC", "EUC-JP", "SJIS", "CP932", "ISO-2022-JP"];

/// All sequences that may be a character.
fn sequences(name: &str) -> Vec<Vec<u8>> {
    let bytes = |first: u8| first..=0xFF;
    let mut all: Vec<Vec<u8>> = bytes(0x21).map(|byte| vec![byte]).collect();
    if !SEVERAL.contains(&name) {
        return all;
    }
    all.extend(bytes(0x80).flat_map(|lead| bytes(0x21).map(move |trail| vec![lead, trail])));
    match name {
        "EUC-JP" => {
            let with_three = |lead| bytes(0xA1).map(move |trail| vec![0x8F, lead, trail]);
            all.extend(bytes(0xA1).flat_map(with_three));
        }
        "GB18030" => {
            for lead in 0x81..=0x84 {
                for number in 0..10 * 126 * 10_u32 {
                    let [second, third, last] = [number / 1260, number / 10 % 126, number % 10];
                    let [second, last] = [second, last].map(|digit| b'0' + digit as u8);
                    all.push(vec![lead, second, 0x81 + third as u8, last]);
                }
            }
        }
        "ISO-2022-JP" => {
            all.clear();
            let pairs = (0x21..0x7F).flat_map(|lead| (0x21..0x7F).map(move |trail| (lead, trail)));
            all.extend(
                pairs.map(|(lead, trail)| [&b"\x1B$B"[..], &[lead, trail], b"\x1B(B"].concat()),
            );
        }
        _ => {}
    }
    all
}

/// The only character of a text beyond ASCII.
fn only(text: &str) -> Option<char> {
    let mut characters = text.chars();
    characters.next().filter(|first| !first.is_ascii() && characters.next().is_none())
}

fn ours(name: &str, sequence: &[u8]) -> Option<char> {
    let mut to = Vec::new();
    let bounds = Bounds { room: 100, replacement: Some(0) };
    Charset::named(name.as_bytes())?.convert(sequence, &mut to, bounds);
    only(std::str::from_utf8(&to).ok()?)
}

/// The characters that the C library has; `None` without it.
fn theirs(iconv: Iconv, name: &str, sequences: &[Vec<u8>]) -> Option<BTreeMap<Vec<u8>, char>> {
    let mut input = Vec::new();
    for (number, sequence) in sequences.iter().enumerate() {
        input.extend_from_slice(format!("{number} ").as_bytes());
        input.extend_from_slice(sequence);
        input.push(b'\n');
    }
    let text = iconv.to_utf8(name, input).ok()?;
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let (number, rest) = line.split_once(' ')?;
        let sequence = &sequences[number.parse::<usize>().ok()?];
        found.extend(only(rest).map(|character| (sequence.clone(), character)));
    }
    Some(found)
}

fn number(sequence: &[u8]) -> u32 {
    sequence.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// The differences as [`super::multi_byte`] writes them.
fn as_runs(differences: &[(Vec<u8>, Option<char>)]) -> String {
    let mut runs: Vec<(u32, u32, u32)> = Vec::new();
    for (sequence, character) in differences {
        let (key, code) = (number(sequence), character.map_or(0, u32::from));
        match runs.last_mut() {
            Some((first, last, of))
                if *last + 1 == key
                    && ((*of == 0 && code == 0) || (*of > 0 && code == *of + (key - *first))) =>
            {
                *last = key;
            }
            _ => runs.push((key, key, code)),
        }
    }
    let texts = runs.iter().map(|(first, last, code)| match first == last {
        true => format!("{first:X}:{code:X}"),
        false => format!("{first:X}-{last:X}:{code:X}"),
    });
    texts.collect::<Vec<_>>().join(" ")
}

#[test]
fn tables_are_those_of_the_c_library() {
    let Some(iconv) = Iconv::new() else { return };
    let single = barid_charset::single_byte_names();
    let (mut compared, mut wrong) = (0, Vec::new());
    for name in SEVERAL.into_iter().chain(single) {
        let sequences = sequences(name);
        let theirs = theirs(iconv, name, &sequences).unwrap_or_else(|| panic!("iconv of {name}"));
        let differs = |sequence: Vec<u8>| {
            let found = theirs.get(&sequence).copied();
            // What is invalid is left out: its beginning or end may be a character of its own.
            let alone = |part: &[u8]| theirs.get(part).copied() == found;
            let is_part =
                (1..sequence.len()).any(|at| alone(&sequence[..at]) || alone(&sequence[at..]));
            let theirs = found.filter(|_| !is_part);
            (ours(name, &sequence) != theirs).then_some((sequence, theirs))
        };
        compared += sequences.len();
        let differences: Vec<_> = sequences.into_iter().filter_map(differs).collect();
        if !differences.is_empty() {
            wrong.push(format!("{name}, {}: {}", differences.len(), as_runs(&differences)));
        }
    }
    eprintln!("{compared} sequences compared");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 200_000);
}
