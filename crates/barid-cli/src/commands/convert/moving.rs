//! `barid move`: moves messages to another mailbox.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use barid::convert::{ConvertOptions, Moved, check_move, move_messages};
use clap::{Args, ValueHint};

use super::report::{self, CopyPrinter, Pair};
use super::{CopyCommand, HowArgs};
use crate::commands::change::incoming::{create_mailbox, is_missing};
use crate::commands::change::locks::LockArgs;
use crate::commands::change::warn_of;
use crate::context::Context;
use crate::exit::{Outcome, WithHint};
use crate::mail::numbering::NumberingArgs;
use crate::mail::query::QueryArgs;
use crate::mail::selection::{MessageSelection, Selector};
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::counted;

const EXAMPLES: &str = "\
Examples:
  barid move ~/Maildir 17 archive.mbox
  barid move ~/Maildir 'from:ann older:1y' @archive
  barid move --create inbox 'received-since:2024 received-before:2025' mix:mail-2024
  barid move --dry-run inbox is:read archive.mbox

The messages get new UIDs. A message leaves MAILBOX when its copy is safe on the disk, so after a
crash or an interruption each is in one of both mailboxes, or in both; the same command then
continues, copies none twice, and removes what is left. The last message of an mbox is also kept for
`barid undo`, since another program may still be writing it.

Exit status: 1 if a message does not exist or nothing was found, 2 if one could not be moved.";

/// Move messages to another mailbox
///
/// Keeps texts, internal dates, flags and keywords; lists what the other format cannot store. The
/// mailboxes may have different formats.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct MoveMessagesArgs {
    /// The mailbox to move from: a path, or FORMAT:PATH
    #[arg(value_name = "MAILBOX", value_hint = ValueHint::AnyPath)]
    source: OsString,
    /// The messages: UIDs and ranges separated by commas, as in 1,5:7,20:*, or `all`; or a query
    /// as for `barid search`, in quotes if it has several words
    #[arg(value_name = "UIDS|QUERY")]
    messages: String,
    /// The mailbox to move to: a path, or FORMAT:PATH
    #[arg(value_name = "DST", value_hint = ValueHint::AnyPath)]
    target: OsString,
    /// Create DST if it does not exist: in the format named before it, else in the format of the
    /// tree around it, else a Maildir if its name ends with `/`, else an mbox
    #[arg(long, conflicts_with = "dry_run")]
    create: bool,
    /// Only print how many messages would be moved
    #[arg(long)]
    dry_run: bool,
    /// Read every copy back and compare it before its message is removed, and write a line of JSON
    /// for each to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "dry_run")]
    proof: Option<PathBuf>,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    numbering: NumberingArgs,
    #[command(flatten)]
    locks: LockArgs,
}

/// Moves the messages.
pub(crate) fn run(context: &mut Context, args: &MoveMessagesArgs) -> anyhow::Result<Outcome> {
    let selector = Selector::changing("nothing is moved");
    let selection = MessageSelection::parse_one(context, &args.messages, args.query, selector)?;
    if args.dry_run {
        return dry_run(context, args, &selection);
    }
    let how = HowArgs { proof: args.proof.clone(), dedupe: None, locks: args.locks.clone() };
    let session = CopyCommand::start(context, "move", &how)?;
    let [mut source, mut target] = open_both(context, args, &session)?;
    if !source.wait_for_arrivals()? && selection.is_open() {
        context.is_incomplete.set(true);
    }
    args.numbering.check(&source, selection.names_uids())?;
    let mut messages = selection.select(&mut source)?;
    let mut proofs = session.proofs()?;
    let pair = Pair::new(&args.source, &args.target);
    context.has_changed.set(true);
    let mut printer = CopyPrinter::new(context, &pair, &mut proofs)?;
    let moved = context.with_line(Some(Arc::clone(&session.stop)), |progress| {
        let options = ConvertOptions { progress, ..session.options() };
        let tell = &mut |event: barid::convert::ConvertEvent<'_>| printer.print_event(&event);
        move_messages(&mut source, &messages.selected.uids, &mut target, &options, tell)
    });
    let (told, _) = printer.finish();
    context.out.block(&told)?;
    let moved = moved.map_err(|error| stopped(error, args))?;
    report::report_move(context, &pair, &moved, session.started)?;
    if let Some(mut proofs) = proofs {
        if let Some(copied) = &moved.copied {
            proofs.proven(copied);
        }
        proofs.finish("the messages are moved: only the proof is missing")?;
    }
    messages.selected.missing.extend(moved.copied.iter().flat_map(|copied| &copied.gone));
    let outcome = messages.report(context, &args.source).worse(trouble(context, &moved));
    Ok(outcome.worse(Outcome::nothing_if(moved.uids.is_empty())))
}

