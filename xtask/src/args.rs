//! Command lines: a verb, then options in any order, then other words.

use std::str::FromStr;

use anyhow::{Context, Result, bail};

/// The arguments that have not been taken yet.
#[derive(Debug)]
pub(crate) struct Args {
    verb: Option<String>,
    rest: Vec<String>,
}

impl Args {
    pub(crate) fn from_environment() -> Self {
        Self::new(std::env::args().skip(1))
    }

    fn new(words: impl IntoIterator<Item = String>) -> Self {
        let mut words = words.into_iter();
        let verb = words.next().map(|verb| match verb.as_str() {
            "-h" | "--help" => "help".to_owned(),
            _ => verb,
        });
        Self { verb, rest: words.collect() }
    }

    pub(crate) fn verb(&mut self) -> Option<&'static str> {
        let mut known =
            "test dist tidy corpus bench crash fuzz picture powercut spam-eval help".split(' ');
        known.find(|verb| Some(*verb) == self.verb.as_deref())
    }

    /// Takes a switch.
    pub(crate) fn switch(&mut self, name: &str) -> bool {
        let found = self.rest.iter().position(|word| word == name);
        found.map(|at| self.rest.remove(at)).is_some()
    }

    /// Takes an option with its value, `--name value` or `--name=value`.
    pub(crate) fn option<T>(&mut self, name: &str) -> Result<Option<T>>
    where
        T: FromStr,
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let assigned = format!("{name}=");
        let is_it = |word: &String| word == name || word.starts_with(&assigned);
        let Some(at) = self.rest.iter().position(is_it) else { return Ok(None) };
        let word = self.rest.remove(at);
        let value = match word.strip_prefix(&assigned) {
            Some(value) => value.to_owned(),
            None if at < self.rest.len() => self.rest.remove(at),
            None => bail!("{name} needs a value"),
        };
        value.parse().map(Some).with_context(|| format!("{name} {value}"))
    }

    /// Takes the next word that is not an option.
    pub(crate) fn word(&mut self) -> Option<String> {
        let at = self.rest.iter().position(|word| !word.starts_with('-'))?;
        Some(self.rest.remove(at))
    }

    /// Takes all remaining words.
    pub(crate) fn rest(self) -> Vec<String> {
        self.rest
    }

    /// Returns an error if any word is left.
    pub(crate) fn finish(self) -> Result<()> {
        match self.rest.first() {
            Some(word) => bail!("unknown argument {word}; cargo xtask help tells which there are"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_in_any_order() {
        let words = ["corpus", "--seed=7", "dir", "--messages", "9", "--crlf"];
        let mut args = Args::new(words.map(str::to_owned));
        assert_eq!(args.verb(), Some("corpus"));
        assert_eq!(args.option::<u64>("--messages").unwrap(), Some(9));
        assert_eq!(args.option::<u64>("--seed").unwrap(), Some(7));
        assert_eq!(args.option::<u64>("--other").unwrap(), None);
        assert!(args.switch("--crlf"));
        assert_eq!(args.word().as_deref(), Some("dir"));
        args.finish().unwrap();
    }

    #[test]
    fn what_nobody_knows_is_an_error() {
        assert!(Args::new(["test", "--what"].map(str::to_owned)).finish().is_err());
        let mut args = Args::new(["corpus", "--seed"].map(str::to_owned));
        assert!(args.option::<u64>("--seed").is_err());
    }
}
