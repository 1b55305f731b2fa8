//! SORT and THREAD over columns of numbers (RFC 5256, RFC 5957, Dovecot's THREAD=REFS), and SEARCH.
//!
//! This crate is pure and has no storage. Order and threads need no text: message ids and base
//! subjects are interned numbers, dates are seconds, and sort keys come through a [`SortView`].
//! Rows are the messages of a mailbox in the order of their sequence numbers, counted from 0.
//!
//! - [`threads`] builds the threads of a mailbox in one call; [`ThreadState`] keeps the links
//!   between calls, so that a mailbox that grew is threaded without reading the old messages.
//! - [`sort`], [`sort_window`] and [`merge`] order rows by a [`SortProgram`].
//! - [`search`] finds the messages that match a search program.
//! - [`Interner`] turns hashed message ids into dense numbers and detects collisions.

mod error;
mod intern;
pub mod limits;
mod radix;
pub mod search;
mod sort;
mod sort_key;
mod thread;

pub use barid_message::Profile;
pub use error::QueryError;
pub use intern::{Collision, Interner};
pub use sort::{SortView, Window, merge, sort, sort_window};
pub use sort_key::{SortKey, SortProgram};
pub use thread::{
    KeyColumns, LinkColumns, NO_ID, ThreadAlgorithm, ThreadColumns, ThreadNode, ThreadState,
    ThreadTexts, Threads, threads, threads_by_subject, threads_from_state,
};
