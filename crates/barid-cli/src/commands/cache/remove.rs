//! `barid cache clear` and `barid cache prune`: getting rid of caches.

use std::path::Path;

use barid::caches::{self, ClearReport};
use clap::Args;

use super::OneOrAll;
use crate::context::Context;
use crate::exit::Outcome;
use crate::output::json::Json;
use crate::output::number::{counted, size};

const CLEAR_EXAMPLES: &str = "\
Examples:
  barid cache clear ~/Maildir
  barid cache clear                        all caches of the folder";

const PRUNE_EXAMPLES: &str = "\
Examples:
  barid cache prune
  barid cache prune --json | jq .bytes";

/// Remove caches
///
/// Without MAILBOX, all of them. No mail and no UID is lost.
#[derive(Debug, Args)]
#[command(after_long_help = CLEAR_EXAMPLES)]
pub(super) struct ClearArgs {
    #[command(flatten)]
    which: OneOrAll,
}

/// Remove the caches of mailboxes that are gone, and what broken runs left behind
///
/// A mailbox on a disk that is not mounted now counts as gone. Temporary files are removed once
/// they are an hour old: younger ones may be in use.
#[derive(Debug, Args)]
#[command(after_long_help = PRUNE_EXAMPLES)]
pub(super) struct PruneArgs {}

/// Removes caches, whatever state they are in.
pub(super) fn clear(
    context: &mut Context,
    dir: &Path,
    args: &ClearArgs,
) -> anyhow::Result<Outcome> {
    let report = caches::clear(dir, args.which.path().as_deref())?;
    args.which.must_be_cached(report.files > 0)?;
    removed(context, &report)
}

/// Removes what is of no use.
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
