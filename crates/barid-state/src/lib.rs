//! Durable state that no mailbox format can hold: the identity of a mailbox, its UID ledger,
//! accepted changes that are not written to the mailbox yet, and the messages of the last expunges.

mod aside;
mod bytes;
mod error;
mod expunged;
mod identity;
mod ledger;
mod limits;
mod modes;
mod pending;
mod waiting;

pub use error::{Error, Result};
pub use expunged::{
    Expunged, ExpungedWriter, Kept, KeptBounds, KeptFolder, KeptForm, KeptFrom, KeptMessage,
    KeptSummary, LargeKept, LeftOut,
};
pub use identity::Identity;
pub use ledger::{Access, Ledger, LedgerEntry, LedgerNotice, MessageKey, Vanished};
pub use pending::{FlagDelta, Pending, PendingChange, PendingDamage, PendingKind, PendingRecord};
