//! The options of every command.

use std::path::PathBuf;

use barid::{Compression, StoreKind};
use clap::{Args, ValueHint};

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
    /// Do not delete it: the folder contains UIDs and mod-sequences, changes that are not written
    /// yet, expunged messages for `barid undo`, bytes that repairs replaced, journals, and the
    /// default word list. Default: the folder `barid` in $XDG_STATE_HOME or ~/.local/state.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Keep caches in the store NAME, or in NAME with its own compression BUILTIN
    ///
    /// New caches use this store, or the native one without the option. If the mailbox has a cache
    /// in another store, opening it moves the cache without reading the mailbox. `barid cache
    /// stores` lists the stores available on this machine and their own compressions.
    #[arg(long, global = true, value_name = "NAME[:BUILTIN]", value_parser = StoreParser)]
    #[arg(conflicts_with = "no_cache")]
    pub(crate) store: Option<StoreKind>,
    /// Compress caches by METHOD, at LEVEL
    ///
    /// LEVEL is 1 to 22 for zstd and zstd+dict (3 by default), 1 to 9 for zlib (6 by default), 1
    /// for lz4. zstd+dict compresses with a dictionary made from the mailbox itself; the native
    /// store compresses whole blocks and treats it as zstd. Applies to new caches; existing ones
    /// are recompressed, as with --store.
    #[arg(long, global = true, value_name = "METHOD[:LEVEL]", value_parser = CompressionParser)]
    #[arg(conflicts_with = "no_cache")]
    pub(crate) compress: Option<Compression>,
    /// Neither use nor write a cache, even with --cache-dir
    #[arg(long, global = true)]
    pub(crate) no_cache: bool,
    /// Neither use nor extend text indexes: read the messages
    #[arg(long, global = true)]
    pub(crate) no_index: bool,
    /// Write nothing into the mailbox's folder, not even a missing dovecot-uidlist
    #[arg(long, global = true)]
    pub(crate) read_only: bool,
    /// Compare every message with the cache, even if the mailbox looks unchanged
    #[arg(long, global = true)]
    pub(crate) full_check: bool,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print no warnings and no progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Also report defects of the mailbox and of messages
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Read the configuration of the program from FILE
    ///
    /// Default: $BARID_CONFIG_FILE, else `barid/config.toml` in $XDG_CONFIG_HOME or ~/.config, if
    /// it exists. `barid config` shows what counts; /dev/null does without.
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config_file: Option<PathBuf>,
    /// Ignore the defaults of options in the environment and in the configuration file
    #[arg(long, global = true)]
    pub(crate) no_defaults: bool,
    /// Use colour
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}
