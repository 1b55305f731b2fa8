//! `barid cache`: fills, lists, verifies, converts and removes caches.

mod convert;
mod figures;
mod populate;
mod remove;
mod status;
mod stores;
mod verify;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Args, Subcommand, ValueHint};

use crate::context::Context;
use crate::exit::{NotThere, Outcome, WithHint};

const EXAMPLES: &str = "\
Examples:
  barid cache populate ~/Maildir           fill the cache without listing messages
  barid cache status                       the caches and their sizes
  barid cache verify ~/Maildir             check every block and record of one cache
  barid cache convert --store lmdb --compress zstd ~/Maildir
  barid cache clear ~/Maildir              forget one mailbox
  barid cache prune                        forget mailboxes that are gone
  barid cache stores                       the stores available on this machine

A cache can be deleted at any time: no UID changes, and the next command rebuilds it.";

/// Fill, inspect, verify, convert and remove caches
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    command: CacheCommand,
}

impl CacheArgs {
    /// Returns `true` if the command opens mailboxes and fills their caches.
    pub(crate) fn opens_mailboxes(&self) -> bool {
        matches!(self.command, CacheCommand::Populate(_))
    }
}

/// The cache commands.
#[derive(Debug, Subcommand)]
enum CacheCommand {
    Populate(populate::PopulateArgs),
    Status(status::CacheStatusArgs),
    Verify(verify::VerifyArgs),
    Convert(convert::CacheConvertArgs),
    Clear(remove::ClearArgs),
    Prune(remove::PruneArgs),
    Stores(stores::StoresArgs),
}

/// The optional mailbox whose cache is selected; all caches of the folder otherwise.
#[derive(Clone, Debug, Args)]
struct OneOrAll {
    /// Only the cache of this mailbox
    #[arg(value_hint = ValueHint::AnyPath)]
    mailbox: Option<OsString>,
}

impl OneOrAll {
    /// Returns the path of the mailbox.
    fn path(&self, context: &Context) -> anyhow::Result<Option<std::path::PathBuf>> {
        let mailbox = self.mailbox.as_deref();
        let spec = mailbox.map(|mailbox| context.spec_on_disk(mailbox)).transpose()?;
        Ok(spec.map(|spec| spec.path))
    }

    /// Returns an error if a mailbox was named and has no cache.
    fn must_be_cached(&self, found: bool) -> anyhow::Result<()> {
        match &self.mailbox {
            Some(mailbox) if !found => Err(not_cached(mailbox)),
            _ => Ok(()),
        }
    }
}

/// Runs the cache command.
pub(crate) fn run(context: &mut Context, args: &CacheArgs) -> anyhow::Result<Outcome> {
    if let CacheCommand::Stores(_) = &args.command {
        return stores::run(context);
    }
    let dir = context
        .cache_dir()
        .ok_or_else(|| WithHint::error("no cache folder", "name one with --cache-dir DIR"))?;
    match &args.command {
        CacheCommand::Populate(args) => populate::run(context, args),
        CacheCommand::Status(args) => status::run(context, &dir, args),
        CacheCommand::Verify(args) => verify::run(context, &dir, args),
        CacheCommand::Convert(args) => convert::run(context, &dir, args),
        CacheCommand::Clear(args) => remove::clear(context, &dir, args),
        CacheCommand::Prune(_) => remove::prune(context, &dir),
        CacheCommand::Stores(_) => Ok(Outcome::Done),
    }
}

fn not_cached(mailbox: &OsStr) -> anyhow::Error {
    NotThere::error(
        format!("{}: no cache of this mailbox", Path::new(mailbox).display()),
        "`barid cache status` lists what is cached, `barid cache populate` fills a cache",
    )
}

/// Returns the name of a cache: its mailbox, or its file if the mailbox is unknown.
fn name_of<'a>(mailbox: &'a Path, file: &'a Path) -> &'a OsStr {
    match mailbox.as_os_str() {
        name if name.is_empty() => file.file_name().unwrap_or(file.as_os_str()),
        name => name,
    }
}
