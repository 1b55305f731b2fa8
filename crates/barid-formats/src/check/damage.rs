//! Damages of a mailbox.

use std::io;
use std::path::{Path, PathBuf};

use barid_mailbox::Result;
use barid_types::Uid;
use barid_vfs::{File, OpenOptions, Vfs};

use super::limits::{DAMAGES_MAX, VOID_READ_LEN};
use super::plan::{FileEdit, FolderStep, RepairPlan, Segment};

/// Severity of a damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; without consequences.
    Note,
    /// Flags, dates, UIDs or other programs may be affected, but no message is.
    Warning,
    /// Messages cannot be read, or some are not shown.
    Error,
}

impl Severity {
    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A damage of a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its kind: a stable identifier (`docs/design/check.md` lists them).
    pub kind: &'static str,
    /// Its severity.
    pub severity: Severity,
    /// The damaged file or folder.
    pub file: PathBuf,
    /// Offset of the first damaged byte of the file, if the damage is one of bytes.
    pub offset: Option<u64>,
    /// UID of the message concerned, if it is known.
    pub uid: Option<Uid>,
    /// Description of the damage.
    pub what: String,
    /// Description of the repair; `None` if it cannot be repaired.
    pub repair: Option<&'static str>,
}

impl Damage {
    /// Makes a damage of a file.
    pub(crate) fn new(kind: &'static str, severity: Severity, file: impl Into<PathBuf>) -> Self {
        let (file, what) = (file.into(), String::new());
        Self { kind, severity, file, offset: None, uid: None, what, repair: None }
    }

    /// Sets its offset in the file.
    #[must_use]
    pub(crate) fn at(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    /// Sets the UID of the message concerned; 0 for none.
    #[must_use]
    pub(crate) fn of(mut self, uid: u32) -> Self {
        self.uid = Uid::new(uid);
        self
    }

    /// Sets its description.
    #[must_use]
    pub(crate) fn what(mut self, what: impl Into<String>) -> Self {
        self.what = what.into();
        self
    }

    /// Sets the description of the repair.
    #[must_use]
    pub(crate) fn repair(mut self, repair: &'static str) -> Self {
        self.repair = Some(repair);
        self
    }
}

/// Result of diagnosing a mailbox.
#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    pub(crate) damages: Vec<Damage>,
    /// Number of damages that are not listed.
    pub(crate) more: u64,
    /// Number of messages that are intact.
    pub(crate) messages: u64,
    /// The steps of the repair.
    pub(crate) plan: RepairPlan,
    /// `true` if the repair is larger than can be done.
    pub(crate) is_too_large: bool,
}

impl Diagnosis {
    /// Records a damage.
    pub(crate) fn note(&mut self, damage: Damage) {
        if self.damages.len() < DAMAGES_MAX {
            self.damages.push(damage);
        } else {
            self.more += 1;
        }
    }

    /// Plans to turn a file into `segments`, in place.
    pub(crate) fn edit(
        &mut self,
        name: &[u8],
        file: &dyn File,
        segments: &[Segment],
    ) -> io::Result<()> {
        match FileEdit::assemble(name, file, segments)? {
            Some(edit) if edit.is_empty() => {}
            Some(edit) => self.plan.edits.push(edit),
            None => self.is_too_large = true,
        }
        Ok(())
    }

    /// Records a message without any content, and plans to remove its file.
    pub(crate) fn void(
        &mut self,
        vfs: &dyn Vfs,
        folder: &Path,
        path: &Path,
        size: u64,
    ) -> Result<()> {
        let damage = |kind, severity| Damage::new(kind, severity, folder.join(path));
        let damage = match size {
            0 => damage("empty", Severity::Warning).what("the message has no bytes"),
            _ => damage("zeros", Severity::Error).what("the message contains only zeros"),
        };
        self.note(damage.repair("its file is removed"));
        let step = FolderStep::remove(vfs, folder, path)?;
        self.plan.steps.extend(step.filter(FolderStep::removes_nothing));
        Ok(())
    }
}

/// Returns `true` if nothing is left of a message: it has no bytes, or only zeros.
pub(crate) fn is_void(vfs: &dyn Vfs, path: &Path, size: u64) -> io::Result<bool> {
    let file = vfs.open(path, OpenOptions::READ)?;
    let mut buffer = [0; VOID_READ_LEN];
    let mut at = 0;
    while at < size {
        let len = file.read_full_at(&mut buffer, at)?;
        if len == 0 || buffer[..len].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += len as u64;
    }
    Ok(true)
}
