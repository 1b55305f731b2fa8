//! `barid attachments`: lists attachments, saves them, or prints their text.

mod names;
mod pattern;
mod save;
mod text;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use barid::fetch::{FetchItem, FetchItems, Fetched};
use barid::message::{Attachment, attachments};
use barid::{AttachedMessage, Mailbox, Uid};
use clap::{Args, ValueHint};

use self::pattern::Pattern;
use crate::context::Context;
use crate::exit::{Outcome, WithHint, report, report_unreadable};
use crate::mail::listing::NameColumn;
use crate::mail::mailboxes::{FoundMailbox, MailboxesArgs, UnreadableMessages};
use crate::mail::query::QueryArgs;
use crate::mail::selection::{MessageSelection, Selector};
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::size;
use crate::output::table::{pad, write_left, write_right};
use crate::signals;

const EXAMPLES: &str = "\
Examples:
  barid attachments ~/Maildir                        all attachments of a mailbox
  barid attachments ~/Maildir 4711 5000:*            those of some messages
  barid attachments ~/Maildir from:ann newer:2w      those of messages that a query finds
  barid attachments --in inbox --tree ~/archive from:ann          those in several mailboxes
  barid attachments ~/Maildir --type 'image/*' --save photos
  barid attachments ~/Maildir --name '*.pdf' --text | less

The text is that of PDF (with pdftotext of poppler), docx, xlsx, pptx, odt, ods, odp, HTML and plain
texts. A process of its own reads each attachment, limited to 512 MB, 10 s of CPU time, and system
calls that reach neither files nor the network. The cache folder remembers texts and failures, by
content; --no-cache reads everything again.

Exit status: 1 if there are no attachments, 2 if one could not be read or saved, or if its text
could not be read; the others are shown.";

const USAGE: &str = "\
barid attachments [OPTIONS] <MAILBOX> [UIDS|QUERY]...
       barid attachments [OPTIONS] --in <MAILBOX>... --tree <DIR>... [QUERY]...";

/// List the attachments of messages, save them, or print their text
///
/// Attachments are the parts of a message that say so, and all parts that are not text. Without
/// UIDs or a query, those of all messages are listed.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct AttachmentsArgs {
    /// The mailbox: a path, or FORMAT:PATH. With --in or --tree, the query begins here
    #[arg(value_hint = ValueHint::AnyPath, required_unless_present_any = ["mailboxes", "trees"])]
    mailbox: Option<OsString>,
    /// Only these messages: UIDs and ranges, as in 1:4,7,* (* is the last); or a query as for
    /// `barid search`
    #[arg(value_name = "UIDS|QUERY")]
    messages: Vec<String>,
    #[command(flatten)]
    several: MailboxesArgs,
    /// Only attachments of this type, such as application/pdf or image/*
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    types: Vec<Pattern>,
    /// Only attachments whose file name matches, such as *.pdf; case does not matter
    #[arg(long = "name", value_name = "PATTERN")]
    names: Vec<Pattern>,
    /// Save the attachments into DIR, which is created if it is missing
    ///
    /// Existing files are never overwritten: a second report.pdf becomes report-2.pdf. Names lose
    /// everything that could leave DIR, hide the file, or mean a device.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, group = "action")]
    save: Option<PathBuf>,
    /// Print the text of the attachments
    #[arg(long, group = "action")]
    text: bool,
    #[command(flatten)]
    query: QueryArgs,
}

impl AttachmentsArgs {
    fn wants(&self, attachment: &Attachment) -> bool {
        let name = attachment.name.as_deref().unwrap_or_default();
        let is = |patterns: &[Pattern], text: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(text))
        };
        is(&self.types, &attachment.media_type) && is(&self.names, name)
    }
}

/// Work on attachments, one after the other.
trait Work {
    /// Works on an attachment of a message. An error concerns this one only, unless it is
    /// [`std::io::Error`] of standard output.
    fn attachment(
        &mut self,
        context: &mut Context,
        message: (&AttachedMessage, &MessageTitle),
        attachment: &Attachment,
    ) -> anyhow::Result<Outcome>;

    /// Does what is left.
    fn finish(&mut self, _context: &mut Context) -> anyhow::Result<Outcome> {
        Ok(Outcome::Done)
    }
}

/// Messages whose attachments are listed or worked on.
struct ChosenMessages {
    mailbox: Mailbox,
    /// The name of the mailbox, where several are read.
    name: Option<Arc<OsStr>>,
    uids: Vec<Uid>,
}

