//! The tests of the cache as a whole.

mod changes;
mod round_trip;
mod world;
