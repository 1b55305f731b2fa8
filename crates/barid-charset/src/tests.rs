//! Known answers, and comparisons with the C library's tables if its `iconv` is installed.

use barid_testkit::peers::Iconv;

use super::{Charset, encoding_named};

fn check(name: &str, bytes: &[u8], expected: &str) {
    let charset = Charset::named(name.as_bytes()).unwrap_or_else(|| panic!("{name}"));
    assert_eq!(charset.decode(bytes), expected, "{name}");
}

#[test]
fn texts() {
    check("cp437", b"caf\x82 \xB0\xE3", "caf\u{e9} \u{2591}\u{3c0}");
    check("IBM852", b"\x9F", "\u{10d}");
    check("johab", b"\x88\x61\xD0\x65 \x5C\xD9\x31", "\u{ac00}\u{d55c} \u{20a9}\u{3000}");
    check("johab", b"\x88\xff\xE0", "\u{fffd}\u{fffd}\u{fffd}");
    check("iso-2022-kr", b"\x1b$)C\x0e0!\x0fA\n\x0e0!\nB", "\u{ac00}A\n\u{ac00}\nB");
    check("iso-2022-kr", b"\x0e\x30", "\u{fffd}");
    check(
        "iso-2022-jp-2",
        b"\x1b$B$\"\x1b(B \x1b$ADc\x1b$(C0!\x1b.A\x1bNi\n\x1b.F\x1bNa\x1b(J\\",
        "\u{3042} \u{4f60}\u{ac00}\u{e9}\n\u{3b1}\u{a5}",
    );
    check("iso-2022-jp-2", b"\x1b$B$", "\u{fffd}");
    check("utf-32", b"\0\0\xFE\xFF\0\0\0a\0\x11", "a\u{fffd}");
    check("utf-32le", b"a\0\0\0", "a");
    assert!(Charset::named(b"utf-8").is_none() && Charset::named(&[b'x'; 1000]).is_none());
    assert_eq!(encoding_named(b"Cp949").map(|found| found.name()), Some("EUC-KR"));
    assert_eq!(encoding_named(b" cp932 ").map(|found| found.name()), Some("Shift_JIS"));
}

#[test]
fn hostile_texts_take_linear_time() {
    for name in ["johab", "iso-2022-kr", "iso-2022-jp-2", "cp437", "utf-32"] {
        let charset = Charset::named(name.as_bytes()).unwrap();
        for unit in ["\x1b", "\x1b$", "\x1b$(C", "\x0e", "\x0e!", "!", "\n", "\x1bN", "\x1b.F"] {
            let text = unit.repeat(100_000);
            assert!(charset.decode(text.as_bytes()).len() <= 3 * text.len());
        }
    }
}

/// Returns texts of one character each.
fn sequences(name: &str) -> Vec<Vec<u8>> {
    let pairs = |first: std::ops::RangeInclusive<u8>, second: std::ops::RangeInclusive<u8>| {
        first.flat_map(move |first| second.clone().map(move |second| [first, second]))
    };
    let between = |before: &[u8], pair: [u8; 2], after: &[u8]| [before, &pair, after].concat();
    let all = pairs(0x21..=0x7E, 0x21..=0x7E);
    match name {
        "JOHAB" => pairs(0x80..=0xFF, 0x31..=0xFF).map(|pair| pair.to_vec()).collect(),
        "ISO-2022-KR" => all.map(|pair| between(b"\x0e", pair, b"\x0f")).collect(),
        "ISO-2022-JP-2" => all
            .flat_map(|pair| {
                ["\x1b$A", "\x1b$(C", "\x1b$(D"]
                    .map(|escape| between(escape.as_bytes(), pair, b"\x1b(B"))
            })
            .collect(),
        _ => (0x80..=0xFF).map(|byte| vec![byte]).collect(),
    }
}

/// Returns the lines that `iconv` produces for the texts, in their order.
fn converted(iconv: Iconv, name: &str, texts: &[Vec<u8>]) -> Option<Vec<String>> {
    let mut input = if name == "ISO-2022-KR" { b"\x1b$)C".to_vec() } else { Vec::new() };
    for (number, text) in texts.iter().enumerate() {
        input.extend_from_slice(format!("{number} ").as_bytes());
        input.extend_from_slice(text);
        input.push(b'\n');
    }
    let converted = iconv.to_utf8(name, input).ok()?;
    let mut found = vec![String::new(); texts.len()];
    for line in converted.lines() {
        let (number, text) = line.split_once(' ')?;
        found[number.parse::<usize>().ok()?] = text.to_owned();
    }
    Some(found)
}

/// Returns `true` for intended differences: the C library follows JIS for the first two characters,
/// barid follows the WHATWG, whose mapping all Japanese mail is read with.
fn is_meant(name: &str, ours: &str, theirs: &str) -> bool {
    let middle_or_dash = ["\u{30fb}", "\u{2015}"].contains(&theirs);
    name == "ISO-2022-JP-2" && (middle_or_dash || ours.chars().all(|c| c == '\u{ff5e}'))
}

#[test]
fn characters_are_those_of_the_c_library() {
    let Some(iconv) = Iconv::new() else { return };
    let only = |text: &str| {
        let mut characters = text.chars().filter(|c| *c != char::REPLACEMENT_CHARACTER);
        let first = characters.next().filter(|first| !first.is_ascii());
        first.filter(|_| characters.next().is_none()).map(String::from)
    };
    let (mut compared, mut wrong) = (0, Vec::new());
    let several = ["JOHAB", "ISO-2022-KR", "ISO-2022-JP-2"];
    for name in several.into_iter().chain(super::single_byte_names()) {
        let texts = sequences(name);
        let theirs = converted(iconv, name, &texts).unwrap_or_else(|| panic!("iconv of {name}"));
        let charset = Charset::named(name.as_bytes()).unwrap();
        for (text, theirs) in texts.iter().zip(theirs) {
            let (ours, theirs) = (only(&charset.decode(text)), only(&theirs));
            let empty = String::new();
            let shown = |text: &Option<String>| text.clone().unwrap_or_default();
            if theirs.is_some() && ours != theirs {
                let meant = is_meant(name, ours.as_ref().unwrap_or(&empty), &shown(&theirs));
                if !meant {
                    wrong.push(format!("{name} {text:x?}: {} {}", shown(&ours), shown(&theirs)));
                }
            }
            compared += 1;
        }
    }
    eprintln!("{compared} texts compared");
    assert!(wrong.is_empty(), "{}", wrong[..wrong.len().min(40)].join("\n"));
    assert!(compared > 50_000);
}
