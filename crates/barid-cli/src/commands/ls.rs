//! `barid ls`: lists the messages of a mailbox, a line each, in any order.

use std::ffi::OsString;

use barid::Mailbox;
use clap::{Args, ValueHint};

use crate::context::Context;
use crate::exit::{Outcome, report_unreadable};
use crate::lines::write_lines;
use crate::mail::json::MessageJson;
use crate::mail::line::MessageLine;
use crate::mail::listing::write_messages;
use crate::mail::mailboxes::MailboxesArgs;
use crate::mail::order::OrderArgs;
use crate::mail::query::QueryArgs;
use crate::mail::ranking::Ordered;
use crate::mail::selection::{MessageSelection, Selector};

const EXAMPLES: &str = "\
Examples:
  barid ls ~/Maildir                                   all, in the order they arrived
  barid ls --sort date --limit 50 ~/Maildir            the newest fifty, the newest last
  barid ls --sort date --limit 50 --reverse ~/Maildir  the newest fifty, the newest first
  barid ls ~/Maildir from:ann newer:2w                 what a query finds
  barid ls --sort subject --sort reverse:date archive.mbox
  barid ls --in inbox --tree ~/lists --sort date -n 20 from:ann    of several mailboxes, merged
  barid ls --json archive.mbox | jq -r 'select(.size > 1000000) | .uid'

Columns: UID, flags, date, sender, subject. The flags: N not seen, A answered, F flagged, D deleted,
T draft. The date is when the message was sent, in the sender's time zone, or when it arrived if
that is unknown. Lines are cut to the width of a terminal, and complete elsewhere.

Exit status: 1 if a UID does not exist or the query finds nothing, 2 if a message could not be read.";

const USAGE: &str = "\
barid ls [OPTIONS] <MAILBOX> [UIDS|QUERY]...
       barid ls [OPTIONS] --in <MAILBOX>... --tree <DIR>... [QUERY]...";

/// List the messages of a mailbox, or of several
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct LsArgs {
    /// The mailbox: a path, or FORMAT:PATH. With --in or --tree, the query begins here
    #[arg(value_hint = ValueHint::AnyPath, required_unless_present_any = ["mailboxes", "trees"])]
    mailbox: Option<OsString>,
    /// Only these messages: UIDs and ranges, as in 1:4,7,* (* is the last); or a query as for
    /// `barid search`
    #[arg(value_name = "UIDS|QUERY")]
    messages: Vec<String>,
    #[command(flatten)]
    several: MailboxesArgs,
    #[command(flatten)]
    order: OrderArgs,
    /// Show only the first N of that order
    #[arg(long, value_name = "N", conflicts_with = "limit")]
    first: Option<u32>,
    /// With --json, also print the size that IMAP servers report
    ///
    /// RFC822.SIZE counts every line end as two bytes. The first time, all messages are read for
    /// it, as for `--sort size`.
    #[arg(long, requires = "json")]
    rfc822_size: bool,
    #[command(flatten)]
    query: QueryArgs,
}

/// Prints the lines.
pub(crate) fn run(context: &mut Context, args: &LsArgs) -> anyhow::Result<Outcome> {
    args.order.check_listing()?;
    args.several.check()?;
    let selector = Selector::reading("nothing is listed");
    let Some(name) = args.several.one(&args.mailbox) else {
        return list_several(context, args, selector);
    };
    let selection =
        MessageSelection::parse_optional(context, &args.messages, args.query, selector)?;
    let (mailbox, (rows, unreadable, selected)) = context.open_and(name, |mailbox| {
        let unreadable = match args.rfc822_size {
            true => mailbox.fill_rfc822_sizes()?,
            false => Vec::new(),
        };
        let selected = selection.as_ref().map(|messages| messages.select(mailbox)).transpose()?;
        let sorted = match &selected {
            None => args.order.all(mailbox, args.first)?,
            Some(selected) => args.order.among(mailbox, &selected.rows(mailbox)?, args.first)?,
        };
        let unreadable = if unreadable.is_empty() { sorted.unreadable } else { unreadable };
        Ok((sorted.rows, unreadable, selected))
    })?;
    print(context, args, &mailbox, &rows)?;
    let outcome = selected.map_or(Outcome::Done, |selected| {
        selected.report(context, name).worse(Outcome::nothing_if(rows.is_empty()))
    });
    Ok(outcome.worse(report_unreadable(context, unreadable)))
}

/// Prints the lines of several mailboxes, merged.
fn list_several(
    context: &mut Context,
    args: &LsArgs,
    selector: Selector,
) -> anyhow::Result<Outcome> {
    let words = args.several.words(args.mailbox.as_deref(), &args.messages)?;
    let program = MessageSelection::parse_for_mailboxes(context, &words, args.query, selector)?;
    let needs_size = args.rfc822_size || args.order.asks_size();
    let (mut found, outcome) = args.several.search(context, &program, needs_size)?;
    let parts = found.parts.iter().map(|part| (&*part.mailbox, &part.rows[..]));
    let mut places = barid::sorted_together(&parts.collect::<Vec<_>>(), &args.order.program())?;
    if let Some(first) = args.first {
        places.truncate(first as usize);
    }
    args.order.finish(&mut places);
    write_messages(context, &found, &Ordered::of(places), args.rfc822_size)?;
    Ok(match words.is_empty() {
        true => found.report(context, outcome),
        false => found.outcome(context, outcome),
    })
}

fn print(
    context: &mut Context,
    args: &LsArgs,
    mailbox: &Mailbox,
    rows: &[u32],
) -> anyhow::Result<()> {
    if context.global.json {
        let writer = MessageJson { has_rfc822_size: args.rfc822_size, ..MessageJson::default() };
        return write_lines(&mut context.out, mailbox, rows, || writer);
    }
    let uidnext = mailbox.status().uidnext;
    let (width, style) = (context.width, context.style);
    write_lines(&mut context.out, mailbox, rows, || MessageLine::new(width, style, uidnext))
}
