//! `barid-bench imap`: measures the IMAP server.

use std::path::PathBuf;
use std::process::ExitCode;

use barid_bench::imap::{self, Sizes, Work};
use clap::{Args, ValueHint};

use super::run::{Run, named};

const EXAMPLES: &str = "\
Examples:
  barid-bench imap                             all works, beside Dovecot
  barid-bench imap --quick --rounds 1          a trial of a few seconds
  barid-bench imap --only \"login idle-users\"
  barid-bench imap --only flags --no-dovecot -o results

Files in DIR: summary.md, raw.csv.

Exit status: 2 if it was interrupted; what was measured so far is in DIR all the same.";

/// Measure the IMAP server, beside Dovecot
///
/// `barid serve` and Dovecot with its master process, each over its own copies of the same Maildir
/// and the same mbox, do the same work: logins over TLS, a thousand idle sessions, a message that
/// all of them are told of, SELECT, FETCH, SEARCH, THREAD, APPEND and MOVE. Measured are the CPU
/// time of all processes of the server, the time that the client waits, and memory. Before anything
/// is timed, the answers are compared.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ImapArgs {
    /// Do WORKS, separated by blanks or commas
    ///
    /// There are login, idle-users, idle-one, push, append, append-many, move, select-first,
    /// select-again, stdio, flags, search-all, envelope, bodies, text and thread.
    #[arg(long, value_name = "WORKS")]
    only: Vec<String>,
    /// Run each N times
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    rounds: u32,
    /// Use small mailboxes and few sessions
    #[arg(long)]
    quick: bool,
    /// Leave Dovecot out
    #[arg(long)]
    no_dovecot: bool,
    /// Put everything into DIR, which must not exist or be empty, and where the servers' user can
    /// go
    ///
    /// Default: a new folder among the temporary files.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,
}

/// Runs the bench.
pub(super) fn run(run: &Run, args: &ImapArgs) -> anyhow::Result<ExitCode> {
    let works = match args.only.is_empty() {
        true => Work::ALL.to_vec(),
        false => named("work", &args.only, &Work::ALL, Work::word)?,
    };
    let options = imap::Options {
        program: run.barid.clone(),
        sizes: if args.quick { Sizes::QUICK } else { Sizes::FULL },
        times: args.rounds,
        works,
        with_dovecot: !args.no_dovecot,
        out: args.output.clone(),
    };
    run.measure(|screen, stop| imap::run(&options, screen, stop))
}
