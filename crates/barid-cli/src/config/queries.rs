//! Saved queries: `query:NAME` in a query.
//!
//! They are replaced before a query is parsed, as text in parentheses; so the language of queries
//! needs to know nothing of them, and they may contain whatever it has.

use std::collections::BTreeMap;

use barid::query::looks_like_imap;
use barid_serve::config::{ConfigPlace, nearest};

use super::UserConfig;
use crate::hint::WithHint;

/// The key before the name of a saved query.
const KEY: &str = "query:";
/// Saved queries that are replaced in a query; more are those of one that has itself in it.
const REPLACED_MAX: usize = 256;
/// Bytes of a query after all are replaced.
const EXPANDED_LEN_MAX: usize = 64 << 10;

type Queries = BTreeMap<String, (String, ConfigPlace)>;

impl UserConfig {
    /// Returns the names of saved queries.
    pub(crate) fn query_names(&self) -> impl Iterator<Item = &str> {
        self.queries.keys().map(String::as_str)
    }

    /// Returns the words of a query with the texts of saved queries.
    ///
    /// # Errors
    /// If a saved query does not exist, or cannot stand where it does.
    pub(crate) fn expand_query(&self, words: &[String]) -> anyhow::Result<Vec<String>> {
        let hint = || {
            let known: Vec<&str> = self.queries.keys().map(String::as_str).collect();
            match (known.is_empty(), &self.path) {
                (false, _) => format!("the saved queries are {}", known.join(", ")),
                (true, Some(path)) => {
                    format!("{}: `[queries]`, then `NAME = \"QUERY\"`, saves one", path.display())
                }
                (true, None) => "no query is saved".to_owned(),
            }
        };
        let expand = |word: &String| match is_whole(words) {
            // It may be one of IMAP, which cannot stand in parentheses.
            Some(name) if self.queries.contains_key(name) => {
                let (text, _) = &self.queries[name];
                expanded(text, &self.queries)
            }
            _ => expanded(word, &self.queries),
        };
        let words = words.iter().map(expand).collect::<Result<Vec<_>, _>>();
        words.map_err(|error| WithHint::error(error, hint()))
    }
}

/// Returns the name of the saved query if the words consist of one.
fn is_whole(words: &[String]) -> Option<&str> {
    match words {
        [word] => word.strip_prefix(KEY).filter(|name| name.chars().all(is_of_name)),
        _ => None,
    }
}

fn is_of_name(char: char) -> bool {
    char.is_alphanumeric() || "._-".contains(char)
}

/// Replaces all saved queries in a text.
fn expanded(text: &str, queries: &Queries) -> Result<String, String> {
    let mut text = text.to_owned();
    for _ in 0..REPLACED_MAX {
        let Some((start, end)) = next_in(&text) else { return Ok(text) };
        let name = &text[start + KEY.len()..end];
        let Some((query, _)) = queries.get(name) else {
            let known: Vec<&str> = queries.keys().map(String::as_str).collect();
            return Err(format!("`{KEY}{name}` is not a saved query{}", nearest(name, &known)));
        };
        if looks_like_imap(query) {
            return Err(format!(
                "`{KEY}{name}` is in IMAP's syntax, and cannot be a part of another query"
            ));
        }
        text = format!("{}({query}){}", &text[..start], &text[end..]);
        if text.len() > EXPANDED_LEN_MAX {
            break;
        }
    }
    Err("saved queries contain each other without end".to_owned())
}

/// Returns the range of the first `query:NAME` that is a term of its own, outside quotes.
fn next_in(text: &str) -> Option<(usize, usize)> {
    let mut is_quoted = false;
    let mut before = ' ';
    for (at, char) in text.char_indices() {
        if !is_quoted && (before.is_whitespace() || "(-!".contains(before)) {
            let rest = &text[at..];
            if let Some(name) = rest.strip_prefix(KEY) {
                let len = name.find(|char| !is_of_name(char)).unwrap_or(name.len());
                return Some((at, at + KEY.len() + len));
            }
        }
        is_quoted ^= char == '"' && before != '\\';
        before = char;
    }
    None
}

/// Returns the problems of saved queries that name others, by their keys.
pub(super) fn problems(queries: &Queries) -> Vec<(String, String)> {
    let problem = |(key, (text, _)): (&String, &(String, ConfigPlace))| {
        expanded(text, queries).err().map(|error| (key.clone(), error))
    };
    queries.iter().filter_map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> UserConfig {
        let place = ConfigPlace { line: 1, column: 1 };
        let saved =
            [("todo", "is:flagged or tag:todo"), ("mine", "query:todo to:ann"), ("imap", "UNSEEN")];
        let of = |(name, text): (&str, &str)| (name.to_owned(), (text.to_owned(), place));
        UserConfig { queries: saved.map(of).into(), ..UserConfig::default() }
    }

    fn check(words: &[&str], expected: Result<&[&str], &str>) {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let found = config().expand_query(&words).map_err(|error| error.to_string());
        match expected {
            Ok(expected) => assert_eq!(found.as_deref(), Ok(expected.map_to_strings().as_slice())),
            Err(expected) => assert_eq!(found, Err(expected.to_owned())),
        }
    }

    trait Strings {
        fn map_to_strings(&self) -> Vec<String>;
    }

    impl Strings for [&str] {
        fn map_to_strings(&self) -> Vec<String> {
            self.iter().map(ToString::to_string).collect()
        }
    }

    #[test]
    fn saved_queries_are_terms() {
        check(&["query:todo"], Ok(&["is:flagged or tag:todo"]));
        check(&["from:bob", "query:todo"], Ok(&["from:bob", "(is:flagged or tag:todo)"]));
        check(&["-query:todo", "x"], Ok(&["-(is:flagged or tag:todo)", "x"]));
        check(&["a (query:todo) b"], Ok(&["a ((is:flagged or tag:todo)) b"]));
        check(&["query:mine"], Ok(&["(is:flagged or tag:todo) to:ann"]));
        check(&["subject:\"a query:todo\""], Ok(&["subject:\"a query:todo\""]));
        check(&["myquery:todo"], Ok(&["myquery:todo"]));
        check(&["query:imap"], Ok(&["UNSEEN"]));
    }

    #[test]
    fn what_cannot_be_replaced_is_explained() {
        check(&["query:tood"], Err("`query:tood` is not a saved query; did you mean `todo`?"));
        check(&["query:"], Err("`query:` is not a saved query"));
        let text = "`query:imap` is in IMAP's syntax, and cannot be a part of another query";
        check(&["x", "query:imap"], Err(text));
    }

    #[test]
    fn queries_that_contain_each_other_end() {
        let place = ConfigPlace { line: 1, column: 1 };
        let queries: Queries = [("a", "query:b x"), ("b", "query:a query:a")]
            .map(|(name, text)| (name.to_owned(), (text.to_owned(), place)))
            .into();
        let error = expanded("query:a", &queries).unwrap_err();
        assert_eq!(error, "saved queries contain each other without end");
        assert_eq!(problems(&queries).len(), 2);
    }
}
