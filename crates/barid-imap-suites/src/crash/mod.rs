//! Kills of a server at random moments, while several sessions append, copy, move, flag and expunge
//! messages.
//!
//! After each restart every operation that was acknowledged must have lasted. The one that a
//! session was waiting for may have happened or not: as a whole where RFC 9051 says so, and a MOVE
//! may leave a message in both places, but never in none.

mod ledger;
mod operation;
mod run;
mod state;
mod worker;

pub use run::{CrashOptions, CrashReport, crash_test};
