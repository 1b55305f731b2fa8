//! `barid show`: prints messages, for reading or unchanged.

mod headers;
mod part;
mod raw;
mod structure;
mod text;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use barid::{BodyStructure, Mailbox, RawMessage, ReadAs, Uid, is_too_large, keeps_texts};
use clap::{Args, ValueEnum, ValueHint};

use crate::context::Context;
use crate::exit::{Outcome, WithHint, is_not_there, report};
use crate::mail::mailboxes::MailboxesArgs;
use crate::mail::named::{MessagesWork, NamedMessages};
use crate::mail::query::QueryArgs;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::style::Style;

const EXAMPLES: &str = "\
Examples:
  barid show ~/Maildir 4711                headers and readable text
  barid show ~/Maildir 1:5 '*'             the first five UIDs and the last message
  barid show ~/Maildir from:ann newer:1d   what a query finds
  barid show --in inbox --tree ~/archive id:4711@mail.example      in several mailboxes
  barid show --structure ~/Maildir 4711    the parts and their numbers
  barid show --part 2 -o photo.jpg ~/Maildir 4711
  barid show --raw archive.mbox 17 | less
  barid show --raw -o 17.eml archive.mbox 17

Exit status: 1 if a UID does not exist, 2 if a message cannot be read; the others are shown.";

const USAGE: &str = "\
barid show [OPTIONS] <MAILBOX> <UIDS|QUERY>...
       barid show [OPTIONS] --in <MAILBOX>... --tree <DIR>... <QUERY>...";

/// Show messages: headers and text, the raw bytes, or a part
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct ShowArgs {
    /// The mailbox: a path, or FORMAT:PATH. With --in or --tree, the query begins here
    #[arg(value_hint = ValueHint::AnyPath, required_unless_present_any = ["mailboxes", "trees"])]
    mailbox: Option<OsString>,
    /// The messages: UIDs and ranges, as in 1:4,7,* (* is the last), or `all`; or a query as for
    /// `barid search`
    #[arg(required_unless_present_any = ["mailboxes", "trees"], value_name = "UIDS|QUERY")]
    messages: Vec<String>,
    #[command(flatten)]
    several: MailboxesArgs,
    /// Print the bytes of the message
    ///
    /// `message` leaves out what belongs to the mailbox: the From_ line, its quoting where that can
    /// be undone, and the fields Status, X-Status, X-Keywords, X-UID, X-IMAP and X-IMAPbase.
    /// `stored` prints the bytes as the file stores them.
    #[arg(long, value_name = "AS", num_args = 0..=1, require_equals = true, group = "view")]
    #[arg(default_missing_value = "message", value_enum, group = "bytes", conflicts_with = "json")]
    raw: Option<Raw>,
    /// Print all header fields, decoded
    #[arg(long, group = "view")]
    headers: bool,
    /// Print the MIME parts of the message
    #[arg(long, group = "view")]
    structure: bool,
    /// Print one part, decoded: a number as --structure shows it
    #[arg(long, value_name = "N", groups = ["view", "bytes"], conflicts_with = "json")]
    part: Option<String>,
    /// Write the part, or with --raw the message, to FILE instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(requires = "bytes", conflicts_with_all = ["headers", "structure"])]
    output: Option<PathBuf>,
    #[command(flatten)]
    query: QueryArgs,
}

/// The form of a message's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Raw {
    /// The message itself
    Message,
    /// The bytes of the file
    Stored,
}

/// A message that was read.
struct ShownMessage<'a> {
    /// Its mailbox, where several are read.
    mailbox: Option<&'a OsStr>,
    uid: Uid,
    row: u32,
    /// The bytes without the fields that formats own.
    bytes: &'a [u8],
    /// The structure of the whole message, if `bytes` lacks some bodies.
    whole: Option<&'a BodyStructure>,
}

impl ShownMessage<'_> {
    /// Appends the line above a message that follows another, or that is of one of several
    /// mailboxes.
    fn write_rule(&self, out: &mut Vec<u8>, style: Style, follows: bool) {
        let name = self.mailbox.map(|name| visible(name.as_encoded_bytes()) + ", ");
        if follows || name.is_some() {
            let (line_end, name) = (if follows { "\n" } else { "" }, name.unwrap_or_default());
            let (dim, reset) = (style.dim, style.reset);
            let rule = format!("{line_end}{dim}─── {name}UID {} ───{reset}\n", self.uid);
            out.extend_from_slice(rule.as_bytes());
        }
    }

    /// Appends what divides a message from the one before it: that line where several mailboxes are
    /// read, otherwise an empty one.
    fn write_gap(&self, out: &mut Vec<u8>, style: Style, follows: bool) {
        match self.mailbox {
            Some(_) => self.write_rule(out, style, follows),
            None if follows => out.push(b'\n'),
            None => {}
        }
    }

    /// Appends the keys that every line of JSON begins with.
    fn write_keys(&self, json: &mut Json<'_>) {
        if let Some(name) = self.mailbox {
            json.key("mailbox").bytes(name.as_encoded_bytes());
        }
        json.key("uid").number(self.uid.get().into());
        json.key("seq").number(u64::from(self.row) + 1);
    }
}

