//! Damages of an MH folder and their repair: files that only look like messages, and
//! `.mh_sequences`, which is replaced as nmh does.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use barid_mailbox::{ChangeProgress, Error, Result};
use barid_vfs::{FileType, Metadata};

use super::MhFolder;
use super::layout::{CURRENT, SEQUENCES, SEQUENCES_LEN_MAX, TMP_PREFIX};
use super::name::{self, Number};
use super::ranges::Ranges;
use super::sequences::{SequencesLock, line_len, parse_range, parts};
use crate::check::{
    self, CheckPurpose, Damage, Diagnosis, Doctor, FolderStep, LockedMailbox, Severity,
};

/// Age, in seconds, from which an unfinished file is abandoned. Until then it may be a message that
/// another program is about to write.
const LEFTOVER_AGE_MIN: i64 = 24 * 3600;

impl Doctor for MhFolder {
    fn hold(&self, purpose: CheckPurpose) -> Result<LockedMailbox> {
        let mode = self.file_mode()?;
        if self.naming.is_saved() {
            return Ok(LockedMailbox::folder(self.dir_path(), mode, ()));
        }
        // Without sequences there is no file that nmh would lock.
        let has_sequences = self.vfs.symlink_metadata(&self.sequences).is_ok();
        let lock = match purpose {
            CheckPurpose::Write if has_sequences => Some(SequencesLock::take(
                &self.vfs,
                &self.sequences,
                mode,
                &ChangeProgress::default(),
            )?),
            _ => None,
        };
        Ok(LockedMailbox::folder(&self.path, mode, lock))
    }

    fn diagnose(&self, _held: &LockedMailbox) -> Result<Diagnosis> {
        let mut diagnosis = Diagnosis::default();
        if self.naming.is_saved() {
            let dir = self.open_dir().map_err(Error::at(&self.path))?;
            let listed = self.naming.list(&*dir, &mut |_| {}).map_err(Error::at(&self.path))?;
            diagnosis.messages = listed.len() as u64;
            return Ok(diagnosis);
        }
        let numbers = look_at_files(self, &mut diagnosis)?;
        look_at_sequences(self, &numbers, &mut diagnosis)?;
        Ok(diagnosis)
    }
}

/// Examines all names; returns the numbers of messages, ascending.
fn look_at_files(folder: &MhFolder, diagnosis: &mut Diagnosis) -> Result<Vec<Number>> {
    let at = || Error::at(&folder.path);
    let dir = folder.vfs.open_dir(&folder.path).map_err(at())?;
    let mut names: Vec<Vec<u8>> = Vec::new();
    dir.list(&mut |name, _| names.push(name.to_vec())).map_err(at())?;
    names.sort_unstable();
    let last = names.iter().filter_map(|name| name::number(name)).max();
    let (numbers, misnamed) = (Vec::new(), Vec::new());
    let mut files = Files { folder, diagnosis, numbers, misnamed };
    for name in names {
        if !name.is_empty() && name.iter().all(u8::is_ascii_digit) {
            files.message(&name)?;
        } else if name.starts_with(TMP_PREFIX.as_bytes()) {
            files.leftover(&name)?;
        }
    }
    files.rename(last);
    let mut numbers = files.numbers;
    numbers.sort_unstable();
    Ok(numbers)
}

/// The examination of the files of a folder.
struct Files<'a> {
    folder: &'a MhFolder,
    diagnosis: &'a mut Diagnosis,
    numbers: Vec<Number>,
    /// Messages that no program recognises as such, and their sizes.
    misnamed: Vec<(PathBuf, u64)>,
}

