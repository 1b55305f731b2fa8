//! The interface of the measured programs; each has a thin adapter.

use std::path::Path;

use anyhow::{Context as _, Result};
use barid_testkit::peers::PeerUser;
use barid_testkit::usage::Sampling;
use barid_types::FlagSet;

use super::material::Material;
use super::model::Model;
use super::step::{Side, Step};
use crate::lab::Figures;

/// The settings of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    /// Memory sampling of the round.
    pub(crate) sampling: Sampling,
    /// `true` if strace counts barriers.
    pub(crate) is_counted: bool,
}

/// A program with its copy of the mailbox.
pub(crate) trait System {
    fn side(&self) -> Side;

    /// Returns the copy of the mailbox.
    fn file(&self) -> &Path;

    /// Starts over with a fresh copy, which already exists.
    fn begin(&mut self, mode: Mode) -> Result<()>;

    /// Does the untimed preparation of a step.
    fn prepare(&mut self, step: Step, model: &Model) -> Result<()>;

    /// Runs a step that does more than read the file; `model` is the content of the mailbox before
    /// it.
    fn run(&mut self, step: Step, model: &Model, material: &Material) -> Result<Figures>;

    /// Returns UIDs and flags as the program sees them.
    fn view(&mut self) -> Result<Vec<(u32, FlagSet)>>;

    /// Returns the bytes allocated on the disk besides the mailbox.
    fn index_bytes(&self) -> Result<u64>;

    /// Ends the program, and removes everything except the copy of the mailbox.
    fn end(&mut self) -> Result<()>;
}

/// Gives a mailbox and its folder to the user that peers run as: they create their locks there.
pub(crate) fn take(file: &Path) -> Result<()> {
    let folder = file.parent().context("the file is in a folder")?;
    let taken = PeerUser::get().and_then(|user| user.take(folder));
    taken.with_context(|| folder.display().to_string())
}
