//! `barid undo`: brings back what was expunged.

use std::ffi::OsString;

use barid::Mailbox;
use clap::{Args, ValueHint};

use super::report::{Report, Verb};
use super::{ChangeArgs, Session};
use crate::context::Context;
use crate::exit::Outcome;

const EXAMPLES: &str = "\
Examples:
  barid expunge archive.mbox 17
  barid undo archive.mbox

Exit status: 1 if no expunge is kept.";

/// Bring back the messages of the last expunge
///
/// They are appended to the mailbox as they were, with their flags, keywords and dates, and get new
/// UIDs. Only the last expunge of a mailbox is kept, and only if it was not larger than
/// `--keep-expunged` of `barid expunge` says.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct UndoArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Brings them back.
pub(crate) fn run(context: &mut Context, args: &UndoArgs) -> anyhow::Result<Outcome> {
    let mut session = Session::open(context, Verb::Undo, &args.mailbox, &args.change)?;
    let changed = session.change(context, session.options(), Mailbox::undo)?;
    session.finish(context, &Report { changed, ..Report::default() })
}