impl Files<'_> {
    fn damage(&self, kind: &'static str, severity: Severity, path: &Path) -> Damage {
        Damage::new(kind, severity, self.folder.path.join(path))
    }

    /// Returns the metadata of a file; `None` if its damage is recorded, or it is gone.
    fn metadata(&mut self, path: &Path) -> Result<Option<Metadata>> {
        let (vfs, full) = (&*self.folder.vfs, self.folder.path.join(path));
        let error = match vfs.metadata(&full) {
            Ok(metadata) if metadata.file_type == FileType::File => return Ok(Some(metadata)),
            Ok(_) => {
                let damage = self.damage("not-a-file", Severity::Note, path);
                self.diagnosis
                    .note(damage.what("an entry with the name of a message is not a file"));
                return Ok(None);
            }
            Err(error) => error,
        };
        match vfs.symlink_metadata(&full) {
            Ok(link) if link.file_type == FileType::Symlink => {
                let damage = self.damage("dangling", Severity::Error, path);
                self.diagnosis.note(damage.what("it links to a file that does not exist"));
                Ok(None)
            }
            // Another program removed it meanwhile.
            Err(gone) if gone.kind() == ErrorKind::NotFound => Ok(None),
            _ => Err(Error::at(&full)(error)),
        }
    }

    /// Returns `true` if a file is so old that nobody is still writing it.
    fn is_old(&self, metadata: &Metadata) -> bool {
        let age = self.folder.vfs.now().unix_seconds() - metadata.modified.unix_seconds();
        age >= LEFTOVER_AGE_MIN
    }

    fn leftover(&mut self, name: &[u8]) -> Result<()> {
        let path = Path::new(OsStr::from_bytes(name));
        if self.metadata(path)?.is_some_and(|metadata| self.is_old(&metadata)) {
            let damage = self.damage("leftover", Severity::Note, path);
            let damage = damage.what("an append was interrupted").repair("its file is removed");
            self.diagnosis.note(damage);
            let step = FolderStep::remove(&*self.folder.vfs, &self.folder.path, path)?;
            self.diagnosis.plan.steps.extend(step);
        }
        Ok(())
    }

    fn message(&mut self, name: &[u8]) -> Result<()> {
        let path = Path::new(OsStr::from_bytes(name));
        let Some(metadata) = self.metadata(path)? else { return Ok(()) };
        let (vfs, folder) = (&*self.folder.vfs, &self.folder.path);
        if self.is_old(&metadata) {
            let full = folder.join(path);
            match check::is_void(vfs, &full, metadata.size) {
                Ok(false) => {}
                Ok(true) => return self.diagnosis.void(vfs, folder, path, metadata.size),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(Error::at(&full)(error)),
            }
        }
        self.diagnosis.messages += 1;
        match name::number(name) {
            Some(number) => self.numbers.push(number),
            None => self.misnamed.push((path.to_owned(), metadata.size)),
        }
        Ok(())
    }

    /// Gives numbers above `last`, the highest of any file, to messages without a number.
    fn rename(&mut self, mut last: Option<Number>) {
        for (path, size) in std::mem::take(&mut self.misnamed) {
            let damage = self.damage("name", Severity::Error, &path);
            let what = "no program reads it as a message, because its name is not a canonical \
                        number";
            self.diagnosis.note(damage.what(what).repair("it gets the next number"));
            let Some(number) = last.map_or(Some(1), |last| last.checked_add(1)) else { continue };
            last = Some(number);
            let to = PathBuf::from(OsStr::from_bytes(&name::file_name(number)));
            self.numbers.push(number);
            self.diagnosis.plan.steps.push(FolderStep::Rename { from: path, to, size });
        }
    }
}

/// A readable sequence.
struct Sequence {
    name: Vec<u8>,
    ranges: Vec<(Number, Number)>,
    raw: Vec<u8>,
    is_changed: bool,
}

fn look_at_sequences(
    folder: &MhFolder,
    numbers: &[Number],
    diagnosis: &mut Diagnosis,
) -> Result<()> {
    let text = match folder.vfs.read(&folder.sequences, SEQUENCES_LEN_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::at(&folder.sequences)(error)),
    };
    let (path, missing) = (&folder.sequences, missing(numbers));
    let (sequences, by_name, is_damaged) = (Vec::new(), HashMap::new(), false);
    let mut look = SequenceCheck { path, missing, diagnosis, sequences, by_name, is_damaged };
    let mut at = 0;
    while at < text.len() {
        let len = line_len(&text[at..]);
        let (offset, raw) = (at as u64, &text[at..at + len]);
        at += len;
        if !raw.trim_ascii().is_empty() {
            look.line(offset, raw);
        }
    }
    if !text.is_empty() && !text.ends_with(b"\n") {
        let (at, what) = (text.len() as u64, "the last line has no line end");
        look.note(at, ("sequence-end", Severity::Note), what, "it is added");
    }
    if look.is_damaged {
        let mut new = Vec::new();
        look.sequences.into_iter().for_each(|sequence| sequence.write(&mut new));
        let step = FolderStep::write(&*folder.vfs, &folder.path, Path::new(SEQUENCES), new)?;
        diagnosis.plan.steps.push(step);
    }
    Ok(())
}

