//! The store and compression of the header records of a cache.

use std::fmt;

use barid_kv::compress::Method;
use barid_kv::{Choice, Compression};

/// The options with which a cache is created.
///
/// They apply to new caches; an existing one has its own options ([`crate::Snapshot::options`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// The store of header records.
    pub store: StoreKind,
    /// Their compression.
    pub compression: Compression,
}

/// Defaults to the native store without compression.
impl Default for CacheOptions {
    fn default() -> Self {
        Self { store: StoreKind::Native, compression: Compression::NONE }
    }
}

impl CacheOptions {
    /// Returns the options that take effect: the native store compresses whole blocks without a
    /// dictionary, so zstd+dict becomes zstd there.
    #[must_use]
    pub fn effective(self) -> Self {
        let method = match (self.store, self.compression.method) {
            (StoreKind::Native, Method::ZstdDict) => Method::Zstd,
            (_, method) => method,
        };
        Self { compression: Compression { method, ..self.compression }, ..self }
    }

    /// Returns the compression of blocks. With a separate store for records little remains in the
    /// cache file, and is packed at the fastest level; blocks of a file need no dictionary.
    pub(crate) fn packing(&self) -> Option<Compression> {
        match (self.store, self.compression.method) {
            (StoreKind::Native, Method::None) => None,
            (StoreKind::Native, _) => Some(self.compression),
            (StoreKind::Kv(_), _) => Some(Compression { method: Method::Zstd, level: 1 }),
        }
    }
}

/// The store of the header records of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreKind {
    /// In the cache file itself.
    #[default]
    Native,
    /// In a key-value store beside it.
    Kv(Choice),
}

/// The name of [`StoreKind::Native`].
pub(crate) const NATIVE: &str = "native";

impl StoreKind {
    /// Parses `native`, `NAME` or `NAME:BUILTIN`.
    ///
    /// # Errors
    /// Returns [`barid_kv::Error::Choice`], which lists the possible values.
    pub fn parse(text: &str) -> barid_kv::Result<Self> {
        match text.split_once(':') {
            None if text == NATIVE => Ok(Self::Native),
            Some((NATIVE, _)) => {
                Err(barid_kv::Error::Choice(format!("{NATIVE} has no compressions of its own")))
            }
            _ => Choice::parse(text).map(Self::Kv),
        }
    }

    /// Returns the name of the store, without its built-in compression.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Native => NATIVE,
            Self::Kv(choice) => choice.kv.name(),
        }
    }

    /// Returns the built-in compression of the store.
    pub fn builtin(&self) -> Option<&'static str> {
        match self {
            Self::Native => None,
            Self::Kv(choice) => choice.builtin,
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native => out.write_str(NATIVE),
            Self::Kv(choice) => choice.fmt(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let kind = StoreKind::parse(text).ok();
        assert_eq!(kind.map(|kind| kind.to_string()).as_deref(), expected, "{text}");
    }

    #[test]
    fn stores_are_named() {
        check("native", Some("native"));
        check("memory", Some("memory"));
        check("native:zstd", None);
        check("memory:zstd", None);
        check("", None);
        assert_eq!(StoreKind::default(), StoreKind::Native);
    }
}
