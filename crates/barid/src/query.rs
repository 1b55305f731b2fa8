//! Search programs, their two syntaxes, and their evaluation: [`parse_imap`] reads the syntax of
//! IMAP, [`parse_short`] the short form for people.

pub use barid_imap::search::*;
pub use barid_query::search::*;