/// Lists attachments, or works on them.
pub(crate) fn run(context: &mut Context, args: &AttachmentsArgs) -> anyhow::Result<Outcome> {
    args.several.check()?;
    let (mut chosen, outcome) = select(context, args)?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut work: Box<dyn Work> = match &args.save {
        Some(dir) => Box::new(save::Saving::new(dir)?),
        None if args.text => Box::new(text::Printing::new(context, Arc::clone(&stop))),
        None => {
            return Ok(outcome.worse(list(context, args, &mut chosen)?));
        }
    };
    let (mut outcome, mut is_empty) = (outcome, true);
    for messages in &mut chosen {
        let (uids, unread) = with_attachments(args, &mut messages.mailbox, &messages.uids)?;
        is_empty &= uids.is_empty();
        messages.uids = uids;
        outcome = outcome.worse(report_unreadable(context, unread));
    }
    outcome = outcome.worse(Outcome::nothing_if(is_empty));
    signals::set_on_signal(&stop)?;
    for ChosenMessages { mailbox, name, uids } in &mut chosen {
        for uid in uids {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let title = MessageTitle { mailbox: name.clone(), uid: *uid };
            outcome = outcome.worse(of_message(context, args, (mailbox, title), &mut *work)?);
        }
    }
    if !stop.load(Ordering::Relaxed) {
        outcome = outcome.worse(work.finish(context)?);
    }
    if stop.load(Ordering::Relaxed) {
        return Err(WithHint::error("interrupted", "what is done so far is complete"));
    }
    Ok(outcome)
}

/// Returns the messages that are named or found; reports those that do not exist.
fn select(
    context: &Context,
    args: &AttachmentsArgs,
) -> anyhow::Result<(Vec<ChosenMessages>, Outcome)> {
    let selector = Selector::reading("nothing is listed");
    let Some(name) = args.several.one(&args.mailbox) else {
        return select_in_several(context, args, selector);
    };
    let selection =
        MessageSelection::parse_optional(context, &args.messages, args.query, selector)?;
    let mut mailbox = context.open(name)?;
    let (uids, outcome) = match selection {
        None => (mailbox.uids()?.into_iter().filter_map(Uid::new).collect(), Outcome::Done),
        Some(messages) => {
            let found = messages.select(&mut mailbox)?;
            let outcome = match found.report(context, name) {
                // Other messages that are named exist: their attachments decide.
                Outcome::NothingMatched => Outcome::Done,
                outcome => outcome,
            };
            (found.selected.uids, outcome)
        }
    };
    Ok((vec![ChosenMessages { mailbox, name: None, uids }], outcome))
}

/// Returns the messages of several mailboxes that a query finds, or all.
fn select_in_several(
    context: &Context,
    args: &AttachmentsArgs,
    selector: Selector,
) -> anyhow::Result<(Vec<ChosenMessages>, Outcome)> {
    let words = args.several.words(args.mailbox.as_deref(), &args.messages)?;
    let program = MessageSelection::parse_for_mailboxes(context, &words, args.query, selector)?;
    let (mut found, outcome) = args.several.search(context, &program, false)?;
    let outcome = found.report(context, outcome);
    let mut chosen = Vec::with_capacity(found.parts.len());
    for FoundMailbox { name, mailbox, rows, .. } in found.parts {
        let uids = mailbox.uids_of(&rows)?;
        chosen.push(ChosenMessages { mailbox, name: Some(name.into()), uids });
    }
    Ok((chosen, outcome))
}

/// Works on the attachments of a message.
fn of_message(
    context: &mut Context,
    args: &AttachmentsArgs,
    (mailbox, title): (&mut Mailbox, MessageTitle),
    work: &mut dyn Work,
) -> anyhow::Result<Outcome> {
    let message = match mailbox.attached_message(title.uid) {
        Ok(message) => message,
        Err(error) => {
            report(context, &anyhow::Error::new(error).context(title.to_string()));
            return Ok(Outcome::Incomplete);
        }
    };
    let mut outcome = Outcome::Done;
    for attachment in attachments(message.structure()) {
        if !args.wants(&attachment) {
            continue;
        }
        let done = work.attachment(context, (&message, &title), &attachment);
        outcome = outcome.worse(reported(context, &title, &attachment, done)?);
    }
    Ok(outcome)
}

/// Reports an error about an attachment; passes on those of standard output, after which nothing is
/// left to do.
fn reported(
    context: &Context,
    message: &MessageTitle,
    attachment: &Attachment,
    done: anyhow::Result<Outcome>,
) -> anyhow::Result<Outcome> {
    match done {
        Err(error) if error.is::<std::io::Error>() => Err(error),
        Err(error) => {
            report(context, &error.context(message.of(attachment)));
            Ok(Outcome::Incomplete)
        }
        done => done,
    }
}

/// The words by which messages to the user name a message: `UID 7`, or `lists, UID 7` where several
/// mailboxes are read.
#[derive(Clone, Debug)]
struct MessageTitle {
    mailbox: Option<Arc<OsStr>>,
    uid: Uid,
}

impl fmt::Display for MessageTitle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mailbox {
            Some(name) => write!(f, "{}, UID {}", name.display(), self.uid),
            None => write!(f, "UID {}", self.uid),
        }
    }
}

impl MessageTitle {
    /// Returns the words for an attachment.
    fn of(&self, attachment: &Attachment) -> String {
        let name = attachment.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        format!("{self}, part {}{name}", attachment.number)
    }

