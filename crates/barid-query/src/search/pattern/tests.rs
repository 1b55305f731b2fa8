use std::borrow::Cow;

use super::*;

/// Checks which of the texts contain a pattern.
fn check(source: PatternSource, folds_accents: bool, found: &[&str], not_found: &[&str]) {
    let pattern = TextPattern::new(source, folds_accents).unwrap();
    let finder = PatternFinder::new(&pattern);
    for (texts, expected) in [(found, true), (not_found, false)] {
        for text in texts {
            let is_in = finder.is_in(&PatternText::new(Cow::Borrowed(text)));
            assert_eq!(is_in, expected, "{pattern:?} in {text:?}");
        }
    }
}

#[test]
fn regular_expressions() {
    let check = |regex: &str, found: &[&str], not_found: &[&str]| {
        check(PatternSource::Regex(regex.to_owned()), false, found, not_found);
    };
    check(
        "bud.et",
        &["the BUDGET", "bud\u{e9}et", "bude\u{301}et"],
        &["bud\net", "budget".get(1..).unwrap()],
    );
    check("^a$", &["a", "b\nA\nc", "b\r\na\r\nc"], &["ab", "b a"]);
    check("(?-i)A", &["A"], &["a"]);
    check("\\bsm\u{f8}r\\b", &["SM\u{d8}R!", "a sm\u{f8}r"], &["smor", "sm\u{f8}rbr\u{f8}d"]);
    check("caf[\u{e9}e]$", &["cafe\u{301}", "CAF\u{c9}", "cafe"], &["cafes"]);
}

#[test]
fn beginnings_of_words() {
    let check = |prefix: &str, found: &[&str], not_found: &[&str]| {
        check(PatternSource::Prefix(prefix.to_owned()), false, found, not_found);
    };
    check("budg", &["Budget", "a (budgets)", "x-budg"], &["abudget", "1budget", "_budget", "bud"]);
    check("cafe", &["Caf\u{e9}s", "cafe"], &["d\u{e9}cafe", "e\u{301}cafe"]);
    check("a-a", &["ba-a-a", "A-a"], &["ba-a"]);
    check("release pl", &["the release plan"], &["prerelease plan"]);
    check("@ex", &["ann@example"], &["ann@other"]);
    check("\u{65e5}\u{672c}", &["\u{5168}\u{65e5}\u{672c}\u{8a9e}"], &["\u{65e5}\u{5168}\u{672c}"]);
}

#[test]
fn words_near_each_other() {
    let check = |words: &str, distance, found: &[&str], not_found: &[&str]| {
        check(PatternSource::Near(words.to_owned(), distance), false, found, not_found);
    };
    check("a b", 0, &["a b", "b, A", "x a-b"], &["a x b", "a", "ab b"]);
    check("a b", 2, &["a x y b", "a x x b x x a b"], &["a x y z b", "a1 b"]);
    check("a b c", 1, &["c x a b", "a b x c"], &["a x b x c"]);
    check(
        "budg* plan",
        1,
        &["Plans: plan the budgets", "plan budget"],
        &["plan abudget", "budget plans"],
    );
    check("don't panic", 0, &["Don't panic"], &["don panic"]);
    check("a a", 0, &["a"], &["b"]);
    check("\u{65e5}\u{672c} x", 0, &["x\u{672c}\u{65e5}"], &["x y\u{672c}\u{65e5}"]);
}

