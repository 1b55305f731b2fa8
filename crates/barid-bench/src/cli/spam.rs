//! `barid-bench spam`: measures the cost of the spam filter.

use std::path::PathBuf;
use std::process::ExitCode;

use barid_bench::spam::{self, Side, Step};
use clap::{Args, ValueHint};

use super::run::{Run, named};

const EXAMPLES: &str = "\
Examples:
  barid-bench spam                             generated mail, beside all builds of bogofilter
  barid-bench spam --spam-mail Junk/cur --ham-mail Archive/cur
  barid-bench spam --spam 500 --ham 300 --tokens 100000 -t 3
  barid-bench spam -w \"register all\" -p bdb -o results

Files in DIR: summary.md, raw.csv.

Exit status: 2 if it was interrupted; what was measured so far is in DIR all the same.";

/// Measure what the spam filter costs, beside bogofilter
///
/// Spam and ham are registered, messages are classified by one process and by a process each, and
/// word lists of several sizes are used: by barid in bogofilter's place (`barid bogofilter`), by
/// `barid spam`, and by bogofilter with Berkeley DB, Tokyo Cabinet and SQLite. Before anything is
/// timed, the words and scores of all are compared. Builds of bogofilter that are not installed,
/// by the names that Debian gives them (bogofilter-sqlite), are left out.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct SpamArgs {
    /// Register N messages of spam
    #[arg(long, value_name = "N", default_value_t = spam::SPAM)]
    spam: u64,
    /// Register and classify N messages of ham
    #[arg(long, value_name = "N", default_value_t = spam::HAM)]
    ham: u64,
    /// Take spam from the files in FOLDER, a message each, instead of generating it
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, requires = "ham_mail")]
    spam_mail: Option<PathBuf>,
    /// The same for ham
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, requires = "spam_mail")]
    ham_mail: Option<PathBuf>,
    /// Classify N messages by a process each
    #[arg(long, value_name = "N", default_value_t = spam::SINGLES)]
    singles: u64,
    /// Give the large word list N tokens; the cold one has a tenth, the small one 1 of 500
    #[arg(long, value_name = "N", default_value_t = spam::TOKENS)]
    tokens: u64,
    /// Run each TIMES times
    #[arg(short, long, value_name = "TIMES", default_value_t = 5)]
    times: u32,
    /// Do WORKS, separated by blanks or commas
    ///
    /// `cold` needs the right to write /proc/sys/vm/drop_caches, usually root's.
    #[arg(
        short,
        long,
        value_name = "WORKS",
        default_value = "register all each cold small large dump"
    )]
    works: Vec<String>,
    /// The builds of bogofilter, separated by blanks or commas: bdb, tokyocabinet, sqlite, or none
    #[arg(short, long, value_name = "PEERS", default_value = "bdb tokyocabinet sqlite")]
    peers: Vec<String>,
    /// Put everything into DIR, which must not exist or be empty
    ///
    /// Default: a new folder among the temporary files.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,
}

/// Runs the bench.
pub(super) fn run(run: &Run, args: &SpamArgs) -> anyhow::Result<ExitCode> {
    let options = spam::Options {
        program: run.barid.clone(),
        launcher: run.launcher.clone(),
        spam: args.spam,
        ham: args.ham,
        singles: args.singles,
        tokens: args.tokens,
        spam_mail: args.spam_mail.clone(),
        ham_mail: args.ham_mail.clone(),
        times: args.times,
        steps: named("work", &args.works, &Step::ALL, Step::word)?,
        peers: named("peer", &args.peers, &Side::PEERS, Side::build)?,
        out: args.output.clone(),
    };
    run.measure(|screen, stop| spam::run(&options, screen, stop))
}