fn open_both(
    context: &Context,
    args: &MoveMessagesArgs,
    session: &CopyCommand,
) -> anyhow::Result<[barid::Mailbox; 2]> {
    let open = |name: &OsString| {
        context.open_with(&context.spec_on_disk(name)?, &|options| {
            options.stop = Some(Arc::clone(&session.stop));
            args.locks.apply(options);
        })
    };
    let source = open(&args.source)?;
    if args.create && !context.global.read_only {
        create_mailbox(context, &args.target)?;
    }
    Ok([source, open(&args.target)?])
}

/// Counts the messages that would be moved.
fn dry_run(
    context: &mut Context,
    args: &MoveMessagesArgs,
    selection: &MessageSelection,
) -> anyhow::Result<Outcome> {
    let open = |context: &Context, name: &OsString| {
        context.open_with(&context.spec_on_disk(name)?, &|options| {
            options.read_only = true;
            args.locks.apply(options);
        })
    };
    let mut source = open(context, &args.source)?;
    if !(args.create && is_missing(&context.spec_on_disk(&args.target)?)?) {
        let target = open(context, &args.target)?;
        check_move(&source, &target)?;
    }
    args.numbering.check(&source, selection.names_uids())?;
    let messages = selection.select(&mut source)?;
    let count = messages.selected.uids.len() as u64;
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "move");
        json.key("source").bytes(args.source.as_encoded_bytes());
        json.key("target").bytes(args.target.as_encoded_bytes());
        json.key("dry_run").bool(true);
        json.key("moved").number(count);
        json.end_line();
    } else {
        let would_move = counted(count, "message");
        let [source, target] =
            [&args.source, &args.target].map(|name| visible(name.as_encoded_bytes()));
        context.out.line(&format!("{source} -> {target}: would move {would_move}"))?;
    }
    Ok(messages.report(context, &args.source).worse(Outcome::nothing_if(count == 0)))
}

/// Reports everything that the move could not do.
fn trouble(context: &Context, moved: &Moved) -> Outcome {
    moved.changed.iter().for_each(|changed| warn_of(context, changed));
    let unsettled = moved.changed.iter().flat_map(|changed| &changed.unsettled);
    unsettled.for_each(|text| context.error_line("error", &visible(text.as_bytes())));
    if let Some(copied) = &moved.copied {
        report::report_trouble(context, copied);
    }
    if !moved.unproven.is_empty() {
        let count = counted(moved.unproven.len() as u64, "message");
        let text = format!("{count} stayed, as the copies differ; the copies stay, too");
        context.error_line("error", &text);
    }
    let is_settled = moved.changed.iter().all(|changed| changed.unsettled.is_empty());
    match moved.is_whole() && is_settled {
        true => Outcome::Done,
        false => Outcome::Incomplete,
    }
}

/// Adds to the error of a stopped move how to continue.
fn stopped(error: barid::Error, args: &MoveMessagesArgs) -> anyhow::Error {
    let barid::Error::ConversionStopped { done, total, .. } = error else { return error.into() };
    let source = visible(args.source.as_encoded_bytes());
    WithHint::error(
        format!("{source}: stopped after {done} of {total} messages were copied, before any left"),
        "no message is lost: run it again to continue; none is copied twice",
    )
}
