//! `barid reply` and `barid forward`: begin a message from one that was received, and send it.

mod draft;
mod parts;
mod recipients;
mod sending;

use std::ffi::OsString;

use barid::{ChangeOptions, ChangeRequest, Flag, FlagChange, FlagChanges, Keyword};
use barid::{Mailbox, ReadAs, Uid, WriteWhen};
use clap::{Args, ValueHint};

use self::draft::{MailDraft, ReplyScope};
use self::parts::Original;
use self::sending::edit;
use crate::context::Context;
use crate::exit::{NotThere, Outcome, WithHint};
use crate::mail::query::QueryArgs;
use crate::mail::selection::{MessageSelection, Selector};
use crate::output::escape::{Space, visible, write_visible};
use crate::output::json::Json;

const REPLY_EXAMPLES: &str = "\
Examples:
  barid reply --send ~/Maildir 4711           write the answer in $EDITOR, then send it
  barid reply --all --send ~/Maildir 4711     to everybody who got the message
  barid reply ~/Maildir 4711 > draft.eml      only a draft, for another program
  barid reply ~/Maildir 4711 > d && mutt -H d

--send opens $VISUAL or $EDITOR, and sends what was saved with `sendmail -t -oi` or --sendmail. A
text that was not changed is not sent. What could not be sent stays in a file that the error names.
A message that was answered is then marked \\Answered.

--from, or else the variable EMAIL, is the address of the sender; `from` in [options.reply] of the
configuration is its default. Without one, sendmail fills it in.";

const FORWARD_EXAMPLES: &str = "\
Examples:
  barid forward --to bob@mail.example --send ~/Maildir 4711
  barid forward --inline --to bob@mail.example ~/Maildir 4711 > draft.eml

The message is attached as it is, with everything in it; --inline copies its text instead, without
attachments. --send works as with `barid reply`; a message that was forwarded gets the keyword
$Forwarded.";

/// Answer a message: print a draft, or write and send it
#[derive(Debug, Args)]
#[command(after_long_help = REPLY_EXAMPLES)]
pub(crate) struct ReplyArgs {
    #[command(flatten)]
    message: OriginalArgs,
    /// Answer everybody who got the message, not only its author
    #[arg(short, long)]
    all: bool,
    /// Answer the mailing list (List-Post)
    #[arg(long, conflicts_with = "all")]
    list: bool,
    /// Do not quote the message
    #[arg(long)]
    no_quote: bool,
    #[command(flatten)]
    how: DraftArgs,
}

/// Forward a message: print a draft, or write and send it
#[derive(Debug, Args)]
#[command(after_long_help = FORWARD_EXAMPLES)]
pub(crate) struct ForwardArgs {
    #[command(flatten)]
    message: OriginalArgs,
    /// Recipient; may be repeated
    #[arg(short, long, value_name = "ADDRESS")]
    to: Vec<String>,
    /// Copy the text of the message instead of attaching it; its attachments are left out
    #[arg(long)]
    inline: bool,
    #[command(flatten)]
    how: DraftArgs,
}

/// The message that is answered or forwarded.
#[derive(Clone, Debug, Args)]
struct OriginalArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    /// The message: its UID, or a query that finds one message
    #[arg(value_name = "UID|QUERY")]
    message: String,
    #[command(flatten)]
    query: QueryArgs,
}

/// The use of a draft.
#[derive(Clone, Debug, Args)]
struct DraftArgs {
    /// Address of the sender, such as `Ann Lee <ann@mail.example>`
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// Edit the draft, and send it
    #[arg(long)]
    send: bool,
    /// The command that sends: it gets the message on standard input, and reads the recipients from
    /// it
    #[arg(long, value_name = "COMMAND", requires = "send")]
    sendmail: Option<OsString>,
}

/// Answers a message.
pub(crate) fn reply(context: &mut Context, args: &ReplyArgs) -> anyhow::Result<Outcome> {
    let (mut mailbox, uid, bytes) = read(context, &args.message)?;
    let original = Original::of(&bytes);
    let recipients = match (args.all, args.list) {
        (true, _) => ReplyScope::All,
        (_, true) => ReplyScope::List,
        (false, false) => ReplyScope::Author,
    };
    let draft = MailDraft::reply(&original, recipients, sender(&args.how)?, !args.no_quote)?;
    let answered =
        FlagChange { add: [Flag::Answered].into_iter().collect(), ..FlagChange::default() };
    finish(context, &args.how, (&mut mailbox, uid), draft, answered)
}

