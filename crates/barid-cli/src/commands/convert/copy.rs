//! `barid copy`: copies messages to another mailbox.

use std::ffi::OsString;
use std::sync::Arc;

use barid::convert::ConvertOptions;
use clap::{Args, ValueHint};

use super::report::{self, CopyPrinter, Pair};
use super::{CopyCommand, HowArgs};
use crate::commands::change::incoming::create_mailbox;
use crate::context::Context;
use crate::exit::{Outcome, WithHint, report as report_error};
use crate::limits::MISSING_SHOWN;
use crate::mail::numbering::NumberingArgs;
use crate::mail::uids::UidRanges;
use crate::output::escape::visible;
use crate::output::number::counted;

const EXAMPLES: &str = "\
Examples:
  barid copy ~/Maildir 17 archive.mbox
  barid copy old.mbox all ~/Maildir --dedupe message-id
  barid copy --create inbox 1:1000 mix:archive --proof proof.jsonl

The messages get new UIDs. Messages copied before the command is interrupted stay.

Exit status: 1 if a message does not exist, 2 if one could not be copied, or differs in the proof.";

/// Copy messages to another mailbox
///
/// Keeps texts, internal dates, flags and keywords; lists what the other format cannot store.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CopyArgs {
    /// The mailbox to copy from: a path, or FORMAT:PATH
    #[arg(value_name = "MAILBOX", value_hint = ValueHint::AnyPath)]
    source: OsString,
    /// The messages: UIDs and ranges separated by commas, as in 1,5:7,20:*, or `all`
    #[arg(value_name = "UIDS")]
    uids: UidRanges,
    /// The mailbox to copy to: a path, or FORMAT:PATH
    #[arg(value_name = "DST", value_hint = ValueHint::AnyPath)]
    target: OsString,
    /// Create DST if it does not exist: in the format named before it, else in the format of the
    /// tree around it, else a Maildir if its name ends with `/`, else an mbox
    #[arg(long)]
    create: bool,
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
    if args.create && !context.global.read_only {
        create_mailbox(context, &args.target)?;
    }
    let session = CopyCommand::start(context, "copy", &args.how)?;
    let (mut source, is_settled) =
        context.open_and(&args.source, |source| source.wait_for_arrivals())?;
    if !is_settled && !args.uids.names_uids() {
        context.is_incomplete.set(true);
    }
    let mut target = context.open_with(&context.spec_on_disk(&args.target)?, &|options| {
        options.stop = Some(Arc::clone(&session.stop));
        session.how.locks.apply(options);
    })?;
    args.numbering.check(&source, args.uids.names_uids())?;
    let selected = args.uids.select(&source)?;
    let mut proofs = session.proofs()?;
    let pair = Pair::new(&args.source, &args.target);
    context.has_changed.set(true);
    let mut printer = CopyPrinter::new(context, &pair, &mut proofs)?;
    let copied = context.with_line(Some(Arc::clone(&session.stop)), |progress| {
        let options = ConvertOptions { progress, ..session.options() };
        let tell = &mut |event: barid::convert::ConvertEvent<'_>| printer.print_event(&event);
        barid::convert::copy(&mut source, &selected.uids, &mut target, &options, tell)
    });
    let (told, _) = printer.finish();
    context.out.block(&told)?;
    let copied = copied.map_err(|error| stopped(error, args))?;
    let outcome = report::report(context, "copy", &pair, &copied, session.started)?;
    if let Some(mut proofs) = proofs {
        proofs.proven(&copied);
        proofs.finish("the messages are copied: only the proof is missing")?;
    }
    let missing = selected.missing.iter().chain(&copied.gone);
    for uid in missing.clone().take(MISSING_SHOWN) {
        let path = args.source.clone().into();
        report_error(context, &barid::Error::NoSuchMessage { path, uid: *uid }.into());
    }
    let more = missing.clone().count().saturating_sub(MISSING_SHOWN);
    if more > 0 {
        let more = counted(more as u64, "more UID");
        context.error_line("error", &format!("{more} not there"));
    }
    Ok(match outcome {
        Outcome::Done if missing.count() > 0 => Outcome::NothingMatched,
        outcome => outcome,
    })
}
