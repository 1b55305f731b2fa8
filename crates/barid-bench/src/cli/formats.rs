//! `barid-bench formats`: measures the cost of mailbox formats.

use std::path::PathBuf;
use std::process::ExitCode;

use barid_bench::formats::{self, Program, Store, Work};
use clap::{Args, ValueHint};

use super::run::{Run, named};

const EXAMPLES: &str = "\
Examples:
  barid-bench formats                            40,000 messages, beside all peers
  barid-bench formats --messages 2000 -t 3       a small trial
  barid-bench formats --drop-caches -p dovecot   with nothing in memory
  barid-bench formats -f mbx -w thread -o results

Files in DIR: summary.md, raw.csv.

Exit status: 2 if it was interrupted; what was measured so far is in DIR all the same.";

/// Measure what formats cost, beside UW c-client and Dovecot
///
/// The same generated messages are opened, fetched, threaded and searched, each time by a new
/// process, first as if it had never seen them, then again; and an mbox is converted. Beside
/// barid's mbox, mbx, mix, mh and maildir stand c-client's unix, mbx and mix, and Dovecot's mbox,
/// maildir, sdbox and mdbox. Before anything is timed, the answers of all are compared. Peers that
/// are not installed are left out.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct FormatsArgs {
    /// Make mailboxes of N messages
    #[arg(long, value_name = "N", default_value_t = formats::MESSAGES)]
    messages: u64,
    /// Run each TIMES times
    #[arg(short, long, value_name = "TIMES", default_value_t = 5)]
    times: u32,
    /// The formats of barid, separated by blanks or commas
    #[arg(short, long, value_name = "FORMATS", default_value = "mbox mbx mix mh maildir")]
    formats: Vec<String>,
    /// Do WORKS, separated by blanks or commas
    #[arg(short, long, value_name = "WORKS")]
    #[arg(default_value = "select fetch all thread search convert")]
    works: Vec<String>,
    /// Whom to compare with, separated by blanks or commas: c-client, dovecot, or none
    #[arg(short, long, value_name = "PEERS", default_value = "c-client dovecot")]
    peers: Vec<String>,
    /// Drop the kernel's caches before each timed step
    ///
    /// The programs themselves are read into memory again. Takes the right to write
    /// /proc/sys/vm/drop_caches, usually root's.
    #[arg(long)]
    drop_caches: bool,
    /// Put everything into DIR, which must not exist or be empty, and where the peers' user can go
    ///
    /// Default: a new folder among the temporary files.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,
}

/// Runs the bench.
pub(super) fn run(run: &Run, args: &FormatsArgs) -> anyhow::Result<ExitCode> {
    let options = formats::Options {
        program: run.barid.clone(),
        launcher: run.launcher.clone(),
        messages: args.messages,
        times: args.times,
        stores: named("format", &args.formats, &Store::OWN, Store::name)?,
        works: named("work", &args.works, &Work::ALL, Work::word)?,
        peers: named("peer", &args.peers, &Program::PEERS, Program::name)?,
        drop_caches: args.drop_caches,
        out: args.output.clone(),
    };
    run.measure(|screen, stop| formats::run(&options, screen, stop))
}
