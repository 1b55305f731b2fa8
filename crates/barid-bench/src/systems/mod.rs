//! The programs that benches measure: how each is started, asked and read, in one place. The steps
//! of a bench are in its own adapters.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use barid_testkit::usage::{Sampling, Usage, measure};

use crate::limits::STEP_DEADLINE;

pub(crate) mod answer;
pub(crate) mod barid;
pub(crate) mod bogofilter;
pub(crate) mod cclient;
pub(crate) mod dovecot;
pub(crate) mod neomutt;

/// Runs a command, which prints little, to completion.
pub(crate) fn run_quietly(command: &mut Command) -> Result<Usage> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let usage = measure(command, STEP_DEADLINE, Sampling::Off).with_context(|| name.clone())?;
    ensure!(usage.status.success(), "{name}: {}", usage.status);
    Ok(usage)
}
