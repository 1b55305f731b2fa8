//! The UID ledger: UIDs that no format could hold, and the highest mod-sequence.

use barid_types::Uid;

/// The hash that stands for a message in the ledger: of its header without the fields that mailbox
/// formats own, or of a Maildir base name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey(pub u64);

/// One message of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Its UID.
    pub uid: Uid,
    /// What it was when it got the UID.
    pub key: MessageKey,
}

/// The ledger of one mailbox.
#[derive(Debug)]
pub struct Ledger;
