//! Generated mail for demonstrations, tests and benchmarks: messages of any number that look like
//! those of mailing lists, and the mailboxes that they are written to.

pub mod boxes;
mod calendar;
mod corpus;

pub use calendar::Calendar;
pub use corpus::{Corpus, GeneratedMessage, Profile, Random, WORDS};
