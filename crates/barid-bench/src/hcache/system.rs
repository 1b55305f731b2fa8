//! The interface of the measured programs; each has a thin adapter.

use anyhow::Result;
use barid_testkit::usage::Sampling;

use super::key::{Key, Work};
use crate::lab::Figures;

/// A program that keeps a header cache.
pub(crate) trait System {
    /// Removes all of the program's data about the mailbox, so that it starts from nothing.
    fn forget(&self, key: &Key) -> Result<()>;

    /// Runs an operation once.
    fn run(&self, key: &Key, work: Work, sampling: Sampling) -> Result<Figures>;

    /// Checks the answers of the populated cache, and returns the number of messages.
    fn check(&self, key: &Key) -> Result<u64>;
}
