//! Changing an mbox in place: flags, keywords, UIDs, expunges (`docs/design/mbox-writing.md`).
//!
//! A change is planned as a *draft* of the new file in terms of the old one (`draft.rs`): which
//! bytes stay, are copied, are left out and are inserted. The draft is cut into units, which are
//! written to the journal with hashes of their bytes. When the journal is durable, the units are
//! written in an order and in steps that never overwrite bytes which are still needed and durable
//! nowhere else.

mod ahead;
mod apply;
mod assemble;
mod base;
mod block;
mod claim;
mod collapse;
mod cursor;
pub(super) mod draft;
mod drafter;
mod edit;
mod finish;
mod foreign;
mod header;
mod intent;
mod journal;
mod limits;
mod load;
mod measure;
mod mend;
mod pages;
mod plan;
mod prepare;
mod reader;
mod recover;
mod room;
mod run;
mod script;
mod source;
mod steps;
mod sync;
mod targets;
mod unit;
mod validate;
mod work;
mod write;

pub(super) use self::base::is_portable;
pub(super) use self::intent::{IntentBuilder, Raise};
pub use self::limits::WritingOptions;
pub(super) use self::mend::AppendJournal;
pub(super) use self::recover::{abandoned, recover_mailbox, unfinished};
pub(super) use self::sync::sync;

#[cfg(test)]
mod tests;
