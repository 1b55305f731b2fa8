//! What must survive and no mailbox format can hold: who a mailbox is, its UID ledger,
//! changes that were accepted and not written yet, and the messages of the last expunges.

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
pub use ledger::{Access, Ledger, LedgerEntry, LedgerNotice, MessageKey};
pub use pending::{FlagDelta, Pending, PendingChange, PendingDamage, PendingKind, PendingRecord};
