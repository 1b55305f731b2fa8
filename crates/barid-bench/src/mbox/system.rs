//! What each of the measured programs can be asked; one thin adapter for each.

use std::path::Path;

use anyhow::{Context as _, Result};
use barid_testkit::peers::PeerUser;
use barid_testkit::usage::Sampling;
use barid_types::FlagSet;

use super::material::Material;
use super::model::Model;
use super::step::{Side, Step};
use crate::lab::Figures;

/// How a round is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    /// How memory is looked at.
    pub(crate) sampling: Sampling,
    /// Whether strace counts barriers.
    pub(crate) is_counted: bool,
}

/// A program with a copy of the mailbox.
pub(crate) trait System {
    fn side(&self) -> Side;

    /// Its copy of the mailbox.
    fn file(&self) -> &Path;

    /// Begins anew with a fresh copy, which is there already.
    fn begin(&mut self, mode: Mode) -> Result<()>;

    /// What must be done before a step and is not timed.
    fn prepare(&mut self, step: Step, model: &Model) -> Result<()>;

    /// Does a step in which the file is not just read; `model` is what the mailbox holds before.
    fn run(&mut self, step: Step, model: &Model, material: &Material) -> Result<Figures>;

    /// UIDs and flags as the program sees them.
    fn view(&mut self) -> Result<Vec<(u32, FlagSet)>>;

    /// What is allocated on the disk besides the mailbox.
    fn index_bytes(&self) -> Result<u64>;

    /// Ends it, and removes all but the copy of the mailbox.
    fn end(&mut self) -> Result<()>;
}

/// Gives a mailbox and its folder to the user as whom peers run: they make their locks beside it.
pub(crate) fn take(file: &Path) -> Result<()> {
    let folder = file.parent().context("the file is in a folder")?;
    let taken = PeerUser::get().and_then(|user| user.take(folder));
    taken.with_context(|| folder.display().to_string())
}
