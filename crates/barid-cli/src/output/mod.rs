//! Output of the program: JSON lines, tables, trees, dates and progress.
//!
//! Everything here writes to a `Vec<u8>` that the caller reuses, so that a line needs no
//! allocation.

pub(crate) mod date;
pub(crate) mod escape;
pub(crate) mod json;
pub(crate) mod number;
pub(crate) mod progress;
pub(crate) mod sink;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod tree;
