//! Damages of a Maildir and their repair.
//!
//! Its folders and the names in them (here), `dovecot-uidlist` and `dovecot-keywords` (`lists.rs`).
//! Messages are renamed or, if nothing of them is left, removed; the lists are replaced as Dovecot
//! does.

mod lists;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use barid_mailbox::{Error, Result};
use barid_types::Flag;
use barid_vfs::{FileType, Metadata};

use self::lists::look_at_lists;
use super::Maildir;
use super::layout::{CUR, NEW, TMP};
use super::name;
use super::uids::take_lock;
use crate::check::{
    self, CheckPurpose, Damage, Diagnosis, Doctor, FolderStep, LockedMailbox, Severity,
};

/// Age, in seconds, at which a file in `tmp` is abandoned (maildir(5)).
const TMP_AGE_MAX: i64 = 36 * 3600;
/// Age, in seconds, from which a message without content is abandoned.
const VOID_AGE_MIN: i64 = 24 * 3600;

impl Doctor for Maildir {
    /// Readers take no lock; writers take that of the UIDs.
    fn hold(&self, purpose: CheckPurpose) -> Result<LockedMailbox> {
        let mode = self.vfs.metadata(&self.path).map_err(Error::at(&self.path))?.mode & 0o666;
        let lock = match purpose {
            CheckPurpose::Look => None,
            CheckPurpose::Write => take_lock(&self.vfs, &self.paths.uidlist)?,
        };
        Ok(LockedMailbox::folder(&self.path, mode, lock))
    }

    fn diagnose(&self, _held: &LockedMailbox) -> Result<Diagnosis> {
        let mut look = MaildirCheck {
            maildir: self,
            diagnosis: Diagnosis::default(),
            taken: HashSet::new(),
            bases: HashMap::new(),
            letters: 0,
        };
        look.folders()?;
        let cur = look.list(CUR)?;
        let new = look.list(NEW)?;
        for (folder, entries) in [(CUR, &cur), (NEW, &new)] {
            look.taken.extend(entries.iter().map(|entry| PathBuf::from(folder).join(entry.path())));
        }
        for entry in &cur {
            look.entry(CUR, entry)?;
        }
        for entry in &new {
            look.entry(NEW, entry)?;
        }
        look.tmp()?;
        let MaildirCheck { mut diagnosis, letters, .. } = look;
        look_at_lists(self, letters, &mut diagnosis)?;
        Ok(diagnosis)
    }
}

/// A name in a folder.
struct FileName {
    name: Vec<u8>,
    metadata: Metadata,
}

impl FileName {
    fn path(&self) -> &OsStr {
        OsStr::from_bytes(&self.name)
    }
}

struct MaildirCheck<'a> {
    maildir: &'a Maildir,
    diagnosis: Diagnosis,
    /// Paths in use.
    taken: HashSet<PathBuf>,
    /// The inode of the first file with each base name.
    bases: HashMap<Vec<u8>, u64>,
    /// The keyword letters in use.
    letters: u32,
}

