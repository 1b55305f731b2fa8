//! `barid append`: adds messages.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _};

use barid::message::parse_date;
use barid::{ChangeRequest, Changed, InternalDate, NewMessage, SyncFigures};
use clap::{Args, ValueHint};

use super::incoming::{self, Incoming};
use super::report::{Report, Verb};
use super::{ChangeArgs, Session};
use crate::context::Context;
use crate::exit::{Outcome, WithHint};
use crate::limits::APPEND_BATCH_LEN;
use crate::mail::flags::{FlagName, FlagNames};

const EXAMPLES: &str = "\
Examples:
  barid append ~/Maildir < message.eml
  barid append --flags seen,todo archive.mbox one.eml two.eml
  barid append --date '2024-03-05 12:22:10 +0100' archive.mbox old.eml
  barid append --mbox ~/Maildir archive.mbox       all messages of archive.mbox
  barid append --create new.mbox one.eml
  barid append --create --mbox mix:archive archive.mbox
  barid show --raw ~/Maildir 4711 | barid append archive.mbox

The messages of one command are appended to an mbox together, or none of them (with more than 32 MB,
so much at a time). Header fields that an mbox uses for itself, as Status and X-UID, are left out.";

/// Append messages to a mailbox
///
/// They are safe on the disk when the command ends. Pending changes are written at the same time.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct AppendArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    /// The messages, each a file; `-`, or none, for one message on standard input, with --mbox
    /// (and `-`) for an mbox on it
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<OsString>,
    /// Give the messages these flags and keywords, as in seen,flagged,todo
    #[arg(long, value_name = "FLAG", value_delimiter = ',', value_parser = parse_flag)]
    flags: Vec<FlagName>,
    /// Say when the messages arrived, in a form that a `Date` field may have, or ISO 8601; now, if
    /// missing
    #[arg(long, value_name = "DATE", value_parser = parse_arrival)]
    date: Option<InternalDate>,
    /// Take each FILE for an mbox or another mailbox, and append all of its messages, with their
    /// own flags, keywords and dates unless others are given
    #[arg(long, requires = "files")]
    mbox: bool,
    /// Create the mailbox if it is not there, in the format that stands before it; else one
    /// of the kind of the tree that it is in, a Maildir if its name ends with `/`, or an mbox
    #[arg(long, conflicts_with = "dry_run")]
    create: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Parses a flag of a new message, which must not have a sign.
fn parse_flag(text: &str) -> Result<FlagName, String> {
    match text.strip_prefix(['+', '-', '=']) {
        Some(name) => Err(format!("a new message has no flags yet: say {name}, without a sign")),
        None => text.parse(),
    }
}

fn parse_arrival(text: &str) -> Result<InternalDate, String> {
    let date = parse_date(text.as_bytes())
        .ok_or("a date is `5 Mar 2024 12:22:10 +0100` or `2024-03-05T12:22:10+01:00`")?;
    Ok(InternalDate { unix_seconds: date.unix_seconds, zone_minutes: date.zone_minutes })
}

/// Messages waiting to be appended together.
struct Batch<'a> {
    session: Session,
    args: &'a AppendArgs,
    flags: FlagNames,
    waiting: Vec<Incoming>,
    waiting_len: usize,
    report: Report,
}

/// Appends the messages.
pub(crate) fn run(context: &mut Context, args: &AppendArgs) -> anyhow::Result<Outcome> {
    if args.create && !context.global.read_only {
        incoming::create_mailbox(context, &args.mailbox)?;
    }
    let session = Session::open(context, Verb::Append, &args.mailbox, &args.change)?;
    let mut flags = FlagNames::default();
    args.flags.iter().for_each(|name| flags.insert(name));
    let (waiting, report) = (Vec::new(), Report::default());
    let mut batch = Batch { session, args, flags, waiting, waiting_len: 0, report };
    let done = batch.take_all(context).and_then(|()| batch.write(context));
    if done.is_ok() || batch.report.changed.appends > 0 {
        // The messages in the mailbox are reported even if the rest failed.
        let outcome = batch.session.finish(context, &batch.report)?;
        return done.map(|()| outcome);
    }
    done.map(|()| Outcome::Done)
}

