//! `barid ls`: lists the messages of a mailbox, a line each, in any order.

use std::ffi::OsString;

use barid::{Mailbox, SortKey, SortProgram, Summary, Window};
use clap::{Args, ValueHint};

use crate::context::Context;
use crate::exit::{Outcome, report_unreadable};
use crate::lines::{WriteLine, write_lines};
use crate::mail::json::MessageJson;
use crate::mail::line::MessageLine;

const EXAMPLES: &str = "\
Examples:
  barid ls ~/Maildir                                   all, in the order they arrived
  barid ls --sort date --limit 50 ~/Maildir            the newest fifty, the newest last
  barid ls --sort reverse:date --first 50 ~/Maildir    the newest fifty, the newest first
  barid ls --sort subject --sort reverse:date archive.mbox
  barid ls --json archive.mbox | jq -r 'select(.size > 1000000) | .uid'

Columns: UID, flags, date, sender, subject. The flags: N not seen, A answered, F flagged, D deleted,
T draft. The date is when the message was sent, in the sender's time zone, or when it arrived if
that is unknown. Lines are cut to the width of a terminal, and complete elsewhere.";

/// List the messages of a mailbox
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct LsArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    /// Sort by KEY; if given more than once, the first takes precedence
    ///
    /// KEY is one of arrival, cc, date, from, size, subject, to (RFC 5256), displayfrom, displayto
    /// (RFC 5957). `reverse:KEY` reverses the order of that key.
    #[arg(short, long, value_name = "KEY", value_parser = parse_key)]
    sort: Vec<(SortKey, bool)>,
    /// Show only the last N of that order: the newest, by default
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "first")]
    limit: Option<u32>,
    /// Show only the first N of that order
    #[arg(long, value_name = "N")]
    first: Option<u32>,
    /// With --json, also print the size that IMAP servers report
    ///
    /// RFC822.SIZE counts every line end as two bytes. The first time, all messages are read for
    /// it, as for `--sort size`.
    #[arg(long, requires = "json")]
    rfc822_size: bool,
}

/// The sort keys, as in the help of `--sort`.
const KEYS: &str = "arrival, cc, date, from, size, subject, to, displayfrom, displayto";

fn parse_key(text: &str) -> Result<(SortKey, bool), String> {
    let explain = |error| format!("{error}; the keys are {KEYS}, each also as reverse:KEY");
    let mut program = SortProgram::parse([text]).map_err(explain)?;
    program.0.pop().ok_or_else(|| "no key".to_owned())
}

/// Prints the lines.
pub(crate) fn run(context: &mut Context, args: &LsArgs) -> anyhow::Result<Outcome> {
    let program = match args.sort.as_slice() {
        [] => SortProgram(vec![(SortKey::Arrival, false)]),
        keys => SortProgram(keys.to_vec()),
    };
    let window = match (args.limit, args.first) {
        (Some(last), _) => Window::Last(last),
        (None, Some(first)) => Window::First(first),
        (None, None) => Window::All,
    };
    let (mailbox, (rows, unreadable)) = context.open_and(&args.mailbox, |mailbox| {
        let unreadable = match args.rfc822_size {
            true => mailbox.fill_rfc822_sizes()?,
            false => Vec::new(),
        };
        let sorted = mailbox.sorted(&program, window)?;
        Ok((sorted.rows, if unreadable.is_empty() { sorted.unreadable } else { unreadable }))
    })?;
    print(context, args, &mailbox, &rows)?;
    Ok(report_unreadable(context, unreadable))
}

fn print(
    context: &mut Context,
    args: &LsArgs,
    mailbox: &Mailbox,
    rows: &[u32],
) -> anyhow::Result<()> {
    if context.global.json {
        let writer = MessageJson { has_rfc822_size: args.rfc822_size };
        return write_lines(&mut context.out, mailbox, rows, || writer);
    }
    let uidnext = mailbox.status().uidnext;
    let (width, style) = (context.width, context.style);
    write_lines(&mut context.out, mailbox, rows, || MessageLine::new(width, style, uidnext))
}

impl WriteLine for MessageJson {
    fn write_line(&mut self, out: &mut Vec<u8>, summary: &Summary<'_>) {
        self.write(out, summary);
    }
}

impl WriteLine for MessageLine {
    fn write_line(&mut self, out: &mut Vec<u8>, summary: &Summary<'_>) {
        self.write(out, summary);
    }
}
