//! `barid folders`: the mailboxes below a folder.

use std::path::PathBuf;

use barid::vfs::OsVfs;
use barid::{Folder, Mailbox, MailboxSpec};
use clap::{Args, ValueHint};

use crate::context::Context;
use crate::exit::{Outcome, report};
use crate::mail::mailboxes::no_mailbox_below;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::grouped;
use crate::output::table::{pad, width, write_right};
use crate::output::tree::{Branches, last_children};

const EXAMPLES: &str = "\
Examples:
  barid folders ~/Maildir                  a Maildir and its Maildir++ folders
  barid folders ~/Mail                     a folder of mailbox files
  barid folders --no-counts --json ~/Mail

Exit status: 1 if there is no mailbox.";

/// List the mailboxes below a folder as a tree, with their counts
///
/// Finds Maildir++ folders, nested Maildirs and mailbox files. Each is opened to count its
/// messages, so the first time takes as long as reading the new messages of all. Other commands
/// accept the printed names, with slashes between them: `~/Maildir/Entwürfe` for the folder
/// `.Entw&APw-rfe`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct FoldersArgs {
    /// The folder
    #[arg(value_hint = ValueHint::DirPath)]
    dir: PathBuf,
    /// Open no mailbox and count nothing
    #[arg(long)]
    no_counts: bool,
}

/// The counts of one mailbox.
#[derive(Clone, Copy, Debug)]
struct Counts {
    messages: u32,
    unseen: u32,
}

/// Finds the mailboxes, opens each, and prints the tree.
pub(crate) fn run(context: &mut Context, args: &FoldersArgs) -> anyhow::Result<Outcome> {
    let dir = context.spec(args.dir.as_os_str())?.path;
    let folders = barid::folders(&OsVfs, &dir)?;
    if !folders.iter().any(|folder| folder.format.is_some()) {
        return Err(no_mailbox_below(&args.dir));
    }
    let mut outcome = Outcome::Done;
    let mut counts = Vec::with_capacity(folders.len());
    for folder in &folders {
        let counted = match folder.format {
            Some(_) if !args.no_counts => count(context, folder),
            _ => Ok(None),
        };
        counts.push(counted.unwrap_or_else(|error| {
            report(context, &error);
            outcome = Outcome::Incomplete;
            None
        }));
    }
    if context.global.json {
        for (folder, counts) in folders.iter().zip(&counts) {
            write_json(context.out.buffer(), folder, *counts);
            context.out.settle()?;
        }
    } else {
        write_tree(context, &folders, &counts)?;
    }
    Ok(outcome)
}

fn count(context: &Context, folder: &Folder) -> anyhow::Result<Option<Counts>> {
    let spec = MailboxSpec { format: None, path: folder.path.clone() };
    let mailbox: Mailbox = context.open_spec(&spec)?;
    let status = mailbox.status();
    Ok(Some(Counts { messages: status.messages, unseen: status.unseen }))
}

fn write_json(out: &mut Vec<u8>, folder: &Folder, counts: Option<Counts>) {
    let mut json = Json::line(out, "folder");
    json.key("path").bytes(folder.path.as_os_str().as_encoded_bytes());
    json.key("name").bytes(folder.name.as_bytes());
    json.key("depth").number(folder.depth.into());
    match folder.format {
        Some(format) => json.key("format").str(format.name()),
        None => json.key("format").null(),
    }
    if let Some(counts) = counts {
        json.key("messages").number(counts.messages.into());
        json.key("unseen").number(counts.unseen.into());
    }
    json.end_line();
}

/// Writes `messages  unseen  tree of names`.
fn write_tree(
    context: &mut Context,
    folders: &[Folder],
    counts: &[Option<Counts>],
) -> anyhow::Result<()> {
    let style = context.style;
    let text = |pick: fn(Counts) -> u32| {
        let show = |counts: &Option<Counts>| {
            counts.map_or_else(String::new, |counts| grouped(pick(counts).into()))
        };
        counts.iter().map(show).collect::<Vec<_>>()
    };
    let (messages, unseen) = (text(|counts| counts.messages), text(|counts| counts.unseen));
    let widest = |column: &[String], head: &str| {
        column.iter().map(|text| width(text)).max().unwrap_or(0).max(head.len())
    };
    let counted = counts.iter().any(Option::is_some);
    let (messages_width, unseen_width) = (widest(&messages, "messages"), widest(&unseen, "unseen"));
    let out = context.out.buffer();
    if counted {
        write_right(out, "messages", messages_width);
        out.extend_from_slice(b"  ");
        write_right(out, "unseen", unseen_width);
        out.extend_from_slice(b"  mailbox\n");
    }
    let depths: Vec<u32> = folders.iter().map(|folder| folder.depth).collect();
    let mut branches = Branches::new(context.glyphs());
    for (at, (folder, last)) in folders.iter().zip(last_children(&depths)).enumerate() {
        let out = context.out.buffer();
        if counted {
            write_right(out, &messages[at], messages_width);
            pad(out, 2);
            write_right(out, &unseen[at], unseen_width);
            pad(out, 2);
        }
        out.extend_from_slice(style.dim.as_bytes());
        branches.write(out, folder.depth, last);
        out.extend_from_slice(style.reset.as_bytes());
        out.extend_from_slice(visible(folder.name.as_bytes()).as_bytes());
        if let Some(format) = folder.format {
            let format = format!("  {}({}){}", style.dim, format.name(), style.reset);
            out.extend_from_slice(format.as_bytes());
        }
        out.push(b'\n');
        context.out.settle()?;
    }
    Ok(())
}
