//! The errors of queries; malformed mail does not cause any.

/// The reason why a query or a stored state was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The columns do not describe the same messages.
    #[error("thread column `{column}` has {found} entries, expected {expected}")]
    ColumnLength {
        /// Name of the column.
        column: &'static str,
        /// Number of its entries.
        found: usize,
        /// Number of entries that it should have.
        expected: usize,
    },
    /// A column contains a number outside its range.
    #[error("thread column `{column}` holds {value}, the limit is {limit}")]
    ColumnValue {
        /// Name of the column.
        column: &'static str,
        /// The number found.
        value: u32,
        /// The first number that is too large.
        limit: u32,
    },
    /// More messages or message ids than [`crate::limits`] allows.
    #[error("{found} {what}, at most {max} are possible")]
    TooMany {
        /// The things that are counted.
        what: &'static str,
        /// Their number.
        found: usize,
        /// The most that are possible.
        max: usize,
    },
    /// A stored thread state or thread list is damaged, or belongs to other messages.
    #[error("stored threads are unusable: {0}")]
    Stored(&'static str),
    /// A sort key that RFC 5256 and RFC 5957 do not define.
    #[error("unknown sort key `{0}`")]
    UnknownSortKey(String),
    /// An unknown threading algorithm.
    #[error("unknown threading algorithm `{0}`")]
    UnknownAlgorithm(String),
    /// Two different message ids have the same hash.
    #[error("two message ids have the hash {0:#018x}")]
    Collision(u64),
}
