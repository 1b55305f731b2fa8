//! Tests of the drop-in, and of the programs that `cargo xtask dist` makes.
#![expect(clippy::unwrap_used, reason = "tests end at what should not be")]

mod dist;
mod judge;
