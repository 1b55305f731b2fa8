//! Statistical mail filtering: turns messages into tokens, and tokens into a score.
//!
//! This crate does no I/O and stores nothing. [`Tokenizer`] reads a message and passes its tokens
//! to a callback, as [`Options`] say; [`Profile::Bogofilter`] makes bogofilter's tokens exactly.

mod distinct;
pub mod limits;
mod options;
mod score;
mod tokenizer;

pub use distinct::{Distinct, token_start};
pub use options::{AddressPrefix, Options, Profile, WordEncoding};
pub use score::{
    Against, Counts, Evidence, Explanation, MessagePart, Parameters, Row, Rule, Score, Scorer,
    Status, Weight, chi2q,
};
pub use tokenizer::{Facts, Tokenizer};
