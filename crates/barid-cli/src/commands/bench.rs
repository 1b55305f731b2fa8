//! `barid bench`: what is fastest and smallest for a mailbox on this machine.

use std::ffi::OsStr;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, ensure};
use barid_bench::Screen;
use barid_bench::hcache::{self, Method};
use clap::{Args, Subcommand, ValueHint};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::context::{Context, parse_spec};
use crate::exit::Outcome;
use crate::output::escape::visible;

const EXAMPLES: &str = "\
Examples:
  barid bench hcache -m ~/Maildir                     every store, as records are
  barid bench hcache -m ~/Maildir -t 5 -b \"native lmdb\" -c \"none zstd zstd+dict\"
  barid bench hcache -m ~/Maildir -e neomutt          beside NeoMutt's header cache
  barid bench hcache -m ~/Maildir --builtin --drop-caches -o results";

const HCACHE_EXAMPLES: &str = "\
Examples:
  barid bench hcache -m ~/Maildir                     every store, as records are
  barid bench hcache -m ~/Maildir -t 5 -b \"native lmdb\" -c \"none zstd zstd+dict\"
  barid bench hcache -m ~/Maildir -e neomutt          beside NeoMutt's header cache
  barid bench hcache -m ~/Maildir --builtin --drop-caches -o results

Files in DIR: summary.md, results.json, log_init.md, log_reload.md (every record),
log_reload_page.md (the newest 50), the charts populate.svg, reload.svg and size.svg; with NeoMutt
log_init_neomutt.md and log_reload_neomutt.md.

Exit status: 2 if it was interrupted; what was measured so far is in DIR all the same.";

/// Measure what is fastest and smallest on this machine
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

/// What to measure.
#[derive(Debug, Subcommand)]
enum BenchCommand {
    Hcache(HcacheArgs),
}

/// Measure header caches: stores, compressions, and NeoMutt beside them
///
/// Each store with each compression is filled from the Maildir, then opened again, by processes of
/// this program with folders of their own; the Maildir and your own caches are not touched. Before
/// anything is timed, the listing through every cache is compared with the one without a cache.
/// Prints the averages of all runs and leaves tables, charts and every figure in a new folder.
#[derive(Debug, Args)]
#[command(after_long_help = HCACHE_EXAMPLES)]
struct HcacheArgs {
    /// The Maildir
    #[arg(short, long, value_name = "MAILDIR", value_hint = ValueHint::DirPath)]
    maildir: PathBuf,
    /// How often to run each
    #[arg(short, long, value_name = "TIMES", default_value_t = 3)]
    times: u32,
    /// The stores, separated by blanks or commas, each native, NAME or NAME:BUILTIN
    ///
    /// Default: native and every store that is usable here (see `barid cache stores`).
    #[arg(short = 'b', long, value_name = "STORES")]
    stores: Vec<String>,
    /// The compressions of each record, separated by blanks or commas
    ///
    /// Each is one of none, lz4, zstd, zstd+dict, zlib, and may have a level: zstd:3.
    #[arg(short = 'c', long, value_name = "METHODS", default_value = "none")]
    methods: Vec<String>,
    /// Run the compressions that the stores have themselves as well
    #[arg(long)]
    builtin: bool,
    /// Run this NeoMutt in turn with barid, and print the ratios
    ///
    /// It is asked for the stores and compressions that it has, and runs with a configuration and
    /// header caches of its own.
    #[arg(short = 'e', long, value_name = "NEOMUTT", value_hint = ValueHint::CommandName)]
    neomutt: Option<PathBuf>,
    /// Drop the kernel's caches before each timed run
    ///
    /// Measures a cold start. Takes the right to write /proc/sys/vm/drop_caches, usually root's.
    #[arg(long)]
    drop_caches: bool,
    /// Put everything into DIR, which must not exist or be empty
    ///
    /// Default: a new folder among the temporary files.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,
}

/// Does what was asked.
pub(crate) fn run(context: &mut Context, args: &BenchArgs) -> anyhow::Result<Outcome> {
    let BenchCommand::Hcache(args) = &args.command;
    let methods: Vec<_> = words(&args.methods).map(Method::parse).collect::<anyhow::Result<_>>()?;
    let names = hcache::METHODS.join(", ");
    ensure!(!methods.is_empty(), "no compression to run; there are {names}");
    let stores = || words(&args.stores).map(str::to_owned).collect();
    let options = hcache::Options {
        program: std::env::current_exe().context("this program cannot be found")?,
        maildir: maildir(&args.maildir)?,
        times: args.times,
        stores: (!args.stores.is_empty()).then(stores),
        methods,
        builtin: args.builtin,
        neomutt: args.neomutt.clone(),
        drop_caches: args.drop_caches,
        out: args.output.clone(),
    };
    let stop = stop_signal().context("signals cannot be caught")?;
    let report = hcache::run(&options, &mut Terminal::new(context), &stop)?;
    if context.global.json {
        report.json_lines()?.iter().try_for_each(|line| context.out.line(line))?;
    } else {
        context.out.line(&format!("\n{}", report.text().trim_end()))?;
    }
    if report.interrupted {
        let folder = report.folder.display();
        context.warn(&format!("interrupted; what was measured so far is in {folder}"));
        return Ok(Outcome::Incomplete);
    }
    Ok(Outcome::Done)
}

/// Is a process that measures another one, if this one was started as that; the program then ends
/// with what is returned.
pub(crate) fn launched() -> Option<ExitCode> {
    barid_bench::launched(std::env::args_os())
}

/// The path of `PATH` or `maildir:PATH`.
fn maildir(text: &Path) -> anyhow::Result<PathBuf> {
    let spec = parse_spec(text.as_os_str());
    let is_maildir =
        spec.format.is_none() || spec.format == parse_spec(OsStr::new("maildir:")).format;
    ensure!(is_maildir, "{}: not a Maildir", text.display());
    Ok(spec.path)
}

/// The words of a list that may be given in pieces.
fn words(lists: &[String]) -> impl Iterator<Item = &str> {
    let is_between = |c: char| c.is_whitespace() || c == ',';
    lists.iter().flat_map(move |list| list.split(is_between)).filter(|word| !word.is_empty())
}

/// Becomes true when the program is told to end; the second time it ends at once.
fn stop_signal() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Lines on standard output, and what goes on now on standard error, if that is a terminal.
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
            // A terminal that takes no output is no reason to stop working.
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
        // The columns stay; a path in the text may have any characters.
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
    use super::*;

    #[test]
    fn lists_are_words_between_blanks_and_commas() {
        let lists = ["lmdb  qdbm,tdb", "", " native "].map(str::to_owned);
        assert_eq!(words(&lists).collect::<Vec<_>>(), ["lmdb", "qdbm", "tdb", "native"]);
    }

    #[test]
    fn a_maildir_may_be_named_as_one() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(maildir(Path::new(text)).ok().as_deref(), expected.map(Path::new));
        };
        check("a/b", Some("a/b"));
        check("maildir:a/b", Some("a/b"));
        check("mbox:a/b", None);
    }
}
