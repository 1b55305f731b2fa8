//! The tests of the cache as a whole.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests, which print what they covered"
)]

mod changes;
mod cost;
mod crash;
mod damage;
mod derived;
mod folder;
mod processes;
mod round_trip;
mod world;
