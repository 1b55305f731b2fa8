//! Test support of this module: an MH folder, and a cache in memory that follows it.

use std::path::PathBuf;
use std::sync::Arc;

use barid_vfs::Vfs;

use crate::mh::MhFolder;
use crate::worlds::Kind;
pub(super) use crate::worlds::{flagged, hiding, keyword, message, uid};

/// An MH folder and what is known of it.
pub(super) type World = crate::worlds::World<MhFolder>;

impl Kind for MhFolder {
    const FOLDERS: &[&str] = &[];
    const NEEDS_LEDGER: bool = true;

    fn at(vfs: Arc<dyn Vfs>, path: PathBuf) -> Self {
        Self::new(vfs, path)
    }

    /// The number.
    fn shown(name: &str, _in_new: bool) -> String {
        name.split(':').next().unwrap_or_default().to_owned()
    }
}
