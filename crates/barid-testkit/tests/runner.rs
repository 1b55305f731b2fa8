//! The tests that need more than one part of the crate.

mod peers;
