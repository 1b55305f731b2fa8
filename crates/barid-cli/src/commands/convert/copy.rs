//! `barid copy`: copies messages to another mailbox.

use std::ffi::OsString;
use std::sync::Arc;

use barid::convert::ConvertOptions;
use clap::{Args, ValueHint};

use super::report::{self, CopyPrinter, Pair};
use super::{CopyCommand, HowArgs};
use crate::commands::change::incoming::create_mailbox;
use crate::context::Context;
use crate::exit::{Outcome, WithHint};
use crate::mail::numbering::NumberingArgs;
use crate::mail::query::QueryArgs;
use crate::mail::selection::{MessageSelection, Selector};
use crate::output::escape::visible;
use crate::output::number::counted;

const EXAMPLES: &str = "\
Examples:
  barid copy ~/Maildir 17 archive.mbox
  barid copy old.mbox all ~/Maildir --dedupe message-id
  barid copy --create inbox 1:1000 mix:archive --proof proof.jsonl
  barid copy ~/Maildir 'from:ann subject:/invoice [0-9]+/' invoices.mbox

The messages get new UIDs. Messages copied before the command is interrupted stay.

Exit status: 1 if a message does not exist or the query finds nothing, 2 if one could not be copied, or differs in the proof.";

/// Copy messages to another mailbox
///
/// Keeps texts, internal dates, flags and keywords; lists what the other format cannot store.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CopyArgs {
    /// The mailbox to copy from: a path, or FORMAT:PATH
    #[arg(value_name = "MAILBOX", value_hint = ValueHint::AnyPath)]
    source: OsString,
    /// The messages: UIDs and ranges separated by commas, as in 1,5:7,20:*, or `all`; or a query
    /// as for `barid search`, in quotes if it has several words
    #[arg(value_name = "UIDS|QUERY")]
    messages: String,
    /// The mailbox to copy to: a path, or FORMAT:PATH
    #[arg(value_name = "DST", value_hint = ValueHint::AnyPath)]
    target: OsString,
    /// Create DST if it does not exist: in the format named before it, else in the format of the
    /// tree around it, else a Maildir if its name ends with `/`, else an mbox
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    numbering: NumberingArgs,
    #[command(flatten)]
    how: HowArgs,
}

/// Adds to the error of a stopped copy the command that continues it.
fn stopped(error: barid::Error, args: &CopyArgs) -> anyhow::Error {
    let barid::Error::ConversionStopped { next, .. } = error else { return error.into() };
    let hint = match next {
        Some(uid) => format!(
            "to continue, run `barid copy {} {uid}:* {}` with the same options, and only those of \
             the given UIDs that are {uid} or higher",
            visible(args.source.as_encoded_bytes()),
            visible(args.target.as_encoded_bytes()),
        ),
        None => "nothing was copied: run it again".to_owned(),
    };
    WithHint::error(error.to_string(), hint)
}

/// Copies the messages.
pub(crate) fn run(context: &mut Context, args: &CopyArgs) -> anyhow::Result<Outcome> {
    let selector = Selector::changing("nothing is copied");
    let selection = MessageSelection::parse_one(context, &args.messages, args.query, selector)?;
    let session = CopyCommand::start(context, "copy", &args.how)?;
    let (mut source, is_settled) =
        context.open_and(&args.source, |source| source.wait_for_arrivals())?;
    if !is_settled && selection.is_open() {
        context.is_incomplete.set(true);
    }
    if args.create && !context.global.read_only {
        create_mailbox(context, &args.target)?;
    }
    let mut target = context.open_with(&context.spec_on_disk(&args.target)?, &|options| {
        options.stop = Some(Arc::clone(&session.stop));
        session.how.locks.apply(options);
    })?;
    args.numbering.check(&source, selection.names_uids())?;
    let mut messages = selection.select(&mut source)?;
    let mut proofs = session.proofs()?;
    let uids = &messages.selected.uids;
    let pair = Pair::new(&args.source, &args.target);
    if messages.is_found && !context.global.json {
        let name = visible(args.source.as_encoded_bytes());
        let count = counted(uids.len() as u64, "message");
        context.out.line(&format!("{name}: {count} selected"))?;
    }
    context.has_changed.set(true);
    let mut printer = CopyPrinter::new(context, &pair, &mut proofs)?;
    let copied = context.with_line(Some(Arc::clone(&session.stop)), |progress| {
        let options = ConvertOptions { progress, ..session.options() };
        let tell = &mut |event: barid::convert::ConvertEvent<'_>| printer.print_event(&event);
        barid::convert::copy(&mut source, uids, &mut target, &options, tell)
    });
    let (told, _) = printer.finish();
    context.out.block(&told)?;
    let copied = copied.map_err(|error| stopped(error, args))?;
    let outcome = report::report(context, "copy", &pair, &copied, session.started)?;
    if let Some(mut proofs) = proofs {
        proofs.proven(&copied);
        proofs.finish("the messages are copied: only the proof is missing")?;
    }
    let is_nothing = messages.is_found && uids.is_empty();
    messages.selected.missing.extend(&copied.gone);
    let outcome = outcome.worse(messages.report(context, &args.source));
    Ok(outcome.worse(Outcome::nothing_if(is_nothing)))
}