/// Forwards a message.
pub(crate) fn forward(context: &mut Context, args: &ForwardArgs) -> anyhow::Result<Outcome> {
    let (mut mailbox, uid, bytes) = read(context, &args.message)?;
    let original = Original::of(&bytes);
    if args.inline && original.has_attachments() {
        context.warn("the attachments are left out: without --inline, all is forwarded");
    }
    let draft =
        MailDraft::forward(&original, &args.to.join(", "), sender(&args.how)?, args.inline)?;
    let forwarded = FlagChange {
        add_keywords: Keyword::new("$Forwarded").into_iter().collect(),
        ..FlagChange::default()
    };
    finish(context, &args.how, (&mut mailbox, uid), draft, forwarded)
}

/// Returns the address of the sender, if there is one.
fn sender(args: &DraftArgs) -> anyhow::Result<Option<String>> {
    let of_environment = || std::env::var("EMAIL").ok().filter(|email| !email.trim().is_empty());
    let Some(from) = args.from.clone().or_else(of_environment) else { return Ok(None) };
    match recipients::typed_people(&from).as_deref() {
        Ok([_]) => Ok(Some(from)),
        _ => Err(WithHint::error(
            format!("{from:?} is not an address"),
            "--from takes one, such as \"Ann Lee <ann@mail.example>\"",
        )),
    }
}

/// Opens the mailbox, and reads the one message that is named.
fn read(context: &Context, args: &OriginalArgs) -> anyhow::Result<(Mailbox, Uid, Vec<u8>)> {
    let selector = Selector {
        nothing: "nothing is answered or forwarded",
        hint: "name one message, by its UID or a query",
        is_careful: true,
    };
    let selection = MessageSelection::parse_one(context, &args.message, args.query, selector)?;
    let spec = context.spec_on_disk(&args.mailbox)?;
    let (mut mailbox, selected) =
        context.open_spec_and(&spec, |mailbox| selection.select(mailbox))?;
    let uid = match (&selected.selected.uids[..], &selected.selected.missing[..]) {
        ([uid], []) => *uid,
        ([], [uid, ..]) => {
            let path = spec.path;
            return Err(barid::Error::NoSuchMessage { path, uid: *uid }.into());
        }
        ([], []) => return Err(NotThere::error("no message was found", selector.hint)),
        (many, _) => {
            let text = format!("{} messages are named, and one can be answered", many.len());
            return Err(WithHint::error(text, selector.hint));
        }
    };
    let message = mailbox.read(uid, ReadAs::Message)?;
    let bytes = barid::message::strip_owned(&message.bytes).into_owned();
    Ok((mailbox, uid, bytes))
}

/// Prints a draft, or has it edited and sent; then changes the flags of the original.
fn finish(
    context: &mut Context,
    args: &DraftArgs,
    (mailbox, uid): (&mut Mailbox, Uid),
    draft: MailDraft,
    change: FlagChange,
) -> anyhow::Result<Outcome> {
    if !args.send {
        print(context, &draft.message()?)?;
        return Ok(Outcome::Done);
    }
    let Some(edited) = edit(draft)? else {
        context.note("not sent: the text was not changed");
        return Ok(Outcome::NothingMatched);
    };
    let recipients = edited.send(args.sendmail.as_deref())?;
    mark(context, mailbox, uid, change);
    let told = if recipients.len() > 3 {
        format!("{} recipients", recipients.len())
    } else {
        recipients.join(", ")
    };
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "sent");
        json.key("recipients").open(b'[');
        recipients.iter().for_each(|recipient| {
            json.str(recipient);
        });
        json.close(b']');
        json.end_line();
    } else {
        context.out.line(&format!("sent to {}", visible(told.as_bytes())))?;
    }
    Ok(Outcome::Done)
}

fn print(context: &mut Context, message: &[u8]) -> anyhow::Result<()> {
    if !context.global.json {
        if context.width.is_none() {
            return Ok(context.out.block(message)?);
        }
        // A received message may have anything in it.
        write_visible(context.out.buffer(), message, Space::Lines);
        return Ok(context.out.settle()?);
    }
    let mut json = Json::line(context.out.buffer(), "draft");
    json.key("message").bytes(message);
    json.end_line();
    Ok(context.out.settle()?)
}

/// Changes the flags of the original. The message is sent, so nothing of this is an error.
fn mark(context: &Context, mailbox: &mut Mailbox, uid: Uid, change: FlagChange) {
    if context.global.read_only {
        return;
    }
    context.has_changed.set(true);
    let mut flags = FlagChanges::default();
    flags.push((uid, change));
    let request = ChangeRequest { flags, ..ChangeRequest::default() };
    let options = ChangeOptions { write: WriteWhen::Pending, ..ChangeOptions::default() };
    match mailbox.change(&request, &options) {
        Ok(changed) => changed.warnings.iter().for_each(|warning| context.warn(warning)),
        Err(error) => {
            let text = format!("it is sent, but UID {uid} could not be marked: {error}");
            context.warn(&visible(text.as_bytes()));
        }
    }
}
