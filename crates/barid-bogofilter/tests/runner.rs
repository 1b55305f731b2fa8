//! Tests of the programs that `cargo xtask dist` makes.
#![expect(clippy::unwrap_used, reason = "tests end at what should not be")]

mod dist;
