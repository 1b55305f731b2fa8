//! Temporary folders for tests.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::disk;
use crate::peers::PeerUser;

/// A fresh folder under the temporary folder of the system, removed when dropped.
///
/// It lies outside the build folder, so that the unprivileged user of the peers can reach it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Creates a folder with `label` in its name.
    pub fn new(label: &str) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("barid-{label}-{}-{n}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match disk::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(Self { path }),
            }
        }
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the user of the peers the owner of everything in the folder; has no effect unless the
    /// test runs as root. Peers call it before they start.
    pub fn hand_over(&self) -> io::Result<()> {
        PeerUser::get()?.take(&self.path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that cannot be removed is litter, not a failure.
        drop(disk::remove_tree(&self.path));
    }
}