impl MaildirCheck<'_> {
    fn damage(&self, kind: &'static str, severity: Severity, path: &PathBuf) -> Damage {
        Damage::new(kind, severity, self.maildir.path.join(path))
    }

    /// Checks for missing folders.
    fn folders(&mut self) -> Result<()> {
        for folder in [NEW, CUR, TMP] {
            let path = self.maildir.path.join(folder);
            match self.maildir.vfs.metadata(&path) {
                Ok(_) => continue,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::at(&path)(error)),
            }
            let severity = if folder == TMP { Severity::Warning } else { Severity::Error };
            let damage = self.damage("folder-missing", severity, &folder.into());
            self.diagnosis.note(damage.what("the folder is missing").repair("it is created"));
            let at = Error::at(&self.maildir.path);
            let mode = self.maildir.vfs.metadata(&self.maildir.path).map_err(at)?.mode & 0o777;
            self.diagnosis.plan.steps.push(FolderStep::MakeDir { path: folder.into(), mode });
        }
        Ok(())
    }

    /// Returns the entries of a folder, by name; none if it is missing.
    fn list(&self, folder: &str) -> Result<Vec<FileName>> {
        let path = self.maildir.path.join(folder);
        let dir = match self.maildir.vfs.open_dir(&path) {
            Ok(dir) => dir,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::at(&path)(error)),
        };
        let mut names = Vec::new();
        let list = &mut |name: &[u8], _| {
            if name.first() != Some(&b'.') {
                names.push(name.to_vec());
            }
        };
        dir.list(list).map_err(Error::at(&path))?;
        names.sort_unstable();
        let entry = |name: Vec<u8>| match dir.metadata(&name) {
            Ok(metadata) => Some(Ok(FileName { name, metadata })),
            // Another program renamed it meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => Some(Err(Error::at(&path)(error))),
        };
        names.into_iter().filter_map(entry).collect()
    }

    /// Examines a message.
    fn entry(&mut self, folder: &'static str, entry: &FileName) -> Result<()> {
        let path = PathBuf::from(folder).join(entry.path());
        match entry.metadata.file_type {
            FileType::File => {}
            FileType::Symlink if self.is_file(&path) => {}
            _ => {
                let damage = self.damage("not-a-file", Severity::Note, &path);
                self.diagnosis.note(damage.what("an entry among the messages is not a file"));
                return Ok(());
            }
        }
        let age = self.maildir.vfs.now().unix_seconds() - entry.metadata.modified.unix_seconds();
        // Another program may be about to write it.
        if age >= VOID_AGE_MIN && self.is_void(&path, entry.metadata.size)? {
            return Ok(());
        }
        self.diagnosis.messages += 1;
        self.letters |= name::letters(&entry.name).keywords;
        let (to_folder, to_name) = self.right_name(folder, entry, &path);
        if to_folder == folder && to_name == entry.name {
            return Ok(());
        }
        self.rename(path, to_folder, to_name, entry.metadata.size);
        Ok(())
    }

    fn is_file(&self, path: &PathBuf) -> bool {
        let found = self.maildir.vfs.metadata(&self.maildir.path.join(path));
        found.is_ok_and(|found| found.file_type == FileType::File)
    }

    /// Returns `true` if nothing is left of a message, or it cannot be read: then the rest is not
    /// checked.
    fn is_void(&mut self, path: &PathBuf, size: u64) -> Result<bool> {
        let (vfs, folder) = (&*self.maildir.vfs, &self.maildir.path);
        match check::is_void(vfs, &folder.join(path), size) {
            Ok(false) => return Ok(false),
            Ok(true) => self.diagnosis.void(vfs, folder, path, size)?,
            // Another program renamed it meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                let damage = self.damage("unreadable", Severity::Error, path);
                self.diagnosis.note(damage.what(format!("the message cannot be read: {error}")));
            }
        }
        Ok(true)
    }

    /// Returns the folder and the name that a message should have. mbsync delivers unread messages
    /// to `new`, with an info part and any flags.
    fn right_name(
        &mut self,
        folder: &'static str,
        entry: &FileName,
        path: &PathBuf,
    ) -> (&'static str, Vec<u8>) {
        let (mut to_folder, mut to_name) = (folder, entry.name.clone());
        let mut told: Vec<(&'static str, Severity, String, &'static str)> = Vec::new();
        let mut is_fresh = false;
        if !name::is_message(&to_name) || name::base(&to_name).is_empty() {
            let what = "no program can use its name".to_owned();
            told.push(("name", Severity::Error, what, "it is renamed"));
            let is_line_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
            to_name.iter_mut().filter(|byte| is_line_end(byte)).for_each(|byte| *byte = b'_');
            if name::base(&to_name).is_empty() {
                to_name.splice(..0, self.fresh_base(entry));
                is_fresh = true;
            }
        }
        if let Some(size) = name::size_field(&to_name, b'S')
            && size != entry.metadata.size
        {
            // In a compressed mailbox it is the size of the message before compression.
            let what = format!("its name says {size} bytes, but it has {}", entry.metadata.size);
            let damage = self.damage("size-in-name", Severity::Note, path).what(what);
            self.diagnosis.note(damage);
        }
        let has_info = memchr::memchr(b':', &to_name).is_some();
        if folder == NEW && name::letters(&to_name).flags.contains(Flag::Seen) {
            let what = "it was read, and read messages belong in `cur`".to_owned();
            told.push(("flags-in-new", Severity::Warning, what, "it is moved to `cur`"));
            to_folder = CUR;
        }
        if folder == CUR && !has_info {
            let what = "its name lacks the `:2,` of names in `cur`".to_owned();
            told.push(("no-info", Severity::Note, what, "it is added"));
            to_name.extend_from_slice(b":2,");
        } else if has_info {
            let sorted = name::with_letters(&to_name, name::letters(&to_name));
            if sorted != to_name && to_name.windows(3).any(|three| three == b":2,") {
                let what = "its flags are not sorted, or repeated".to_owned();
                told.push(("flags-order", Severity::Note, what, "they are sorted"));
                to_name = sorted;
            }
        }
        let base = name::base(&to_name).to_vec();
        match self.bases.get(&base) {
            Some(inode) if *inode != entry.metadata.inode => {
                let what = "another message has the same name except for the flags".to_owned();
                told.push(("same-name", Severity::Error, what, "it gets a unique name"));
                let fresh = self.fresh_base(entry);
                to_name.splice(..base.len(), fresh);
            }
            Some(_) if is_fresh => {}
            Some(_) => {
                let what = "the message also exists under another name";
                let damage = self.damage("linked", Severity::Note, path).what(what);
                self.diagnosis.note(damage);
                return (folder, entry.name.clone());
            }
            None => {
                self.bases.insert(base, entry.metadata.inode);
            }
        }
        for (kind, severity, what, repair) in told {
            let damage = self.damage(kind, severity, path).what(what).repair(repair);
            self.diagnosis.note(damage);
        }
        (to_folder, to_name)
    }

    /// Returns a base name that no message has.
    fn fresh_base(&mut self, entry: &FileName) -> Vec<u8> {
        let seconds = entry.metadata.modified.unix_seconds().max(0);
        let mut number = 0;
        loop {
            let base =
                format!("{seconds}.I{}N{number}.repaired", entry.metadata.inode).into_bytes();
            if !self.bases.contains_key(&base) {
                self.bases.insert(base.clone(), entry.metadata.inode);
                return base;
            }
            number += 1;
        }
    }

    fn rename(&mut self, from: PathBuf, folder: &'static str, name: Vec<u8>, size: u64) {
        let to = PathBuf::from(folder).join(OsStr::from_bytes(&name));
        // If the name is in use, the file stays as it is: the next repair may find the name free.
        if self.taken.insert(to.clone()) {
            self.diagnosis.plan.steps.push(FolderStep::Rename { from, to, size });
        }
    }

    /// Checks for files that were never delivered.
    fn tmp(&mut self) -> Result<()> {
        let now = self.maildir.vfs.now().unix_seconds();
        for entry in self.list(TMP)? {
            let age = now - entry.metadata.modified.unix_seconds();
            if entry.metadata.file_type != FileType::File || age < TMP_AGE_MAX {
                continue;
            }
            let path = PathBuf::from(TMP).join(entry.path());
            let what = format!("it was never delivered, for {} hours", age / 3600);
            let damage = self.damage("tmp-old", Severity::Note, &path).what(what);
            self.diagnosis.note(damage.repair("it is removed"));
            let step = FolderStep::remove(&*self.maildir.vfs, &self.maildir.path, &path)?;
            self.diagnosis.plan.steps.extend(step);
        }
        Ok(())
    }
}
