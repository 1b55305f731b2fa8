//! What can be wrong with a search program.

/// Says why a search program was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// A search key that is not known.
    #[error("unknown search key `{0}`")]
    UnknownKey(String),
    /// A value of a search key that means nothing there.
    #[error("`{value}` is no {what} for `{key}`")]
    BadValue {
        /// The search key.
        key: String,
        /// What is wanted.
        what: &'static str,
        /// What was given.
        value: String,
    },
    /// Numbers that may be UIDs, sequence numbers or a text.
    #[error("`{0}` may be UIDs (`uid:{0}`), sequence numbers (`seq:{0}`) or a text (`text:{0}`)")]
    Numbers(String),
    /// Something is missing.
    #[error("{what} is missing behind `{behind}`")]
    Missing {
        /// What.
        what: &'static str,
        /// Where.
        behind: String,
    },
    /// A byte that cannot be where it is.
    #[error("`{found}` is out of place at byte {at}")]
    OutOfPlace {
        /// What stands there.
        found: String,
        /// Where it stands.
        at: usize,
    },
    /// A charset that programs cannot be in (RFC 9051 §7.1, BADCHARSET).
    #[error("charset `{0}` is not known here; US-ASCII and UTF-8 are")]
    BadCharset(String),
    /// A text that is not in its charset.
    #[error("a text of the program is not UTF-8")]
    NotUtf8,
    /// More than [`crate::limits`] allows.
    #[error("the search program has too many {what}; at most {max} are possible")]
    TooMuch {
        /// What is counted.
        what: &'static str,
        /// How many there may be.
        max: usize,
    },
}

impl SearchError {
    pub(crate) fn bad(key: &str, what: &'static str, value: impl Into<String>) -> Self {
        Self::BadValue { key: key.to_owned(), what, value: value.into() }
    }
}
