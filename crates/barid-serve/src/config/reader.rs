//! Reading a file: every value with its place, and all problems instead of the first one.
//!
//! The reader knows no keys: a table of [`ConfigSection`]s has those of a file. So the file of the
//! server and the one of the program are read, and their errors worded, by the same code.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use barid::vfs::Vfs;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{ANY_NAME, ConfigSection, keys_in, sections_with};
use crate::limits::{CONFIG_PROBLEMS_MAX, CONFIG_SIZE_MAX};

/// A problem of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The problem, and what to do.
    pub message: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, column, message } = self;
        write!(out, "{}:{line}:{column}: {message}", path.display())
    }
}

/// The problems of a configuration file, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", joined(.0))]
pub struct ConfigErrors(pub Vec<ConfigProblem>);

fn joined(problems: &[ConfigProblem]) -> String {
    problems.iter().map(ConfigProblem::to_string).collect::<Vec<_>>().join("\n")
}

/// Reads the text of a configuration file.
///
/// # Errors
/// A problem at the first character if the file cannot be read, or at the line that is not UTF-8.
pub fn load_config_text(vfs: &dyn Vfs, path: &Path) -> Result<String, ConfigErrors> {
    let problem = |line: usize, message: String| {
        let path = path.to_owned();
        ConfigErrors(vec![ConfigProblem { path, line, column: 1, message }])
    };
    let bytes = vfs.read(path, CONFIG_SIZE_MAX);
    let bytes = bytes.map_err(|error| problem(1, error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let lines = valid.iter().filter(|byte| **byte == b'\n').count();
        problem(lines + 1, "not UTF-8".to_owned())
    })
}

/// Parses the text of a configuration file with these sections, by a function that gets the table
/// of the file; `path` is for messages.
///
/// # Errors
/// All problems of the file.
pub fn parse_config<T>(
    (path, text): (&Path, &str),
    sections: &'static [ConfigSection],
    read: impl FnOnce(&Section<'_>) -> T,
) -> Result<T, ConfigErrors> {
    let source = Source { path, text, sections, problems: RefCell::default() };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let span = error.span().unwrap_or_default();
        source.add(span, error.message().replace('\n', "; "));
    }
    // A file that is not TOML would be full of consequences of its first error.
    let read = errors.is_empty().then(|| {
        let root = Section::new(&source, Cow::Borrowed(""), 0..0, table.get_ref());
        read(&root)
    });
    let problems = source.into_problems();
    match read {
        Some(config) if problems.is_empty() => Ok(config),
        _ => Err(ConfigErrors(problems)),
    }
}

/// A place in a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigPlace {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// A value as the command line could have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlainValue {
    /// `true` or `false`.
    Flag(bool),
    /// One or more texts; a number is the text of its digits.
    Texts(Vec<String>),
}

/// The text of a file, and the problems found so far.
struct Source<'t> {
    path: &'t Path,
    text: &'t str,
    sections: &'static [ConfigSection],
    problems: RefCell<Vec<(usize, String)>>,
}

impl Source<'_> {
    fn add(&self, span: Range<usize>, message: impl Into<String>) {
        let mut problems = self.problems.borrow_mut();
        if problems.len() < CONFIG_PROBLEMS_MAX {
            problems.push((span.start.min(self.text.len()), message.into()));
        }
    }

    /// Returns the problems with lines and columns, in the order of the file.
    fn into_problems(self) -> Vec<ConfigProblem> {
        let mut found = self.problems.take();
        found.sort_by_key(|(at, _)| *at);
        let problem = |(at, message): (usize, String)| {
            let ConfigPlace { line, column } = self.place(at);
            ConfigProblem { path: self.path.to_owned(), line, column, message }
        };
        found.into_iter().map(problem).collect()
    }

    fn place(&self, at: usize) -> ConfigPlace {
        let before = self.text.get(..at).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        ConfigPlace { line, column: before[line_start..].chars().count() + 1 }
    }
}

/// A table of the file.
#[derive(Clone)]
pub struct Section<'t> {
    source: &'t Source<'t>,
    name: Cow<'static, str>,
    span: Range<usize>,
    table: &'t DeTable<'t>,
}

impl<'t> Section<'t> {
    /// Reads a table, and reports its unknown keys.
    fn new(
        source: &'t Source<'t>,
        name: Cow<'static, str>,
        span: Range<usize>,
        table: &'t DeTable<'t>,
    ) -> Self {
        let known = keys_in(source.sections, &name);
        for key in table.keys() {
            let text: &str = key.get_ref();
            if !known.contains(&text) && !known.contains(&ANY_NAME) {
                source.add(key.span(), unknown_key(source.sections, &name, text, &known));
            }
        }
        Self { source, name, span, table }
    }

