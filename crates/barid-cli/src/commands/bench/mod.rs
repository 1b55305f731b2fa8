//! `barid bench`: finds what is fastest and smallest for a mailbox on this machine.

mod formats;
mod hcache;
mod mbox;
mod spam;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail};
use barid_bench::{Report, Screen};
use clap::{Args, Subcommand};

use crate::context::Context;
use crate::exit::Outcome;
use crate::output::escape::visible;
use crate::signals;

const EXAMPLES: &str = "\
Examples:
  barid bench hcache -m ~/Maildir                     every store, as records are
  barid bench hcache -m ~/Maildir -t 5 -b \"native lmdb\" -c \"none zstd zstd+dict\"
  barid bench hcache -m ~/Maildir -e neomutt          beside NeoMutt's header cache
  barid bench hcache -m ~/Maildir --builtin --drop-caches -o results
  barid bench mbox                                    rewriting a 1.4 GB mbox, beside the peers
  barid bench formats                                 every format, beside those of the peers
  barid bench spam                                    the spam filter, beside bogofilter";

/// Measure what is fastest and smallest on this machine
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

/// The benches.
#[derive(Debug, Subcommand)]
enum BenchCommand {
    Hcache(hcache::HcacheArgs),
    Mbox(mbox::MboxArgs),
    Formats(formats::FormatsArgs),
    Spam(spam::SpamArgs),
}

/// Runs the bench.
pub(crate) fn run(context: &mut Context, args: &BenchArgs) -> anyhow::Result<Outcome> {
    match &args.command {
        BenchCommand::Hcache(args) => hcache::run(context, args),
        BenchCommand::Mbox(args) => mbox::run(context, args),
        BenchCommand::Formats(args) => formats::run(context, args),
        BenchCommand::Spam(args) => spam::run(context, args),
    }
}

/// Acts as a process that measures another one, if this one was started as that; the program must
/// then exit with the returned code.
pub(crate) fn launched() -> Option<ExitCode> {
    barid_bench::launched(std::env::args_os())
}

/// Returns the words of lists that are separated by blanks or commas.
fn words(lists: &[String]) -> impl Iterator<Item = &str> {
    let is_between = |c: char| c.is_whitespace() || c == ',';
    lists.iter().flat_map(move |list| list.split(is_between)).filter(|word| !word.is_empty())
}

/// Returns the items that the words of lists name, in the order of `all`.
fn named<T: Copy>(
    what: &str,
    lists: &[String],
    all: &[T],
    name: fn(T) -> &'static str,
) -> anyhow::Result<Vec<T>> {
    let wanted: Vec<&str> = words(lists).filter(|word| *word != "none").collect();
    let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
    if let Some(unknown) = wanted.iter().find(|word| !names.contains(word)) {
        bail!("no {what} {unknown:?}; there are {}, none", names.join(", "));
    }
    Ok(all.iter().copied().filter(|one| wanted.contains(&name(*one))).collect())
}

/// Runs a bench and prints its report.
fn measure<Results>(
    context: &mut Context,
    bench: impl FnOnce(&mut dyn Screen, &AtomicBool) -> anyhow::Result<Report<Results>>,
) -> anyhow::Result<Outcome> {
    let stop: Arc<AtomicBool> = Arc::default();
    signals::set_when_told_to_end(&stop).context("signals cannot be caught")?;
    let report = bench(&mut Terminal::new(context), &stop)?;
    if context.global.json {
        report.json_lines.iter().try_for_each(|line| context.out.line(line))?;
    } else {
        context.out.line(&format!("\n{}", report.text.trim_end()))?;
    }
    if report.interrupted {
        let folder = report.folder.display();
        context.warn(&format!("interrupted; what was measured so far is in {folder}"));
        return Ok(Outcome::Incomplete);
    }
    Ok(Outcome::Done)
}

/// Lines on standard output, and the current activity on standard error, if that is a terminal.
struct Terminal<'a> {
    context: &'a mut Context,
    has_status: bool,
    shows_status: bool,
}

impl<'a> Terminal<'a> {
    fn new(context: &'a mut Context) -> Self {
        let shows_status = !context.global.quiet && io::stderr().is_terminal();
        Self { context, has_status: false, shows_status }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.has_status) {
            // A terminal that rejects output is not a reason to stop working.
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

impl Screen for Terminal<'_> {
    fn line(&mut self, text: &str) -> io::Result<()> {
        self.clear();
        if self.context.global.json || self.context.global.quiet {
            return Ok(());
        }
        // Control characters are replaced, so that a path with any characters keeps the columns
        // aligned.
        self.context.out.line(&text.replace(char::is_control, "\u{fffd}"))?;
        self.context.out.flush()
    }

    fn folder(&mut self, folder: &Path) -> io::Result<()> {
        let text = format!("Running in {}", folder.display());
        if self.context.global.json || self.context.global.quiet {
            self.context.error_line("note", &visible(text.as_bytes()));
            return Ok(());
        }
        self.line(&text)
    }

    fn status(&mut self, text: &str) {
        self.clear();
        if self.shows_status {
            self.has_status = io::stderr().write_all(text.as_bytes()).is_ok();
        }
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use barid_bench::formats::Program;

    use super::*;

    #[test]
    fn lists_are_words_between_blanks_and_commas() {
        let lists = ["lmdb  qdbm,tdb", "", " native "].map(str::to_owned);
        assert_eq!(words(&lists).collect::<Vec<_>>(), ["lmdb", "qdbm", "tdb", "native"]);
    }

    #[test]
    fn what_is_measured_has_names() {
        let check = |text: &str, expected: Option<&[Program]>| {
            let found = named("peer", &[text.to_owned()], &Program::PEERS, Program::name);
            assert_eq!(found.ok().as_deref(), expected, "{text}");
        };
        check("dovecot, c-client", Some(&[Program::CClient, Program::Dovecot]));
        check("none", Some(&[]));
        check("barid", None);
    }
}