/// Shows each message; reports unreadable ones.
pub(crate) fn run(context: &mut Context, args: &ShowArgs) -> anyhow::Result<Outcome> {
    let named = NamedMessages {
        mailbox: &args.mailbox,
        words: &args.messages,
        several: &args.several,
        query: args.query,
        nothing: "nothing is shown",
    };
    named.each(context, &mut Showing { args, follows: false })
}

/// The messages that are shown.
struct Showing<'a> {
    args: &'a ShowArgs,
    /// `true` if a message was shown.
    follows: bool,
}

impl MessagesWork for Showing<'_> {
    fn begin(&mut self, count: usize) -> anyhow::Result<()> {
        check_output(self.args, count)
    }

    fn messages(
        &mut self,
        context: &mut Context,
        (mailbox, name): (&mut Mailbox, Option<&OsStr>),
        uids: &[Uid],
    ) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome::Done;
        for uid in uids {
            match show(context, self.args, (mailbox, name), *uid, self.follows) {
                Ok(()) => {}
                // Standard output is closed: nothing is left to do.
                Err(error) if error.is::<std::io::Error>() => return Err(error),
                Err(error) => {
                    outcome = worse(outcome, &error);
                    report(context, &error);
                }
            }
            self.follows = true;
        }
        Ok(outcome)
    }
}

/// Checks that -o is for one message.
fn check_output(args: &ShowArgs, count: usize) -> anyhow::Result<()> {
    if args.output.is_some() && count > 1 {
        let message = format!("-o writes one message, but {count} were named");
        return Err(WithHint::error(message, "run the command once for each message"));
    }
    Ok(())
}

fn worse(outcome: Outcome, error: &anyhow::Error) -> Outcome {
    let harmless = is_not_there(error) && outcome != Outcome::Incomplete;
    if harmless { Outcome::NothingMatched } else { Outcome::Incomplete }
}

fn show(
    context: &mut Context,
    args: &ShowArgs,
    (mailbox, name): (&mut Mailbox, Option<&OsStr>),
    uid: Uid,
    follows: bool,
) -> anyhow::Result<()> {
    let output = args.output.as_deref();
    if let Some(raw) = args.raw {
        return raw::write(context, mailbox, uid, raw == Raw::Stored, output);
    }
    let (bytes, whole) = match mailbox.read(uid, ReadAs::Message) {
        Ok(RawMessage { bytes, .. }) => (bytes, None),
        Err(error) if is_too_large(&error) => large(args, mailbox, uid)?,
        Err(error) => return Err(error.into()),
    };
    let bytes = barid::message::strip_owned(&bytes);
    let row = mailbox.row_of(uid)?.unwrap_or_default();
    let message = ShownMessage { mailbox: name, uid, row, bytes: &bytes, whole: whole.as_ref() };
    if let Some(number) = &args.part {
        return part::show(context, &message, number, output);
    }
    match (args.structure, context.global.json) {
        (true, true) => structure::write_json(context.out.buffer(), &message),
        (true, false) => structure::write_tree(context, &message, follows)?,
        (false, true) => text::write_json(context, &message, args.headers),
        (false, false) if args.headers => headers::write_all(context, &message, follows),
        (false, false) => text::write(context, &message, follows),
    }
    Ok(context.out.settle()?)
}

/// Reads the displayed part of a message that is too large to read completely. Returns it with the
/// structure of the whole message.
fn large(
    args: &ShowArgs,
    mailbox: &mut Mailbox,
    uid: Uid,
) -> anyhow::Result<(Vec<u8>, Option<BodyStructure>)> {
    let reduced = match &args.part {
        None => mailbox.read_reduced(uid, &keeps_texts)?,
        Some(number) => {
            let whole = mailbox.read_reduced(uid, &|_| false)?.structure;
            let part = part::find(&whole, number);
            let range = part.map_or(0..0, |part| part.header_offset..part.body_end);
            mailbox.read_reduced(uid, &|part| range.contains(&part.header_offset))?
        }
    };
    Ok((reduced.bytes, Some(reduced.structure)))
}
