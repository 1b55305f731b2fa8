//! `barid status`: prints the figures of a mailbox and of opening it.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use barid::vfs::OsVfs;
use barid::{CacheState, Mailbox, Status, Unfinished};
use barid_extract::{Protections, protections};
use clap::{Args, ValueHint};

use crate::commands::change::locks::parse_time;
use crate::commands::change::undo::warn_of_replaced;
use crate::context::Context;
use crate::exit::Outcome;
use crate::mail::extraction::pdf_reader;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::{counted, duration, grouped, size};
use crate::output::table::{Align, Table};

const EXAMPLES: &str = "\
Examples:
  barid status ~/Maildir
  barid status --json archive.mbox
  barid status --full-check archive.mbox   compare every message with the cache";

/// Show the counts of a mailbox and bring its cache up to date
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    /// The mailbox: a path, or FORMAT:PATH
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: OsString,
    /// Wait no longer than TIME for another program's lock of an mbox (as in 500ms, 30s, 2m)
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "30s")]
    lock_timeout: Duration,
}

/// Opens the mailbox and prints its figures.
pub(crate) fn run(context: &mut Context, args: &StatusArgs) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let mailbox = context.open_with(&context.spec(&args.mailbox)?, &|options| {
        options.lock_timeout = args.lock_timeout;
    })?;
    let earlier = mailbox.earlier_pending()?;
    let bytes = mailbox.cache_bytes()?;
    let elapsed = started.elapsed();
    let path = args.mailbox.as_encoded_bytes();
    if context.global.json {
        write_json(context.out.buffer(), path, &mailbox, (bytes, earlier), elapsed);
    } else {
        write_table(context.out.buffer(), path, &mailbox, bytes, elapsed);
        warn_of_replaced(context, &mailbox, &args.mailbox)?;
    }
    if earlier > 0 {
        let count = counted(earlier.into(), "change");
        context.warn(&format!(
            "{count} pending for an earlier file at this path, which was replaced by this one: \
             `barid sync --take-over` writes them to it"
        ));
    }
    Ok(Outcome::Done)
}

pub(crate) fn cache_state_name(state: CacheState) -> &'static str {
    match state {
        CacheState::None => "none",
        CacheState::Populated => "populated",
        CacheState::Updated => "updated",
        CacheState::Fresh => "fresh",
    }
}

fn write_json(
    out: &mut Vec<u8>,
    path: &[u8],
    mailbox: &Mailbox,
    (bytes, earlier): (u64, u32),
    elapsed: Duration,
) {
    let status = &mailbox.status();
    let mut json = Json::line(out, "status");
    json.key("path").bytes(path);
    json.key("format").str(status.format.name());
    json.key("messages").number(status.messages.into());
    json.key("recent").number(status.recent.into());
    json.key("unseen").number(status.unseen.into());
    json.key("uidvalidity").number(status.uidvalidity.get().into());
    json.key("uidnext").number(status.uidnext.get().into());
    json.key("highestmodseq").number(status.highest_modseq.get());
    json.key("size_bytes").number(status.size_bytes);
    json.key("pending").number(status.pending);
    json.key("pending_earlier").number(earlier.into());
    json.key("unfinished");
    match mailbox.unfinished() {
        None => json.null(),
        Some(unfinished) => {
            json.open(b'{');
            json.key("what").str(&unfinished.what);
            json.key("journal");
            match &unfinished.journal {
                Some(path) => json.bytes(path.as_os_str().as_encoded_bytes()),
                None => json.null(),
            }
            json.close(b'}');
        }
    }
    json.key("cache").open(b'{');
    json.key("state").str(cache_state_name(status.cache.state));
    json.key("messages_read").number(status.cache.messages_read);
    json.key("bytes").number(bytes);
    json.close(b'}');
    json.key("extraction").open(b'{');
    let protections = protections(&OsVfs);
    json.key("seccomp").bool(protections.has_seccomp);
    json.key("landlock").bool(protections.has_landlock);
    json.key("pdf_reader");
    match pdf_reader() {
        Some(path) => json.bytes(path.as_os_str().as_encoded_bytes()),
        None => json.null(),
    }
    json.close(b'}');
    json.key("elapsed_ms").millis(elapsed);
    json.end_line();
}

fn write_table(out: &mut Vec<u8>, path: &[u8], mailbox: &Mailbox, bytes: u64, elapsed: Duration) {
    let status = &mailbox.status();
    let mut table = Table::new(&[Align::Left, Align::Left]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("mailbox", visible(path));
    row("format", status.format.name().to_owned());
    let (unseen, recent) = (grouped(status.unseen.into()), grouped(status.recent.into()));
    row(
        "messages",
        format!("{} ({unseen} unseen, {recent} recent)", grouped(status.messages.into())),
    );
    row("size", size(status.size_bytes));
    row("uidvalidity", status.uidvalidity.to_string());
    row("uidnext", status.uidnext.to_string());
    row("highestmodseq", status.highest_modseq.to_string());
    if status.pending > 0 {
        let pending = counted(status.pending, "change");
        row("pending", format!("{pending}, which `barid sync` writes"));
    }
    if let Some(unfinished) = mailbox.unfinished() {
        row("unfinished", describe_unfinished(unfinished));
    }
    row("cache", describe_cache(status, bytes));
    row("attachments", describe_extraction());
    row("took", duration(elapsed));
    table.write(out, "");
}

/// Describes how the text of attachments would be read.
fn describe_extraction() -> String {
    let Protections { has_seccomp, has_landlock } = protections(&OsVfs);
    let has = |has: bool, name: &str| if has { name.to_owned() } else { format!("no {name}") };
    let (seccomp, landlock) = (has(has_seccomp, "seccomp"), has(has_landlock, "Landlock"));
    let reader = match pdf_reader() {
        Some(path) => format!("PDF by {}", visible(path.as_os_str().as_encoded_bytes())),
        None => "no PDF reader".to_owned(),
    };
    format!("read under limits, {seccomp}, {landlock}; {reader}")
}

fn describe_unfinished(unfinished: &Unfinished) -> String {
    let what = visible(unfinished.what.as_bytes());
    match &unfinished.journal {
        Some(path) => {
            format!("{what}, from {}", visible(path.as_os_str().as_encoded_bytes()))
        }
        None => format!("{what}, and its journal is missing"),
    }
}

fn describe_cache(status: &Status, bytes: u64) -> String {
    let cache = &status.cache;
    let state = cache_state_name(cache.state);
    let read = match cache.messages_read {
        0 => "no message read".to_owned(),
        n => format!("{} read", counted(n, "message")),
    };
    match cache.state {
        CacheState::None => format!("{state}, {read}"),
        _ => format!("{state}, {read}, {}", size(bytes)),
    }
}
