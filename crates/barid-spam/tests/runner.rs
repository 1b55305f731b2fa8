//! Tests of the spam filter over mailboxes and messages.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "what was compared is printed")]

mod filter;
mod peer;
mod tune;
mod world;
