//! `barid-bench mbox`: measures rewriting an mbox.

use std::path::PathBuf;
use std::process::ExitCode;

use barid_bench::mbox::{self, Side};
use clap::{Args, ValueHint};

use super::run::{Run, named};

const EXAMPLES: &str = "\
Examples:
  barid-bench mbox                             361,052 messages, beside all peers
  barid-bench mbox --messages 2000 -t 3        a small trial
  barid-bench mbox --mbox archive.mbox -p dovecot -o results

Files in DIR: summary.md, raw.csv.

Exit status: 2 if it was interrupted; what was measured so far is in DIR all the same.";

/// Measure rewriting an mbox, beside Dovecot and UW c-client
///
/// Each works on copies of the same file, for which 4.25 times its size must be free: status
/// headers are added to all messages, flags set, messages expunged and appended, the mailbox is
/// opened again. Before anything is timed, all of it is done once, and after each step the bytes of
/// all messages, their UIDs and flags are compared. Peers that are not installed are left out.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct MboxArgs {
    /// Copy this mbox, which no program has written UIDs into, instead of making one
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "messages")]
    mbox: Option<PathBuf>,
    /// Make an mbox of N messages
    #[arg(long, value_name = "N", default_value_t = mbox::MESSAGES)]
    messages: u64,
    /// Run each TIMES times
    #[arg(short, long, value_name = "TIMES", default_value_t = 5)]
    times: u32,
    /// Whom to compare with, separated by blanks or commas: dovecot, dovecot-lazy, c-client, or
    /// none
    #[arg(short, long, value_name = "PEERS", default_value = "dovecot dovecot-lazy c-client")]
    peers: Vec<String>,
    /// Drop the kernel's caches before each timed step
    ///
    /// Takes the right to write /proc/sys/vm/drop_caches, usually root's.
    #[arg(long)]
    drop_caches: bool,
    /// Put everything into DIR, which must not exist or be empty, and where the peers' user can go
    ///
    /// Default: a new folder among the temporary files.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,
}

/// Runs the bench.
pub(super) fn run(run: &Run, args: &MboxArgs) -> anyhow::Result<ExitCode> {
    let options = mbox::Options {
        program: run.barid.clone(),
        launcher: run.launcher.clone(),
        mbox: args.mbox.clone(),
        messages: args.messages,
        times: args.times,
        peers: named("peer", &args.peers, &Side::PEERS, Side::name)?,
        drop_caches: args.drop_caches,
        out: args.output.clone(),
    };
    run.measure(|screen, stop| mbox::run(&options, screen, stop))
}