    fn value(&self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        let known = || keys_in(self.source.sections, &self.name);
        debug_assert!(
            known().iter().any(|known| [key, ANY_NAME].contains(known)),
            "{key} of [{}] is not listed",
            self.name
        );
        self.table.get(key)
    }

    /// Returns the known keys, in the order of the file.
    pub fn keys(&self) -> Vec<&'t str> {
        let known = keys_in(self.source.sections, &self.name);
        let is_known = |text: &str| known.contains(&text) || known.contains(&ANY_NAME);
        let mut keys: Vec<_> = self.table.keys().filter(|key| is_known(key.get_ref())).collect();
        keys.sort_by_key(|key| key.span().start);
        keys.into_iter().map(|key| key.get_ref().as_ref()).collect()
    }

    /// Returns the place of a key; `None` if the section lacks it.
    pub fn place_of(&self, key: &str) -> Option<ConfigPlace> {
        let (key, _) = self.table.get_key_value(key)?;
        Some(self.source.place(key.span().start))
    }

    /// Returns `true` if the value of a key is a table.
    pub fn is_table(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(|value| value.get_ref().is_table())
    }

    /// Reports a problem of a key.
    pub fn problem_of_key(&self, key: &str, message: impl fmt::Display) {
        let found = self.table.get_key_value(key);
        let span = found.map_or(self.span.clone(), |(key, _)| key.span());
        self.source.add(span, format!("{}: {message}", self.path_of(key)));
    }

    /// Returns `true`, `false`, a text, a number as a text, or the texts of an array.
    pub fn plain(&self, key: &str) -> Option<PlainValue> {
        let text_of = |value: &DeValue<'_>| match value {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(number) => match number.radix() {
                10 => Some(number.as_str().replace('_', "")),
                radix => Some(i64::from_str_radix(number.as_str(), radix).ok()?.to_string()),
            },
            DeValue::Float(number) => Some(number.as_str().replace('_', "")),
            _ => None,
        };
        let found = match self.value(key)?.get_ref() {
            DeValue::Boolean(flag) => Some(PlainValue::Flag(*flag)),
            DeValue::Array(array) => {
                let texts = array.iter().map(|item| text_of(item.get_ref()));
                texts.collect::<Option<_>>().map(PlainValue::Texts)
            }
            other => text_of(other).map(|text| PlainValue::Texts(vec![text])),
        };
        if found.is_none() {
            let kind = kind_of(self.value(key)?.get_ref());
            self.problem(
                key,
                format!(
                    "expected a text, a number, true or false, or an array of texts, found {kind}"
                ),
            );
        }
        found
    }

    /// Reports a problem of a value, or of the section if it has none of this key.
    pub fn problem(&self, key: &str, message: impl fmt::Display) {
        let span = self.table.get(key).map_or(self.span.clone(), Spanned::span);
        self.source.add(span, format!("{}: {message}", self.path_of(key)));
    }

    /// Reports a problem of the section.
    pub fn problem_here(&self, message: impl fmt::Display) {
        self.source.add(self.span.clone(), format!("[{}]: {message}", self.name));
    }

    fn path_of(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    fn wrong_kind(&self, key: &str, expected: &str, found: &DeValue<'_>) {
        self.problem(key, format!("expected {expected}, found {}", kind_of(found)));
    }

    /// Returns `true` if the section has a key.
    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Returns a text that is not empty.
    pub fn text(&self, key: &str) -> Option<String> {
        self.parsed(key, |text| match text.is_empty() {
            true => Err("must not be empty".to_owned()),
            false => Ok(text.to_owned()),
        })
    }

    /// Returns an absolute path.
    pub fn path(&self, key: &str) -> Option<PathBuf> {
        self.parsed(key, |text| match Path::new(text).is_absolute() {
            true => Ok(PathBuf::from(text)),
            false => Err(format!("{text:?} is not an absolute path")),
        })
    }

    /// Returns a text that a function parses.
    pub fn parsed<T, E: fmt::Display>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        match self.value(key)?.get_ref() {
            DeValue::String(text) => {
                let parsed = parse(text);
                parsed.map_err(|error| self.problem(key, error)).ok()
            }
            other => {
                self.wrong_kind(key, "a text in quotes", other);
                None
            }
        }
    }

    /// Returns a choice among names.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        self.parsed(key, |text| {
            let found = choices.iter().find(|(name, _)| *name == text);
            found.map(|(_, value)| *value).ok_or_else(|| {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                format!("{text:?} is not one of {}{}", names.join(", "), nearest(text, &names))
            })
        })
    }

    /// Returns a number within bounds.
    pub fn number(&self, key: &str, bounds: std::ops::RangeInclusive<u64>) -> Option<u64> {
        match self.value(key)?.get_ref() {
            DeValue::Integer(number) => {
                let value = u64::from_str_radix(number.as_str(), number.radix()).ok();
                let value = value.filter(|value| bounds.contains(value));
                if value.is_none() {
                    let (least, most) = (bounds.start(), bounds.end());
                    self.problem(key, format!("must be from {least} to {most}"));
                }
                value
            }
            other => {
                self.wrong_kind(key, "a number", other);
                None
            }
        }
    }

    /// Returns `true` or `false`.
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.value(key)?.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            other => {
                self.wrong_kind(key, "true or false", other);
                None
            }
        }
    }

    /// Returns the texts of an array, each parsed by a function; a single text is an array of one.
    pub fn list<T, E: fmt::Display>(
        &self,
        key: &str,
        mut parse: impl FnMut(&str) -> Result<T, E>,
    ) -> Vec<T> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let one = std::slice::from_ref(value);
        let items: Box<dyn Iterator<Item = &Spanned<DeValue<'_>>>> = match value.get_ref() {
            DeValue::Array(array) => Box::new(array.iter()),
            _ => Box::new(one.iter()),
        };
        let mut list = Vec::new();
        for item in items {
            let DeValue::String(text) = item.get_ref() else {
                let found = kind_of(item.get_ref());
                let what = self.path_of(key);
                let message = format!("{what}: expected a text in quotes, found {found}");
                self.source.add(item.span(), message);
                continue;
            };
            match parse(text) {
                Ok(parsed) => list.push(parsed),
                Err(error) => {
                    self.source.add(item.span(), format!("{}: {error}", self.path_of(key)));
                }
            }
        }
        list
    }

    /// Returns a table in this one; `name` is its whole name.
    pub fn section(&self, key: &str, name: impl Into<Cow<'static, str>>) -> Option<Self> {
        let (value, name) = (self.value(key)?, name.into());
        match value.get_ref() {
            DeValue::Table(table) => Some(Self::new(self.source, name, value.span(), table)),
            other => {
                self.wrong_kind(key, &format!("a section [{name}]"), other);
                None
            }
        }
    }

    /// Returns the tables of an array; `name` is their whole name.
    pub fn sections(&self, key: &str, name: &'static str) -> Vec<Self> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let DeValue::Array(array) = value.get_ref() else {
            self.wrong_kind(key, &format!("sections [[{name}]]"), value.get_ref());
            return Vec::new();
        };
        let mut sections = Vec::new();
        for item in array.iter() {
            match item.get_ref() {
                DeValue::Table(table) => {
                    sections.push(Self::new(self.source, name.into(), item.span(), table));
                }
                other => self.wrong_kind(key, &format!("sections [[{name}]]"), other),
            }
        }
        sections
    }
}

fn unknown_key(sections: &[ConfigSection], section: &str, key: &str, known: &[&str]) -> String {
    let shown: String = key.chars().take(60).flat_map(char::escape_debug).collect();
    let place = match section {
        "" => "unknown section".to_owned(),
        section => format!("unknown key in [{section}]:"),
    };
    let mut hint = nearest(key, known);
    if hint.is_empty() {
        let others = sections_with(sections, key);
        hint = match others.first() {
            Some(other) => format!("; [{other}] has this key"),
            None => format!("; the keys are {}", known.join(", ")),
        };
    }
    format!("{place} `{shown}`{hint}")
}

/// Returns the suggestion of the most similar name, as `; did you mean ...?`, or nothing.
#[must_use]
pub fn nearest(text: &str, names: &[&str]) -> String {
    let text: String = text.chars().take(60).flat_map(char::to_lowercase).collect();
    let score = |name: &&str| (strsim::jaro_winkler(&text, name) * 1000.0) as u32;
    match names.iter().copied().max_by_key(|name| score(name)) {
        Some(name) if score(&name) >= 800 => format!("; did you mean `{name}`?"),
        _ => String::new(),
    }
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a section",
    }
}
