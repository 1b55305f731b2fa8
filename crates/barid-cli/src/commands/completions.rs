//! `barid completions`: scripts that make shells ask barid what may stand at the cursor.

use clap::Args;
use clap_complete::Shell;

use crate::completion;
use crate::context::Context;
use crate::exit::Outcome;

const EXAMPLES: &str = "\
Examples:
  barid completions bash > ~/.local/share/bash-completion/completions/barid
  barid completions zsh > ~/.zfunc/_barid
  barid completions fish > ~/.config/fish/completions/barid.fish

They complete commands and options, paths and names of mailboxes with their folders (`@work/...`),
the keys of queries, saved queries, and the keys of --sort.";

/// Print a script that completes commands, mailboxes and queries in a shell
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(context: &mut Context, args: &CompletionsArgs) -> anyhow::Result<Outcome> {
    completion::write_script(&args.shell.to_string(), context.out.buffer())?;
    Ok(Outcome::Done)
}
