//! `barid count`: prints how many messages match.

use clap::Args;

use super::search::{SearchedArgs, count_messages};
use crate::context::Context;
use crate::exit::Outcome;

const EXAMPLES: &str = "\
Examples:
  barid count ~/Maildir                          all messages
  barid count ~/Maildir is:unread newer:1w
  barid count --in inbox --in archive.mbox from:ann

The end of `barid search --help` lists the terms of a query.

Exit status: 1 if nothing matches, 2 if a message or mailbox could not be read.";

const USAGE: &str = "\
barid count [OPTIONS] <MAILBOX> [QUERY]...
       barid count [OPTIONS] --in <MAILBOX>... --tree <DIR>... [QUERY]...";

/// Count the messages of a mailbox, or of several, that match a query
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    what: SearchedArgs,
}

/// Searches and prints the number of messages.
pub(crate) fn run(context: &mut Context, args: &CountArgs) -> anyhow::Result<Outcome> {
    count_messages(context, &args.what)
}
