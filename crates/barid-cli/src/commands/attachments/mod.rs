//! `barid attachments`: lists attachments, saves them, or prints their text.

mod names;
mod pattern;
mod save;
mod text;

use std::ffi::OsString;
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
  barid attachments ~/Maildir --type 'image/*' --save photos
  barid attachments ~/Maildir --name '*.pdf' --text | less

The text is that of PDF (with pdftotext of poppler), docx, xlsx, pptx, odt, ods, odp, HTML and plain
texts. A process of its own reads each attachment, limited to 512 MB, 10 s of CPU time, and system
calls that reach neither files nor the network. The cache folder remembers texts and failures, by
content; --no-cache reads everything again.

Exit status: 1 if there are no attachments, 2 if one could not be read or saved, or if its text
could not be read; the others are shown.";

/// List the attachments of messages, save them, or print their text
///
/// Attachments are the parts of a message that say so, and all parts that are not text. Without
/// UIDs or a query, those of all messages are listed.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct AttachmentsArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    /// Only these messages: UIDs and ranges, as in 1:4,7,* (* is the last); or a query as for
    /// `barid search`
    #[arg(value_name = "UIDS|QUERY")]
    messages: Vec<String>,
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
        message: &AttachedMessage,
        attachment: &Attachment,
    ) -> anyhow::Result<Outcome>;

    /// Does what is left.
    fn finish(&mut self, _context: &mut Context) -> anyhow::Result<Outcome> {
        Ok(Outcome::Done)
    }
}

/// Lists attachments, or works on them.
pub(crate) fn run(context: &mut Context, args: &AttachmentsArgs) -> anyhow::Result<Outcome> {
    let selector = Selector::reading("nothing is listed");
    let selection =
        MessageSelection::parse_optional(context, &args.messages, args.query, selector)?;
    let mut mailbox = context.open(&args.mailbox)?;
    let (uids, outcome) = select(context, args, &mut mailbox, selection.as_ref())?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut work: Box<dyn Work> = match &args.save {
        Some(dir) => Box::new(save::Saving::new(dir)?),
        None if args.text => Box::new(text::Printing::new(context, Arc::clone(&stop))),
        None => {
            return Ok(outcome.worse(list(context, args, &mut mailbox, &uids)?));
        }
    };
    let (uids, unread) = with_attachments(args, &mut mailbox, &uids)?;
    let outcome = outcome.worse(report_unreadable(context, unread));
    let mut outcome = outcome.worse(Outcome::nothing_if(uids.is_empty()));
    signals::set_on_signal(&stop)?;
    for uid in uids {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        outcome = outcome.worse(of_message(context, args, (&mut mailbox, uid), &mut *work)?);
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
    mailbox: &mut Mailbox,
    selection: Option<&MessageSelection>,
) -> anyhow::Result<(Vec<Uid>, Outcome)> {
    let Some(messages) = selection else {
        let all = mailbox.uids()?.into_iter().filter_map(Uid::new).collect();
        return Ok((all, Outcome::Done));
    };
    let found = messages.select(mailbox)?;
    let outcome = match found.report(context, &args.mailbox) {
        // Other messages that are named exist: their attachments decide.
        Outcome::NothingMatched => Outcome::Done,
        outcome => outcome,
    };
    Ok((found.selected.uids, outcome))
}

/// Works on the attachments of a message.
fn of_message(
    context: &mut Context,
    args: &AttachmentsArgs,
    (mailbox, uid): (&mut Mailbox, Uid),
    work: &mut dyn Work,
) -> anyhow::Result<Outcome> {
    let message = match mailbox.attached_message(uid) {
        Ok(message) => message,
        Err(error) => {
            report(context, &anyhow::Error::new(error).context(format!("UID {uid}")));
            return Ok(Outcome::Incomplete);
        }
    };
    let mut outcome = Outcome::Done;
    for attachment in attachments(message.structure()) {
        if !args.wants(&attachment) {
            continue;
        }
        let done = work.attachment(context, &message, &attachment);
        outcome = outcome.worse(reported(context, uid, &attachment, done)?);
    }
    Ok(outcome)
}

/// Reports an error about an attachment; passes on those of standard output, after which nothing is
/// left to do.
fn reported(
    context: &Context,
    uid: Uid,
    attachment: &Attachment,
    done: anyhow::Result<Outcome>,
) -> anyhow::Result<Outcome> {
    match done {
        Err(error) if error.is::<std::io::Error>() => Err(error),
        Err(error) => {
            report(context, &error.context(title(uid, attachment)));
            Ok(Outcome::Incomplete)
        }
        done => done,
    }
}

/// Returns the words by which messages to the user name an attachment.
fn title(uid: Uid, attachment: &Attachment) -> String {
    let name = attachment.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    format!("UID {uid}, part {}{name}", attachment.number)
}

/// Messages that could not be read, with the errors.
type Unread = Vec<(Uid, barid::Error)>;

/// Writes the wanted attachments of a message; called from many threads.
type WriteFound<'a> = dyn Fn(Uid, &[Attachment], &mut Vec<u8>) + Sync + 'a;

/// Calls `write` with each message that has wanted attachments, from many threads, and `take` with
/// its output, in order. Returns the messages that could not be read.
fn fetch_structures(
    args: &AttachmentsArgs,
    (mailbox, uids): (&mut Mailbox, &[Uid]),
    write: &WriteFound<'_>,
    take: &mut dyn FnMut(&mut Vec<u8>) -> bool,
) -> anyhow::Result<Unread> {
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
) -> anyhow::Result<(Vec<Uid>, Unread)> {
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
    mailbox: &mut Mailbox,
    uids: &[Uid],
) -> anyhow::Result<Outcome> {
    let json = context.global.json;
    let write = |uid: Uid, all: &[Attachment], out: &mut Vec<u8>| {
        for attachment in all {
            match json {
                true => {
                    let mut json = Json::line(out, "attachment");
                    write_keys(&mut json, uid, attachment);
                    json.end_line();
                }
                false => write_line(out, uid, attachment),
            }
        }
    };
    let (mut written, mut is_empty) = (Ok(()), true);
    let unread = fetch_structures(args, (mailbox, uids), &write, &mut |bytes| {
        is_empty &= bytes.is_empty();
        written = context.out.block(bytes);
        written.is_ok()
    });
    written?;
    Ok(report_unreadable(context, unread?).worse(Outcome::nothing_if(is_empty)))
}

/// Writes the keys of an attachment that all lines of JSON have.
fn write_keys(json: &mut Json<'_>, uid: Uid, attachment: &Attachment) {
    json.key("uid").number(uid.get().into());
    json.key("part").str(&attachment.number);
    match &attachment.name {
        Some(name) => json.key("filename").str(name),
        None => json.key("filename").null(),
    }
    json.key("media_type").str(&attachment.media_type);
    json.key("size").number(attachment.size);
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
