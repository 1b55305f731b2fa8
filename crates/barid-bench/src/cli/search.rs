//! `barid-bench search`: measures searching texts.

use std::path::PathBuf;
use std::process::ExitCode;

use barid_bench::limits::REST;
use barid_bench::search::{self, QUERIES, Side};
use clap::{Args, ValueHint};

use super::run::{Run, named};

const EXAMPLES: &str = "\
Examples:
  barid-bench search                                  100,000 generated messages, beside all peers
  barid-bench search --mail ~/Archive/cur             mail of your own
  barid-bench search --mail lists --messages 100000   repeated, with other ids
  barid-bench search --messages 500 -t 1 -p notmuch   a small trial

Files in DIR: summary.md, raw.csv, queries.csv. The last one has the queries, which are words of
the mail.

Exit status: 2 if it was interrupted; what was measured so far is in DIR all the same.";

/// Measure searching texts, beside notmuch, mu, mairix and Dovecot
///
/// A Maildir is indexed and searched: by barid with its text index and without, by notmuch, mu and
/// mairix, and by Dovecot with the text index of fts-xapian and without. The queries are words,
/// parts of words, phrases, addresses and more, drawn from the mail. Before anything is timed, the
/// answers are compared with a plain search in the texts: barid may neither miss a message nor add
/// one, and of the others it is counted. Peers that are not installed are left out.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct SearchArgs {
    /// Search the messages in DIR, one file each, instead of generated ones
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    mail: Option<PathBuf>,
    /// Number of messages; those of --mail are repeated with other ids until there are enough
    ///
    /// Default: all of --mail, or 100000.
    #[arg(long, value_name = "NUMBER")]
    messages: Option<u64>,
    /// Number of queries
    #[arg(long, value_name = "NUMBER", default_value_t = QUERIES)]
    queries: usize,
    /// Time NUMBER queries of each class in each field with the peers and without the index
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    peer_queries: usize,
    /// Run queries and deliveries TIMES times
    #[arg(short, long, value_name = "TIMES", default_value_t = 3)]
    times: u32,
    /// Build each index TIMES times
    #[arg(long, value_name = "TIMES", default_value_t = 1)]
    builds: u32,
    /// Deliver NUMBER messages at once, before the indexes are brought up to date
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    deliveries: u64,
    /// Whom to compare with, separated by blanks or commas: notmuch, mu, mairix, dovecot, fts
    /// (Dovecot with fts-xapian), or none
    #[arg(short, long, value_name = "PEERS", default_value = "notmuch mu mairix dovecot fts")]
    peers: Vec<String>,
    /// Put everything into DIR, which must not exist or be empty, and where the peers' user can go
    ///
    /// Default: a new folder among the temporary files.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,
}

/// Runs the bench.
pub(super) fn run(run: &Run, args: &SearchArgs) -> anyhow::Result<ExitCode> {
    let options = search::Options {
        program: run.barid.clone(),
        launcher: run.launcher.clone(),
        mail: args.mail.clone(),
        messages: args.messages,
        queries: args.queries,
        peer_queries: args.peer_queries,
        times: args.times,
        builds: args.builds,
        deliveries: args.deliveries,
        peers: named("peer", &args.peers, &Side::PEERS, Side::name)?,
        rest: REST,
        out: args.output.clone(),
    };
    run.measure(|screen, stop| search::run(&options, screen, stop))
}
