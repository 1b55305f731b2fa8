//! The tests of the cache as a whole.

mod round_trip;
mod world;
