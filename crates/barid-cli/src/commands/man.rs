//! `barid man`: manual pages.

use std::path::{Path, PathBuf};

use barid::vfs::{OpenOptions, OsVfs, Vfs};
use clap::{Args, CommandFactory as _};

use crate::cli::Cli;
use crate::context::Context;
use crate::exit::Outcome;
use crate::lazy;
use crate::output::number::counted;

const EXAMPLES: &str = "\
Examples:
  barid man ~/.local/share/man/man1
  man barid-ls";

/// Write a manual page for each command into a folder
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// The folder, which is made if it is missing
    dir: PathBuf,
}

/// Writes the pages.
pub(crate) fn run(context: &mut Context, args: &ManArgs) -> anyhow::Result<Outcome> {
    let at = |path: &Path| {
        let path = path.display().to_string();
        move |error| anyhow::Error::new(error).context(path)
    };
    OsVfs.create_dir_all(&args.dir, 0o777).map_err(at(&args.dir))?;
    let mut root = lazy::whole(Cli::command);
    root.build();
    let mut written = 0;
    let mut commands = vec![root];
    while let Some(command) = commands.pop() {
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        commands.extend(command.get_subcommands().cloned());
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        let path = args.dir.join(format!("{name}.1"));
        let options = OpenOptions { truncate: true, ..OpenOptions::create(0o666) };
        let file = OsVfs.open(&path, options).map_err(at(&path))?;
        file.write_all_at(&page, 0).map_err(at(&path))?;
        written += 1;
    }
    context.out.line(&format!("{} in {}", counted(written, "page"), args.dir.display()))?;
    Ok(Outcome::Done)
}
