//! `barid append`: adds messages.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use barid::message::parse_date;
use barid::{
    ChangeRequest, Changed, InternalDate, Mailbox, MessageRest, NewMessage, SyncFigures, Uid,
};
use clap::{Args, ValueHint};

use super::incoming::{self, Incoming, check_large};
use super::report::{Report, Verb};
use super::{ChangeArgs, ChangeCommand, one_message};
use crate::context::Context;
use crate::exit::{Outcome, WithHint, report};
use crate::limits::APPEND_BATCH_LEN;
use crate::mail::flags::{FlagName, FlagNames};
use crate::output::escape::visible;
use crate::output::number::counted;

const EXAMPLES: &str = "\
Examples:
  barid append ~/Maildir < message.eml
  barid append --flags seen,todo archive.mbox one.eml two.eml
  barid append --date '2024-03-05 12:22:10 +0100' archive.mbox old.eml
  barid append --mbox ~/Maildir archive.mbox       all messages of archive.mbox
  barid append --create new.mbox one.eml
  barid append --create --mbox mix:archive archive.mbox
  barid show --raw ~/Maildir 4711 | barid append archive.mbox

Either all messages of one command are appended to an mbox or none (above 32 MB this applies to each
32 MB). Header fields that an mbox uses for itself, such as Status and X-UID, are left out.";

/// Append messages to a mailbox
///
/// The messages are safe on the disk when the command ends. Pending changes are written with them.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct AppendArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    /// The messages, one per file; without FILE, or with `-`, one message is read from standard
    /// input, or an mbox with `--mbox -`
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<OsString>,
    /// Set these flags and keywords on the messages, as in seen,flagged,todo
    #[arg(long, value_name = "FLAG", value_delimiter = ',', value_parser = parse_flag)]
    flags: Vec<FlagName>,
    /// Set the date of arrival, in the format of a `Date` field or ISO 8601 [default: now]
    #[arg(long, value_name = "DATE", value_parser = parse_arrival)]
    date: Option<InternalDate>,
    /// Read each FILE as a mailbox, and append all of its messages, with their own flags, keywords
    /// and dates unless others are given
    #[arg(long, requires = "files")]
    mbox: bool,
    /// Skip messages of the first FILE before this UID, to continue an append that failed
    #[arg(long, value_name = "UID", requires = "mbox", value_parser = parse_uid)]
    from: Option<Uid>,
    /// Create the mailbox if it does not exist: in the format named before it, else in the format
    /// of the tree around it, else a Maildir if its name ends with `/`, else an mbox
    #[arg(long, conflicts_with = "dry_run")]
    create: bool,
    #[command(flatten)]
    change: ChangeArgs,
}

/// Parses a flag of a new message, which must not have a sign.
fn parse_flag(text: &str) -> Result<FlagName, String> {
    match text.strip_prefix(['+', '-', '=']) {
        Some(name) => Err(format!("a new message has no flags yet: write {name}, without a sign")),
        None => text.parse(),
    }
}

fn parse_arrival(text: &str) -> Result<InternalDate, String> {
    let date = parse_date(text.as_bytes())
        .ok_or("a date is `5 Mar 2024 12:22:10 +0100` or `2024-03-05T12:22:10+01:00`")?;
    Ok(InternalDate { unix_seconds: date.unix_seconds, zone_minutes: date.zone_minutes })
}

fn parse_uid(text: &str) -> Result<Uid, String> {
    let uid = text.parse().ok().and_then(Uid::new);
    uid.ok_or_else(|| "a UID is a number from 1 to 4294967295".to_owned())
}

/// A message among those to append.
#[derive(Clone, Copy, Debug, Default)]
struct AppendPosition {
    /// Index of its file.
    file: usize,
    /// Its UID in that mailbox, with `--mbox`.
    uid: Option<Uid>,
}

