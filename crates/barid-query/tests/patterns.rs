//! Patterns against a naive search of the same texts, which this test decodes by construction: it
//! makes a message of texts and knows them.

use barid_query::search::{
    Day, Facts, Matcher, MatcherContext, MessageView, Scratch, SearchKey, SearchNode,
    SearchProgram, ShortOptions, TextPlace, parse_short_with,
};
use barid_types::{FlagSet, InternalDate, KeywordMask, KeywordTable, ModSeq, Uid};
use fastrand::Rng;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::{canonical_combining_class, is_combining_mark};

const MESSAGES: usize = 3_000;
const QUERIES_PER_MESSAGE: usize = 12;
const SEED: u64 = 17;

/// Words of which texts and queries are made.
const WORDS: [&str; 12] = [
    "plan",
    "plans",
    "replan",
    "Budget",
    "budg",
    "caf\u{e9}",
    "CAFE\u{301}s",
    "\u{e9}cole",
    "a",
    "\u{65e5}\u{672c}",
    "sm\u{f8}r",
    "x1_y",
];
const GAPS: [&str; 5] = [" ", ", ", "-", "\n", ". "];

/// The texts of a message.
struct Texts {
    subject: String,
    bodies: Vec<String>,
    name: Option<String>,
}

fn text(random: &mut Rng, gaps: &[&str]) -> String {
    let mut text = String::new();
    for at in 0..random.usize(..7) {
        if at > 0 {
            text.push_str(gaps[random.usize(..gaps.len())]);
        }
        text.push_str(WORDS[random.usize(..WORDS.len())]);
    }
    text
}

/// Returns a text in quoted-printable.
fn quoted(text: &str) -> String {
    let quote = |byte: u8| match byte {
        b'\n' => "\n".to_owned(),
        b' ' | b'!'..=b'<' | b'>'..=b'~' => char::from(byte).to_string(),
        _ => format!("={byte:02X}"),
    };
    text.bytes().map(quote).collect()
}

/// Returns a subject in encoded words of whole characters, or as it is.
fn encoded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let word: String = text.bytes().map(|byte| format!("={byte:02X}")).collect();
    format!("=?utf-8?q?{word}?=")
}

fn message(random: &mut Rng) -> (Vec<u8>, Texts) {
    let subject = text(random, &[" ", ", ", "-"]);
    let header = format!("From: a@b\nSubject: {}\nMIME-Version: 1.0\n", encoded(&subject));
    let part = |random: &mut Rng| {
        let body = text(random, &GAPS);
        if random.bool() {
            let encoding = "Content-Transfer-Encoding: quoted-printable\n";
            let kind = "Content-Type: text/plain; charset=utf-8\n";
            (format!("{kind}{encoding}\n{}", quoted(&body)), body)
        } else {
            (format!("Content-Type: text/html; charset=utf-8\n\n{body}"), body)
        }
    };
    if random.bool() {
        let (raw, body) = part(random);
        let texts = Texts { subject, bodies: vec![body], name: None };
        return (format!("{header}{raw}").into_bytes(), texts);
    }
    let (mut raw, mut bodies) =
        (format!("{header}Content-Type: multipart/mixed; boundary=-b-\n\n"), Vec::new());
    for _ in 0..random.usize(1..3) {
        let (part, body) = part(random);
        raw.push_str(&format!("---b-\n{part}\n"));
        bodies.push(body);
    }
    let name = ["plan.pdf", "Budget 1.docx", "a-plans"][random.usize(..3)].to_owned();
    let file = "Content-Type: application/pdf\nContent-Disposition: attachment; filename";
    raw.push_str(&format!("---b-\n{file}=\"{name}\"\n\nplan budget\n---b---\n"));
    (raw.into_bytes(), Texts { subject, bodies, name: Some(name) })
}

