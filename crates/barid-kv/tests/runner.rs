//! The tests of the crate as one binary.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests, which tell what they tried")]

mod added;
mod child;
mod conformance;
mod crash;
mod places;
mod processes;
mod records;
mod world;
