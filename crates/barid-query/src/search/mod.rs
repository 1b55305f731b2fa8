//! SEARCH (RFC 9051 §6.4.4, RFC 3501, RFC 5032, RFC 7162): search programs, their short syntax, and
//! their evaluation.
//!
//! - [`ProgramBuilder`] builds a [`SearchProgram`] from its leaves up, and [`parse_short`] from the
//!   short form for people. `barid-imap` has the syntax of IMAP.
//! - A [`Matcher`] is a program prepared for one mailbox. It requests the data that it needs from
//!   the [`SearchView`] of a message, the cheapest first, and returns `None` if the view does not
//!   have it.
//! - [`ReturnOptions`] and [`SearchResult`] are the requested results and the answer (RFC 4731).
//!
//! Nothing here recurses: programs are arrays in which operands precede their operators.
//! `docs/design/search.md` describes which texts are compared, and how.

mod bulk;
mod cost;
mod day;
mod error;
mod fold;
mod header;
mod matcher;
mod normal;
mod number_set;
mod pattern;
mod pattern_test;
mod program;
mod relevance;
mod result;
mod rows;
mod scan;
mod short;
mod texts;
mod view;

pub use bulk::KnownRows;
pub use cost::Cost;
pub use day::Day;
pub use error::SearchError;
pub use matcher::{Matcher, MatcherContext, Scratch};
pub use number_set::{NumberSet, ranges_contain};
pub use pattern::{PatternSource, TextPattern};
pub use program::{
    AddressField, DateColumn, DateRange, NodeId, ProgramBuilder, SearchKey, SearchNode,
    SearchProgram, TextPlace,
};
pub use relevance::{RelevanceModel, RelevanceTerms, TermCounts};
pub use result::{ReturnOptions, SearchResult};
pub use rows::BitSet;
pub use short::{ShortOptions, parse_short, parse_short_with, short_keys, short_states};
pub use texts::{
    FoldedMessage, TEXTS_VERSION, TakeText, TextBuffers, TextKind, TextScope, TextTest,
    each_folded_text,
};
pub use view::{CachedField, Facts, FactsView, FieldText, MessageView, SearchView};
