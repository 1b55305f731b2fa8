//! Tests of the crate: every target, on a few of its inputs.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests, which tell what they tried")]

mod moment;
mod targets;