/// Returns the characters of a text in one case, and without accents if asked for.
fn folded(text: &str, folds_accents: bool) -> Vec<char> {
    let upper: String = text.chars().map(|c| c.to_uppercase().next().unwrap()).collect();
    let is_left = |c: &char| !folds_accents || matches!(canonical_combining_class(*c), 0 | 7..=9);
    upper.nfkd().filter(is_left).collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || is_combining_mark(c)
}

fn is_han(c: char) -> bool {
    ('\u{4e00}'..='\u{9fff}').contains(&c)
}

/// Splits into words, character by character.
fn words(text: &[char]) -> Vec<Vec<char>> {
    let mut words: Vec<Vec<char>> = vec![Vec::new()];
    for c in text {
        let is_new = is_han(*c) || words.last().unwrap().last().is_some_and(|last| is_han(*last));
        if !is_word(*c) || is_new {
            words.push(Vec::new());
        }
        if is_word(*c) {
            words.last_mut().unwrap().push(*c);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn starts_a_word(text: &[char], prefix: &[char]) -> bool {
    (0..text.len()).any(|at| {
        let before = at.checked_sub(1).map(|at| text[at]);
        let is_start =
            before.is_none_or(|before| !is_word(before) || is_han(before)) || is_han(text[at]);
        is_start && text[at..].starts_with(prefix)
    })
}

/// Tries every choice of a place for each word.
fn are_near(text: &[char], wanted: &[(Vec<char>, bool)], distance: usize) -> bool {
    let words = words(text);
    let run = wanted.len() + distance;
    (0..words.len()).any(|start| {
        let near = &words[start..words.len().min(start + run)];
        wanted.iter().all(|(wanted, is_prefix)| {
            near.iter()
                .any(|word| if *is_prefix { word.starts_with(wanted) } else { word == wanted })
        })
    })
}

/// An element of a simple regular expression: a character or any, and whether it repeats.
#[derive(Clone, Copy)]
struct Element(Option<char>, bool);

/// Matches by backtracking. Characters are compared in the one case of the words.
fn matches_at(text: &[char], regex: &[Element]) -> bool {
    let Some((Element(wanted, repeats), rest)) = regex.split_first() else { return true };
    let is_first = text.first().is_some_and(|c| match wanted {
        Some(wanted) => c == wanted,
        None => *c != '\n',
    });
    match repeats {
        true => matches_at(text, rest) || is_first && matches_at(&text[1..], regex),
        false => is_first && matches_at(&text[1..], rest),
    }
}

/// Returns the characters that regular expressions see, in one case.
fn composed(text: &str, folds_accents: bool) -> Vec<char> {
    let is_left = |c: &char| !folds_accents || matches!(canonical_combining_class(*c), 0 | 7..=9);
    let text: String = text.nfd().filter(is_left).nfc().collect();
    text.chars().map(|c| c.to_lowercase().next().unwrap()).collect()
}

/// A query, and the naive search for it in one text.
type Query = (String, Box<dyn Fn(&str) -> bool>);

fn query(random: &mut Rng, folds: bool) -> Query {
    let word = |random: &mut Rng| WORDS[random.usize(..WORDS.len())];
    match random.u8(..3) {
        0 => {
            let word = word(random);
            let len = random.usize(1..=word.chars().count());
            let prefix: String = word.chars().take(len).collect();
            let wanted = folded(&prefix, folds);
            (
                format!("{prefix}*"),
                Box::new(move |text| starts_a_word(&folded(text, folds), &wanted)),
            )
        }
        1 => {
            let mut wanted: Vec<(Vec<char>, bool)> = Vec::new();
            let mut text = String::new();
            for _ in 0..random.usize(1..4) {
                let (word, is_prefix) = (word(random), random.bool());
                let parts = words(&folded(word, folds));
                for (at, part) in parts.iter().enumerate() {
                    let part = (part.clone(), is_prefix && at + 1 == parts.len());
                    if !wanted.contains(&part) {
                        wanted.push(part);
                    }
                }
                text.push_str(&format!("{word}{} ", if is_prefix { "*" } else { "" }));
            }
            let distance = random.usize(..5);
            let near = move |text: &str| are_near(&folded(text, folds), &wanted, distance);
            (format!("\"{}\"~{distance}", text.trim_end()), Box::new(near))
        }
        _ => {
            let (mut regex, mut text) = (Vec::new(), String::new());
            for c in word(random).nfc() {
                if folds && c.nfd().count() > 1 {
                    continue;
                }
                let c = (random.u8(..4) > 0).then_some(c);
                let repeats = random.u8(..4) == 0;
                let lower = c.map(|c| c.to_lowercase().next().unwrap());
                regex.push(Element(lower, repeats));
                text.push(c.unwrap_or('.'));
                text.push_str(if repeats { "*" } else { "" });
            }
            let matches = move |text: &str| {
                let text = composed(text, folds);
                (0..=text.len()).any(|at| matches_at(&text[at..], &regex))
            };
            if text.is_empty() {
                query(random, folds)
            } else {
                (format!("/{text}/"), Box::new(matches))
            }
        }
    }
}

fn facts() -> Facts {
    Facts {
        seq: 1,
        uid: Uid::new(1).unwrap(),
        flags: FlagSet::default(),
        keywords: KeywordMask::default(),
        modseq: ModSeq::default(),
        internal_date: InternalDate::default(),
        sent_date: None,
        size_least: 0,
        size_most: u64::MAX,
    }
}

/// Checks that a text with the pattern contains the texts that the pattern requires.
fn check_required(program: &SearchProgram, texts: &Texts) {
    let [SearchNode::Key(SearchKey::Pattern(place, pattern))] = program.nodes() else {
        panic!("{program}")
    };
    let required = pattern.required_texts();
    let has_all = |text: &String| {
        let folded = barid_message::casemap(text);
        required.iter().all(|required| folded.contains(required))
    };
    let is_in = match place {
        TextPlace::Subject => has_all(&texts.subject),
        TextPlace::FileName => texts.name.as_ref().is_some_and(has_all),
        _ => texts.bodies.iter().any(has_all),
    };
    assert!(is_in, "{program} {required:?}");
}

#[test]
fn patterns_find_what_a_naive_search_finds() {
    let mut random = Rng::with_seed(SEED);
    let (mut compared, mut found) = (0, 0);
    let keywords = KeywordTable::default();
    let context =
        MatcherContext { now: 0, exists: 1, greatest_uid: 1, keywords: &keywords, saved: &[] };
    for _ in 0..MESSAGES {
        let (raw, texts) = message(&mut random);
        let crlf = String::from_utf8(raw.clone()).unwrap().replace('\n', "\r\n").into_bytes();
        for _ in 0..QUERIES_PER_MESSAGE {
            let folds = random.bool();
            let (query, is_in) = query(&mut random, folds);
            let in_bodies = || texts.bodies.iter().any(|body| is_in(body));
            let (key, expected) = match random.u8(..3) {
                0 => ("subject", is_in(&texts.subject)),
                1 => ("body", in_bodies()),
                _ => ("filename", texts.name.as_ref().is_some_and(|name| is_in(name))),
            };
            let text = format!("{key}:{query}");
            let options = ShortOptions { today: Day(0), fold_accents: folds };
            let program =
                parse_short_with(&text, options).unwrap_or_else(|e| panic!("{text}: {e}"));
            if expected {
                check_required(&program, &texts);
            }
            let matcher = Matcher::new(&program, &context);
            for raw in [&raw, &crlf] {
                let view = &mut MessageView::new(facts(), raw);
                let answer = matcher.matches(view, &mut Scratch::default());
                let shown = String::from_utf8_lossy(raw);
                assert_eq!(answer, Some(expected), "{text} folds {folds}\n{shown}");
                compared += 1;
            }
            found += usize::from(expected);
        }
    }
    eprintln!("compared {compared}, found {found}");
    assert!(compared >= 70_000 && found >= 5_000, "{compared} {found}");
}
