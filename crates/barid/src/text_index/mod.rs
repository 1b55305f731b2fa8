//! The text index of a mailbox: a cache from which searches for texts are answered without reading
//! messages (`docs/design/index.md`).
//!
//! `View::index_texts` builds it, for the messages that it does not cover yet. A search asks it
//! for those that it covers, and reads the others; so an answer never depends on it. It lies beside
//! the header cache, may vanish at any moment, and whatever is damaged in it counts as not covered.

mod answers;
mod build;
mod coverage;
mod covered_rows;
mod place;
mod tidy;

pub use build::{IndexAmount, IndexReport};
pub use place::IndexStatus;

pub(crate) use answers::IndexAnswers;
pub(crate) use build::INDEX_ADDED_BY_SEARCH;
