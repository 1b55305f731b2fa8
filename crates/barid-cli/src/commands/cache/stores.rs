//! `barid cache stores`: lists the stores for caches on this machine.

use barid::stores::{self, StoreInfo};
use clap::Args;

use crate::context::Context;
use crate::exit::Outcome;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::table::{Align, Table};

const EXAMPLES: &str = "\
Examples:
  barid cache stores
  barid cache stores --json | jq -r 'select(.usable) | .name'
  barid cache populate --store lmdb --compress zstd+dict ~/Maildir

A library is loaded when its store is first used, so one that was just installed works at once,
without building barid again.";

/// List the stores available for caches, and how to install missing ones
///
/// Loads every library that is installed, to show its version. Exit status: 0.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct StoresArgs {}

/// Looks up every store and prints the results.
pub(super) fn run(context: &mut Context) -> anyhow::Result<Outcome> {
    let stores = stores::list();
    if context.global.json {
        stores.iter().for_each(|store| write_json(context.out.buffer(), store));
        return Ok(Outcome::Done);
    }
    let mut table = Table::new(&[Align::Left; 5]);
    table.row(["STORE", "USABLE", "VERSION", "COMPRESSIONS", "NOTES"].map(str::to_owned));
    for store in &stores {
        let (usable, version) = match &store.version {
            Ok(version) => ("yes", version.as_str()),
            Err(_) => ("no", ""),
        };
        let notes = match &store.version {
            Ok(_) => store.traits.join(", "),
            Err(why) => why.clone(),
        };
        table.row([
            store.name.to_owned(),
            usable.to_owned(),
            visible(version.as_bytes()),
            if store.builtin.is_empty() { "-".to_owned() } else { store.builtin.join(" ") },
            visible(notes.as_bytes()),
        ]);
    }
    table.write(context.out.buffer(), "");
    context.out.line("")?;
    context.out.line(
        "COMPRESSIONS are the store's own: --store NAME:COMPRESSION. For any store, --compress can be",
    )?;
    let methods = barid::Compression::METHODS.iter().map(ToString::to_string);
    context.out.line(&format!("one of {}.", methods.collect::<Vec<_>>().join(", ")))?;
    Ok(Outcome::Done)
}

fn write_json(out: &mut Vec<u8>, store: &StoreInfo) {
    let mut json = Json::line(out, "store");
    json.key("name").str(store.name);
    json.key("usable").bool(store.version.is_ok());
    match &store.version {
        Ok(version) => json.key("version").str(version),
        Err(_) => json.key("version").null(),
    }
    json.key("compressions").open(b'[');
    store.builtin.iter().for_each(|name| json.str(name));
    json.close(b']');
    json.key("traits").open(b'[');
    store.traits.iter().for_each(|name| json.str(name));
    json.close(b']');
    if let Err(why) = &store.version {
        json.key("missing").str(why);
    }
    match store.package {
        Some(package) => json.key("package").str(package),
        None => json.key("package").null(),
    }
    json.end_line();
}
