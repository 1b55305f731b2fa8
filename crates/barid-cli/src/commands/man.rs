//! `barid man`: manual pages.

use std::io;
use std::path::{Path, PathBuf};

use barid::vfs::{OpenOptions, OsVfs, Vfs};
use clap::{Args, Command};

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
    /// The folder, created if it is missing
    dir: PathBuf,
}

/// Writes the pages of the program, which `program` defines.
pub(crate) fn run(
    context: &mut Context,
    args: &ManArgs,
    program: fn() -> Command,
) -> anyhow::Result<Outcome> {
    let at = |path: &Path| {
        let path = path.display().to_string();
        move |error| anyhow::Error::new(error).context(path)
    };
    OsVfs.create_dir_all(&args.dir, 0o777).map_err(at(&args.dir))?;
    // The page of `barid ls` already has the text of `barid help ls`.
    let mut root = lazy::whole(program).disable_help_subcommand(true);
    root.build();
    let mut written = 0;
    let mut commands = vec![root];
    while let Some(command) = commands.pop() {
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        commands.extend(command.get_subcommands().cloned());
        let mut page = Vec::new();
        write_page(&command, &mut page)?;
        let path = args.dir.join(format!("{name}.1"));
        let options = OpenOptions { truncate: true, ..OpenOptions::create(0o666) };
        let file = OsVfs.open(&path, options).map_err(at(&path))?;
        file.write_all_at(&page, 0).map_err(at(&path))?;
        written += 1;
    }
    context.out.line(&format!("{} in {}", counted(written, "page"), args.dir.display()))?;
    Ok(Outcome::Done)
}

/// Writes the page of a command. The text at the end of its help gets separate sections.
fn write_page(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let man = clap_mangen::Man::new(command.clone());
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.get_subcommands().next().is_some() {
        man.render_subcommands_section(page)?;
    }
    let rest = command.get_after_long_help().or(command.get_after_help());
    write_rest(&rest.map(ToString::to_string).unwrap_or_default(), page);
    if command.get_version().is_some() {
        man.render_version_section(page)?;
    }
    Ok(())
}

/// Writes the paragraphs that follow the options: examples, notes, the exit status.
fn write_rest(text: &str, page: &mut Vec<u8>) {
    let mut section = "";
    for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        let (next, body) = match paragraph.trim_start_matches('\n') {
            text if text.starts_with("Examples:\n") => ("EXAMPLES", &text["Examples:\n".len()..]),
            text if text.starts_with("Exit status: ") => {
                ("EXIT STATUS", &text["Exit status: ".len()..])
            }
            text => ("NOTES", text),
        };
        let head = if next == section { ".PP\n".to_owned() } else { format!(".SH \"{next}\"\n") };
        section = next;
        page.extend_from_slice(head.as_bytes());
        // Tables keep their columns.
        let is_table = body.lines().any(|line| line.starts_with("  "));
        page.extend_from_slice(if is_table { b".nf\n" } else { b"" });
        for line in body.lines() {
            let line = line.replace('\\', "\\e").replace('-', "\\-");
            let guard = if line.starts_with(['.', '\'']) { "\\&" } else { "" };
            page.extend_from_slice(format!("{guard}{line}\n").as_bytes());
        }
        page.extend_from_slice(if is_table { b".fi\n" } else { b"" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_the_options_has_sections() {
        let mut page = Vec::new();
        let text =
            "Examples:\n  barid ls -v\n  .x\\y\n\nA note.\n\nAnother.\n\nExit status: 1 if none.";
        write_rest(text, &mut page);
        let expected = ".SH \"EXAMPLES\"\n.nf\n  barid ls \\-v\n  .x\\ey\n.fi\n.SH \"NOTES\"\nA note.\n\
                        .PP\nAnother.\n.SH \"EXIT STATUS\"\n1 if none.\n";
        assert_eq!(String::from_utf8(page).unwrap(), expected);
    }
}
