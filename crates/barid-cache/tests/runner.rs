//! The tests of the cache as a whole.

mod changes;
mod cost;
mod crash;
mod damage;
mod folder;
mod processes;
mod round_trip;
mod world;
