//! Conformance suite of the storage contract: checks that every backend of
//! [`barid_mailbox::Storage`] passes, and a backend in memory that is not a file system.
//!
//! A backend implements [`Backend`] and [`Fixture`], which say how to make an empty storage and
//! what can happen to it, and calls [`check_all`] in a test. Each check starts with an empty
//! storage and follows it as a cache does, with a [`StorageHandle`] for every handle.
#![expect(clippy::unwrap_used, reason = "a check fails with a panic")]

mod checks;
mod fixture;
pub mod memory;
mod mirror;
mod session;
mod texts;

pub use checks::{CHECKS, Check, check_all};
pub use fixture::{Backend, Fixture, state_ledger};
pub use mirror::{Mirror, MirrorLocation, MirrorRow};
pub use session::{Contents, MessageContent, StorageHandle};
pub use texts::{canonical, text};
