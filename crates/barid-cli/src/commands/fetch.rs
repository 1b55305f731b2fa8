//! `barid fetch`: prints the answers of IMAP's FETCH.

use std::ffi::OsString;

use barid::fetch::{FetchItem, FetchItems, Fetched, NumberSet};
use barid::message::{decode_plain, decode_words, file_name, media_type, numbered_parts};
use barid::{Address, BodyStructure, Envelope, Mailbox, Uid};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use clap::{Args, ValueHint};

use crate::context::Context;
use crate::exit::{Outcome, report};
use crate::mail::json::write_flags;
use crate::output::json::Json;

const EXAMPLES: &str = "\
Examples:
  barid fetch ~/Maildir 1:* FLAGS ENVELOPE
  barid fetch ~/Maildir 4711 'BODY[HEADER.FIELDS (SUBJECT TO)]' BODY[1]
  barid fetch --seq archive.mbox '1:10,*' FULL
  barid fetch --json ~/Maildir 4711 BODYSTRUCTURE 'BINARY[2]'

ITEMS are those of IMAP: FLAGS, UID, MODSEQ, INTERNALDATE, RFC822.SIZE, ENVELOPE, BODY,
BODYSTRUCTURE, BODY[SECTION]<FIRST.COUNT>, BINARY[PART], BINARY.SIZE[PART], and FAST, ALL, FULL. A
SECTION is empty, a part (1.2), HEADER, HEADER.FIELDS (NAMES), HEADER.FIELDS.NOT (NAMES) or TEXT,
and after a part also MIME. No flag is changed: BODY[] works as BODY.PEEK[].

Exit status: 1 if none of the messages is there, 2 if one cannot be read; the others are printed.";

/// Print message data as IMAP's FETCH returns it
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct FetchArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    /// The messages: UIDs and ranges separated by commas (1:5,9,*)
    #[arg(value_name = "SET", value_parser = parse_set)]
    set: NumberSet,
    /// The items to fetch for each message
    #[arg(value_name = "ITEMS", required = true)]
    items: Vec<String>,
    /// Read the numbers of SET as sequence numbers instead of UIDs
    #[arg(long)]
    seq: bool,
    /// Print answers as IMAP servers give them, with CRLF (the default)
    #[arg(long, conflicts_with = "json")]
    imap: bool,
}

fn parse_set(text: &str) -> Result<NumberSet, String> {
    NumberSet::parse(text).map_err(|error| error.to_string())
}

/// Prints the answers.
pub(crate) fn run(context: &mut Context, args: &FetchArgs) -> anyhow::Result<Outcome> {
    let items = FetchItems::parse(&args.items.join(" "))?;
    let items = if args.seq { items } else { items.with_uid() };
    let mut mailbox = context.open(&args.mailbox)?;
    let uids = select(&mailbox, args)?;
    let json = context.global.json;
    let write = |fetched: &Fetched<'_>, out: &mut Vec<u8>| match json {
        true => write_json(fetched, out),
        false => fetched.write_imap(out),
    };
    let (mut written, out) = (Ok(()), &mut context.out);
    let fetched = mailbox.fetch(&uids, &items, &write, &mut |bytes| {
        written = out.block(bytes);
        written.is_ok()
    });
    written?;
    let fetched = fetched?;
    for (uid, error) in &fetched.unreadable {
        context.error_line("error", &format!("UID {uid}: {error}"));
    }
    for uid in &fetched.gone {
        let path = args.mailbox.clone().into();
        report(context, &barid::Error::NoSuchMessage { path, uid: *uid }.into());
    }
    Ok(match (fetched.unreadable.is_empty(), fetched.fetched) {
        (false, _) => Outcome::Incomplete,
        (true, 0) => Outcome::NothingMatched,
        (true, _) => Outcome::Done,
    })
}

fn select(mailbox: &Mailbox, args: &FetchArgs) -> barid::Result<Vec<Uid>> {
    let greatest = match (args.seq, mailbox.len()) {
        (true, len) => len,
        (false, 0) => 0,
        (false, len) => mailbox.uid_of(len - 1)?.get(),
    };
    mailbox.uids_in(&args.set.resolve(greatest), args.seq)
}

