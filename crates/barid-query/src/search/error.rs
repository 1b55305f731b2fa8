//! The errors of search programs.

/// The reason why a search program was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// An unknown search key.
    #[error("unknown search key `{0}`")]
    UnknownKey(String),
    /// A value that is invalid for its search key.
    #[error("`{value}` is not a valid {what} for `{key}`")]
    BadValue {
        /// The search key.
        key: String,
        /// The expected kind of value.
        what: &'static str,
        /// The value.
        value: String,
    },
    /// Numbers that could be UIDs, sequence numbers or a text.
    #[error("`{0}` may be UIDs (`uid:{0}`), sequence numbers (`seq:{0}`) or a text (`text:{0}`)")]
    Numbers(String),
    /// A missing part of the program.
    #[error("{what} is missing after `{after}`")]
    Missing {
        /// The missing part.
        what: &'static str,
        /// The text before it.
        after: String,
    },
    /// A byte in an invalid place.
    #[error("`{found}` is out of place at byte {at}")]
    OutOfPlace {
        /// The byte.
        found: String,
        /// Its offset in the program.
        at: usize,
    },
    /// An unsupported charset (RFC 9051 §7.1, BADCHARSET).
    #[error("charset `{0}` is not supported; use US-ASCII or UTF-8")]
    BadCharset(String),
    /// A text that is not in its charset.
    #[error("a text of the query is not UTF-8")]
    NotUtf8,
    /// More than one of [`crate::limits`] allows.
    #[error("the search program has too many {what}; at most {max} are possible")]
    TooMuch {
        /// The things that are counted.
        what: &'static str,
        /// The most that are possible.
        max: usize,
    },
}

impl SearchError {
    /// Creates the error that `value` is not a valid `what` for the search key `key`.
    pub fn bad(key: &str, what: &'static str, value: impl Into<String>) -> Self {
        Self::BadValue { key: key.to_owned(), what, value: value.into() }
    }
}
