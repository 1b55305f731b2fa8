//! SEARCH (RFC 9051 §6.4.4, RFC 3501, RFC 5032, RFC 7162): programs, two ways to write them, and
//! what they mean.
//!
//! - [`parse_imap`] reads the words of IMAP, [`parse_short`] the short form for people; both make a
//!   [`SearchProgram`].
//! - A [`Matcher`] is a program made ready for one mailbox. It asks a [`SearchView`] of a message
//!   for what it needs, the cheap things first, and says `None` where the view does not have it.
//! - [`ReturnOptions`] and [`SearchResult`] are what is told of the answer (RFC 4731).
//!
//! Nothing here recurses: programs are arrays in which what is within stands before what it is
//! within. What texts are compared, and how, is told in `docs/design/search.md`.

mod day;
mod error;
mod fold;
mod header;
mod imap;
mod matcher;
mod normal;
mod number_set;
mod program;
mod result;
mod scan;
mod short;
mod view;

pub use day::Day;
pub use error::SearchError;
pub use imap::{SearchRequest, looks_like_imap, parse_imap};
pub use matcher::{Cost, Matcher, MatcherContext, Scratch};
pub use number_set::NumberSet;
pub use program::{
    AddressField, DateColumn, DateRange, Node, NodeId, ProgramBuilder, SearchKey, SearchProgram,
};
pub use result::{ReturnOptions, SearchResult};
pub use short::parse_short;
pub use view::{CachedField, Facts, FactsView, FieldText, MessageView, SearchView};
