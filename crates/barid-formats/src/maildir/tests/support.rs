//! Test support of this module: a Maildir, and a cache in memory that follows it.

use std::path::PathBuf;
use std::sync::Arc;

use barid_vfs::Vfs;

use crate::maildir::Maildir;
use crate::worlds::Kind;
pub(super) use crate::worlds::{flagged, hiding, keyword, message, uid};

/// A Maildir and what is known of it.
pub(super) type World = crate::worlds::World<Maildir>;

impl Kind for Maildir {
    const FOLDERS: &[&str] = &["new", "cur", "tmp"];
    const NEEDS_LEDGER: bool = false;

    fn at(vfs: Arc<dyn Vfs>, path: PathBuf) -> Self {
        Self::new(vfs, path)
    }

    /// Its folder and the name.
    fn shown(name: &str, in_new: bool) -> String {
        format!("{}/{name}", if in_new { "new" } else { "cur" })
    }
}
