//! `barid cache`: what is kept of mailboxes, and getting rid of it.

use std::path::Path;

use barid::caches::{self, CacheEntry, ClearReport, EntryState};
use clap::{Args, Subcommand};

use crate::context::Context;
use crate::exit::{NotThere, Outcome, WithHint};
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::{counted, grouped, size};
use crate::output::table::{Align, Table};

const EXAMPLES: &str = "\
Examples:
  barid cache status                       what is cached, and how large it is
  barid cache verify ~/Maildir             check every block of one cache
  barid cache clear ~/Maildir              forget one mailbox
  barid cache prune                        forget mailboxes that are gone

A cache can be deleted at any time: no UID changes, and the next command makes it anew.";

/// Inspect, verify and remove caches
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    command: CacheCommand,
}

/// What to do with caches.
#[derive(Debug, Subcommand)]
enum CacheCommand {
    /// List the caches and their sizes
    ///
    /// Only their headers are read. A cache that is damaged is made anew when its mailbox is
    /// opened.
    Status,
    /// Check every block of every cache
    ///
    /// Exit status: 2 if one is damaged, 1 if MAILBOX has none.
    Verify {
        /// Check only the cache of this mailbox
        mailbox: Option<String>,
    },
    /// Remove caches
    ///
    /// Without MAILBOX, all of them. No mail and no UID is lost.
    Clear {
        /// Remove only the cache of this mailbox
        mailbox: Option<String>,
    },
    /// Remove the caches of mailboxes that are gone, and what broken runs left behind
    ///
    /// A mailbox on a disk that is not mounted now counts as gone. Temporary files are removed once
    /// they are an hour old: younger ones may be in use.
    Prune,
}

/// Does what was asked.
pub(crate) fn run(context: &mut Context, args: &CacheArgs) -> anyhow::Result<Outcome> {
    let dir = context.cache_dir().ok_or_else(|| {
        WithHint::error("there is no cache folder", "name one with --cache-dir DIR")
    })?;
    match &args.command {
        CacheCommand::Status => status(context, &dir),
        CacheCommand::Verify { mailbox } => verify(context, &dir, mailbox.as_deref()),
        CacheCommand::Clear { mailbox } => {
            let report = caches::clear(&dir, mailbox.as_deref())?;
            is_cached(mailbox.as_deref(), report.files > 0)?;
            removed(context, &report)?;
            Ok(Outcome::Done)
        }
        CacheCommand::Prune => {
            let report = caches::prune(&dir)?;
            removed(context, &report)?;
            Ok(Outcome::Done)
        }
    }
}

fn status(context: &mut Context, dir: &Path) -> anyhow::Result<Outcome> {
    let mut entries = caches::list(dir)?;
    entries.sort_by(|one, other| one.mailbox_path.cmp(&other.mailbox_path));
    if context.global.json {
        entries.iter().for_each(|entry| write_entry(context.out.buffer(), entry));
        return Ok(Outcome::Done);
    }
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Left, Align::Left]);
    for entry in &entries {
        let state = match &entry.state {
            EntryState::Ok => String::new(),
            EntryState::Damaged(reason) => format!("  (damaged: {reason})"),
        };
        let mailbox = format!("{}{state}", entry.mailbox_path.display());
        table.row([
            size(entry.bytes),
            grouped(entry.messages.into()),
            visible(entry.format.as_bytes()),
            visible(mailbox.as_bytes()),
        ]);
    }
    table.write(context.out.buffer(), "");
    let bytes = entries.iter().map(|entry| entry.bytes).sum();
    let caches = counted(entries.len() as u64, "cache");
    context.out.line(&format!("{caches}, {} in {}", size(bytes), dir.display()))?;
    Ok(Outcome::Done)
}

fn write_entry(out: &mut Vec<u8>, entry: &CacheEntry) {
    let mut json = Json::line(out, "cache");
    json.key("mailbox").bytes(entry.mailbox_path.as_os_str().as_encoded_bytes());
    json.key("file").bytes(entry.file.as_os_str().as_encoded_bytes());
    json.key("bytes").number(entry.bytes);
    json.key("messages").number(entry.messages.into());
    json.key("format").str(&entry.format);
    match &entry.state {
        EntryState::Ok => json.key("state").str("ok"),
        EntryState::Damaged(reason) => {
            json.key("state").str("damaged");
            json.key("reason").str(reason);
        }
    }
    json.end_line();
}

fn verify(context: &mut Context, dir: &Path, mailbox: Option<&str>) -> anyhow::Result<Outcome> {
    let reports = caches::verify(dir, mailbox)?;
    is_cached(mailbox, !reports.is_empty())?;
    let mut outcome = Outcome::Done;
    for report in &reports {
        let ok = report.problems.is_empty();
        if !ok {
            outcome = Outcome::Incomplete;
        }
        if context.global.json {
            let mut json = Json::line(context.out.buffer(), "cache_verify");
            json.key("mailbox").bytes(report.mailbox_path.as_os_str().as_encoded_bytes());
            json.key("file").bytes(report.file.as_os_str().as_encoded_bytes());
            json.key("ok").bool(ok);
            json.key("problems").open(b'[');
            report.problems.iter().for_each(|problem| json.str(problem));
            json.close(b']');
            json.end_line();
            continue;
        }
        let mailbox = visible(report.mailbox_path.as_os_str().as_encoded_bytes());
        let verdict = if ok { "ok".to_owned() } else { report.problems.join("; ") };
        context.out.line(&format!("{mailbox}: {}", visible(verdict.as_bytes())))?;
    }
    Ok(outcome)
}

/// Fails where a mailbox was named and nothing of it is cached.
fn is_cached(mailbox: Option<&str>, found: bool) -> anyhow::Result<()> {
    match mailbox {
        Some(mailbox) if !found => Err(NotThere::error(
            format!("{mailbox}: no cache of this mailbox"),
            "`barid cache status` lists what is cached",
        )),
        _ => Ok(()),
    }
}

fn removed(context: &mut Context, report: &ClearReport) -> anyhow::Result<()> {
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "cache_removed");
        json.key("files").number(report.files);
        json.key("bytes").number(report.bytes);
        json.end_line();
        return Ok(());
    }
    let files = counted(report.files, "file");
    Ok(context.out.line(&format!("removed {files}, {}", size(report.bytes)))?)
}