/// The examination of the sequences, line by line.
struct SequenceCheck<'a> {
    path: &'a Path,
    /// The numbers without a message.
    missing: Vec<(Number, Number)>,
    diagnosis: &'a mut Diagnosis,
    sequences: Vec<Sequence>,
    /// Index of each sequence by name.
    by_name: HashMap<Vec<u8>, usize>,
    is_damaged: bool,
}

impl SequenceCheck<'_> {
    fn note(
        &mut self,
        at: u64,
        (kind, severity): (&'static str, Severity),
        what: impl Into<String>,
        repair: &'static str,
    ) {
        let damage = Damage::new(kind, severity, self.path).at(at).what(what).repair(repair);
        self.diagnosis.note(damage);
        self.is_damaged = true;
    }

    fn line(&mut self, at: u64, raw: &[u8]) {
        let kind = |kind| (kind, Severity::Warning);
        let Some((name, words)) = parts(raw) else {
            let what = "the line is not a sequence, so that NeoMutt ignores the file";
            return self.note(at, kind("sequence-line"), what, "it is removed");
        };
        let mut bad = 0;
        let parsed = words.filter_map(|word| {
            let range = parse_range(word);
            bad += u32::from(range.is_none());
            range
        });
        let mut ranges: Ranges = parsed.collect();
        if bad > 0 {
            let what =
                format!("{bad} words are not message numbers, so that NeoMutt ignores the file");
            self.note(at, kind("sequence-range"), what, "they are removed");
        }
        let is_gone = name != CURRENT && leave_out(&mut ranges, &self.missing);
        if is_gone {
            let what = "it names messages that do not exist: new ones would get its flag";
            self.note(at, kind("sequence-gone"), what, "they are removed");
        }
        let (ranges, is_changed) = (ranges.pairs(), bad > 0 || is_gone);
        if let Some(&other) = self.by_name.get(name) {
            let other = &mut self.sequences[other];
            other.is_changed = true;
            other.ranges.extend(ranges);
            let what = "the sequence is repeated";
            return self.note(at, kind("sequence-twice"), what, "both are merged");
        }
        self.by_name.insert(name.to_vec(), self.sequences.len());
        let (name, raw) = (name.to_vec(), raw.to_vec());
        self.sequences.push(Sequence { name, ranges, raw, is_changed });
    }
}

/// Returns the numbers without a message.
fn missing(numbers: &[Number]) -> Vec<(Number, Number)> {
    let mut gaps = Vec::new();
    let mut from: Number = 0;
    for number in numbers {
        if *number > from {
            gaps.push((from, number - 1));
        }
        from = number.saturating_add(1);
    }
    gaps.push((from, Number::MAX));
    gaps
}

/// Removes missing messages; returns `true` if there were any.
fn leave_out(ranges: &mut Ranges, missing: &[(Number, Number)]) -> bool {
    let is_named = |(first, last): &&(Number, Number)| ranges.overlaps(*first, *last);
    let gaps: Vec<_> = missing.iter().filter(is_named).copied().collect();
    let is_any = !gaps.is_empty();
    ranges.remove(gaps);
    is_any
}

impl Sequence {
    fn write(self, out: &mut Vec<u8>) {
        if !self.is_changed {
            out.extend_from_slice(&self.raw);
            if !self.raw.ends_with(b"\n") {
                out.push(b'\n');
            }
            return;
        }
        let ranges: Ranges = self.ranges.into_iter().collect();
        if !ranges.is_empty() {
            out.extend_from_slice(&self.name);
            out.push(b':');
            ranges.write(out);
            out.push(b'\n');
        }
    }
}
