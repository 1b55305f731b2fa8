//! The options of every command.

use std::path::PathBuf;

use barid::{Compression, StoreKind};
use clap::Args;

use crate::choices::{CompressionParser, StoreParser};
use crate::output::style::ColorChoice;

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Keep caches in DIR
    ///
    /// Caches may be deleted at any time; the next command fills them again. Default: the folder
    /// `barid` in $XDG_CACHE_HOME or ~/.cache.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Keep what must survive in DIR
    ///
    /// Do not delete it: the folder has UIDs and mod-sequences, changes that are not written yet,
    /// expunged messages for `barid undo`, bytes that repairs replaced, journals, and the default
    /// word list. Default: the folder `barid` in $XDG_STATE_HOME or ~/.local/state.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Keep caches in the store NAME, or in NAME with its own compression BUILTIN
    ///
    /// Decides for caches that are made; without it they are made in the native store. The cache of
    /// a mailbox that is opened and is in another store is moved, without reading the mailbox.
    /// `barid cache stores` lists what there is on this machine, and the compressions that stores
    /// have of their own.
    #[arg(long, global = true, value_name = "NAME[:BUILTIN]", value_parser = StoreParser)]
    #[arg(conflicts_with = "no_cache")]
    pub(crate) store: Option<StoreKind>,
    /// Compress caches by METHOD, at LEVEL
    ///
    /// LEVEL is 1 to 22 for zstd and zstd+dict (3 by default), 1 to 9 for zlib (6 by default), 1
    /// for lz4. zstd+dict compresses with a dictionary made from the mailbox itself; the native
    /// store compresses whole blocks and takes it for zstd. Decides for caches that are made, and
    /// compresses others anew, as --store.
    #[arg(long, global = true, value_name = "METHOD[:LEVEL]", value_parser = CompressionParser)]
    #[arg(conflicts_with = "no_cache")]
    pub(crate) compress: Option<Compression>,
    /// Use no cache and leave none behind, also with --cache-dir
    #[arg(long, global = true)]
    pub(crate) no_cache: bool,
    /// Write nothing into the mailbox's folder, not even a missing dovecot-uidlist
    #[arg(long, global = true)]
    pub(crate) read_only: bool,
    /// Believe no stamp: compare every message with the cache
    #[arg(long, global = true)]
    pub(crate) full_check: bool,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print no warnings and no progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Report defects of the mailbox and of the mail as well
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Use colour
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}
