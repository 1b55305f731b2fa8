//! The interface of the measured programs; each has a thin adapter.

use std::process::{Command, Stdio};

use anyhow::Result;
use barid_testkit::usage::Sampling;

use super::query::Query;
use super::step::Side;
use crate::lab::{Figures, Runner};

/// The size of an index or of a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// The side.
    pub side: Side,
    /// A name for it.
    pub part: &'static str,
    /// Bytes.
    pub bytes: u64,
}

/// The number of messages that a query finds, and of those that were read for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// Messages that are found.
    pub found: u64,
    /// Messages that the index left open.
    pub read: u64,
}

impl Candidates {
    /// Returns the number of messages that the index did not exclude. An index that is certain of
    /// some and leaves others open is counted too low by the former.
    pub(crate) fn all(self) -> u64 {
        self.found.max(self.read)
    }
}

/// A program with its index of the Maildir.
pub(crate) trait System {
    fn side(&self) -> Side;

    /// Removes the index and everything else that the program keeps.
    fn forget(&mut self) -> Result<()>;

    /// Indexes the messages that are not indexed yet. [`Figures::index_bytes`] is the size of the
    /// index then.
    fn index(&mut self, sampling: Sampling) -> Result<Figures>;

    /// Returns `true` if the program has a form for the query.
    fn can_ask(&self, query: &Query) -> bool;

    /// Searches, and measures that.
    fn ask(&mut self, query: &Query) -> Result<Figures>;

    /// Returns the numbers of the messages that the program finds, ascending.
    fn found(&mut self, query: &Query) -> Result<Vec<u32>>;

    /// Returns what the index leaves to be read, if the program tells it.
    fn candidates(&mut self, query: &Query) -> Result<Option<Candidates>> {
        let _ = query;
        Ok(None)
    }

    /// Returns the sizes of the parts of the index.
    fn sizes(&mut self) -> Result<Vec<Size>>;

    /// Returns command lines for a report: of indexing, and of a search for `WORD`.
    fn commands(&self) -> Vec<String>;
}

/// Runs a search to its end, with its output discarded. `nothing_status` is the exit status if
/// nothing is found.
pub(crate) fn ask(runner: &Runner, command: &Command, nothing_status: i32) -> Result<Figures> {
    let usage = runner.run_or_empty(command, Stdio::null(), Sampling::Off, nothing_status)?;
    Ok(Figures::of_process(&usage))
}