/// Messages waiting to be appended together.
struct Batch<'a> {
    session: ChangeCommand,
    args: &'a AppendArgs,
    flags: FlagNames,
    waiting: Vec<Incoming>,
    waiting_len: u64,
    /// The message that is read or waits last.
    at: AppendPosition,
    /// The first waiting message.
    first: Option<AppendPosition>,
    /// `true` once the large files that come later were checked.
    are_files_checked: bool,
    report: Report,
}

/// Appends the messages.
pub(crate) fn run(context: &mut Context, args: &AppendArgs) -> anyhow::Result<Outcome> {
    if args.create && !context.global.read_only {
        incoming::create_mailbox(context, &args.mailbox)?;
    }
    let session = ChangeCommand::open(context, Verb::Append, &args.mailbox, &args.change)?;
    let mut flags = FlagNames::default();
    args.flags.iter().for_each(|name| flags.insert(name));
    let mut batch = Batch {
        session,
        args,
        flags,
        waiting: Vec::new(),
        waiting_len: 0,
        at: AppendPosition::default(),
        first: None,
        are_files_checked: false,
        report: Report::default(),
    };
    let done = batch.take_all(context).and_then(|()| batch.write(context, None));
    let Err(error) = done else { return batch.session.finish(context, &batch.report) };
    if batch.report.changed.appends == 0 {
        return Err(error);
    }
    // The messages in the mailbox are reported even if the rest failed.
    batch.session.finish(context, &batch.report)?;
    report(context, &error);
    if !batch.session.dry_run {
        context.error_line("note", &batch.how_to_go_on());
    }
    Ok(Outcome::Incomplete)
}

/// The messages of a mailbox on their way into a batch.
struct Intake<'b, 'a> {
    batch: &'b mut Batch<'a>,
    context: &'b Context,
}

impl incoming::Receiver for Intake<'_, '_> {
    fn target(&self) -> &Mailbox {
        &self.batch.session.mailbox
    }

    fn is_reading(&mut self, uid: Uid) {
        self.batch.at.uid = Some(uid);
    }

    fn take(&mut self, message: Incoming, rest: Option<&dyn MessageRest>) -> anyhow::Result<()> {
        self.batch.take(self.context, message, rest)
    }
}

