//! The errors of search programs.

/// The reason why a search program was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// An unknown search key.
    #[error("unknown search key `{0}`")]
    UnknownKey(String),
    /// An unknown search key of the short form, with its colon.
    #[error("unknown search key `{key}`{}", suggested(*.suggestion))]
    NoSuchKey {
        /// The key.
        key: String,
        /// A key that is written alike, with its colon.
        suggestion: Option<&'static str>,
    },
    /// A search key without a value.
    #[error("`{key}` has no value: write `{key}TEXT` without a blank after the colon")]
    NoValue {
        /// The key, with its colon.
        key: String,
    },
    /// A `*` that does not stand at the end of a word.
    #[error("`{0}`: a `*` stands only at the end of a word, as in `budg*`")]
    Wildcard(String),
    /// A regular expression that is invalid or too large.
    #[error("`/{regex}/` is not a valid regular expression: {reason}")]
    Regex {
        /// The regular expression.
        regex: String,
        /// The reason.
        reason: String,
    },
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
    #[error("`{0}` may be UIDs (`uid:{0}`), sequence numbers (`seq:{0}`) or a text (`\"{0}\"`)")]
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
    /// An order by relevance for a program without a text that messages may match by.
    #[error("an order by relevance needs a text in the query that messages are to have")]
    NoTerms,
    /// More than one of [`crate::limits`] allows.
    #[error("the search program has too many {what}; at most {max} are possible")]
    TooMuch {
        /// The things that are counted.
        what: &'static str,
        /// The most that are possible.
        max: usize,
    },
}

/// Returns the question for a suggested key.
fn suggested(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |key| format!("; did you mean `{key}`?"))
}

impl SearchError {
    /// Creates the error that `value` is not a valid `what` for the search key `key`.
    pub fn bad(key: &str, what: &'static str, value: impl Into<String>) -> Self {
        Self::BadValue { key: key.to_owned(), what, value: value.into() }
    }
}
