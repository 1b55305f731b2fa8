//! The suite, run on every backend.
#![expect(clippy::unwrap_used, reason = "tests")]

mod formats;
mod memory;
mod public_inbox;
mod saved;
