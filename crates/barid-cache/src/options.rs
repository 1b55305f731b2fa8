//! Where the header records of a cache lie, and how they are compressed.

use std::fmt;

use barid_kv::compress::Method;
use barid_kv::{Choice, Compression};

/// What a cache is made with.
///
/// It decides for caches that are made; what there is says of itself what it is in
/// ([`crate::Snapshot::options`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Where header records lie.
    pub store: StoreKind,
    /// How they are compressed.
    pub compression: Compression,
}

/// The native store without compression.
impl Default for CacheOptions {
    fn default() -> Self {
        Self { store: StoreKind::Native, compression: Compression::NONE }
    }
}

impl CacheOptions {
    /// What comes of them: the native store compresses whole blocks, for which no dictionary is
    /// made, so zstd+dict is zstd there.
    #[must_use]
    pub fn effective(self) -> Self {
        let method = match (self.store, self.compression.method) {
            (StoreKind::Native, Method::ZstdDict) => Method::Zstd,
            (_, method) => method,
        };
        Self { compression: Compression { method, ..self.compression }, ..self }
    }

    /// How blocks are packed. A store of its own for records leaves little in the cache file, and
    /// that is packed as fast as can be; blocks of a file need no dictionary.
    pub(crate) fn packing(&self) -> Option<Compression> {
        match (self.store, self.compression.method) {
            (StoreKind::Native, Method::None) => None,
            (StoreKind::Native, _) => Some(self.compression),
            (StoreKind::Kv(_), _) => Some(Compression { method: Method::Zstd, level: 1 }),
        }
    }
}

/// Where the header records of a cache lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreKind {
    /// In the cache file itself.
    #[default]
    Native,
    /// In a key-value store beside it.
    Kv(Choice),
}

/// What [`StoreKind::Native`] is called.
pub(crate) const NATIVE: &str = "native";

impl StoreKind {
    /// Reads `native`, `NAME` or `NAME:BUILTIN`.
    ///
    /// # Errors
    /// [`barid_kv::Error::Choice`], naming what there is.
    pub fn parse(text: &str) -> barid_kv::Result<Self> {
        match text.split_once(':') {
            None if text == NATIVE => Ok(Self::Native),
            Some((NATIVE, _)) => {
                Err(barid_kv::Error::Choice(format!("{NATIVE} has no compressions of its own")))
            }
            _ => Choice::parse(text).map(Self::Kv),
        }
    }

    /// The name of the store, without its own compression.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Native => NATIVE,
            Self::Kv(choice) => choice.kv.name(),
        }
    }

    /// The store's own compression.
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
