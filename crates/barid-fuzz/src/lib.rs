//! Fuzzing of every parser and every file format, on the stable toolchain.
//!
//! A [`Target`] is a function that takes any bytes and must return: it panics if a promise is
//! broken. [`TARGETS`] lists all of them with their seeds. [`hunt`] runs one on mutated seeds, each
//! input made from a number alone, and returns the first input that panics or takes too long.
//!
//! Three programs use the table: the tests of this crate run each target for a moment and repeat
//! the inputs in `regressions/`; `cargo xtask fuzz` runs them for as long as wanted; and `fuzz/` in
//! the repository has a libFuzzer program for each, which needs `cargo fuzz` and a nightly
//! toolchain.
//!
//! Files are mutated in place: in a mailbox in memory, with its cache and its state
//! ([`MemVfs`](barid_vfs::MemVfs)). Most of them are checksummed, so that mutations end at the
//! first check. A target whose name ends in `-sealed` corrects the checksums of its input first, as
//! an attacker would.

mod hunt;
pub mod limits;
mod mutate;
mod replay;
mod seal;
mod seeds;
mod target;
mod targets;
mod world;

pub use hunt::{Breach, Extent, Failure, Tally, hunt};
pub use mutate::input;
pub use replay::{replay, save};
pub use target::{TARGETS, Target, target_named};
