//! The tests of the crate as one binary.
#![expect(clippy::unwrap_used, reason = "tests")]

mod dovecot;
mod exchanges;
mod pam;
mod tokens;
mod world;
