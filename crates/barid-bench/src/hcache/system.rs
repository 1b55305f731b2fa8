//! What each of the measured programs can be asked; one thin adapter for each.

use anyhow::Result;
use barid_testkit::usage::Sampling;

use super::key::{Key, Work};
use crate::lab::Figures;

/// A program that keeps a header cache.
pub(crate) trait System {
    /// Removes everything that the program keeps of the mailbox, so that it begins anew.
    fn forget(&self, key: &Key) -> Result<()>;

    /// Does a work once.
    fn run(&self, key: &Key, work: Work, sampling: Sampling) -> Result<Figures>;

    /// Makes sure, after it has populated, that its answers are right; tells how many messages
    /// it sees.
    fn check(&self, key: &Key) -> Result<u64>;
}
