//! What is wrong with a mailbox.

use std::io;
use std::path::{Path, PathBuf};

use barid_types::Uid;
use barid_vfs::{File, OpenOptions, Vfs};

use super::limits::{DAMAGES_MAX, VOID_READ_LEN};
use super::plan::{Edit, Plan, Segment, Step};
use crate::Result;

/// How bad a damage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing suffers from it.
    Note,
    /// Flags, dates, UIDs or other programs may suffer from it, but no message does.
    Warning,
    /// Messages cannot be read, or not all of them are shown.
    Error,
}

impl Severity {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What kind of damage it is: a word that stays the same (`docs/design/check.md` lists them).
    pub kind: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The file or folder.
    pub file: PathBuf,
    /// The first byte of the file that is wrong, where it is some bytes.
    pub offset: Option<u64>,
    /// The message, if it is known.
    pub uid: Option<Uid>,
    /// What is wrong, in words.
    pub what: String,
    /// What a repair does about it; `None` if it can do nothing.
    pub repair: Option<&'static str>,
}

impl Damage {
    /// Damage of a file.
    pub(crate) fn new(kind: &'static str, severity: Severity, file: impl Into<PathBuf>) -> Self {
        let (file, what) = (file.into(), String::new());
        Self { kind, severity, file, offset: None, uid: None, what, repair: None }
    }

    /// Where it is in the file.
    #[must_use]
    pub(crate) fn at(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    /// Which message it is about; 0 for none.
    #[must_use]
    pub(crate) fn of(mut self, uid: u32) -> Self {
        self.uid = Uid::new(uid);
        self
    }

    /// What it is, in words.
    #[must_use]
    pub(crate) fn what(mut self, what: impl Into<String>) -> Self {
        self.what = what.into();
        self
    }

    /// What a repair does.
    #[must_use]
    pub(crate) fn repair(mut self, repair: &'static str) -> Self {
        self.repair = Some(repair);
        self
    }
}

/// What a look at a mailbox brought.
#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    pub(crate) damages: Vec<Damage>,
    /// How many damages are not named.
    pub(crate) more: u64,
    /// Messages that are whole.
    pub(crate) messages: u64,
    /// What is to be done.
    pub(crate) plan: Plan,
    /// What is to be done is more than can be done.
    pub(crate) is_too_large: bool,
}

impl Diagnosis {
    /// Takes note of a damage.
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
        match Edit::assemble(name, file, segments)? {
            Some(edit) if edit.is_empty() => {}
            Some(edit) => self.plan.edits.push(edit),
            None => self.is_too_large = true,
        }
        Ok(())
    }

    /// Takes note of a message of which nothing is left: its file goes.
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
            _ => damage("zeros", Severity::Error).what("the message is nothing but zeros"),
        };
        self.note(damage.repair("its file is removed"));
        let step = Step::remove(vfs, folder, path)?;
        self.plan.steps.extend(step.filter(Step::removes_nothing));
        Ok(())
    }
}

/// Whether nothing of a message is left: no byte, or none but zeros.
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