/// Appends a line of type `fetch` (`docs/json.md`).
fn write_json(fetched: &Fetched<'_>, out: &mut Vec<u8>) {
    let summary = fetched.summary;
    let mut json = Json::line(out, "fetch");
    json.key("uid").number(summary.uid.get().into());
    json.key("seq").number(u64::from(summary.row) + 1);
    let mut sections = Vec::new();
    for item in fetched.items().items() {
        match item {
            FetchItem::Flags => write_flags(&mut json, summary),
            FetchItem::Uid => {}
            FetchItem::ModSeq => json.key("modseq").number(summary.modseq.get()),
            FetchItem::InternalDate => {
                let date = summary.internal_date;
                json.key("internal_date").date(date.unix_seconds, date.zone_minutes);
            }
            FetchItem::Rfc822Size => match fetched.rfc822_size() {
                Some(size) => json.key("rfc822_size").number(size),
                None => json.key("rfc822_size").null(),
            },
            FetchItem::Envelope => {
                json.key("envelope");
                match fetched.envelope() {
                    Some(envelope) => write_envelope(&mut json, &envelope),
                    None => json.null(),
                }
            }
            FetchItem::Body | FetchItem::BodyStructure => {
                json.key(if *item == FetchItem::Body { "body" } else { "bodystructure" });
                write_parts(&mut json, fetched.structure());
            }
            // Servers answer NIL, too, where there is no value.
            FetchItem::SaveDate => json.key("savedate").null(),
            FetchItem::EmailId => {
                json.key("emailid");
                match fetched.email_id() {
                    Some(id) => json.str(&id.to_string()),
                    None => json.null(),
                }
            }
            FetchItem::ThreadId => json.key("threadid").null(),
            FetchItem::Preview { .. } => {
                json.key("preview");
                match fetched.preview() {
                    Some(text) => json.str(text),
                    None => json.null(),
                }
            }
            FetchItem::Section { .. } | FetchItem::Binary { .. } | FetchItem::BinarySize(_) => {
                sections.push(item);
            }
        }
    }
    if !sections.is_empty() {
        json.key("sections").open(b'[');
        sections.into_iter().for_each(|item| write_section(&mut json, fetched, item));
        json.close(b']');
    }
    json.end_line();
}

fn write_section(json: &mut Json<'_>, fetched: &Fetched<'_>, item: &FetchItem) {
    json.open(b'{');
    json.key("item").str(&item.to_string());
    if fetched.unknown_encoding(item).is_some() {
        json.key("error").str("UNKNOWN-CTE");
    }
    let bytes = match item {
        FetchItem::Section { section, partial, .. } => {
            fetched.section(section, *partial).map(std::borrow::Cow::into_owned)
        }
        FetchItem::Binary { section, partial } => fetched
            .binary(section)
            .map(|bytes| partial.map_or(&*bytes, |partial| partial.of(&bytes)).to_vec()),
        FetchItem::BinarySize(section) => {
            match fetched.binary(section) {
                Some(bytes) => json.key("size").number(bytes.len() as u64),
                None => json.key("size").null(),
            }
            return json.close(b'}');
        }
        _ => None,
    };
    match bytes.as_deref().map(std::str::from_utf8) {
        None => json.key("text").null(),
        Some(Ok(text)) => json.key("text").str(text),
        Some(Err(_)) => {
            let text = BASE64_STANDARD.encode(bytes.as_deref().unwrap_or_default());
            json.key("base64").plain(text.as_bytes())
        }
    }
    json.close(b'}');
}

fn write_envelope(json: &mut Json<'_>, envelope: &Envelope) {
    json.open(b'{');
    let text = |json: &mut Json<'_>, key: &str, value: &Option<Vec<u8>>| match value {
        Some(value) => json.key(key).str(&decode_words(value)),
        None => json.key(key).null(),
    };
    text(json, "date", &envelope.date);
    text(json, "subject", &envelope.subject);
    for (key, list) in [
        ("from", &envelope.from),
        ("sender", &envelope.sender),
        ("reply_to", &envelope.reply_to),
        ("to", &envelope.to),
        ("cc", &envelope.cc),
        ("bcc", &envelope.bcc),
    ] {
        json.key(key).open(b'[');
        list.iter().for_each(|address| write_address(json, address));
        json.close(b']');
    }
    text(json, "in_reply_to", &envelope.in_reply_to);
    text(json, "message_id", &envelope.message_id);
    json.close(b'}');
}

fn write_address(json: &mut Json<'_>, address: &Address) {
    json.open(b'{');
    match &address.name {
        Some(name) => json.key("name").str(&decode_words(name)),
        None => json.key("name").null(),
    }
    for (key, value) in [("mailbox", &address.mailbox), ("host", &address.host)] {
        match value {
            Some(value) => json.key(key).str(&decode_plain(value)),
            None => json.key(key).null(),
        }
    }
    json.close(b'}');
}

/// Writes the parts as an array, each after its parent.
fn write_parts(json: &mut Json<'_>, structure: &BodyStructure) {
    json.open(b'[');
    for numbered in numbered_parts(structure) {
        let part = numbered.part;
        json.open(b'{');
        json.key("part").str(&numbered.number);
        json.key("media_type").str(&media_type(part));
        json.key("encoding").bytes(&part.encoding);
        json.key("size").number(part.size);
        json.key("lines").number(part.lines);
        if let Some(name) = file_name(part) {
            json.key("name").str(&name);
        }
        if let Some(disposition) = &part.disposition {
            json.key("disposition").bytes(&disposition.kind);
        }
        json.close(b'}');
    }
    json.close(b']');
}
