//! `barid-bench hcache`: compares header caches.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use barid_bench::hcache::{self, Method};
use clap::{Args, ValueHint};

use super::run::{Run, words};

const EXAMPLES: &str = "\
Examples:
  barid-bench hcache -m ~/Maildir                     every store, as records are
  barid-bench hcache -m ~/Maildir -t 5 -b \"native lmdb\" -c \"none zstd zstd+dict\"
  barid-bench hcache -m ~/Maildir -e neomutt          beside NeoMutt's header cache
  barid-bench hcache -m ~/Maildir --builtin --drop-caches -o results

Files in DIR: summary.md, results.json, log_init.md, log_reload.md (every record),
log_reload_page.md (the newest 50), the charts populate.svg, reload.svg and size.svg; with NeoMutt
log_init_neomutt.md and log_reload_neomutt.md.

Exit status: 2 if it was interrupted; what was measured so far is in DIR all the same.";

/// Measure header caches: stores, compressions, and NeoMutt beside them
///
/// Each store with each compression is filled from the Maildir, then opened again, by processes of
/// barid with folders of their own; the Maildir and your own caches are not touched. Before
/// anything is timed, the listing through every cache is compared with the one without a cache.
/// Prints the averages of all runs and leaves tables, charts and every figure in a new folder.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct HcacheArgs {
    /// The Maildir
    #[arg(short, long, value_name = "MAILDIR", value_hint = ValueHint::DirPath)]
    maildir: PathBuf,
    /// Run each TIMES times
    #[arg(short, long, value_name = "TIMES", default_value_t = 3)]
    times: u32,
    /// The stores, separated by blanks or commas, each native, NAME or NAME:BUILTIN
    ///
    /// Default: native and every store that is usable here (see `barid cache stores`).
    #[arg(short = 'b', long, value_name = "STORES")]
    stores: Vec<String>,
    /// The compressions of each record, separated by blanks or commas
    ///
    /// Each is one of none, lz4, zstd, zstd+dict, zlib, and may have a level: zstd:3.
    #[arg(short = 'c', long, value_name = "METHODS", default_value = "none")]
    methods: Vec<String>,
    /// Run the compressions that the stores have themselves as well
    #[arg(long)]
    builtin: bool,
    /// Run this NeoMutt in turn with barid, and print the ratios
    ///
    /// It is asked for the stores and compressions that it has, and runs with a configuration and
    /// header caches of its own.
    #[arg(short = 'e', long, value_name = "NEOMUTT", value_hint = ValueHint::CommandName)]
    neomutt: Option<PathBuf>,
    /// Drop the kernel's caches before each timed run
    ///
    /// Measures a cold start. Takes the right to write /proc/sys/vm/drop_caches, usually root's.
    #[arg(long)]
    drop_caches: bool,
    /// Put everything into DIR, which must not exist or be empty
    ///
    /// Default: a new folder among the temporary files.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,
}

/// Runs the bench.
pub(super) fn run(run: &Run, args: &HcacheArgs) -> anyhow::Result<ExitCode> {
    let methods: Vec<_> = words(&args.methods).map(Method::parse).collect::<anyhow::Result<_>>()?;
    let names = hcache::METHODS.join(", ");
    ensure!(!methods.is_empty(), "no compression to run; there are {names}");
    let stores = || words(&args.stores).map(str::to_owned).collect();
    let options = hcache::Options {
        program: run.barid.clone(),
        launcher: run.launcher.clone(),
        maildir: maildir(&args.maildir).to_owned(),
        times: args.times,
        stores: (!args.stores.is_empty()).then(stores),
        methods,
        builtin: args.builtin,
        neomutt: args.neomutt.clone(),
        drop_caches: args.drop_caches,
        out: args.output.clone(),
    };
    run.measure(|screen, stop| hcache::run(&options, screen, stop))
}

/// Returns the path of `PATH` or `maildir:PATH`.
fn maildir(text: &Path) -> &Path {
    text.to_str().and_then(|text| text.strip_prefix("maildir:")).map_or(text, Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maildir_may_be_named_as_one() {
        let check = |text: &str, expected: &str| {
            assert_eq!(maildir(Path::new(text)), Path::new(expected));
        };
        check("a/b", "a/b");
        check("maildir:a/b", "a/b");
    }
}
