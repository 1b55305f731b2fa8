//! The programs as `cargo xtask dist` makes them.
#![expect(clippy::unwrap_used, reason = "tests end at what should not be")]

mod dist;
