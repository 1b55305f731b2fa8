//! The tests of the cache as a whole.
#![expect(clippy::unwrap_used, reason = "tests")]

mod changes;
mod cost;
mod crash;
mod damage;
mod derived;
mod fixture;
mod folder;
mod follow;
mod forged;
mod processes;
mod refresh;
mod round_trip;
mod stores;
mod world;
