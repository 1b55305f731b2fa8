//! Store, compression and sizes of a cache, as text and as JSON.

use std::path::Path;

use barid::caches::CacheFigures;
use barid::{CacheOptions, Compression};

use crate::context::Context;
use crate::output::json::Json;

/// Returns the hint for repairing a damaged cache, whose former `options` are named if known.
pub(super) fn repair_hint(
    context: &Context,
    mailbox: &Path,
    options: Option<CacheOptions>,
) -> String {
    if mailbox.as_os_str().is_empty() {
        return "opening its mailbox rebuilds it, `barid cache prune` removes it".to_owned();
    }
    let mailbox = in_shell(mailbox);
    let mut keep = String::new();
    if let Some(dir) = &context.global.cache_dir {
        keep.push_str(&format!(" --cache-dir {}", in_shell(dir)));
    }
    let mut made = keep.clone();
    if let Some(CacheOptions { store, compression }) = options {
        made.push_str(&format!(" --store {store} --compress {compression}"));
    }
    format!(
        "`barid cache clear{keep} {mailbox}`, then `barid cache populate{made} {mailbox}`, \
         rebuilds it"
    )
}

/// Quotes a path for a shell.
fn in_shell(path: &Path) -> String {
    let path = path.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    match path.chars().all(is_plain) && !path.starts_with('-') {
        true => path.into_owned(),
        false => format!("'{}'", path.replace('\'', "'\\''")),
    }
}

/// Returns `lmdb, zstd+dict`; a store's built-in compression follows its name.
pub(super) fn store_and_compression(options: &CacheOptions) -> String {
    match options.compression {
        Compression::NONE => options.store.to_string(),
        compression => format!("{}, {compression}", options.store),
    }
}

/// Writes the keys `store`, `builtin` and `compression`.
pub(super) fn write_options(json: &mut Json<'_>, options: &CacheOptions) {
    json.key("store").str(options.store.name());
    match options.store.builtin() {
        Some(builtin) => json.key("builtin").str(builtin),
        None => json.key("builtin").null(),
    }
    json.key("compression").str(&options.compression.to_string());
}

/// Writes all keys of a cache's figures.
pub(super) fn write_figures(json: &mut Json<'_>, figures: &CacheFigures) {
    write_options(json, &figures.options);
    json.key("bytes").number(figures.bytes);
    json.key("records_raw_bytes").number(figures.records_raw_bytes);
    json.key("records_bytes").number(figures.records_bytes);
    let Some(store) = &figures.store else { return };
    json.key("generation").str(&format!("{:016x}", store.generation));
    json.key("stale_records").number(store.stale_records);
    json.key("dictionaries").open(b'[');
    store.dictionaries.iter().for_each(|id| json.number((*id).into()));
    json.close(b']');
}
