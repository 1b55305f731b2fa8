//! Who a mailbox is, whatever its name is today.

use std::path::PathBuf;

/// The identity of a mailbox: names its ledger and its cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A 128-bit id: the extended attribute `user.barid.id` where there is one, else derived from
    /// the canonical path.
    pub id: u128,
    /// The canonical path when it was opened.
    pub path: PathBuf,
    /// The inode of the mailbox when it was opened.
    pub inode: u64,
}
