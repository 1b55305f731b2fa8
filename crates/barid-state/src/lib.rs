//! What must survive and no mailbox format can hold: who a mailbox is, and its UID ledger.

mod error;
mod identity;
mod ledger;
mod limits;

pub use error::{Error, Result};
pub use identity::Identity;
pub use ledger::{Access, Ledger, LedgerEntry, MessageKey};
