//! `barid undo`: brings back expunged messages.

use std::ffi::OsString;

use barid::vfs::Timestamp;
use barid::{KeptExpunge, KeptState, KeptSummary, Undo};
use clap::{Args, ValueHint};

use super::report::{Report, Verb};
use super::{ChangeArgs, ChangeCommand};
use crate::context::Context;
use crate::exit::{NotThere, Outcome};
use crate::output::date::{SHORT_WIDTH, write_short};
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::{counted, grouped, size};
use crate::output::table::{Align, Table};

const EXAMPLES: &str = "\
Examples:
  barid expunge archive.mbox 17
  barid undo archive.mbox
  barid undo --list archive.mbox           what can be brought back
  barid undo --number 3 archive.mbox       not the last expunge, but this one
  barid undo --discard archive.mbox        forget what was expunged

Exit status: 1 if no expunge is kept, or the last one was not.";

/// Bring back the messages of the last expunge
///
/// Appends them to the mailbox with their flags, keywords and dates and new UIDs; in an mbox their
/// bytes are the same as before. The next `barid undo` brings back the messages of the expunge
/// before that. Expunges are kept for 30 days if the disk has room (see `barid expunge`); --list
/// shows until when. An expunge that failed does not remove earlier ones.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct UndoArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    /// List the kept expunges, the last first; reads them completely to find damage
    #[arg(long, group = "what")]
    list: bool,
    /// Bring back the expunge with this number in the list
    #[arg(long, value_name = "N", group = "what")]
    number: Option<u64>,
    /// Forget all kept expunges
    #[arg(long, group = "what", conflicts_with = "dry_run")]
    discard: bool,
    /// Bring back the last expunge of the mailbox that was at this path before another program
    /// replaced it with a new file
    #[arg(long, group = "what")]
    replaced: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Brings the messages back, or lists or discards the kept expunges.
pub(crate) fn run(context: &mut Context, args: &UndoArgs) -> anyhow::Result<Outcome> {
    if args.list {
        return list(context, args);
    }
    let mut session = ChangeCommand::open(context, Verb::Undo, &args.mailbox, &args.change)?;
    if args.discard {
        return discard(context, args, &mut session);
    }
    let which = match (args.number, args.replaced) {
        (Some(number), _) => Undo::Number(number),
        (None, true) => Undo::Replaced,
        (None, false) => Undo::Last,
    };
    let options = session.options();
    let changed =
        session.change(context, options, |mailbox, options| mailbox.undo_one(which, options));
    let changed = changed.map_err(in_words)?;
    let left = if args.change.dry_run {
        KeptSummary::default()
    } else {
        session.mailbox.kept_summary()?
    };
    session.finish(context, &Report { changed, left, ..Report::default() })
}

/// Formats the error of an expunge that was not kept with readable sizes.
fn in_words(error: anyhow::Error) -> anyhow::Error {
    let Some(known) = error.downcast_ref::<barid::Error>() else { return error };
    let barid::Error::NotKept { path, messages, bytes, .. } = known else { return error };
    let text = format!(
        "{}: the last expunge, of {} with {}, was not kept",
        visible(path.as_os_str().as_encoded_bytes()),
        counted(u64::from(*messages), "message"),
        size(*bytes),
    );
    NotThere::error(text, known.hint().unwrap_or_default())
}

/// Prints the kept expunges.
fn list(context: &mut Context, args: &UndoArgs) -> anyhow::Result<Outcome> {
    let mailbox = context.open_on_disk(&args.mailbox)?;
    let all = mailbox.kept_expunges()?;
    if context.global.json {
        all.iter().for_each(|kept| write_json(context.out.buffer(), args, kept));
    } else if all.is_empty() {
        let name = visible(args.mailbox.as_encoded_bytes());
        context.out.line(&format!("{name}: no expunge is kept"))?;
    } else {
        write_table(context.out.buffer(), &all);
    }
    if all.is_empty() {
        warn_of_replaced(context, &mailbox, &args.mailbox)?;
    }
    Ok(Outcome::nothing_if(all.is_empty()))
}

/// Warns of messages that were expunged from the mailbox that this one has replaced.
pub(crate) fn warn_of_replaced(
    context: &Context,
    mailbox: &barid::Mailbox,
    name: &OsString,
) -> anyhow::Result<()> {
    if mailbox.has_kept_of_replaced()? {
        let name = visible(name.as_encoded_bytes());
        context.warn(&format!(
            "{name} has replaced another file, from which messages were expunged: `barid undo \
             --replaced {name}` brings them back"
        ));
    }
    Ok(())
}

fn discard(
    context: &mut Context,
    args: &UndoArgs,
    session: &mut ChangeCommand,
) -> anyhow::Result<Outcome> {
    let count = u64::from(session.mailbox.discard_kept()?);
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "kept_discarded");
        json.key("mailbox").bytes(args.mailbox.as_encoded_bytes());
        json.key("expunges").number(count);
        json.end_line();
    } else {
        let name = visible(args.mailbox.as_encoded_bytes());
        let expunges = counted(count, "expunge");
        context.out.line(&format!("{name}: forgot {expunges}"))?;
    }
    Ok(Outcome::nothing_if(count == 0))
}

fn state_name(state: KeptState) -> &'static str {
    match state {
        KeptState::Kept => "kept",
        KeptState::Partial => "interrupted",
        KeptState::NotMade => "not made",
        KeptState::NotKept => "not kept",
        KeptState::Damaged => "damaged",
    }
}

fn write_table(out: &mut Vec<u8>, all: &[KeptExpunge]) {
    let aligns = &[Align::Right, Align::Left, Align::Left, Align::Right, Align::Right, Align::Left];
    let mut table = Table::new(aligns);
    let heads = ["NUMBER", "EXPUNGED (UTC)", "KEPT UNTIL", "MESSAGES", "SIZE", "STATE"];
    table.row(heads.map(str::to_owned));
    let when = |time: Option<Timestamp>| {
        let mut when = Vec::with_capacity(SHORT_WIDTH);
        if let Some(time) = time {
            write_short(&mut when, time.unix_seconds(), 0);
        }
        String::from_utf8_lossy(&when).into_owned()
    };
    for kept in all {
        let state = state_name(kept.state);
        table.row([
            kept.number.to_string(),
            when(kept.kept),
            when(kept.until),
            kept.messages.map_or_else(String::new, |count| grouped(count.into())),
            size(kept.bytes),
            match kept.damaged {
                0 => state.to_owned(),
                damaged => format!("{} of the messages {state}", grouped(damaged.into())),
            },
        ]);
    }
    table.write(out, "");
}

fn write_json(out: &mut Vec<u8>, args: &UndoArgs, kept: &KeptExpunge) {
    let mut json = Json::line(out, "kept_expunge");
    json.key("mailbox").bytes(args.mailbox.as_encoded_bytes());
    json.key("number").number(kept.number);
    for (key, time) in [("date", kept.kept), ("until", kept.until)] {
        json.key(key);
        match time {
            Some(time) => json.date(time.unix_seconds(), 0),
            None => json.null(),
        }
    }
    json.key("messages");
    match kept.messages {
        Some(count) => json.number(count.into()),
        None => json.null(),
    }
    json.key("damaged").number(kept.damaged.into());
    json.key("bytes").number(kept.bytes);
    json.key("state").str(state_name(kept.state));
    json.end_line();
}
