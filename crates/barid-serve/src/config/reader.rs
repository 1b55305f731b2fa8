//! Reading the file: every value with its place, and all problems instead of the first one.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{keys_in, sections_with};
use crate::limits::CONFIG_PROBLEMS_MAX;

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

/// The text of a file, and the problems found so far.
pub(super) struct Source<'t> {
    path: &'t Path,
    text: &'t str,
    problems: RefCell<Vec<(usize, String)>>,
}

impl<'t> Source<'t> {
    pub(super) fn new(path: &'t Path, text: &'t str) -> Self {
        Self { path, text, problems: RefCell::default() }
    }

    pub(super) fn add(&self, span: Range<usize>, message: impl Into<String>) {
        let mut problems = self.problems.borrow_mut();
        if problems.len() < CONFIG_PROBLEMS_MAX {
            problems.push((span.start.min(self.text.len()), message.into()));
        }
    }

    /// Returns the problems with lines and columns, in the order of the file.
    pub(super) fn into_problems(self) -> Vec<ConfigProblem> {
        let mut found = self.problems.into_inner();
        found.sort_by_key(|(at, _)| *at);
        let problem = |(at, message): (usize, String)| {
            let before = self.text.get(..at).unwrap_or_default();
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            ConfigProblem {
                path: self.path.to_owned(),
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
                message,
            }
        };
        found.into_iter().map(problem).collect()
    }
}

/// A table of the file.
#[derive(Clone)]
pub(super) struct Section<'t> {
    source: &'t Source<'t>,
    name: &'static str,
    span: Range<usize>,
    table: &'t DeTable<'t>,
}

impl<'t> Section<'t> {
    /// Reads a table, and reports its unknown keys.
    pub(super) fn new(
        source: &'t Source<'t>,
        name: &'static str,
        span: Range<usize>,
        table: &'t DeTable<'t>,
    ) -> Self {
        let known = keys_in(name);
        for key in table.keys() {
            let text: &str = key.get_ref();
            if !known.contains(&text) {
                source.add(key.span(), unknown_key(name, text, &known));
            }
        }
        Self { source, name, span, table }
    }

    fn value(&self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        debug_assert!(keys_in(self.name).contains(&key), "{key} of [{}] is not listed", self.name);
        self.table.get(key)
    }

    /// Reports a problem of a value, or of the section if it has none of this key.
    pub(super) fn problem(&self, key: &str, message: impl fmt::Display) {
        let span = self.table.get(key).map_or(self.span.clone(), Spanned::span);
        self.source.add(span, format!("{}: {message}", self.path_of(key)));
    }

    /// Reports a problem of the section.
    pub(super) fn problem_here(&self, message: impl fmt::Display) {
        self.source.add(self.span.clone(), format!("[{}]: {message}", self.name));
    }

    fn path_of(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    fn wrong_kind(&self, key: &str, expected: &str, found: &DeValue<'_>) {
        self.problem(key, format!("expected {expected}, found {}", kind_of(found)));
    }

    /// Returns `true` if the section has a key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Returns a text that is not empty.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.parsed(key, |text| match text.is_empty() {
            true => Err("must not be empty".to_owned()),
            false => Ok(text.to_owned()),
        })
    }

    /// Returns an absolute path.
    pub(super) fn path(&self, key: &str) -> Option<PathBuf> {
        self.parsed(key, |text| match Path::new(text).is_absolute() {
            true => Ok(PathBuf::from(text)),
            false => Err(format!("{text:?} is not an absolute path")),
        })
    }

    /// Returns a text that a function parses.
    pub(super) fn parsed<T, E: fmt::Display>(
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
    pub(super) fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        self.parsed(key, |text| {
            let found = choices.iter().find(|(name, _)| *name == text);
            found.map(|(_, value)| *value).ok_or_else(|| {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                format!("{text:?} is not one of {}{}", names.join(", "), nearest(text, &names))
            })
        })
    }

    /// Returns a number within bounds.
    pub(super) fn number(&self, key: &str, bounds: std::ops::RangeInclusive<u64>) -> Option<u64> {
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
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match self.value(key)?.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            other => {
                self.wrong_kind(key, "true or false", other);
                None
            }
        }
    }

    /// Returns the texts of an array, each parsed by a function; a single text is an array of one.
    pub(super) fn list<T, E: fmt::Display>(
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
    pub(super) fn section(&self, key: &str, name: &'static str) -> Option<Self> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(Self::new(self.source, name, value.span(), table)),
            other => {
                self.wrong_kind(key, &format!("a section [{name}]"), other);
                None
            }
        }
    }

    /// Returns the tables of an array; `name` is their whole name.
    pub(super) fn sections(&self, key: &str, name: &'static str) -> Vec<Self> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let DeValue::Array(array) = value.get_ref() else {
            self.wrong_kind(key, &format!("sections [[{name}]]"), value.get_ref());
            return Vec::new();
        };
        let mut sections = Vec::new();
        for item in array.iter() {
            match item.get_ref() {
                DeValue::Table(table) => {
                    sections.push(Self::new(self.source, name, item.span(), table));
                }
                other => self.wrong_kind(key, &format!("sections [[{name}]]"), other),
            }
        }
        sections
    }
}

fn unknown_key(section: &str, key: &str, known: &[&str]) -> String {
    let shown: String = key.chars().take(60).flat_map(char::escape_debug).collect();
    let place = match section {
        "" => "unknown section".to_owned(),
        section => format!("unknown key in [{section}]:"),
    };
    let mut hint = nearest(key, known);
    if hint.is_empty() {
        let others = sections_with(key);
        hint = match others.first() {
            Some(other) => format!("; [{other}] has this key"),
            None => format!("; the keys are {}", known.join(", ")),
        };
    }
    format!("{place} `{shown}`{hint}")
}

/// Returns the suggestion of the most similar name, or nothing.
fn nearest(text: &str, names: &[&str]) -> String {
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