#[test]
fn accents() {
    let text = |text: &str| PatternSource::Text(text.to_owned());
    check(text("Salaun"), false, &["SALAUN"], &["Sala\u{fc}n"]);
    check(text("Salaun"), true, &["SALAUN", "Sala\u{fc}n", "Salau\u{308}n"], &["Salan"]);
    check(text("Sala\u{fc}n"), true, &["Salaun", "Sala\u{fc}n"], &["Salan"]);
    check(PatternSource::Prefix("Eco".to_owned()), true, &["une \u{e9}cole"], &["d\u{e9}cor"]);
    check(
        PatternSource::Near("ecole ou".to_owned(), 1),
        true,
        &["o\u{f9} est \u{c9}cole"],
        &["ou"],
    );
    check(
        PatternSource::Regex("^.cole$".to_owned()),
        true,
        &["\u{e9}cole", "e\u{301}cole"],
        &["cole"],
    );
    // Letters without a decomposition stay, and marks that make another letter.
    check(text("o"), true, &["\u{f6}"], &["\u{f8}"]);
    check(text("\u{304b}"), true, &["\u{304b}"], &["\u{304b}".get(..0).unwrap()]);
    check(text("\u{304b}x"), true, &[], &["\u{304c}x"]);
}

#[test]
fn patterns_that_are_everywhere() {
    let check = |source, expected| {
        assert_eq!(TextPattern::new(source, false).unwrap().is_everywhere(), expected);
    };
    for (regex, expected) in [("x*", true), (".*", true), ("^$", false), ("a", false), ("", true)] {
        check(PatternSource::Regex(regex.to_owned()), expected);
    }
    check(PatternSource::Text(" ".to_owned()), true);
    check(PatternSource::Near("a b".to_owned(), 5), false);
}

#[test]
fn limits() {
    let check = |source, expected: &str| {
        let error = TextPattern::new(source, false).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(PatternSource::Regex("a".repeat(REGEX_LEN_MAX + 1)), "too many bytes in a regular");
    check(PatternSource::Regex("(".repeat(REGEX_LEVELS_MAX as usize + 1)), "not a valid regular");
    check(PatternSource::Prefix("a".repeat(PREFIX_LEN_MAX + 1)), "too many bytes before");
    check(
        PatternSource::Near("a b".to_owned(), NEAR_DISTANCE_MAX + 1),
        "too many words in between",
    );
    let words: Vec<String> = (0..=NEAR_WORDS_MAX).map(|number| number.to_string()).collect();
    check(PatternSource::Near(words.join(" "), 5), "too many words near");
}

#[test]
fn texts_that_a_pattern_requires() {
    let check = |source: PatternSource, expected: &[&str]| {
        let pattern = TextPattern::new(source.clone(), false).unwrap();
        assert_eq!(pattern.required_texts(), expected, "{source:?}");
        let folded = TextPattern::new(source, true).unwrap();
        assert!(folded.required_texts().is_empty());
    };
    check(PatternSource::Text("Caf\u{e9}".to_owned()), &["CAFE\u{301}"]);
    check(PatternSource::Prefix("budg".to_owned()), &["BUDG"]);
    check(PatternSource::Near("annual rep*".to_owned(), 5), &["ANNUAL", "REP"]);
    for (regex, expected) in [
        ("budget", &["BUDGET"][..]),
        ("^re: bud.ets?$", &["RE: BUD"]),
        ("(annual) report", &["ANNUAL REPORT"]),
        ("ab+c", &["A"]),
        ("(abc){2}x", &["ABC"]),
        ("a|b", &[]),
        ("x(a|b)yz", &["YZ"]),
        ("caf\u{e9}s and", &["S AND"]),
        ("a\\nbc", &["BC"]),
        ("ab\\bcd", &["ABCD"]),
        ("(?i)bud", &[]),
        ("(?x) a b c", &["ABC"]),
        (".*", &[]),
    ] {
        check(PatternSource::Regex(regex.to_owned()), expected);
    }
    // The only letters beyond ASCII that are equal to one of it in any case.
    for (regex, text) in [("^kel$", "\u{212a}el"), ("^sal$", "\u{17f}al")] {
        let pattern = TextPattern::new(PatternSource::Regex(regex.to_owned()), false).unwrap();
        assert!(PatternFinder::new(&pattern).is_in(&PatternText::new(text.into())), "{text}");
        assert_eq!(pattern.required_texts(), [barid_message::casemap(text)]);
    }
}
