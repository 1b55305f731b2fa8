//! Statistical filtering of mail: messages to tokens, tokens to a score.
//!
//! This crate is pure and knows no storage. [`Tokenizer`] reads a message and hands out its
//! tokens; [`Options`] say how, and [`Profile::Bogofilter`] makes bogofilter's tokens exactly.

pub mod limits;
mod options;
mod tokenizer;

pub use options::{AddressPrefix, Options, Profile, WordEncoding};
pub use tokenizer::{Facts, Tokenizer};
