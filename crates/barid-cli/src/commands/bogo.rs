//! `barid bogofilter`, `barid bogoutil`, `barid bogolexer`: bogofilter's programs, with their
//! options, files, answers and exit codes. The program does the same when it is started under these
//! names.
//!
//! They are handled before anything else: mail delivery starts one process per message.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use barid_bogofilter::{Foreign, Program};
use clap::Args;

use crate::context::Context;
use crate::exit::Outcome;

/// Do what bogofilter does: score, register and pass through messages
///
/// Accepts bogofilter's options and configuration files, uses its word list in place, and has the
/// same output and exit codes. `barid bogofilter --help` lists the options.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct BogofilterArgs {
    #[command(flatten)]
    args: AllArgs,
}

/// Do what bogoutil does: dump, load and maintain bogofilter's word lists
///
/// Accepts bogoutil's options. `barid bogoutil --help` lists them.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct BogoutilArgs {
    #[command(flatten)]
    args: AllArgs,
}

/// Do what bogolexer does: print the words of messages
///
/// Accepts bogolexer's options. `barid bogolexer --help` lists them.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct BogolexerArgs {
    #[command(flatten)]
    args: AllArgs,
}

/// All arguments, unparsed.
#[derive(Debug, Args)]
struct AllArgs {
    /// Options and files as for that program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    all: Vec<OsString>,
}

impl AllArgs {
    fn run(&self, program: Program) -> Outcome {
        Outcome::Code(program.run(self.all.clone(), Foreign::Refuse))
    }
}

/// Runs one of the programs if this process was started under its name, or as `barid` and the name.
pub(crate) fn called() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    let own = args.next()?;
    let program = match Path::new(&own).file_name().and_then(Program::named) {
        Some(program) => program,
        None => {
            let first = args.next()?;
            let first = first.to_str()?;
            // Only the exact name: clap parses other commands.
            let programs = [Program::Filter, Program::Util, Program::Lexer];
            programs.into_iter().find(|program| program.name() == first)?
        }
    };
    Some(ExitCode::from(program.run(args.collect(), Foreign::Refuse)))
}

/// Runs `bogofilter`.
pub(crate) fn filter(_: &mut Context, args: &BogofilterArgs) -> anyhow::Result<Outcome> {
    Ok(args.args.run(Program::Filter))
}

/// Runs `bogoutil`.
pub(crate) fn util(_: &mut Context, args: &BogoutilArgs) -> anyhow::Result<Outcome> {
    Ok(args.args.run(Program::Util))
}

/// Runs `bogolexer`.
pub(crate) fn lexer(_: &mut Context, args: &BogolexerArgs) -> anyhow::Result<Outcome> {
    Ok(args.args.run(Program::Lexer))
}