    /// Writes the keys of an attachment that all lines of JSON have.
    fn write_keys(&self, json: &mut Json<'_>, attachment: &Attachment) {
        if let Some(name) = &self.mailbox {
            json.key("mailbox").bytes(name.as_encoded_bytes());
        }
        json.key("uid").number(self.uid.get().into());
        json.key("part").str(&attachment.number);
        match &attachment.name {
            Some(name) => json.key("filename").str(name),
            None => json.key("filename").null(),
        }
        json.key("media_type").str(&attachment.media_type);
        json.key("size").number(attachment.size);
    }
}

/// Writes the wanted attachments of a message; called from many threads.
type WriteFound<'a> = dyn Fn(Uid, &[Attachment], &mut Vec<u8>) + Sync + 'a;

/// Calls `write` with each message that has wanted attachments, from many threads, and `take` with
/// its output, in order. Returns the messages that could not be read.
fn fetch_structures(
    args: &AttachmentsArgs,
    (mailbox, uids): (&mut Mailbox, &[Uid]),
    write: &WriteFound<'_>,
    take: &mut dyn FnMut(&mut Vec<u8>) -> bool,
) -> anyhow::Result<UnreadableMessages> {
    let items = FetchItems::parse("BODYSTRUCTURE")?;
    debug_assert!(items.has(&FetchItem::BodyStructure), "the structure is known");
    let write = |fetched: &Fetched<'_>, out: &mut Vec<u8>| {
        let mut wanted = attachments(fetched.structure());
        wanted.retain(|attachment| args.wants(attachment));
        if !wanted.is_empty() {
            write(fetched.summary.uid, &wanted, out);
        }
    };
    Ok(mailbox.fetch(uids, &items, &write, take)?.unreadable)
}

/// Returns the messages that have wanted attachments, and those that could not be read.
fn with_attachments(
    args: &AttachmentsArgs,
    mailbox: &mut Mailbox,
    uids: &[Uid],
) -> anyhow::Result<(Vec<Uid>, UnreadableMessages)> {
    let mut found = Vec::new();
    let write = |uid: Uid, _: &[Attachment], out: &mut Vec<u8>| out.extend(uid.get().to_le_bytes());
    let unread = fetch_structures(args, (mailbox, uids), &write, &mut |bytes| {
        let (numbers, _) = bytes.as_chunks();
        found.extend(numbers.iter().filter_map(|number| Uid::new(u32::from_le_bytes(*number))));
        true
    })?;
    Ok((found, unread))
}

/// Prints a line for each attachment.
fn list(
    context: &mut Context,
    args: &AttachmentsArgs,
    chosen: &mut [ChosenMessages],
) -> anyhow::Result<Outcome> {
    let names = chosen.iter().filter_map(|messages| messages.name.as_deref());
    let names = NameColumn::new(context, names.map(OsStr::to_owned));
    let (mut outcome, mut is_empty) = (Outcome::Done, true);
    for (at, messages) in chosen.iter_mut().enumerate() {
        let ChosenMessages { mailbox, name, uids } = messages;
        let json = context.global.json;
        let write = |uid: Uid, all: &[Attachment], out: &mut Vec<u8>| {
            let title = MessageTitle { mailbox: name.clone(), uid };
            for attachment in all {
                if json {
                    let mut json = Json::line(out, "attachment");
                    title.write_keys(&mut json, attachment);
                    json.end_line();
                    continue;
                }
                if title.mailbox.is_some() {
                    names.write(out, at);
                }
                write_line(out, uid, attachment);
            }
        };
        let mut written = Ok(());
        let unread = fetch_structures(args, (mailbox, uids), &write, &mut |bytes| {
            is_empty &= bytes.is_empty();
            written = context.out.block(bytes);
            written.is_ok()
        });
        written?;
        outcome = outcome.worse(report_unreadable(context, unread?));
    }
    Ok(outcome.worse(Outcome::nothing_if(is_empty)))
}

/// Columns of the UID, the number of the part, the size and the type. Longer ones are not cut.
const WIDTHS: [usize; 4] = [8, 6, 9, 28];

fn write_line(out: &mut Vec<u8>, uid: Uid, attachment: &Attachment) {
    write_right(out, &uid.to_string(), WIDTHS[0]);
    pad(out, 2);
    write_left(out, &attachment.number, WIDTHS[1].max(attachment.number.len()));
    write_right(out, &size(attachment.size), WIDTHS[2]);
    pad(out, 2);
    let media_type = visible(attachment.media_type.as_bytes());
    match &attachment.name {
        Some(name) => {
            write_left(out, &media_type, WIDTHS[3].max(media_type.len()));
            pad(out, 2);
            out.extend_from_slice(visible(name.as_bytes()).as_bytes());
        }
        None => out.extend_from_slice(media_type.as_bytes()),
    }
    out.push(b'\n');
}
