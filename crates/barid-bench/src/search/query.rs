//! The queries, drawn from the texts of the mail by a fixed seed.

use std::fmt;

use barid_testkit::corpus::Random;
use serde::{Serialize, Serializer};

use super::decode::Texts;
use super::material::DELIVERED;
use crate::limits::QUERY_DRAWS_MAX;

/// A place in which a query looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Field {
    /// In the body.
    Body,
    /// In the subject.
    Subject,
    /// Anywhere: in the header and in the body.
    Text,
}

impl Field {
    /// All fields, in the order of the tables.
    pub const ALL: [Self; 3] = [Self::Body, Self::Subject, Self::Text];

    /// The name in files; also the key of IMAP's SEARCH, in capitals.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Subject => "subject",
            Self::Text => "text",
        }
    }
}

/// A class of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A whole word of 4 to 16 letters.
    Word,
    /// 4 to 7 letters inside a longer word.
    Fragment,
    /// Three letters of a word.
    ThreeLetters,
    /// Two words with a blank between them.
    Phrase,
    /// An address.
    Address,
    /// Letters or digits with something else between them, as in `a->b`.
    Punctuation,
    /// A word with letters beyond ASCII.
    NonAscii,
    /// A word that no message has.
    Absent,
}

impl Class {
    /// All classes, in the order of the tables.
    pub const ALL: [Self; 8] = [
        Self::Word,
        Self::Fragment,
        Self::ThreeLetters,
        Self::Phrase,
        Self::Address,
        Self::Punctuation,
        Self::NonAscii,
        Self::Absent,
    ];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Word => "word",
            Self::Fragment => "fragment",
            Self::ThreeLetters => "three letters",
            Self::Phrase => "phrase",
            Self::Address => "address",
            Self::Punctuation => "punctuation",
            Self::NonAscii => "non-ASCII",
            Self::Absent => "absent",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl Serialize for Class {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A query: which messages have `needle` in `field`?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The place in which it looks.
    pub field: Field,
    /// Its class.
    pub class: Class,
    /// The text to be found; has no quotation marks, backslashes and control characters.
    pub needle: String,
    /// `true` if it is timed with every side, and put to Dovecot without an index; others are timed
    /// with barid alone.
    pub is_for_all: bool,
}

impl Query {
    /// Returns the query for what is delivered, and for nothing else.
    pub(crate) fn delivered() -> Self {
        let needle = DELIVERED.to_owned();
        Self { field: Field::Body, class: Class::Word, needle, is_for_all: true }
    }
}

/// Draws about `count` queries, as many of each class in each field; of these, `for_all` are for
/// all sides. `texts` returns the texts of a message, if the bench can tell what they are.
///
/// # Errors
///
/// Returns an error if `texts` does.
pub(crate) fn draw<Error>(
    count: usize,
    for_all: usize,
    messages: u64,
    texts: &mut dyn FnMut(u64) -> Result<Option<Texts>, Error>,
) -> Result<Vec<Query>, Error> {
    let kinds = Field::ALL.len() * Class::ALL.len();
    let mut queries: Vec<Query> = Vec::new();
    let mut number = 0;
    for field in Field::ALL {
        for class in Class::ALL {
            let (wanted, first) = (count.saturating_sub(number).div_ceil(kinds), queries.len());
            number += 1;
            let mut random = Random::new(SEED, number as u64, PURPOSE);
            for _ in 0..QUERY_DRAWS_MAX {
                if queries.len() - first >= wanted {
                    break;
                }
                let needle = match class {
                    Class::Absent => Some(absent(&mut random)),
                    _ => texts(random.below(messages))?.and_then(|texts| {
                        pick(class, &text_of(&texts, field, &mut random), &mut random)
                    }),
                };
                let Some(needle) = needle else { continue };
                let is_for_all = queries.len() - first < for_all;
                let query = Query { field, class, needle, is_for_all };
                let is_new = |known: &Query| known.needle != query.needle;
                if queries[first..].iter().all(is_new) {
                    queries.push(query);
                }
            }
        }
    }
    Ok(queries)
}

const SEED: u64 = 17;
const PURPOSE: u64 = 0x5EA7C4;

/// Returns the text of a field; of the whole message one of its fields or its body.
fn text_of(texts: &Texts, field: Field, random: &mut Random) -> String {
    match field {
        Field::Body => texts.body.clone(),
        Field::Subject => texts.subject.clone(),
        Field::Text if random.below(2) == 0 => texts.body.clone(),
        Field::Text => {
            let line = random.below(texts.header.len() as u64);
            let line = usize::try_from(line).ok().and_then(|at| texts.header.get(at));
            let value = line.and_then(|line| line.split_once(':'));
            value.map_or_else(String::new, |(_, value)| value.trim().to_owned())
        }
    }
}

/// Returns a query of a class that a text contains.
fn pick(class: Class, text: &str, random: &mut Random) -> Option<String> {
    let line = random_of(text.lines().filter(|line| !line.trim().is_empty()), random)?;
    let is_letters = |word: &&str| word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let tokens = || line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let words = |least, most| {
        tokens().filter(is_letters).filter(move |word| (least..=most).contains(&word.len()))
    };
    let found = match class {
        Class::Word => random_of(words(4, 16), random)?.to_owned(),
        Class::Fragment => {
            let word = random_of(words(7, 24), random)?;
            let len = 4 + below(word.len().min(9) - 5, random);
            part(word, 1 + below(word.len() - 1 - len, random), len)
        }
        Class::ThreeLetters => {
            let word = random_of(words(3, 24), random)?;
            part(word, below(word.len() - 2, random), 3)
        }
        Class::Phrase => {
            let pairs = line.split(' ').collect::<Vec<_>>();
            let is_word = |word: &str| word.len() >= 2 && word.chars().all(char::is_alphanumeric);
            let pairs = pairs.windows(2).filter(|pair| pair.iter().all(|word| is_word(word)));
            random_of(pairs, random)?.join(" ")
        }
        Class::Address => {
            let is_of_address = |c: char| c.is_ascii_alphanumeric() || "@.-_+".contains(c);
            let runs = line.split(|c: char| !is_of_address(c)).map(|run| run.trim_matches('.'));
            random_of(runs.filter(|run| is_address(run)), random)?.to_owned()
        }
        Class::Punctuation => {
            let trimmed =
                |run: &'_ str| run.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
            let runs = line.split_whitespace().map(trimmed);
            random_of(runs.filter(|run| is_punctuated(run)), random)?
        }
        Class::NonAscii => {
            let is_wanted =
                |word: &&str| !word.is_ascii() && (2..16).contains(&word.chars().count());
            random_of(tokens().filter(is_wanted), random)?.to_owned()
        }
        Class::Absent => return None,
    };
    let is_plain = |c: char| !c.is_control() && c != '"' && c != '\\';
    found.chars().all(is_plain).then_some(found)
}

fn below(end: usize, random: &mut Random) -> usize {
    usize::try_from(random.below(end as u64)).unwrap_or(0)
}

fn part(word: &str, start: usize, len: usize) -> String {
    word[start..start + len].to_owned()
}

fn random_of<T>(items: impl Iterator<Item = T>, random: &mut Random) -> Option<T> {
    let mut items: Vec<T> = items.collect();
    if items.is_empty() {
        return None;
    }
    let at = below(items.len(), random);
    Some(items.swap_remove(at))
}

fn is_address(run: &str) -> bool {
    run.split_once('@').is_some_and(|(local, host)| {
        !local.is_empty() && host.contains('.') && !host.contains('@') && run.len() <= 60
    })
}

/// Returns `true` for a run with something else than letters and digits in it, but no address.
fn is_punctuated(run: &str) -> bool {
    let is_mixed = run.bytes().any(|byte| !byte.is_ascii_alphanumeric());
    run.is_ascii() && (4..=24).contains(&run.len()) && is_mixed && !is_address(run)
}

/// Returns a word that hardly any mail has.
fn absent(random: &mut Random) -> String {
    let letter = |random: &mut Random| b"qxzjkvw"[below(7, random)] as char;
    (0..10).map(|_| letter(random)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(number: u64) -> Texts {
        Texts {
            header: vec![format!("From: Ann Lee <ann.lee{number}@mail.example>")],
            subject: "Re: a committee wrote to J\u{fc}rgen about sys/types.h for b@c.de".to_owned(),
            body: "Some considerable text here\nin two lines: ptr->next, caf\u{e9}s, x@y.org\n"
                .to_owned(),
        }
    }

    fn drawn(count: usize) -> Vec<Query> {
        draw(count, 1, 50, &mut |number| Ok::<_, ()>(Some(texts(number)))).unwrap()
    }

    #[test]
    fn queries_are_the_same_each_time_and_of_their_class() {
        let queries = drawn(48);
        assert_eq!(queries, drawn(48));
        for field in Field::ALL {
            for class in Class::ALL {
                let own: Vec<_> =
                    queries.iter().filter(|q| (q.field, q.class) == (field, class)).collect();
                assert!((1..=2).contains(&own.len()), "{field:?} {class}: {own:?}");
                assert!(own[0].is_for_all && !own.get(1).is_some_and(|query| query.is_for_all));
            }
        }
        for query in &queries {
            let text = format!("{}{}", texts(0).subject, texts(0).body);
            let needle = &query.needle;
            match (query.field, query.class) {
                (Field::Text, _) => {}
                (_, Class::Absent) => assert!(!text.contains(needle)),
                (_, Class::Phrase) => assert!(text.contains(needle) && needle.contains(' ')),
                _ => assert!(text.contains(needle), "{query:?}"),
            }
        }
    }

    #[test]
    fn mail_without_a_class_has_fewer_queries() {
        let texts = Texts { header: Vec::new(), subject: String::new(), body: "a b".to_owned() };
        let queries = draw(48, 1, 1, &mut |_| Ok::<_, ()>(Some(texts.clone()))).unwrap();
        assert!(queries.iter().all(|query| query.class == Class::Absent), "{queries:?}");
        assert!(draw(48, 1, 1, &mut |_| Err::<Option<Texts>, _>(())).is_err());
    }
}
