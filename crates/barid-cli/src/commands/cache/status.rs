//! `barid cache status`: lists caches with their stores and sizes.

use std::path::Path;

use barid::caches::{self, CacheEntry, CacheFigures, EntryState};
use clap::Args;

use super::figures::{store_and_compression, write_figures};
use super::{OneOrAll, name_of};
use crate::context::Context;
use crate::exit::Outcome;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::{counted, grouped, size};
use crate::output::table::{Align, Table};

const EXAMPLES: &str = "\
Examples:
  barid cache status                       a line for each cache
  barid cache status ~/Maildir             all figures of one cache
  barid cache status --json | jq 'select(.store != \"native\") | .mailbox'";

/// List the caches with their stores, compressions and sizes
///
/// RATIO is the size of uncompressed header records divided by their compressed size; it is unknown
/// for a store that compresses by itself. SIZE counts all files of a cache. Only the headers of the
/// cache files are read; with MAILBOX, --verbose or --json the stores are opened as well, and a
/// store that is damaged or not usable here is marked. `barid cache verify` checks the records.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct CacheStatusArgs {
    #[command(flatten)]
    which: OneOrAll,
}

/// Prints a table, or all figures of the requested caches.
pub(super) fn run(
    context: &mut Context,
    dir: &Path,
    args: &CacheStatusArgs,
) -> anyhow::Result<Outcome> {
    let mailbox = args.which.path(context)?;
    let all = mailbox.is_some() || context.global.verbose || context.global.json;
    let list = if all { caches::list_all_of(dir, mailbox.as_deref()) } else { caches::list(dir) };
    let mut entries = list?;
    args.which.must_be_cached(!entries.is_empty())?;
    entries.sort_by(|one, other| one.mailbox_path.cmp(&other.mailbox_path));
    if context.global.json {
        entries.iter().for_each(|entry| write_json(context.out.buffer(), entry));
        return Ok(Outcome::Done);
    }
    if all {
        for (index, entry) in entries.iter().enumerate() {
            if index > 0 {
                context.out.line("")?;
            }
            write_all(context.out.buffer(), entry);
        }
        return Ok(Outcome::Done);
    }
    if !entries.is_empty() {
        write_table(context.out.buffer(), &entries);
    }
    let bytes = entries.iter().map(|entry| entry.bytes).sum();
    let caches = counted(entries.len() as u64, "cache");
    context.out.line(&format!("{caches}, {} in {}", size(bytes), dir.display()))?;
    Ok(Outcome::Done)
}

fn write_table(out: &mut Vec<u8>, entries: &[CacheEntry]) {
    const ALIGNS: [Align; 7] = {
        use Align::{Left, Right};
        [Right, Right, Left, Left, Left, Right, Left]
    };
    let mut table = Table::new(&ALIGNS);
    let head = ["SIZE", "MESSAGES", "FORMAT", "STORE", "COMPRESSION", "RATIO", "MAILBOX"];
    table.row(head.map(str::to_owned));
    for entry in entries {
        let state = match &entry.state {
            EntryState::Ok => String::new(),
            EntryState::Damaged(reason) => format!("  (damaged: {reason})"),
            EntryState::Unusable(reason) => format!("  (unusable: {reason})"),
        };
        let mailbox = name_of(&entry.mailbox_path, &entry.file);
        let mailbox = format!("{}{state}", mailbox.to_string_lossy());
        let of = |text: &dyn Fn(&CacheFigures) -> String| {
            entry.figures.as_ref().map(text).unwrap_or_default()
        };
        table.row([
            size(entry.bytes),
            of(&|_| grouped(entry.messages.into())),
            visible(entry.format.as_bytes()),
            of(&|figures| figures.options.store.to_string()),
            of(&|figures| figures.options.compression.to_string()),
            of(&|figures| ratio(figures).unwrap_or_default()),
            visible(mailbox.as_bytes()),
        ]);
    }
    table.write(out, "");
}

fn ratio(figures: &CacheFigures) -> Option<String> {
    figures.ratio().map(|ratio| format!("{ratio:.1}"))
}

/// Writes all figures of a cache, a line for each.
fn write_all(out: &mut Vec<u8>, entry: &CacheEntry) {
    let mut table = Table::new(&[Align::Left, Align::Left]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    let mailbox = entry.mailbox_path.as_os_str();
    if !mailbox.is_empty() {
        row("mailbox", visible(mailbox.as_encoded_bytes()));
    }
    row("file", visible(entry.file.as_os_str().as_encoded_bytes()));
    match &entry.state {
        EntryState::Ok => {}
        EntryState::Damaged(reason) => row("damaged", visible(reason.as_bytes())),
        EntryState::Unusable(reason) => row("unusable", visible(reason.as_bytes())),
    }
    if entry.figures.is_some() {
        row("format", visible(entry.format.as_bytes()));
        row("messages", grouped(entry.messages.into()));
    }
    row("size", size(entry.bytes));
    if let Some(figures) = &entry.figures {
        row("kept in", store_and_compression(&figures.options));
        let raw = size(figures.records_raw_bytes);
        let ratio = ratio(figures).map(|ratio| format!(", {ratio}:1")).unwrap_or_default();
        row("records", format!("{}, {raw} uncompressed{ratio}", size(figures.records_bytes)));
        if let Some(store) = &figures.store {
            row("generation", format!("{:016x}", store.generation));
            row("stale records", grouped(store.stale_records));
            let ids: Vec<String> = store.dictionaries.iter().map(ToString::to_string).collect();
            let none = || "none".to_owned();
            row("dictionaries", if ids.is_empty() { none() } else { ids.join(", ") });
        }
    }
    table.write(out, "");
}

fn write_json(out: &mut Vec<u8>, entry: &CacheEntry) {
    let mut json = Json::line(out, "cache");
    let mailbox = entry.mailbox_path.as_os_str();
    if !mailbox.is_empty() {
        json.key("mailbox").bytes(mailbox.as_encoded_bytes());
    }
    json.key("file").bytes(entry.file.as_os_str().as_encoded_bytes());
    match &entry.figures {
        Some(figures) => {
            json.key("messages").number(entry.messages.into());
            json.key("format").str(&entry.format);
            write_figures(&mut json, figures);
        }
        None => json.key("bytes").number(entry.bytes),
    }
    match &entry.state {
        EntryState::Ok => json.key("state").str("ok"),
        EntryState::Damaged(reason) => {
            json.key("state").str("damaged");
            json.key("reason").str(reason);
        }
        EntryState::Unusable(reason) => {
            json.key("state").str("unusable");
            json.key("reason").str(reason);
        }
    }
    json.end_line();
}
