//! What can go wrong.

use std::path::PathBuf;

/// The result of this module.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a message is not judged or registered. bogofilter ends with 3 then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The word list.
    #[error(transparent)]
    List(#[from] barid_wordlist::Error),
    /// A list that is to be read is not there.
    #[error("Can't open file '{}' in directory '{}'", name(path), folder(path))]
    NoList {
        /// Where.
        path: PathBuf,
    },
    /// A letter behind `%` in a format that means nothing.
    #[error("unknown header format directive: '{}'", char::from(*.0))]
    Directive(u8),
    /// Lists of different encodings, or another than was asked for.
    #[error("Can't mix database encodings, i.e. utf-8 and any other.")]
    Encodings,
    /// No probability.
    #[error("Invalid robx value ({0:.6}).  Must be between 0.0 and 1.0")]
    Robx(f64),
    /// Only lists whose words do not count.
    #[error("Can't find default wordlist.")]
    NoDefaultList,
    /// Reading messages.
    #[error("{0}")]
    Input(std::io::Error),
    /// A message that is too large.
    #[error("a message of more than {len_max} bytes")]
    TooLarge {
        /// The most.
        len_max: usize,
    },
}

fn name(path: &std::path::Path) -> std::borrow::Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

fn folder(path: &std::path::Path) -> std::path::Display<'_> {
    path.parent().unwrap_or(path).display()
}
