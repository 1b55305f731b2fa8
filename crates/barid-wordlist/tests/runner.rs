//! The tests of the crate as one binary.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests, which print what they covered"
)]

mod bogofilter;
mod child;
mod crash;
mod damage;
mod fixture;
mod model;
mod processes;
mod sqlite;
mod stores;
mod text;
mod world;
