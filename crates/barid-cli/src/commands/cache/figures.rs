//! What a cache is made of, in words and as JSON.

use barid::caches::CacheFigures;
use barid::{CacheOptions, Compression};

use crate::output::json::Json;

/// `lmdb, zstd+dict`; a store's own compression stands behind its name.
pub(super) fn kept_in(options: &CacheOptions) -> String {
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

/// Writes all keys.
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
