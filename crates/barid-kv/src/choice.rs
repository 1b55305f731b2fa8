//! The text form `NAME[:BUILTIN]` of a store.

use std::fmt;

use crate::{Error, Kv, Result, registry};

/// A store and its built-in compression.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The store.
    pub kv: &'static dyn Kv,
    /// Its compression, one of [`crate::Capabilities::builtin`].
    pub builtin: Option<&'static str>,
}

impl Choice {
    /// Parses `NAME` or `NAME:BUILTIN`.
    ///
    /// # Errors
    /// Returns [`Error::Choice`], which lists the possible values.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, builtin) = match text.split_once(':') {
            Some((name, builtin)) => (name, Some(builtin)),
            None => (text, None),
        };
        let kv = registry::find(name)?;
        let known = kv.capabilities().builtin;
        let builtin = builtin.map(|builtin| {
            known.iter().copied().find(|known| *known == builtin).ok_or_else(|| {
                let why = match known.is_empty() {
                    true => "has no compressions of its own".to_owned(),
                    false => format!("has no compression {builtin:?}, but {}", known.join(", ")),
                };
                Error::Choice(format!("{name} {why}"))
            })
        });
        Ok(Self { kv, builtin: builtin.transpose()? })
    }
}

impl PartialEq for Choice {
    fn eq(&self, other: &Self) -> bool {
        self.kv.name() == other.kv.name() && self.builtin == other.builtin
    }
}

impl Eq for Choice {}

impl fmt::Display for Choice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.builtin {
            Some(builtin) => write!(out, "{}:{builtin}", self.kv.name()),
            None => out.write_str(self.kv.name()),
        }
    }
}
