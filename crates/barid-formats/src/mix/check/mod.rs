//! Damages of a mix mailbox and their repair.
//!
//! The lines of meta and status (`lines.rs`); the index against the messages in the data files
//! (`index.rs`). A message that is complete in a data file is kept if index or status list it. The
//! parts of the three files that differ from their new content are rewritten.

mod index;
mod lines;

use std::io;
use std::path::Path;

use barid_mailbox::{Error, Result};
use barid_vfs::OpenOptions;

use self::index::Indexed;
use self::lines::{CheckedMeta, Statuses};
use super::MixMailbox;
use super::layout::{INDEX, META, META_LEN_MAX, RECORDS_LEN_MAX, STATUS};
use super::lock::{Locks, MixLockPurpose as LockPurpose};
use super::record::{MixMessage, write_index, write_meta, write_status};
use super::snapshot::read_whole;
use crate::check::{
    CheckPurpose, Damage, Diagnosis, Doctor, FolderStep, LockedMailbox, Segment, Severity,
    uidvalidity_now,
};

impl Doctor for MixMailbox {
    fn hold(&self, purpose: CheckPurpose) -> Result<LockedMailbox> {
        let folder = self.vfs.metadata(&self.path).map_err(Error::at(&self.path))?;
        let mode = folder.mode & 0o666;
        let purpose = match purpose {
            CheckPurpose::Look => LockPurpose::Read,
            CheckPurpose::Write => LockPurpose::Move,
        };
        // Nobody can use it without its meta.
        if self.read_file(META, META_LEN_MAX)?.is_none() {
            return Ok(LockedMailbox::folder(&self.path, mode, ()));
        }
        Ok(LockedMailbox::folder(&self.path, mode, Locks::acquire(self, purpose)?))
    }

    fn diagnose(&self, _held: &LockedMailbox) -> Result<Diagnosis> {
        let mut diagnosis = Diagnosis::default();
        let texts = CheckedBytes {
            meta: self.read_file(META, META_LEN_MAX)?,
            index: self.read_file(INDEX, RECORDS_LEN_MAX)?,
            status: self.read_file(STATUS, RECORDS_LEN_MAX)?,
        };
        let mut meta = CheckedMeta::look(&self.path, texts.meta.as_deref(), &mut diagnosis);
        let mut statuses = Statuses::look(&self.path, texts.status.as_deref(), &mut diagnosis);
        let indexed = Indexed::look(self, texts.index.as_deref(), &statuses, &mut diagnosis)?;
        let seqs = [meta.meta.seq, indexed.seq, statuses.seq];
        let now = uidvalidity_now(&*self.vfs);
        let seq = seqs.into_iter().fold(0, u32::max).saturating_add(1).max(now);
        let Indexed { messages, highest, is_damaged, lines, .. } = indexed;
        let messages = statuses.merge(&self.path, messages, &mut diagnosis);
        meta.complete(&self.path, &messages, highest, now, &mut diagnosis);
        diagnosis.messages = messages.len() as u64;
        for (number, line) in lines {
            self.plan_line(number, line, &mut diagnosis)?;
        }
        self.plan(&texts, &meta, &statuses, (is_damaged, &messages, seq), &mut diagnosis)?;
        Ok(diagnosis)
    }
}

/// The bytes of the files.
struct CheckedBytes {
    meta: Option<Vec<u8>>,
    index: Option<Vec<u8>>,
    status: Option<Vec<u8>>,
}

impl MixMailbox {
    fn read_file(&self, name: &str, len_max: u64) -> Result<Option<Vec<u8>>> {
        let path = self.path.join(name);
        match self.vfs.open(&path, OpenOptions::READ) {
            Ok(file) => read_whole(&*file, len_max).map(Some).map_err(Error::at(&path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::at(&path)(error)),
        }
    }

    /// Plans to rewrite the damaged ones of meta, index and status.
    fn plan(
        &self,
        texts: &CheckedBytes,
        meta: &CheckedMeta,
        statuses: &Statuses,
        (is_index_damaged, messages, seq): (bool, &[MixMessage], u32),
        diagnosis: &mut Diagnosis,
    ) -> Result<()> {
        // Without a meta nobody has it open, and nobody could complete a journal.
        let in_place = |old: &Option<Vec<u8>>| old.is_some() && texts.meta.is_some();
        if is_index_damaged {
            self.plan_file(INDEX, in_place(&texts.index), write_index(seq, messages), diagnosis)?;
        }
        if statuses.is_damaged {
            self.plan_file(
                STATUS,
                in_place(&texts.status),
                write_status(seq, messages),
                diagnosis,
            )?;
        }
        if meta.is_damaged {
            let meta = super::record::MixMeta { seq, ..meta.meta.clone() };
            self.plan_file(META, texts.meta.is_some(), write_meta(&meta), diagnosis)?;
        }
        Ok(())
    }

    fn plan_file(
        &self,
        name: &str,
        in_place: bool,
        new: Vec<u8>,
        diagnosis: &mut Diagnosis,
    ) -> Result<()> {
        if !in_place {
            let step = FolderStep::write(&*self.vfs, &self.path, Path::new(name), new)?;
            diagnosis.plan.steps.push(step);
            return Ok(());
        }
        self.plan_edit(name, diagnosis, |_| vec![Segment::New(new)])
    }

    /// Plans to write lines before messages.
    fn plan_line(
        &self,
        number: u32,
        lines: Vec<(u64, Vec<u8>)>,
        diagnosis: &mut Diagnosis,
    ) -> Result<()> {
        self.plan_edit(&super::data::data_name(number), diagnosis, |size| {
            let mut segments = Vec::new();
            let mut at = 0;
            for (offset, line) in lines {
                segments.push(Segment::Keep(at..offset));
                at = offset + line.len() as u64;
                segments.push(Segment::New(line));
            }
            segments.push(Segment::Keep(at..size));
            segments
        })
    }

    fn plan_edit(
        &self,
        name: &str,
        diagnosis: &mut Diagnosis,
        segments: impl FnOnce(u64) -> Vec<Segment>,
    ) -> Result<()> {
        let path = self.path.join(name);
        let edit = || {
            let file = self.vfs.open(&path, OpenOptions::READ)?;
            let size = file.metadata()?.size;
            diagnosis.edit(name.as_bytes(), &*file, &segments(size))
        };
        edit().map_err(Error::at(&path))
    }
}

/// Makes a damage of a file of the mailbox.
fn damage(folder: &Path, name: &str, kind: &'static str, severity: Severity) -> Damage {
    Damage::new(kind, severity, folder.join(name))
}
