//! `barid cache clear` and `barid cache prune`: remove caches.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Context as _;
use barid::caches::{self, ClearReport};
use barid::vfs::OsVfs;
use barid_extract::TextCache;
use clap::{Args, ValueHint};

use super::not_cached;
use crate::context::Context;
use crate::exit::Outcome;
use crate::output::json::Json;
use crate::output::number::{counted, size};

const CLEAR_EXAMPLES: &str = "\
Examples:
  barid cache clear ~/Maildir
  barid cache clear --all                  all caches of the folder";

const PRUNE_EXAMPLES: &str = "\
Examples:
  barid cache prune
  barid cache prune --json | jq .bytes";

/// Remove caches
///
/// No mail and no UID is lost.
#[derive(Debug, Args)]
#[command(after_long_help = CLEAR_EXAMPLES)]
pub(super) struct ClearArgs {
    /// The mailbox whose cache is removed
    #[arg(value_hint = ValueHint::AnyPath, required_unless_present = "all")]
    mailbox: Option<OsString>,
    /// Remove the caches of all mailboxes, and the texts of attachments
    #[arg(long, conflicts_with = "mailbox")]
    all: bool,
}

/// Remove the caches of mailboxes that no longer exist, and leftover temporary files
///
/// A mailbox on a disk that is not mounted counts as missing. Temporary files of interrupted runs
/// are removed once they are an hour old: younger ones may be in use.
#[derive(Debug, Args)]
#[command(after_long_help = PRUNE_EXAMPLES)]
pub(super) struct PruneArgs {}

/// Removes caches in any state.
pub(super) fn clear(
    context: &mut Context,
    dir: &Path,
    args: &ClearArgs,
) -> anyhow::Result<Outcome> {
    let mailbox = args.mailbox.as_deref();
    let spec = mailbox.map(|mailbox| context.spec_on_disk(mailbox)).transpose()?;
    let path = spec.map(|spec| spec.path);
    let mut report = caches::clear(dir, path.as_deref())?;
    if args.all {
        let (files, bytes) =
            TextCache::remove(&OsVfs, dir).with_context(|| dir.display().to_string())?;
        report.files += files;
        report.bytes += bytes;
    }
    match &args.mailbox {
        Some(mailbox) if report.files == 0 => Err(not_cached(mailbox)),
        _ => removed(context, &report),
    }
}

/// Removes caches of missing mailboxes, and temporary files.
pub(super) fn prune(context: &mut Context, dir: &Path) -> anyhow::Result<Outcome> {
    removed(context, &caches::prune(dir)?)
}

fn removed(context: &mut Context, report: &ClearReport) -> anyhow::Result<Outcome> {
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "cache_removed");
        json.key("files").number(report.files);
        json.key("bytes").number(report.bytes);
        json.end_line();
        return Ok(Outcome::Done);
    }
    let files = counted(report.files, "file");
    context.out.line(&format!("removed {files}, {}", size(report.bytes)))?;
    Ok(Outcome::Done)
}