impl Batch<'_> {
    fn take_all(&mut self, context: &Context) -> anyhow::Result<()> {
        if self.args.files.is_empty() {
            return self.take_file(context, OsStr::new("-"));
        }
        let (args, stop) = (self.args, Arc::clone(&self.session.stop));
        for (at, file) in args.files.iter().enumerate() {
            self.at = AppendPosition { file: at, uid: None };
            let from = args.from.filter(|_| at == 0);
            let mut intake = Intake { batch: self, context };
            if args.mbox && file == "-" {
                incoming::read_mbox_on_stdin(context, from, &stop, &mut intake)?;
            } else if args.mbox {
                incoming::read_mailbox(context, (file, from), &stop, &mut intake)?;
            } else {
                self.take_file(context, file)?;
            }
        }
        Ok(())
    }

    /// Checks the large files that are not read yet, before the first message is appended.
    fn check_files(&mut self) -> anyhow::Result<()> {
        if std::mem::replace(&mut self.are_files_checked, true) || self.args.mbox {
            return Ok(());
        }
        let left = self.args.files.iter().enumerate().skip(self.at.file + 1);
        let is_large = |file: &OsString| file != "-" && one_message::is_large(file);
        for (at, file) in left.filter(|(_, file)| is_large(file)) {
            let message = one_message::read_file(file)?;
            self.check_large(AppendPosition { file: at, uid: None }, &message, message.rest())?;
        }
        Ok(())
    }

    /// Checks that the mailbox can store a message with a rest.
    fn check_large(
        &self,
        at: AppendPosition,
        message: &Incoming,
        rest: Option<&dyn MessageRest>,
    ) -> anyhow::Result<()> {
        let Some(rest) = rest else { return Ok(()) };
        check_large(&self.session.mailbox.caps(), &self.name_of(at), message, rest)
    }

    fn take_file(&mut self, context: &Context, file: &OsStr) -> anyhow::Result<()> {
        if file != "-" {
            let message = one_message::read_file(file)?;
            if message.sender.is_some() && one_message::has_more(&message)? {
                let name = file.display();
                context.warn(&format!(
                    "{name}: looks like an mbox, but is appended as one message; --mbox appends \
                     each of its messages"
                ));
            }
            return self.take(context, message, None);
        }
        if io::stdin().is_terminal() && !context.global.quiet {
            context.error_line("note", "reading one message from standard input, up to ^D");
        }
        let len_max = self.session.mailbox.caps().message_len_max;
        self.take(context, one_message::read_stdin(context, len_max)?, None)
    }

    /// Adds a message; first writes the waiting ones if they would become too large together. One
    /// with a rest is written at once, while its source is as it was read.
    fn take(
        &mut self,
        context: &Context,
        message: Incoming,
        rest: Option<&dyn MessageRest>,
    ) -> anyhow::Result<()> {
        self.check_large(self.at, &message, rest.or(message.rest()))?;
        let len = message.bytes.len() as u64 + message.rest().map_or(0, MessageRest::size);
        if rest.is_some() || self.waiting_len + len > APPEND_BATCH_LEN {
            self.write(context, None)?;
        }
        self.first.get_or_insert(self.at);
        self.waiting_len += len;
        self.waiting.push(message);
        if rest.is_some() {
            self.write(context, rest)?;
            // It is in the mailbox: a continued append begins after it.
            self.at.uid = self.at.uid.and_then(|uid| Uid::new(uid.get().checked_add(1)?));
        }
        Ok(())
    }

    /// Appends the waiting messages; `rest` is the body of the only one.
    fn write(&mut self, context: &Context, rest: Option<&dyn MessageRest>) -> anyhow::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.check_files()?;
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_len = 0;
        if self.session.is_stopped() {
            let hint = match self.report.changed.appends {
                0 => "nothing was appended: run it again",
                _ => "the messages counted above are in the mailbox",
            };
            return Err(WithHint::error("interrupted before all messages were appended", hint));
        }
        let new = |message| {
            let new = self.new_message(message);
            NewMessage { rest: rest.or(new.rest), ..new }
        };
        let appends: Vec<NewMessage<'_>> = waiting.iter().map(new).collect();
        let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        let options = self.session.options();
        let changed = self
            .session
            .change(context, options, |mailbox, options| mailbox.change(&request, options))?;
        let is_first = self.report.changed.appends == 0;
        add(&mut self.report.changed, changed, is_first, self.session.dry_run);
        self.first = None;
        Ok(())
    }

    /// Returns the name of a file, for messages to the user.
    fn file_name(&self, at: usize) -> String {
        let file = self.args.files.get(at).map_or("-".as_ref(), OsString::as_os_str);
        let name = if file == "-" { "standard input".as_ref() } else { file };
        visible(name.as_encoded_bytes())
    }

    /// Returns the name of a message, for messages to the user.
    fn name_of(&self, at: AppendPosition) -> String {
        let file = self.file_name(at.file);
        at.uid.map_or_else(|| file.clone(), |uid| format!("{file}: UID {uid}"))
    }

    /// Names the messages that are not appended after an error.
    fn how_to_go_on(&self) -> String {
        let appended = counted(self.report.changed.appends.into(), "message");
        let next = self.first.unwrap_or(self.at);
        let mut earlier = match next.file {
            0 => String::new(),
            _ => format!(" and without the files before {}", self.file_name(next.file)),
        };
        if next.uid.is_none() && self.args.from.is_some() {
            earlier.push_str(" and without `--from`");
        }
        match next.uid {
            Some(uid) => format!(
                "{appended} were appended before that: the same command with `--from {uid}`\
                 {earlier} appends the others"
            ),
            None => format!(
                "{appended} were appended before that: the same command{} appends the others",
                earlier.strip_prefix(" and").unwrap_or_default()
            ),
        }
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
            rest: message.rest(),
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
