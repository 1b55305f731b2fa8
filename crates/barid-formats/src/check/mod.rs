//! Checking and repairing a mailbox, and undoing a repair.
//!
//! Every format has a `check.rs` that reads a mailbox byte for byte and returns the damages and the
//! plan that repairs them (`Diagnosis`). The rest is the same for all formats:
//!
//! - [`check`] reports; it writes nothing.
//! - [`repair`] takes the locks of the format, checks again, stores all bytes that are to be
//!   overwritten or removed in a *side folder*, durably and with a manifest (`keep.rs`), and then
//!   carries out the plan: first the writes in place, all at once through the redo journal; then
//!   complete files, one at a time, each of them atomically (`carry.rs`).
//! - [`undo`] restores the stored bytes in the same way, as long as nothing else has changed what
//!   the repair left.
//!
//! After a crash the next program that opens the mailbox completes the redo journal. Steps that a
//! repair or an undo did not reach are not lost: both can be run again.
//!
//! Decisions: `docs/design/check.md`. The bytes of the side folder: `docs/formats/repair.md`.

mod carry;
mod damage;
mod doctor;
mod keep;
mod kept;
mod limits;
mod plan;
mod rising;
mod run;

pub use damage::{Damage, Severity};
pub(crate) use damage::{Diagnosis, is_void};
pub(crate) use doctor::{CheckPurpose, Doctor, LockedMailbox};
pub use kept::{KeptRepair, KeptRepairState, discard_repairs, kept_repairs};
pub(crate) use plan::{FolderStep, Segment};
pub(crate) use rising::{DOUBT, NEW_UIDVALIDITY, UidsFound, new_uidvalidity, uidvalidity_now};
pub use run::{
    CheckOptions, CheckReport, RepairProgress, RepairReport, UndoReport, check, open, repair, undo,
};

/// Returns the date in the header of a message.
pub(crate) fn sent_date(header: &[u8]) -> Option<barid_types::InternalDate> {
    let field = barid_message::field(header, b"Date")?;
    let date = barid_message::parse_date(field.body)?;
    let (unix_seconds, zone_minutes) = (date.unix_seconds, date.zone_minutes);
    Some(barid_types::InternalDate { unix_seconds, zone_minutes })
}
