//! `barid expunge`: removes messages.

use std::ffi::OsString;
use std::time::Duration;

use barid::{ChangeRequest, Changed, KeepExpunged, KeepLimits};
use clap::{Args, ValueHint};

use super::keep::Keep;
use super::report::{Report, Verb};
use super::{ChangeArgs, ChangeCommand};
use crate::context::Context;
use crate::exit::{Outcome, WithHint};
use crate::mail::numbering::NumberingArgs;
use crate::mail::query::QueryArgs;
use crate::mail::selection::{MessageSelection, SelectedMessages, Selector};
use crate::output::escape::visible;
use crate::output::number::{counted, size};

const EXAMPLES: &str = "\
Examples:
  barid flag ~/Maildir 4711:4720 +deleted
  barid expunge --deleted ~/Maildir        what is marked \\Deleted
  barid expunge archive.mbox 1:4,7,*       these, marked or not
  barid expunge archive.mbox from:ann older:2y
  barid undo archive.mbox                  bring them back
  barid expunge --dry-run archive.mbox all
  barid expunge --forget archive.mbox 17   for good

An empty list of UIDs is an error, so that `barid expunge BOX $(barid search BOX WORD)` expunges
nothing if nothing was found.

Exit status: 1 if a UID does not exist (the others are expunged), no message is marked, or the query
finds none; 2 if no messages are named, they cannot be kept, or one could not be searched.";

const SELECTOR: Selector = Selector {
    hint: "name UIDs or a query, or expunge what is marked \\Deleted with --deleted",
    ..Selector::changing("nothing is expunged")
};

/// Expunge messages: those named, found by a query, or marked \Deleted
///
/// Expunged messages are kept for 30 days so that `barid undo` can restore them. They take at most
/// a quarter of the free space and leave a tenth of the disk free; the oldest are deleted first.
/// Messages of a Maildir or MH folder are linked where possible, others copied. If there is not
/// enough space to keep them, nothing is expunged, unless --forget is given. Pending changes are
/// written at the same time. An mbox may shrink by less than the size of the messages: blanks may
/// stay in headers where that avoids moving everything after them.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ExpungeArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    /// The messages: UIDs and ranges, as in 1:4,7,* (* is the last), or `all`; or a query as for
    /// `barid search`
    #[arg(value_name = "UIDS|QUERY")]
    messages: Vec<String>,
    /// The messages that are marked \Deleted
    #[arg(long, conflicts_with = "messages")]
    deleted: bool,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    numbering: NumberingArgs,
    /// Keep up to SIZE of expunged messages for `barid undo` (as in 500K, 64M, 2G), regardless of
    /// the free space; `no` means --forget
    #[arg(long, value_name = "SIZE|no", conflicts_with = "forget")]
    keep_expunged: Option<Keep>,
    /// Keep expunged messages for this many days
    #[arg(long, value_name = "DAYS", default_value_t = 30, conflicts_with = "forget")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=36_500))]
    keep_days: u32,
    /// Expunge for good: `barid undo` cannot bring these messages back
    #[arg(long)]
    forget: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Expunges the messages.
pub(crate) fn run(context: &mut Context, args: &ExpungeArgs) -> anyhow::Result<Outcome> {
    let selection = match args.deleted {
        true => MessageSelection::Deleted,
        false => MessageSelection::parse(context, &args.messages, args.query, SELECTOR)?,
    };
    let mut session = ChangeCommand::open(context, Verb::Expunge, &args.mailbox, &args.change)?;
    args.numbering.check(&session.mailbox, selection.names_uids())?;
    let selected = selection.select(&mut session.mailbox)?;
    let outcome = expunge(context, args, &mut session, &selected)?;
    Ok(outcome.worse(selected.report_unreadable(context, &args.mailbox)))
}

fn expunge(
    context: &mut Context,
    args: &ExpungeArgs,
    session: &mut ChangeCommand,
    messages: &SelectedMessages,
) -> anyhow::Result<Outcome> {
    let mut report = Report::of(messages);
    let uids = &messages.selected.uids;
    if uids.is_empty() {
        report.changed = Changed { pending: session.mailbox.pending(), ..Changed::default() };
        session.finish(context, &report)?;
        return Ok(Outcome::NothingMatched);
    }
    let request = ChangeRequest { expunge: uids.clone(), ..ChangeRequest::default() };
    let mut options = session.options();
    options.keep_expunged = args.keep();
    let changed =
        session.change(context, options, |mailbox, options| mailbox.change(&request, options));
    report.changed = changed.map_err(in_words)?;
    session.finish(context, &report)
}

impl ExpungeArgs {
    fn keep(&self) -> KeepExpunged {
        let bytes_max = match self.keep_expunged {
            _ if self.forget => return KeepExpunged::No,
            Some(Keep(None)) => return KeepExpunged::No,
            Some(Keep(bytes_max)) => bytes_max,
            None => None,
        };
        let age_max = Duration::from_secs(u64::from(self.keep_days) * 86_400);
        KeepExpunged::OrRefuse(KeepLimits { bytes_max, age_max })
    }
}

/// Says in readable sizes what cannot be kept.
fn in_words(error: anyhow::Error) -> anyhow::Error {
    let Some(known) = error.downcast_ref::<barid::Error>() else { return error };
    let barid::Error::CannotKeep { path, messages, bytes, bytes_max } = known else { return error };
    let text = format!(
        "{}: {} with {} cannot be kept for `barid undo`, with room for {}: nothing was expunged",
        visible(path.as_os_str().as_encoded_bytes()),
        counted(u64::from(*messages), "message"),
        size(*bytes),
        size(*bytes_max),
    );
    let enough = Keep::at_least(*bytes);
    let hint = format!(
        "--forget expunges them for good; --keep-expunged {enough} keeps them if the disk has the \
         room"
    );
    WithHint::error(text, hint)
}
