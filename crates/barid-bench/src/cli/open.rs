//! `barid-bench open`: measures opening mailboxes.

use std::path::PathBuf;
use std::process::ExitCode;

use barid_bench::limits::REST;
use barid_bench::open::{self, Part, Side};
use clap::{Args, ValueHint};

use super::run::{Run, named};

const EXAMPLES: &str = "\
Examples:
  barid-bench open                             all parts, beside all peers
  barid-bench open --scale 100 -t 3            a small trial
  barid-bench open --parts maildir -p neomutt  the Maildir alone, beside NeoMutt
  barid-bench open --parts \"mbox thread\" -o results

Files in DIR: summary.md, raw.csv.

Exit status: 2 if it was interrupted; what was measured so far is in DIR all the same.";

/// Measure opening mailboxes, beside NeoMutt and Dovecot
///
/// A Maildir of 100,000 generated messages, an mbox of 361,052 and a Maildir of 1,000,000 are
/// opened for the first time, again, and after a delivery, and the threads of the mbox are found:
/// the measured table of README.md. Before anything is timed, the number of messages, the newest 50
/// by date and all threads are compared. Peers that are not installed are left out.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct OpenArgs {
    /// Measure PARTS, separated by blanks or commas
    #[arg(long, value_name = "PARTS", default_value = "maildir mbox thread million")]
    parts: Vec<String>,
    /// Make mailboxes of 1/N of the messages
    #[arg(long, value_name = "N", default_value_t = 1)]
    scale: u64,
    /// Run each TIMES times
    #[arg(short, long, value_name = "TIMES", default_value_t = 5)]
    times: u32,
    /// Whom to compare with, separated by blanks or commas: neomutt, dovecot, or none
    #[arg(short, long, value_name = "PEERS", default_value = "neomutt dovecot")]
    peers: Vec<String>,
    /// Put everything into DIR, which must not exist or be empty, and where the peers' user can go
    ///
    /// Default: a new folder among the temporary files.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,
}

/// Runs the bench.
pub(super) fn run(run: &Run, args: &OpenArgs) -> anyhow::Result<ExitCode> {
    let options = open::Options {
        program: run.barid.clone(),
        launcher: run.launcher.clone(),
        parts: named("part", &args.parts, &Part::ALL, Part::name)?,
        scale: args.scale,
        times: args.times,
        peers: named("peer", &args.peers, &Side::PEERS, Side::name)?,
        rest: REST,
        out: args.output.clone(),
    };
    run.measure(|screen, stop| open::run(&options, screen, stop))
}
