//! Tests of trees of mailboxes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "what was compared is printed")]

mod changes;
mod concurrent;
mod cost;
mod crash;
mod dovecot;
mod faults;
mod hostile;
mod listing;
mod numbering;
mod world;
