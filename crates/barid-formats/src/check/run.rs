//! Check, repair and undo of any format.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use barid_mailbox::{Error, Format, Result, Storage};
use barid_vfs::{StopVfs, Vfs};

use super::damage::{Damage, Diagnosis, Severity};
use super::doctor::{CheckPurpose, Doctor, LockedMailbox};
use super::keep::{self, Manifest};
use super::{carry, limits};
use crate::detect::open_damaged;
use crate::redo::JournalSearch;
use crate::{MailboxSpec, MboxOptions};

/// Options of a check or a repair.
#[derive(Clone, Debug, Default)]
pub struct CheckOptions {
    /// Options for locking the mailbox, and for reading it if it is an mbox.
    pub mbox: MboxOptions,
    /// Folder of journals that cannot be beside the mailbox.
    pub state_dir: Option<PathBuf>,
    /// Once `true`, a repair ends within its diagnosis, or after its current step, with
    /// [`Error::RepairStopped`].
    pub stop: Option<Arc<AtomicBool>>,
    /// Called with the number of steps that a repair has done, and their total.
    pub progress: Option<RepairProgress>,
}

/// A function that receives the progress of a repair.
#[derive(Clone)]
pub struct RepairProgress(pub Arc<dyn Fn(u64, u64) + Send + Sync>);

impl fmt::Debug for RepairProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RepairProgress").finish_non_exhaustive()
    }
}

impl CheckOptions {
    /// Fails if the repair is to stop. Called before and after a diagnosis, with the number of
    /// steps done before it; the diagnosis counts as one more step.
    fn look(&self, path: &Path, done: usize) -> Result<()> {
        self.step(path, done, if done == 0 { 0 } else { done + 1 })
    }

    /// Reports progress; fails if the repair is to stop and steps are left.
    pub(super) fn step(&self, path: &Path, done: usize, total: usize) -> Result<()> {
        let (done, total) = (done as u64, total as u64);
        if let Some(RepairProgress(progress)) = &self.progress {
            progress(done, total);
        }
        let is_stopped = self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
        match is_stopped && (done < total || total == 0) {
            true => Err(Error::RepairStopped { path: path.to_owned(), done, total }),
            false => Ok(()),
        }
    }
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// Format of the mailbox.
    pub format: Format,
    /// The damages, in the order of the files.
    pub damages: Vec<Damage>,
    /// Number of damages that are not listed.
    pub more: u64,
    /// Number of messages that are intact, or will be once the mailbox is repaired.
    pub messages: u64,
    /// `true` if a repair would change something.
    pub is_repairable: bool,
    /// `true` if a repair would have to write more than can be written at once.
    pub is_too_large: bool,
}

/// Result of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairReport {
    /// The damages found.
    pub found: CheckReport,
    /// Folder of the bytes that were overwritten or removed; `None` if nothing was done.
    pub kept: Option<PathBuf>,
    /// Number of bytes stored there.
    pub bytes_kept: u64,
}

/// Result of an undo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoReport {
    /// Folder from which the bytes were restored.
    pub kept: PathBuf,
    /// Number of files that have their bytes and names again, each counted once; those that were as
    /// before already are not counted.
    pub files: u64,
}

/// Checks a mailbox. If its format is named, that name is trusted, however the mailbox begins.
/// Reads everything that determines where messages are, but of the messages themselves only what
/// that requires; writes nothing but lock files.
///
/// # Errors
/// As [`crate::open`]; [`Error::Locked`]; errors of the file system.
pub fn check(
    vfs: &Arc<dyn Vfs>,
    spec: &MailboxSpec,
    options: &CheckOptions,
) -> Result<CheckReport> {
    let doctor = open_damaged(vfs, spec, &options.mbox)?;
    let held = doctor.hold(CheckPurpose::Look)?;
    let diagnosis = look(&*doctor, &held, options)?;
    Ok(report(&*doctor, diagnosis).0)
}

/// Repairs a mailbox, as far as possible. Bytes to be overwritten or removed are first stored in a
/// new folder of `side_dir`.
///
/// Commit point of writes in place: the redo journal; of every other file: its own rename or
/// removal. After a crash some files may be repaired and others not; messages that were intact are
/// intact at every moment.
///
/// # Errors
/// As [`check`]; [`Error::Unfinished`] if a change must be completed first, in which case nothing
/// was done, or if the redo journal is still to be completed; [`Error::RepairStopped`]: the steps
/// that were done stay, and can be undone.
pub fn repair(
    vfs: &Arc<dyn Vfs>,
    spec: &MailboxSpec,
    options: &CheckOptions,
    side_dir: &Path,
) -> Result<RepairReport> {
    let stopping = StopVfs::new(Arc::clone(vfs), options.stop.clone());
    let own: Arc<dyn Vfs> = Arc::new(stopping.clone());
    let doctor = open_damaged(&own, spec, &options.mbox)?;
    expect_finished(&*doctor, options)?;
    let held = doctor.hold(CheckPurpose::Write)?;
    expect_free(&**vfs, &held)?;
    let mut done: Option<RepairReport> = None;
    let mut steps = 0;
    for round in 0..limits::ROUNDS_MAX {
        options.look(doctor.name(), steps)?;
        let diagnosis = stopping.ending(|| look(&*doctor, &held, options));
        // The error may result from the request to stop.
        options.look(doctor.name(), steps)?;
        let diagnosis = diagnosis?;
        if diagnosis.is_too_large || diagnosis.plan.is_too_large() {
            let what = "the repair would have to write more than 200 MB at once, or save more \
                        than could be restored";
            return Err(Error::Unsupported { path: doctor.name().to_owned(), what });
        }
        let (found, plan) = report(&*doctor, diagnosis);
        let report = done.get_or_insert(RepairReport { found, kept: None, bytes_kept: 0 });
        if plan.is_empty() {
            break;
        }
        let manifest = Manifest::of(&plan, doctor.name(), vfs.now(), round > 0);
        report.bytes_kept += manifest.kept_len;
        let kept = keep::keep(&**vfs, side_dir, &manifest, &plan)?;
        report.kept.get_or_insert(kept);
        carry::out(&**vfs, &held, &plan, (doctor.name(), options))?;
        steps += plan.steps.len() + usize::from(!plan.edits.is_empty());
    }
    Ok(done.expect("because there is one round at least"))
}

