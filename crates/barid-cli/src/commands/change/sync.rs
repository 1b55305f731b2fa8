//! `barid sync`: writes what is pending.

use std::ffi::OsString;

use barid::Mailbox;
use clap::{Args, ValueHint};

use super::report::{Report, Verb};
use super::{ChangeArgs, Session};
use crate::context::Context;
use crate::exit::Outcome;

const EXAMPLES: &str = "\
Examples:
  barid sync archive.mbox
  barid sync --dry-run archive.mbox        what would be written and moved
  barid sync --json ~/Maildir | jq .figures

The first time the headers of an mbox need room for UIDs and flags, which moves nearly all of it
once; afterwards most changes take a few bytes in place.";

/// Write what is pending into a mailbox
///
/// Pending flags are written, \Recent is dropped from every message, and in an mbox every message
/// gets its UID, so that other programs see the same ones. A change that was interrupted is
/// completed first.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct SyncArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Writes it.
pub(crate) fn run(context: &mut Context, args: &SyncArgs) -> anyhow::Result<Outcome> {
    let mut session = Session::open(context, Verb::Sync, &args.mailbox, &args.change)?;
    let changed = session.change(context, session.options(), Mailbox::sync)?;
    session.finish(context, &Report { changed, ..Report::default() })
}