impl Batch<'_> {
    fn take_all(&mut self, context: &Context) -> anyhow::Result<()> {
        if self.args.files.is_empty() {
            return self.take_file(context, OsStr::new("-"));
        }
        for file in &self.args.files {
            if self.args.mbox && file == "-" {
                incoming::read_mbox_on_stdin(&mut |message| self.take(context, message))?;
            } else if self.args.mbox {
                incoming::read_mailbox(context, file, &mut |message| self.take(context, message))?;
            } else {
                self.take_file(context, file)?;
            }
        }
        Ok(())
    }

    fn take_file(&mut self, context: &Context, file: &OsStr) -> anyhow::Result<()> {
        if file != "-" {
            let message = incoming::read_file(file)?;
            if message.sender.is_some() && incoming::has_more(&message.bytes) {
                let name = file.display();
                context.warn(&format!(
                    "{name}: looks like an mbox, and is appended as one message; --mbox appends \
                     each of its messages"
                ));
            }
            return self.take(context, message);
        }
        if io::stdin().is_terminal() && !context.global.quiet {
            context.error_line("note", "reading one message from standard input, up to ^D");
        }
        self.take(context, incoming::read_stdin()?)
    }

    /// Adds a message; first writes the waiting ones if they would become too large together.
    fn take(&mut self, context: &Context, message: Incoming) -> anyhow::Result<()> {
        if self.waiting_len + message.bytes.len() > APPEND_BATCH_LEN {
            self.write(context)?;
        }
        self.waiting_len += message.bytes.len();
        self.waiting.push(message);
        Ok(())
    }

    /// Appends the waiting messages.
    fn write(&mut self, context: &Context) -> anyhow::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_len = 0;
        if self.session.is_stopped() {
            return Err(WithHint::error(
                "told to end before all messages were appended",
                "those that are not counted above can be appended again",
            ));
        }
        if waiting.is_empty() {
            return Ok(());
        }
        let appends: Vec<NewMessage<'_>> =
            waiting.iter().map(|message| self.new_message(message)).collect();
        let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        let options = self.session.options();
        let changed = self
            .session
            .change(context, options, |mailbox, options| mailbox.change(&request, options))?;
        let is_first = self.report.changed.appends == 0;
        add(&mut self.report.changed, changed, is_first, self.session.dry_run);
        Ok(())
    }

    /// Returns a message with the flags and date given for all of them, or its own.
    fn new_message<'a>(&self, message: &'a Incoming) -> NewMessage<'a> {
        let given = !self.args.flags.is_empty();
        NewMessage {
            bytes: &message.bytes,
            internal_date: self.args.date.or(message.internal_date),
            flags: if given { self.flags.flags } else { message.names.flags },
            keywords: match given {
                true => self.flags.keywords.clone(),
                false => message.names.keywords.clone(),
            },
            sender: message.sender.as_deref(),
            stored: None,
            uid: None,
            uidnext: None,
            rest: None,
        }
    }
}

/// Adds the results of a batch to those of earlier ones.
fn add(sum: &mut Changed, batch: Changed, is_first: bool, dry_run: bool) {
    let (before, after) = (sum.figures, batch.figures);
    // A dry run assumes that each batch directly follows the current contents.
    let size_after = match dry_run && !is_first {
        true => before.size_after + (after.size_after - after.size_before),
        false => after.size_after,
    };
    sum.figures = SyncFigures {
        messages_written: before.messages_written + after.messages_written,
        messages_expunged: before.messages_expunged + after.messages_expunged,
        bytes_in_place: before.bytes_in_place + after.bytes_in_place,
        bytes_moved: before.bytes_moved + after.bytes_moved,
        bytes_collapsed: before.bytes_collapsed + after.bytes_collapsed,
        bytes_journaled: before.bytes_journaled + after.bytes_journaled,
        bytes_appended: before.bytes_appended + after.bytes_appended,
        barriers: before.barriers + after.barriers,
        size_before: if is_first { after.size_before } else { before.size_before },
        size_after,
    };
    sum.flagged += batch.flagged;
    sum.expunged += batch.expunged;
    sum.appends += batch.appends;
    sum.add_trouble(&batch);
    sum.appended.extend(batch.appended);
    sum.pending = batch.pending;
}
