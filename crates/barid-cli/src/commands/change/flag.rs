//! `barid flag`: adds and removes flags and keywords.

use std::ffi::OsString;

use barid::{ChangeRequest, Changed, FlagChanges, WriteWhen};
use clap::{Args, ValueHint};

use super::report::{Report, Verb};
use super::{ChangeArgs, ChangeCommand};
use crate::context::Context;
use crate::exit::{Outcome, WithHint};
use crate::mail::flags::{FlagRequest, FlagWord};
use crate::mail::numbering::NumberingArgs;
use crate::mail::query::QueryArgs;
use crate::mail::selection::{MessageSelection, SelectedMessages, Selector};

const EXAMPLES: &str = "\
Examples:
  barid flag ~/Maildir 4711 +seen -flagged          one message
  barid flag archive.mbox 1:4,7,* +seen +todo       several, and a keyword
  barid flag archive.mbox all =seen                 no other flag and no keyword
  barid flag ~/Maildir 'list:rust older:2w' +seen   what a query finds
  barid flag archive.mbox 17 =                      no flag and no keyword at all
  barid flag --write-through archive.mbox 17 +answered
  barid flag --dry-run --write-through archive.mbox all +seen

Flags: seen, answered, flagged, deleted, draft, in any case, also as \\Seen; anything else is a
keyword. Put `--` before a word that looks like an option: `-- -v` removes the keyword v.

Exit status: 1 if a UID does not exist (the others are changed) or the query finds nothing, 2 if a
message could not be searched.";

/// Add flags and keywords to messages, and remove them
///
/// In an mbox the change stays pending at first: it is safe on the disk and every command shows it,
/// but it is written into the mailbox only by the next `barid sync`, `barid expunge` or `barid
/// append`, or when many changes are pending. A Maildir is changed at once.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct FlagArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    /// The messages: UIDs and ranges, as in 1:4,7,* (* is the last), or `all`; or a query as for
    /// `barid search`, in quotes if it has several words
    #[arg(value_name = "UIDS|QUERY")]
    messages: String,
    /// The change: +FLAG adds a flag, -FLAG removes it, =FLAG removes all others, = removes all
    #[arg(required = true, value_name = "FLAG")]
    flags: Vec<FlagWord>,
    /// Write the change, and all pending ones, into the mailbox before the command ends
    #[arg(long)]
    write_through: bool,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    numbering: NumberingArgs,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Changes the flags.
pub(crate) fn run(context: &mut Context, args: &FlagArgs) -> anyhow::Result<Outcome> {
    let wanted = FlagRequest::new(&args.flags)
        .map_err(|error| WithHint::error(error, "`barid flag --help` shows how flags are named"))?;
    let selector = Selector::changing("nothing is flagged");
    let selection = MessageSelection::parse_one(context, &args.messages, args.query, selector)?;
    let mut session = ChangeCommand::open(context, Verb::Flag, &args.mailbox, &args.change)?;
    args.numbering.check(&session.mailbox, selection.names_uids())?;
    let selected = selection.select(&mut session.mailbox)?;
    let outcome = flag(context, args, &mut session, &selected, &wanted)?;
    Ok(outcome.worse(selected.report_unreadable(context, &args.mailbox)))
}

fn flag(
    context: &mut Context,
    args: &FlagArgs,
    session: &mut ChangeCommand,
    messages: &SelectedMessages,
    wanted: &FlagRequest,
) -> anyhow::Result<Outcome> {
    let mut report = Report::of(messages);
    let uids = &messages.selected.uids;
    if uids.is_empty() {
        report.changed = Changed { pending: session.mailbox.pending(), ..Changed::default() };
        session.finish(context, &report)?;
        return Ok(Outcome::NothingMatched);
    }
    let change = wanted.change(session.mailbox.keywords());
    let mut flags = FlagChanges::default();
    flags.push_all(uids.clone(), &change);
    let request = ChangeRequest { flags, ..ChangeRequest::default() };
    let mut options = session.options();
    options.write = if args.write_through { WriteWhen::Now } else { WriteWhen::Pending };
    report.changed =
        session.change(context, options, |mailbox, options| mailbox.change(&request, options))?;
    session.finish(context, &report)
}
