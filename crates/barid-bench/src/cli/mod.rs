//! The command line.

mod formats;
mod hcache;
mod imap;
mod mbox;
mod open;
mod report;
mod run;
mod search;
mod spam;
mod terminal;

use std::io;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use self::run::Run;
use self::terminal::print_error;

const EXAMPLES: &str = "\
Examples:
  barid-bench hcache -m ~/Maildir                     every store, as records are
  barid-bench hcache -m ~/Maildir -t 5 -b \"native lmdb\" -c \"none zstd zstd+dict\"
  barid-bench hcache -m ~/Maildir -e neomutt          beside NeoMutt's header cache
  barid-bench hcache -m ~/Maildir --builtin --drop-caches -o results
  barid-bench open                                    opening mailboxes, beside the peers
  barid-bench mbox                                    rewriting a 1.4 GB mbox, beside the peers
  barid-bench formats                                 every format, beside those of the peers
  barid-bench spam                                    the spam filter, beside bogofilter
  barid-bench imap                                    the IMAP server, beside Dovecot
  barid-bench search                                  searching texts, beside five peers
  barid-bench report --out runs.html                  a page of the runs that were kept";

/// Measure what is fastest and smallest on this machine
#[derive(Debug, Parser)]
#[command(name = "barid-bench", version, max_term_width = 100, after_long_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

/// Options of every bench.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
struct GlobalArgs {
    /// Measure PROGRAM
    ///
    /// Default: the program `barid` beside this one, else that of the search path.
    #[arg(long, global = true, value_name = "PROGRAM")]
    barid: Option<std::path::PathBuf>,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    json: bool,
    /// Print the results alone
    #[arg(short, long, global = true)]
    quiet: bool,
}

/// The benches, and the page of their runs.
#[derive(Debug, Subcommand)]
enum Command {
    Open(open::OpenArgs),
    Hcache(hcache::HcacheArgs),
    Mbox(mbox::MboxArgs),
    Formats(formats::FormatsArgs),
    Spam(spam::SpamArgs),
    Imap(imap::ImapArgs),
    Search(search::SearchArgs),
    Report(report::ReportArgs),
}

/// Runs the program.
pub(crate) fn run() -> ExitCode {
    let Cli { global, command } = Cli::parse();
    let measure = || Run::new(&global);
    let done = match &command {
        Command::Open(args) => measure().and_then(|run| open::run(&run, args)),
        Command::Hcache(args) => measure().and_then(|run| hcache::run(&run, args)),
        Command::Mbox(args) => measure().and_then(|run| mbox::run(&run, args)),
        Command::Formats(args) => measure().and_then(|run| formats::run(&run, args)),
        Command::Spam(args) => measure().and_then(|run| spam::run(&run, args)),
        Command::Imap(args) => measure().and_then(|run| imap::run(&run, args)),
        Command::Search(args) => measure().and_then(|run| search::run(&run, args)),
        Command::Report(args) => report::run(&global, args),
    };
    match done {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            print_error("error", &format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Returns `true` if the reader of standard output is gone.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
