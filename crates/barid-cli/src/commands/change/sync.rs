//! `barid sync`: writes pending changes.

use std::ffi::{OsStr, OsString};

use barid::{FlagSet, Keyword, Mailbox};
use clap::{Args, ValueHint};

use super::report::{Report, Verb};
use super::{ChangeArgs, ChangeCommand, links};
use crate::context::Context;
use crate::exit::Outcome;
use crate::mail::links::is_links_dir;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::counted;

const EXAMPLES: &str = "\
Examples:
  barid sync archive.mbox
  barid sync --dry-run archive.mbox        what would be written and moved
  barid sync --json ~/Maildir | jq .figures
  barid sync --list archive.mbox           the pending changes
  barid sync --discard-pending archive.mbox
  barid sync found                         flags of links (`barid search --output links --to found`)
                                           and of their messages, brought together

The first time, the headers of an mbox get room for UIDs and flags, which moves nearly all of the
file once; afterwards most changes write a few bytes in place.";

/// Write pending changes into a mailbox
///
/// Writes pending flags, removes \Recent from every message, and in an mbox stores the UID of every
/// message, so that other programs see the same UIDs. An interrupted change is completed first.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct SyncArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    /// List the pending changes, and write nothing
    #[arg(long, conflicts_with_all = ["dry_run", "discard_pending", "take_over"])]
    pub(super) list: bool,
    /// Drop the pending changes instead of writing them
    #[arg(long, conflicts_with_all = ["dry_run", "take_over"])]
    pub(super) discard_pending: bool,
    /// Also write the changes pending for an earlier file at this path that was replaced
    ///
    /// A mailbox is identified by its attribute `user.barid.id`, which a program that replaces the
    /// file may not copy. Each change is applied to the message with the same header.
    #[arg(long, conflicts_with = "dry_run")]
    pub(super) take_over: bool,
    #[command(flatten)]
    pub(super) change: ChangeArgs,
}

/// Writes, lists or discards the pending changes.
pub(crate) fn run(context: &mut Context, args: &SyncArgs) -> anyhow::Result<Outcome> {
    let path = context.spec(&args.mailbox)?.path;
    if is_links_dir(&path) {
        return links::bring_together(context, args, &path);
    }
    if args.list {
        return list(context, &args.mailbox);
    }
    let mut session = ChangeCommand::open(context, Verb::Sync, &args.mailbox, &args.change)?;
    if args.discard_pending {
        let count = session.mailbox.discard_pending()?;
        return dropped(context, &args.mailbox, count);
    }
    if args.take_over {
        session.mailbox.take_over_pending()?;
    }
    let changed = session.change(context, session.options(), Mailbox::sync)?;
    session.finish(context, &Report { changed, ..Report::default() })
}

/// Lists the pending changes.
fn list(context: &mut Context, name: &OsStr) -> anyhow::Result<Outcome> {
    let mailbox = context.open_on_disk(name)?;
    let changes = mailbox.pending_changes();
    let out = context.out.buffer();
    for (uid, change) in &changes {
        let names = |flags: FlagSet, keywords: &[Keyword]| -> Vec<String> {
            let flags = flags.iter().map(|flag| flag.name().to_owned());
            flags.chain(keywords.iter().map(|name| name.as_str().to_owned())).collect()
        };
        let add = names(change.add, &change.add_keywords);
        let remove = names(change.remove, &change.remove_keywords);
        if context.global.json {
            let mut json = Json::line(out, "pending");
            json.key("uid").number(uid.get().into());
            for (key, names) in [("add", &add), ("remove", &remove)] {
                json.key(key).open(b'[');
                names.iter().for_each(|name| json.str(name));
                json.close(b']');
            }
            json.end_line();
        } else {
            let signed = |sign: char, names: &[String]| -> String {
                names.iter().map(|name| format!(" {sign}{name}")).collect()
            };
            let line = format!("UID {uid}:{}{}", signed('+', &add), signed('-', &remove));
            out.extend_from_slice(visible(line.as_bytes()).as_bytes());
            out.push(b'\n');
        }
    }
    if changes.is_empty() && !context.global.json {
        context.out.line(&format!("{}: nothing is pending", visible(name.as_encoded_bytes())))?;
    }
    Ok(Outcome::Done)
}

/// Prints the number of discarded changes.
fn dropped(context: &mut Context, name: &OsStr, count: u32) -> anyhow::Result<Outcome> {
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "discarded");
        json.key("mailbox").bytes(name.as_encoded_bytes());
        json.key("pending").number(count.into());
        json.end_line();
        return Ok(Outcome::Done);
    }
    let count = counted(count.into(), "pending change");
    context.out.line(&format!("{}: dropped {count}", visible(name.as_encoded_bytes())))?;
    Ok(Outcome::Done)
}
