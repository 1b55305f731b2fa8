//! Errors of the drop-in.

use std::path::PathBuf;

/// The result of this module.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a message is not judged or registered. bogofilter then exits with 3.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the word list.
    #[error(transparent)]
    List(#[from] barid_wordlist::Error),
    /// A list to be read is missing.
    #[error("Can't open file '{}' in directory '{}'", name(path), folder(path))]
    NoList {
        /// Path of the list.
        path: PathBuf,
    },
    /// A letter after `%` in a format that is not a directive.
    #[error("unknown header format directive: '{}'", char::from(*.0))]
    Directive(u8),
    /// Lists of different encodings, or of another encoding than requested.
    #[error("Can't mix database encodings, i.e. utf-8 and any other.")]
    Encodings,
    /// A `robx` that is not a probability.
    #[error("Invalid robx value ({0:.6}).  Must be between 0.0 and 1.0")]
    Robx(f64),
    /// All lists are ignored ones, whose words do not count.
    #[error("Can't find default wordlist.")]
    NoDefaultList,
    /// An error reading messages.
    #[error("{0}")]
    Input(std::io::Error),
    /// A message that is too large.
    #[error("a message of more than {len_max} bytes")]
    TooLarge {
        /// Maximum length in bytes.
        len_max: usize,
    },
}

fn name(path: &std::path::Path) -> std::borrow::Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

fn folder(path: &std::path::Path) -> std::path::Display<'_> {
    path.parent().unwrap_or(path).display()
}
