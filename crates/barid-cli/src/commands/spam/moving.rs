//! `barid spam move`: moves spam to another mailbox.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use barid::{ChangeOptions, Mailbox, MailboxSpec};
use barid_spam::{At, Classified, MovedSpam, SpamOptions};
use clap::{Args, ValueHint};

use super::input::select;
use super::{ScoringArgs, damage, is_set, stop_on_signal};
use crate::commands::change::incoming::create_mailbox;
use crate::commands::change::locks::LockArgs;
use crate::commands::change::warn_of;
use crate::context::Context;
use crate::exit::{Outcome, WithHint, report};
use crate::mail::numbering::NumberingArgs;
use crate::mail::query::QueryArgs;
use crate::mail::selection::{MessageSelection, Selector};
use crate::output::json::Json;
use crate::output::number::counted;

const EXAMPLES: &str = "\
Examples:
  barid spam move ~/Maildir --to ~/Maildir/.Junk
  barid spam move ~/Maildir newer:1d -is:answered --to ~/Maildir/.Junk
  barid spam move inbox 4711,4720:* --to junk.mbox
  barid spam move --dry-run inbox --to junk.mbox
  barid spam move --create inbox --to maildir:junk

A message is removed only when its copy is safe on the disk. Messages that were trained as ham
(`barid spam retrain --ham`) stay.

Exit status: 1 if a UID does not exist (the others are considered) or the query finds nothing, 2 if
a message could not be read.";

/// Move spam to another mailbox
///
/// Messages without a score are classified first.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct MoveArgs {
    /// The mailbox to move spam from: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    /// Only these messages, of which those that are spam are moved, in place of all: UIDs and
    /// ranges, as in 1:4,7,* (* is the last); or a query as for `barid search`
    #[arg(value_name = "UIDS|QUERY")]
    messages: Vec<String>,
    /// The mailbox to move spam to: a path, or FORMAT:PATH
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::AnyPath)]
    to: OsString,
    /// Create FOLDER if it does not exist: in the format named before it, else in the format of
    /// the tree around it, else a Maildir if its name ends with `/`, else an mbox
    #[arg(long, conflicts_with = "dry_run")]
    create: bool,
    /// Only print how many messages would be moved
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    query: QueryArgs,
    #[command(flatten)]
    numbering: NumberingArgs,
    #[command(flatten)]
    scoring: ScoringArgs,
    #[command(flatten)]
    locks: LockArgs,
}

/// Moves the spam.
pub(crate) fn run(context: &mut Context, args: &MoveArgs) -> anyhow::Result<Outcome> {
    if context.global.read_only && !args.dry_run {
        return Err(WithHint::error(
            "`barid spam move` changes mailboxes, and --read-only forbids it",
            "leave out --read-only, or add --dry-run",
        ));
    }
    if args.messages.is_empty() && (args.query.is_given() || args.numbering.is_given()) {
        return Err(WithHint::error(
            "an option is about messages that are named, and none are: nothing is moved",
            "name UIDs or a query; without these options all messages are considered",
        ));
    }
    let selector = Selector::changing("nothing is moved");
    let selection =
        MessageSelection::parse_optional(context, &args.messages, args.query, selector)?;
    if args.create {
        create_mailbox(context, &args.to)?;
    }
    let stop = stop_on_signal(context)?;
    let [mut source, mut target] = open_both(context, args, &stop)?;
    let names_uids = selection.as_ref().is_some_and(MessageSelection::names_uids);
    args.numbering.check(&source, names_uids)?;
    let messages = select(&mut source, selection.as_ref())?;
    context.has_changed.set(!args.dry_run);
    let mut failed = Vec::new();
    let (filter, moved) = context.with_line(Some(Arc::clone(&stop)), |progress| {
        let options = SpamOptions {
            stop: Some(Arc::clone(&stop)),
            progress: progress.clone(),
            ..SpamOptions::default()
        };
        let change = ChangeOptions {
            dry_run: args.dry_run,
            stop: Some(Arc::clone(&stop)),
            progress,
            ..ChangeOptions::default()
        };
        let filter = args.scoring.filter(context, options)?;
        let tell = &mut |at: At, found: barid_spam::Result<Option<Classified>>| {
            if let (At::Uid(uid), Err(error)) = (at, found) {
                failed.push(anyhow::Error::new(error).context(format!("UID {uid}")));
            }
            Ok(())
        };
        let uids = &messages.selected.uids;
        let moved = filter.move_spam(&mut source, uids, &mut target, &change, tell);
        anyhow::Ok((filter, moved))
    })?;
    damage::warn_of(context, &filter);
    let moved = moved?;
    print(context, args, &moved)?;
    let copies = moved.copied.iter().map(|copied| &copied.trouble);
    copies.chain(&moved.changed).for_each(|changed| warn_of(context, changed));
    let not_copied = moved.copied.into_iter().flat_map(|copied| copied.failed);
    failed.extend(
        not_copied.map(|(uid, error)| anyhow::Error::new(error).context(format!("UID {uid}"))),
    );
    failed.iter().for_each(|error| report(context, error));
    if is_set(&stop) {
        let hint = "run it again to continue: no message was lost";
        return Err(WithHint::error("interrupted before all spam was moved", hint));
    }
    let outcome = if failed.is_empty() { Outcome::Done } else { Outcome::Incomplete };
    let is_nothing = selection.is_some() && messages.selected.uids.is_empty();
    let outcome = outcome.worse(messages.report(context, &args.mailbox));
    Ok(outcome.worse(Outcome::nothing_if(is_nothing)))
}

fn open_both(
    context: &Context,
    args: &MoveArgs,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<[Mailbox; 2]> {
    let open = |spec: &MailboxSpec| {
        context.open_with(spec, &|options| {
            options.read_only |= args.dry_run;
            options.stop = Some(Arc::clone(stop));
            args.locks.apply(options);
        })
    };
    let source = match args.dry_run {
        true => context.spec(&args.mailbox)?,
        false => context.spec_on_disk(&args.mailbox)?,
    };
    Ok([open(&source)?, open(&context.spec_on_disk(&args.to)?)?])
}

fn print(context: &mut Context, args: &MoveArgs, moved: &MovedSpam) -> anyhow::Result<()> {
    let expunged = moved.changed.as_ref().map_or(0, |changed| u64::from(changed.expunged));
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "spam_moved");
        json.key("mailbox").bytes(args.mailbox.as_encoded_bytes());
        json.key("to").bytes(args.to.as_encoded_bytes());
        json.key("read").number(moved.scored.read);
        json.key("kept").number(moved.scored.kept);
        json.key("spam").number(moved.spam);
        json.key("trusted").number(moved.trusted);
        json.key("moved").number(expunged);
        json.key("dry_run").bool(args.dry_run);
        json.end_line();
        return Ok(());
    }
    let trusted = match moved.trusted {
        0 => String::new(),
        trusted => format!("; {} trained as ham stay", counted(trusted, "message")),
    };
    let text = match args.dry_run {
        true => {
            format!("{} would be moved{trusted}", counted(moved.spam - moved.trusted, "message"))
        }
        false => format!("{} moved{trusted}", counted(expunged, "message")),
    };
    Ok(context.out.line(&text)?)
}
