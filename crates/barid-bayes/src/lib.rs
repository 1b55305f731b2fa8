//! Statistical filtering of mail: messages to tokens, tokens to a score.
//!
//! This crate is pure and knows no storage. [`Tokenizer`] reads a message and hands out its
//! tokens; [`Options`] say how, and [`Profile::Bogofilter`] makes bogofilter's tokens exactly.

mod distinct;
pub mod limits;
mod options;
mod score;
mod tokenizer;

pub use distinct::{Distinct, token_start};
pub use options::{AddressPrefix, Options, Profile, WordEncoding};
pub use score::{
    Counts, Evidence, Explanation, Parameters, Row, Rule, Score, Scorer, Status, Weight, chi2q,
};
pub use tokenizer::{Facts, Tokenizer};