/// Undoes the last repair in `side_dir` that is not undone: every file has the bytes again that it
/// had before. Returns `None` if there is no such repair.
///
/// # Errors
/// [`Error::ChangedSince`] if a file is neither as the repair left it nor as it was before; then
/// nothing is done. Otherwise as [`repair`].
pub fn undo(
    vfs: &Arc<dyn Vfs>,
    spec: &MailboxSpec,
    options: &CheckOptions,
    side_dir: &Path,
) -> Result<Option<UndoReport>> {
    let doctor = open_damaged(vfs, spec, &options.mbox)?;
    expect_finished(&*doctor, options)?;
    let Some(mut last) = keep::last(&**vfs, side_dir)? else { return Ok(None) };
    let held = doctor.hold(CheckPurpose::Write)?;
    expect_free(&**vfs, &held)?;
    let mut files = BTreeSet::new();
    loop {
        files.append(&mut carry::back(&**vfs, &held, &last)?);
        keep::mark_undone(&**vfs, &last.folder)?;
        // The second round repaired what the first one could not see: both are one repair.
        let before = match last.manifest.goes_on {
            true => keep::last(&**vfs, side_dir)?,
            false => None,
        };
        match before {
            Some(before) => last = before,
            None => {
                let files = files.len() as u64;
                return Ok(Some(UndoReport { kept: last.folder, files }));
            }
        }
    }
}

/// Opens a mailbox that may be too damaged for [`crate::open_with`], so that an interrupted change
/// can be completed. A format that is named is trusted.
///
/// # Errors
/// As [`crate::open_with`] if no format is named.
pub fn open(
    vfs: &Arc<dyn Vfs>,
    spec: &MailboxSpec,
    options: &MboxOptions,
) -> Result<Box<dyn Storage>> {
    Ok(open_damaged(vfs, spec, options)?)
}

/// Diagnoses, unless a change is unfinished: then nothing else can be determined.
fn look(doctor: &dyn Doctor, held: &LockedMailbox, options: &CheckOptions) -> Result<Diagnosis> {
    let Some(found) = doctor.unfinished(options.state_dir.as_deref())? else {
        return doctor.diagnose(held);
    };
    let mut diagnosis = Diagnosis::default();
    let file = found.journal.unwrap_or_else(|| doctor.name().to_owned());
    diagnosis.note(
        Damage::new("unfinished", Severity::Error, file)
            .what(format!("{} is unfinished", found.what))
            .repair("it is completed"),
    );
    Ok(diagnosis)
}

fn report(doctor: &dyn Doctor, diagnosis: Diagnosis) -> (CheckReport, super::plan::RepairPlan) {
    let Diagnosis { damages, more, messages, plan, is_too_large } = diagnosis;
    let is_too_large = is_too_large || plan.is_too_large();
    let is_unfinished = damages.iter().any(|damage| damage.kind == "unfinished");
    let is_repairable = !plan.is_empty() || is_unfinished;
    let format = doctor.format();
    (CheckReport { format, damages, more, messages, is_repairable, is_too_large }, plan)
}

fn expect_finished(doctor: &dyn Doctor, options: &CheckOptions) -> Result<()> {
    match doctor.unfinished(options.state_dir.as_deref())? {
        None => Ok(()),
        Some(found) => {
            let path = doctor.name().to_owned();
            let journal = found.journal.unwrap_or_else(|| path.clone());
            Err(Error::Unfinished { path, journal, what: found.what })
        }
    }
}

/// Fails if the path of the journal is in use. The locks are held, so that nobody else can use it
/// later.
fn expect_free(vfs: &dyn Vfs, held: &LockedMailbox) -> Result<()> {
    match held.place.look(vfs)? {
        JournalSearch::Nothing => Ok(()),
        _ => {
            let what = format!("{} is in the way", held.place.journal().display());
            Err(Error::Unrecoverable { path: held.folder.clone(), what })
        }
    }
}

const _: () = assert!(limits::EDIT_LEN_MAX == 200 << 20, "the error message names the obstacle");
