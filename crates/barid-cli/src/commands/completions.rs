//! `barid completions`: scripts that complete commands and options in a shell.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::context::Context;
use crate::exit::Outcome;
use crate::lazy;

const EXAMPLES: &str = "\
Examples:
  barid completions bash > ~/.local/share/bash-completion/completions/barid
  barid completions zsh > ~/.zfunc/_barid
  barid completions fish > ~/.config/fish/completions/barid.fish";

/// Print a script that completes commands and options in a shell
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for the program, which `program` defines.
pub(crate) fn run(
    context: &mut Context,
    args: &CompletionsArgs,
    program: fn() -> Command,
) -> anyhow::Result<Outcome> {
    clap_complete::generate(args.shell, &mut lazy::whole(program), "barid", context.out.buffer());
    Ok(Outcome::Done)
}
