//! The description of a backend under test.

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::Storage;
use barid_state::{Access, Identity, Ledger};
use barid_vfs::Vfs;

/// A backend under test.
pub trait Backend: Sync {
    /// Returns the name that failures are reported under.
    fn name(&self) -> &str;

    /// Makes an empty storage.
    fn create(&self) -> Box<dyn Fixture>;
}

/// One storage of a backend, and everything that can happen to it.
pub trait Fixture: Sync {
    /// Opens the storage. Every call returns a handle of its own, as another process has.
    fn open(&self) -> Box<dyn Storage>;

    /// Opens the UID ledger that belongs to the storage.
    fn ledger(&self) -> Ledger;

    /// Returns the folder of journals that cannot be beside the mailbox, if the backend needs one.
    fn state_dir(&self) -> Option<&Path> {
        None
    }

    /// Lets so much time pass that the stamp of an unchanged storage settles.
    fn pass_time(&self) {}

    /// Delivers a message as another program does, which knows nothing of this crate. Returns
    /// `false` if no other program delivers into storages of the backend.
    fn deliver(&self, text: &[u8]) -> bool {
        let _ = text;
        false
    }

    /// Makes `change` on a copy of the storage, and calls `visit` with each of the storages that a
    /// crash at some moment may leave; the second argument is `true` if the change had returned by
    /// then. Returns `false` if crashes cannot be simulated.
    fn crash(
        &self,
        change: &dyn Fn(&dyn Fixture),
        visit: &mut dyn FnMut(&dyn Fixture, bool),
    ) -> bool {
        let _ = (change, visit);
        false
    }
}

/// Opens the UID ledger of a storage in a folder of a file system.
pub fn state_ledger(vfs: Arc<dyn Vfs>, state_dir: &Path) -> Ledger {
    let identity = Identity { id: 1, path: "/mailbox".into(), inode: 1 };
    Ledger::open(vfs, state_dir, &identity, Access::ReadWrite).unwrap()
}
