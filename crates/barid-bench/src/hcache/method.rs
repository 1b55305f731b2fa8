//! Compression of single records, by the names of barid and NeoMutt.

use std::fmt;

use anyhow::{Context as _, Result};
use barid_kv::Compression;

/// A compression of single records, with its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    name: &'static str,
    level: Option<u8>,
}

/// The methods, by barid's names.
pub const METHODS: [&str; 5] = ["none", "lz4", "zstd", "zstd+dict", "zlib"];

/// NeoMutt's default level.
const NEOMUTT_LEVEL: u8 = 1;

impl Method {
    /// No compression.
    pub const NONE: Self = Self { name: "none", level: None };

    /// Parses `NAME` or `NAME:LEVEL`.
    ///
    /// # Errors
    ///
    /// Returns an error for an unknown name, listing the known ones, and for a level that the
    /// method does not have.
    pub fn parse(text: &str) -> Result<Self> {
        Compression::parse(text)?;
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
        let known = METHODS.into_iter().find(|known| *known == name);
        let name = known.with_context(|| format!("{name} cannot be measured"))?;
        let level = level.map(|level| level.parse().context(text.to_owned())).transpose()?;
        Ok(Self { name, level })
    }

    /// Returns `true` if records are not compressed.
    pub fn is_none(self) -> bool {
        self.name == "none"
    }

    /// Returns `true` if the method trains a dictionary.
    pub(crate) fn has_dictionary(self) -> bool {
        self.name == "zstd+dict"
    }

    /// Returns the name without the level.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns NeoMutt's name of its counterpart; `None` for no compression.
    pub(crate) fn neomutt_name(self) -> Option<&'static str> {
        (!self.is_none()).then(|| self.of_neomutt().name())
    }

    /// Returns the method of NeoMutt that this one is compared with; NeoMutt has no dictionaries.
    pub(crate) fn of_neomutt(self) -> Self {
        let name = if self.has_dictionary() { "zstd" } else { self.name };
        Self { name, ..self }
    }

    /// Returns the settings for NeoMutt: its name for the method, and the level.
    pub(crate) fn neomutt_setting(self) -> Option<(&'static str, u8)> {
        let level = self.level.unwrap_or(NEOMUTT_LEVEL);
        (!self.is_none()).then_some((self.of_neomutt().name, level))
    }
}

impl fmt::Display for Method {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            Some(level) => write!(out, "{}:{level}", self.name),
            None => out.write_str(self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_read() {
        let check = |text: &str, setting| {
            let method = Method::parse(text).unwrap();
            assert_eq!(method.to_string(), text);
            assert_eq!(method.neomutt_setting(), setting);
        };
        check("none", None);
        check("lz4", Some(("lz4", 1)));
        check("zstd+dict", Some(("zstd", 1)));
        check("zlib:9", Some(("zlib", 9)));
        for text in ["", "gzip", "zstd:", "zstd:x", "none:1", "zstd:99", "lz4:2", "zlib:0"] {
            assert!(Method::parse(text).is_err(), "{text}");
        }
    }
}
