//! `barid bench mbox`: rewriting an mbox.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use barid_bench::mbox::{self, Side};
use clap::{Args, ValueHint};

use super::{Terminal, stop_signal, words};
use crate::context::Context;
use crate::exit::Outcome;

const EXAMPLES: &str = "\
Examples:
  barid bench mbox                             361,052 messages, beside all peers
  barid bench mbox --messages 2000 -t 3        a small trial
  barid bench mbox --mbox archive.mbox -p dovecot -o results

Files in DIR: summary.md, raw.csv.

Exit status: 2 if it was interrupted; what was measured so far is in DIR all the same.";

/// Measure rewriting an mbox, beside Dovecot and UW c-client
///
/// Each works on copies of the same file, for which four times its size must be free: status
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
    /// How often to run each
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

/// Measures.
pub(super) fn run(context: &mut Context, args: &MboxArgs) -> anyhow::Result<Outcome> {
    let options = mbox::Options {
        program: std::env::current_exe().context("this program cannot be found")?,
        mbox: args.mbox.clone(),
        messages: args.messages,
        times: args.times,
        peers: peers(&args.peers)?,
        drop_caches: args.drop_caches,
        out: args.output.clone(),
    };
    let stop = stop_signal().context("signals cannot be caught")?;
    let report = mbox::run(&options, &mut Terminal::new(context), &stop)?;
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

fn peers(lists: &[String]) -> anyhow::Result<Vec<Side>> {
    let mut peers = Vec::new();
    for word in words(lists).filter(|word| *word != "none") {
        match Side::PEERS.into_iter().find(|side| side.name() == word) {
            Some(side) => peers.push(side),
            None => bail!("no peer {word:?}; there are dovecot, dovecot-lazy, c-client, none"),
        }
    }
    Ok(peers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_have_names() {
        let check = |text: &str, expected: Option<&[Side]>| {
            assert_eq!(peers(&[text.to_owned()]).ok().as_deref(), expected, "{text}");
        };
        check("dovecot, c-client", Some(&[Side::Dovecot, Side::CClient]));
        check("none", Some(&[]));
        check("copy", None);
    }
}
