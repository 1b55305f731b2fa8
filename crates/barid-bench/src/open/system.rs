//! The interface of the measured programs; each has a thin adapter.

use anyhow::Result;
use barid_testkit::usage::Sampling;

use super::step::{Part, Side, Step};
use crate::lab::Figures;
use crate::systems::answer::Answer;

/// A side's view of the mailbox of a part; `None` for questions that it is not asked.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Number of messages.
    pub(crate) count: Option<u64>,
    /// The newest 50 messages by date, oldest first.
    pub(crate) newest: Option<Answer>,
    /// The thread of every message.
    pub(crate) threads: Option<Answer>,
}

/// A program with its mailboxes.
pub(crate) trait System {
    fn side(&self) -> Side;

    /// Brings caches, indexes and the mailbox into the state in which the step begins.
    fn prepare(&mut self, step: Step) -> Result<()>;

    /// Runs a step and measures it.
    fn run(&mut self, step: Step, sampling: Sampling) -> Result<Figures>;

    /// Returns what the program sees; called before anything of the part is run.
    fn answers(&mut self, part: Part) -> Result<Answers>;
}
