//! The text form `METHOD[:LEVEL]` of a compression.

use std::fmt;
use std::ops::RangeInclusive;

use crate::{Error, Result};

/// A compression method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// No compression.
    None,
    /// LZ4 blocks.
    Lz4,
    /// Zstandard.
    Zstd,
    /// Zstandard with a dictionary trained on records of the same mailbox.
    ZstdDict,
    /// Deflate.
    Zlib,
}

/// A [`Method`] with its name and levels.
#[derive(Clone, Debug)]
pub struct MethodInfo {
    /// The method.
    pub method: Method,
    /// Its name, as the user writes it.
    pub name: &'static str,
    /// Its levels; from 0 to 0 if it has no choice of levels.
    pub levels: RangeInclusive<i32>,
    /// The level used if none is given.
    pub level_default: i32,
}

/// A method and its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Compression {
    /// The method.
    pub method: Method,
    /// Its level, within [`MethodInfo::levels`].
    pub level: i32,
}

impl Compression {
    /// No compression.
    pub const NONE: Self = Self { method: Method::None, level: 0 };

    /// All methods, in the order in which help texts list them.
    pub const METHODS: &[MethodInfo] = &[
        MethodInfo { method: Method::None, name: "none", levels: 0..=0, level_default: 0 },
        MethodInfo { method: Method::Lz4, name: "lz4", levels: 1..=1, level_default: 1 },
        MethodInfo { method: Method::Zstd, name: "zstd", levels: 1..=22, level_default: 3 },
        MethodInfo {
            method: Method::ZstdDict,
            name: "zstd+dict",
            levels: 1..=22,
            level_default: 3,
        },
        MethodInfo { method: Method::Zlib, name: "zlib", levels: 1..=9, level_default: 6 },
    ];

    /// Returns the method at its default level.
    pub fn new(method: Method) -> Self {
        Self { method, level: method.info().level_default }
    }

    /// Parses `METHOD` or `METHOD:LEVEL`.
    ///
    /// # Errors
    /// Returns [`Error::Choice`], which lists the possible values.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, level) = match text.split_once(':') {
            Some((name, level)) => (name, Some(level)),
            None => (text, None),
        };
        let info = Self::METHODS.iter().find(|info| info.name == name).ok_or_else(|| {
            let known: Vec<String> = Self::METHODS.iter().map(MethodInfo::to_string).collect();
            Error::Choice(format!("no compression {name:?}; there are {}", known.join(", ")))
        })?;
        let Some(level) = level else { return Ok(Self::new(info.method)) };
        match level.parse() {
            Ok(level) if info.levels.contains(&level) && info.method != Method::None => {
                Ok(Self { method: info.method, level })
            }
            _ => Err(Error::Choice(format!("{name}: no level {level:?}; there is {info}"))),
        }
    }
}

impl Method {
    /// Returns its name and levels.
    pub fn info(self) -> &'static MethodInfo {
        let found = Compression::METHODS.iter().find(|info| info.method == self);
        found.expect("because every method is listed")
    }
}

/// The form of help texts: `zstd[:1-22]`.
impl fmt::Display for MethodInfo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.levels.start(), self.levels.end());
        match self.method {
            Method::None => out.write_str(self.name),
            _ if first == last => write!(out, "{}[:{first}]", self.name),
            _ => write!(out, "{}[:{first}-{last}]", self.name),
        }
    }
}

/// The form that users write, without the level if it is the default.
impl fmt::Display for Compression {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.method.info();
        match self.level == info.level_default {
            true => out.write_str(info.name),
            false => write!(out, "{}:{}", info.name, self.level),
        }
    }
}

impl std::str::FromStr for Compression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, method: Method, level: i32) {
        let compression = Compression::parse(text).unwrap();
        assert_eq!(compression, Compression { method, level });
        assert_eq!(Compression::parse(&compression.to_string()).unwrap(), compression);
    }

    #[test]
    fn choices_are_read_and_given_back() {
        check("none", Method::None, 0);
        check("lz4", Method::Lz4, 1);
        check("zstd:1", Method::Zstd, 1);
        check("zstd+dict:22", Method::ZstdDict, 22);
        check("zlib:9", Method::Zlib, 9);
        assert_eq!(Compression::parse("zstd:19").unwrap().to_string(), "zstd:19");
        for info in Compression::METHODS {
            assert_eq!(Compression::new(info.method).to_string(), info.name);
            assert!(info.levels.contains(&info.level_default));
        }
    }

    #[test]
    fn errors_name_what_there_is() {
        for text in ["", "zst", "ZSTD", ":3", "none,zstd"] {
            let error = Compression::parse(text).unwrap_err().to_string();
            assert!(error.contains("none, lz4") && error.contains("zstd[:1-22]"), "{error}");
        }
        for text in ["zstd:", "zstd:0", "zstd:23", "zstd:-1", "zstd:x", "zstd:3:3"] {
            let error = Compression::parse(text).unwrap_err().to_string();
            assert!(error.contains("there is zstd[:1-22]"), "{error}");
        }
        assert!(Compression::parse("none:0").is_err());
        assert!(Compression::parse("lz4:2").is_err());
    }
}
