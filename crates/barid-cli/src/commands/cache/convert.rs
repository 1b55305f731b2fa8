//! `barid cache convert`: moves caches between stores and compressions.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::{Duration, Instant};

use barid::caches::{self, ConvertedCache};
use barid::{CacheOptions, ErrorKind};
use clap::{Args, ValueHint};

use super::figures::{repair_hint, store_and_compression, write_options};
use super::not_cached;
use crate::context::Context;
use crate::exit::{Outcome, WithHint, is_not_there, report};
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::{counted, duration, size};

const EXAMPLES: &str = "\
Examples:
  barid cache convert --store lmdb --compress zstd+dict ~/Maildir
  barid cache convert --compress none ~/Maildir
  barid cache convert --store native --compress none ~/mail/*.mbox";

/// Move the caches of mailboxes to another store or compression
///
/// Needs --store, --compress or both; an option that is not given keeps its present value. The
/// mailbox is not read, and need not exist. The old cache stays in use until the new one is
/// complete. In the native store, which compresses whole blocks, zstd+dict means zstd.
///
/// Exit status: 1 if a MAILBOX has no cache, 2 if a cache could not be moved.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct CacheConvertArgs {
    /// The mailboxes: paths, or FORMAT:PATH
    #[arg(required = true, value_name = "MAILBOX", value_hint = ValueHint::AnyPath)]
    mailboxes: Vec<OsString>,
}

/// Moves the caches one after the other.
pub(super) fn run(
    context: &mut Context,
    dir: &Path,
    args: &CacheConvertArgs,
) -> anyhow::Result<Outcome> {
    let (store, compression) = (context.global.store, context.global.compress);
    if store.is_none() && compression.is_none() {
        return Err(WithHint::error(
            "nothing to convert to",
            "give --store NAME, --compress METHOD, or both; `barid cache stores` lists the stores",
        ));
    }
    let mut outcome = Outcome::Done;
    for mailbox in &args.mailboxes {
        let started = Instant::now();
        let path = context.spec_on_disk(mailbox)?.path;
        let converted = caches::convert(dir, &path, store, compression);
        match converted
            .map_err(|error| with_way_out(context, dir, &path, error))
            .and_then(|found| found.ok_or_else(|| not_cached(mailbox)))
        {
            Ok(converted) => {
                print(context, mailbox, &converted, started.elapsed())?;
                context.out.flush()?;
            }
            Err(error) if args.mailboxes.len() > 1 => {
                if !is_not_there(&error) {
                    outcome = Outcome::Incomplete;
                } else if outcome == Outcome::Done {
                    outcome = Outcome::NothingMatched;
                }
                report(context, &error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(outcome)
}

/// Adds a hint to the error of a damaged cache; this command cannot repair it.
fn with_way_out(
    context: &Context,
    dir: &Path,
    mailbox: &Path,
    error: barid::Error,
) -> anyhow::Error {
    if error.kind() != ErrorKind::Corrupt {
        return error.into();
    }
    let was = caches::options_of(dir, mailbox).ok().flatten().unwrap_or_default();
    let wanted = CacheOptions {
        store: context.global.store.unwrap_or(was.store),
        compression: context.global.compress.unwrap_or(was.compression),
    };
    WithHint::error(error.to_string(), repair_hint(context, mailbox, Some(wanted)))
}

/// Prints `Maildir: 9,000 messages from native (34.2 MB) to lmdb, zstd (12.0 MB) in 0.4 s; ...`.
fn print(
    context: &mut Context,
    mailbox: &OsStr,
    converted: &ConvertedCache,
    elapsed: Duration,
) -> anyhow::Result<()> {
    if context.global.json {
        let mut json = Json::line(context.out.buffer(), "cache_converted");
        json.key("mailbox").bytes(mailbox.as_encoded_bytes());
        json.key("messages").number(converted.messages.into());
        json.key("from").open(b'{');
        write_options(&mut json, &converted.from);
        json.key("bytes").number(converted.bytes_before);
        json.close(b'}');
        json.key("to").open(b'{');
        write_options(&mut json, &converted.to);
        json.key("bytes").number(converted.bytes_after);
        json.close(b'}');
        json.key("elapsed_ms").millis(elapsed);
        json.end_line();
        return Ok(());
    }
    let mailbox = visible(mailbox.as_encoded_bytes());
    let (from, to) = (store_and_compression(&converted.from), store_and_compression(&converted.to));
    let (before, after) = (size(converted.bytes_before), size(converted.bytes_after));
    let text = if converted.from == converted.to {
        format!("{mailbox}: already in {to}, {after}")
    } else {
        let messages = counted(converted.messages.into(), "message");
        let elapsed = duration(elapsed);
        format!(
            "{mailbox}: {messages} from {from} ({before}) to {to} ({after}) in {elapsed}; \
             the mailbox was not read"
        )
    };
    Ok(context.out.line(&text)?)
}
