//! What can be wrong with a query; malformed mail is not among it.

/// Says why a query or a stored state was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The columns do not describe the same messages.
    #[error("thread column `{column}` has {found} entries, expected {expected}")]
    ColumnLength {
        /// Which column.
        column: &'static str,
        /// How many entries it has.
        found: usize,
        /// How many it should have.
        expected: usize,
    },
    /// A column holds a number outside its range.
    #[error("thread column `{column}` holds {value}, the limit is {limit}")]
    ColumnValue {
        /// Which column.
        column: &'static str,
        /// The number found.
        value: u32,
        /// The first number that is not allowed.
        limit: u32,
    },
    /// More messages or message ids than [`crate::limits`] allows.
    #[error("{found} {what}, at most {max} are possible")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        max: usize,
    },
    /// A stored thread state or thread list is damaged, or belongs to other messages.
    #[error("stored threads are unusable: {0}")]
    Stored(&'static str),
    /// A sort key that RFC 5256 and RFC 5957 do not know.
    #[error("unknown sort key `{0}`")]
    UnknownSortKey(String),
    /// A threading algorithm that is not known.
    #[error("unknown threading algorithm `{0}`")]
    UnknownAlgorithm(String),
    /// Two different message ids have one hash.
    #[error("two message ids have the hash {0:#018x}")]
    Collision(u64),
}
