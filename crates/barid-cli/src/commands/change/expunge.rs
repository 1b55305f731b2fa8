//! `barid expunge`: removes messages.

use std::ffi::OsString;

use barid::{ChangeRequest, Changed, Uid};
use clap::{Args, ValueHint};

use super::keep::Keep;
use super::report::{Report, Verb};
use super::which::{Chosen, Which};
use super::{ChangeArgs, Session};
use crate::context::Context;
use crate::exit::Outcome;
use crate::mail::numbering::NumberingArgs;
use crate::mail::uids::SelectedUids;
use crate::output::escape::visible;
use crate::output::number::size;

const EXAMPLES: &str = "\
Examples:
  barid flag ~/Maildir 4711:4720 +deleted
  barid expunge --deleted ~/Maildir        what is marked \\Deleted
  barid expunge archive.mbox 1:4,7,*       these, marked or not
  barid expunge archive.mbox from:ann older:2y
  barid undo archive.mbox                  bring them back
  barid expunge --dry-run archive.mbox all
  barid expunge --keep-expunged no archive.mbox 17

An empty list of UIDs is an error, so that `barid expunge BOX $(barid search BOX WORD)` expunges
nothing if nothing was found.

Exit status: 1 if a UID is not there, no message is marked, or the query finds none; the others are
expunged. 2 if no messages are named, or one could not be searched.";

/// Remove messages for good: those named, found by a query, or marked \Deleted
///
/// A copy of what is removed is kept for `barid undo`, unless it is too large, which is told before
/// anything is changed; older copies go when all together take more than 64 MB. What is pending is
/// written at the same time. An mbox is not always as much smaller as what was removed: blanks may
/// stay in headers where that saves moving everything behind.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ExpungeArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    /// The messages: UIDs and ranges of them, as in 1:4,7,* (* is the last), or `all`; or a query,
    /// as `barid search` takes it
    #[arg(value_name = "UIDS|QUERY")]
    which: Vec<String>,
    /// The messages that are marked \Deleted
    #[arg(long, conflicts_with = "which")]
    deleted: bool,
    #[command(flatten)]
    numbering: NumberingArgs,
    /// Keep what is expunged for `barid undo` if it is no larger than SIZE (as in 500K, 64M, 2G);
    /// with `no`, `barid undo` says that the last expunge is not kept
    #[arg(long, value_name = "SIZE|no", default_value_t)]
    keep_expunged: Keep,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Expunges the messages.
pub(crate) fn run(context: &mut Context, args: &ExpungeArgs) -> anyhow::Result<Outcome> {
    let which = Which::parse(&args.which, args.deleted)?;
    let mut session = Session::open(context, Verb::Expunge, &args.mailbox, &args.change)?;
    args.numbering.check(&session.mailbox, which.names_uids())?;
    let Chosen { selected, unreadable } = which.select(&mut session.mailbox)?;
    let outcome = expunge(context, args, &mut session, selected)?;
    for (uid, error) in &unreadable {
        let name = args.mailbox.display();
        context.error_line("error", &visible(format!("{name}: UID {uid}: {error}").as_bytes()));
    }
    Ok(if unreadable.is_empty() { outcome } else { Outcome::Incomplete })
}

fn expunge(
    context: &mut Context,
    args: &ExpungeArgs,
    session: &mut Session,
    selected: SelectedUids,
) -> anyhow::Result<Outcome> {
    let mut report =
        Report { missing: selected.missing, keep: args.keep_expunged.0, ..Report::default() };
    if selected.uids.is_empty() {
        report.changed = Changed { pending: session.mailbox.pending(), ..Changed::default() };
        session.finish(context, &report)?;
        return Ok(Outcome::NothingMatched);
    }
    let request = ChangeRequest { expunge: selected.uids, ..ChangeRequest::default() };
    let mut options = session.options();
    options.keep_expunged = args.keep_expunged.0;
    warn_if_too_large(context, session, &request.expunge, args.keep_expunged.0)?;
    report.changed =
        session.change(context, options, |mailbox, options| mailbox.change(&request, options))?;
    session.finish(context, &report)
}

/// Says beforehand that messages cannot be brought back, and what would help.
fn warn_if_too_large(
    context: &Context,
    session: &Session,
    uids: &[Uid],
    most: Option<u64>,
) -> anyhow::Result<()> {
    let Some(most) = most else { return Ok(()) };
    let bytes = session.mailbox.bytes_of_messages(uids)?;
    if bytes > most {
        let enough = Keep::at_least(bytes);
        context.warn(&format!(
            "these messages take {}, and `barid undo` cannot bring back more than {}: \
             `--keep-expunged {enough}` keeps them",
            size(bytes),
            size(most),
        ));
    }
    Ok(())
}
