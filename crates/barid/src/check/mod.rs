//! Checking and repairing a mailbox, and undoing a repair (`docs/design/check.md`).
//!
//! Bytes that a repair overwrites or removes are kept in the state folder, in `repairs/<identity>`.
//! Nothing here opens the mailbox as [`crate::Mailbox`] does, since that may fail for a damaged
//! one; its cache detects the change by itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_formats::MailboxSpec;
use barid_formats::check::{self, CheckOptions, RepairProgress};
pub use barid_formats::check::{
    CheckReport, Damage, KeptRepair, KeptRepairState, RepairReport, Severity, UndoReport,
};
use barid_state::{Access, Error as StateError, Identity, Ledger, Pending};
use barid_vfs::Vfs;

use crate::damaged_state::{acknowledge, state_damages};
use crate::limits::PENDING_LOCK_TIMEOUT;
use crate::opening::LEDGER_LOCK_TIMEOUT;
use crate::options::{Progress, Unit};
use crate::recovery::ChangeRecovery;
use crate::{Error, OpenOptions, Result};

/// Name of the folder in the state folder with the bytes that repairs overwrote and removed.
const REPAIRS: &str = "repairs";

/// Reports the damage of a mailbox and of its state; writes nothing.
///
/// # Errors
/// The path is not a mailbox; the file system refuses; another program holds a lock.
pub fn check(vfs: &Arc<dyn Vfs>, spec: &MailboxSpec, options: &OpenOptions) -> Result<CheckReport> {
    let mut report = check::check(vfs, spec, &check_options(options))?;
    let identity = Identity::of(&**vfs, &spec.path, false)?;
    let dir = &options.state_dir;
    let pending = Pending::open(Arc::clone(vfs), dir, &identity)?;
    let mut ledger = Ledger::open(Arc::clone(vfs), dir, &identity, Access::ReadOnly)?;
    read_all(&mut ledger)?;
    let damages = state_damages(&pending, &ledger);
    report.is_repairable |= !damages.is_empty();
    report.damages.extend(damages);
    Ok(report)
}

/// Reads a whole ledger; its damage is then in its notice.
fn read_all(ledger: &mut Ledger) -> Result<()> {
    match ledger.entries() {
        Ok(_) | Err(StateError::Damaged { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Repairs a mailbox; an interrupted change is completed first. Damaged state counts as
/// acknowledged from now on, and its files stay. Commit point and order are those of
/// [`barid_formats::check::repair`].
///
/// # Errors
/// As [`check()`]; [`Error::ReadOnly`]; errors of completing the interrupted change.
pub fn repair(
    vfs: &Arc<dyn Vfs>,
    spec: &MailboxSpec,
    options: &OpenOptions,
) -> Result<RepairReport> {
    let RepairResources { side_dir, mut pending, mut ledger } =
        RepairResources::begin(vfs, spec, options)?;
    read_all(&mut ledger)?;
    let mut damages = state_damages(&pending, &ledger);
    let mut report = check::repair(vfs, spec, &check_options(options), &side_dir)?;
    report.found.is_repairable |= !damages.is_empty();
    // The mailbox is repaired by now, so the report must reach the caller.
    if !damages.is_empty()
        && let Err(error) = acknowledge(&mut pending, &mut ledger, LEDGER_LOCK_TIMEOUT)
    {
        for damage in &mut damages {
            damage.repair = None;
            damage.what.push_str(&format!("; the report cannot be acknowledged: {error}"));
        }
    }
    report.found.damages.extend(damages);
    Ok(report)
}

/// Undoes the last repair of a mailbox that is not undone yet; `None` if there is none.
///
/// # Errors
/// As [`repair`]; [`crate::FormatError::ChangedSince`] if the mailbox changed since the repair;
/// then nothing is undone.
pub fn undo_repair(
    vfs: &Arc<dyn Vfs>,
    spec: &MailboxSpec,
    options: &OpenOptions,
) -> Result<Option<UndoReport>> {
    let work = RepairResources::begin(vfs, spec, options)?;
    Ok(check::undo(vfs, spec, &check_options(options), &work.side_dir)?)
}

/// Returns the repairs of a mailbox with kept bytes, the last first.
///
/// # Errors
/// There is nothing at the path; errors of the file system.
pub fn kept_repairs(
    vfs: &Arc<dyn Vfs>,
    spec: &MailboxSpec,
    options: &OpenOptions,
) -> Result<Vec<KeptRepair>> {
    let identity = Identity::of(&**vfs, &spec.path, false)?;
    Ok(check::kept_repairs(&**vfs, &side_dir(&options.state_dir, &identity))?)
}

/// Forgets the kept bytes of all repairs of a mailbox; returns the number of repairs.
///
/// # Errors
/// As [`kept_repairs`]; [`Error::ReadOnly`].
pub fn discard_repairs(
    vfs: &Arc<dyn Vfs>,
    spec: &MailboxSpec,
    options: &OpenOptions,
) -> Result<u64> {
    if options.read_only {
        return Err(Error::ReadOnly { path: spec.path.clone() });
    }
    let identity = Identity::of(&**vfs, &spec.path, false)?;
    let mut pending = Pending::open(Arc::clone(vfs), &options.state_dir, &identity)?;
    pending.lock(PENDING_LOCK_TIMEOUT)?;
    Ok(check::discard_repairs(&**vfs, &side_dir(&options.state_dir, &identity))?)
}

fn check_options(options: &OpenOptions) -> CheckOptions {
    let progress = options.progress.clone().map(|tell| {
        let (work, unit) = (crate::LongOperation::Repair, Unit::Steps);
        RepairProgress(Arc::new(move |done, total| tell(Progress { work, unit, done, total })))
    });
    CheckOptions {
        mbox: options.mbox_options(),
        state_dir: Some(options.state_dir.clone()),
        stop: options.stop.clone(),
        progress,
    }
}

/// The resources of a repair.
struct RepairResources {
    side_dir: PathBuf,
    /// Locked, so that no other barid process writes the mailbox.
    pending: Pending,
    ledger: Ledger,
}

impl RepairResources {
    fn begin(vfs: &Arc<dyn Vfs>, spec: &MailboxSpec, options: &OpenOptions) -> Result<Self> {
        if options.read_only {
            return Err(Error::ReadOnly { path: spec.path.clone() });
        }
        let identity = Identity::of(&**vfs, &spec.path, true)?;
        let dir = &options.state_dir;
        let mut pending = Pending::open(Arc::clone(vfs), dir, &identity)?;
        let mut ledger = Ledger::open(Arc::clone(vfs), dir, &identity, Access::ReadWrite)?;
        pending.lock(PENDING_LOCK_TIMEOUT)?;
        complete(vfs, spec, options, (&mut pending, &mut ledger))?;
        let side_dir = side_dir(dir, &identity);
        Ok(Self { side_dir, pending, ledger })
    }
}

/// Completes an interrupted change.
fn complete(
    vfs: &Arc<dyn Vfs>,
    spec: &MailboxSpec,
    options: &OpenOptions,
    (pending, ledger): (&mut Pending, &mut Ledger),
) -> Result<()> {
    let storage = check::open(vfs, spec, &options.mbox_options())?;
    if storage.unfinished(Some(&options.state_dir))?.is_none() {
        return Ok(());
    }
    let (mut notes, now) = (Vec::new(), vfs.now());
    let notes = &mut notes;
    ChangeRecovery { storage: &*storage, pending, ledger, options, notes, now }.complete()
}

fn side_dir(state_dir: &Path, identity: &Identity) -> PathBuf {
    state_dir.join(REPAIRS).join(format!("{:032x}", identity.id))
}
