//! What can be wrong with an MH folder, and what mends it: files that are no messages though they
//! look like some, and `.mh_sequences`, which is replaced as nmh does.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use barid_vfs::{FileType, OpenOptions};

use super::MhFolder;
use super::layout::{CURRENT, SEQUENCE_NAME_LEN_MAX, SEQUENCES, SEQUENCES_LEN_MAX, TMP_PREFIX};
use super::name::{self, Number};
use super::ranges::Ranges;
use super::sequences::SequencesLock;
use crate::check::{Damage, Diagnosis, Doctor, Held, Purpose, Severity, Step};
use crate::{Error, Result};

/// How old a file is that was begun and that nobody goes on with. Until then it may be a message
/// that another program is about to write.
const LEFTOVER_AGE_MIN: i64 = 24 * 3600;
/// Bytes of a message that are looked at for zeros at once.
const READ_LEN: usize = 4096;

impl Doctor for MhFolder {
    fn hold(&self, purpose: Purpose) -> Result<Held> {
        let mode = self.file_mode()?;
        // Without sequences there is nothing that nmh would lock.
        let has_sequences = self.vfs.symlink_metadata(&self.sequences).is_ok();
        let lock = match purpose {
            Purpose::Write if has_sequences => {
                Some(SequencesLock::take(&self.vfs, &self.sequences, mode)?)
            }
            _ => None,
        };
        Ok(Held::folder(&self.path, mode, lock))
    }

    fn diagnose(&self, _held: &Held) -> Result<Diagnosis> {
        let mut diagnosis = Diagnosis::default();
        let numbers = look_at_files(self, &mut diagnosis)?;
        look_at_sequences(self, &numbers, &mut diagnosis)?;
        Ok(diagnosis)
    }
}

/// Looks at all names; returns the numbers of messages, ascending.
fn look_at_files(folder: &MhFolder, diagnosis: &mut Diagnosis) -> Result<Vec<Number>> {
    let at = || Error::at(&folder.path);
    let dir = folder.vfs.open_dir(&folder.path).map_err(at())?;
    let mut names: Vec<(Vec<u8>, FileType)> = Vec::new();
    dir.list(&mut |name, file_type| names.push((name.to_vec(), file_type))).map_err(at())?;
    names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let mut numbers = Vec::new();
    let mut misnamed = Vec::new();
    let now = folder.vfs.now().unix_seconds();
    for (name, _) in names {
        let path = PathBuf::from(OsStr::from_bytes(&name));
        let damage = |kind, severity| Damage::new(kind, severity, folder.path.join(&path));
        let is_number = !name.is_empty() && name.iter().all(u8::is_ascii_digit);
        let is_leftover = name.starts_with(TMP_PREFIX.as_bytes());
        if !is_number && !is_leftover {
            continue;
        }
        let metadata = match folder.vfs.metadata(&folder.path.join(&path)) {
            Ok(metadata) => metadata,
            Err(_) => {
                let what = "it leads to a file that is not there";
                diagnosis.note(damage("dangling", Severity::Error).what(what));
                continue;
            }
        };
        if metadata.file_type != FileType::File {
            let what = "what has the name of a message is no file";
            diagnosis.note(damage("not-a-file", Severity::Note).what(what));
            continue;
        }
        if is_leftover {
            if now - metadata.modified.unix_seconds() >= LEFTOVER_AGE_MIN {
                let damage = damage("leftover", Severity::Note).what("an append was cut short");
                diagnosis.note(damage.repair("its file is removed"));
                let step = Step::remove(&*folder.vfs, &folder.path, &path)?;
                diagnosis.plan.steps.extend(step);
            }
            continue;
        }
        let is_old = now - metadata.modified.unix_seconds() >= LEFTOVER_AGE_MIN;
        if is_old && is_void(folder, &path, metadata.size)? {
            let damage = match metadata.size {
                0 => damage("empty", Severity::Warning).what("the message has no bytes"),
                _ => damage("zeros", Severity::Error).what("the message is nothing but zeros"),
            };
            diagnosis.note(damage.repair("its file is removed"));
            let step = Step::remove(&*folder.vfs, &folder.path, &path)?;
            diagnosis.plan.steps.extend(step.filter(Step::removes_nothing));
            continue;
        }
        diagnosis.messages += 1;
        match name::number(&name) {
            Some(number) => numbers.push(number),
            None => misnamed.push((path, metadata.size)),
        }
    }
    numbers.sort_unstable();
    for (path, size) in misnamed {
        let damage = Damage::new("name", Severity::Error, folder.path.join(&path));
        let what = "no program takes it for a message, since its number is not written as such";
        diagnosis.note(damage.what(what).repair("it gets the next number"));
        let Some(number) = numbers.last().map_or(Some(1), |last| last.checked_add(1)) else {
            continue;
        };
        let to = PathBuf::from(OsStr::from_bytes(&name::file_name(number)));
        numbers.push(number);
        diagnosis.plan.steps.push(Step::Rename { from: path, to, size });
    }
    Ok(numbers)
}

/// Whether nothing of a message is left.
fn is_void(folder: &MhFolder, path: &Path, size: u64) -> Result<bool> {
    let path = folder.path.join(path);
    let read = || -> std::io::Result<bool> {
        let file = folder.vfs.open(&path, OpenOptions::READ)?;
        let mut buffer = [0; READ_LEN];
        let mut at = 0;
        while at < size {
            let len = file.read_full_at(&mut buffer, at)?;
            if len == 0 || buffer[..len].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += len as u64;
        }
        Ok(true)
    };
    read().map_err(Error::at(&path))
}

/// A sequence that can be read.
struct Sequence {
    name: Vec<u8>,
    ranges: Ranges,
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
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::at(&folder.sequences)(error)),
    };
    let damage = |kind, severity| Damage::new(kind, severity, &folder.sequences);
    let mut sequences: Vec<Sequence> = Vec::new();
    let mut is_damaged = false;
    let mut at = 0;
    while at < text.len() {
        let len = line_len(&text[at..]);
        let (offset, raw) = (at as u64, &text[at..at + len]);
        at += len;
        if raw.trim_ascii().is_empty() {
            continue;
        }
        let Some((name, words)) = parts(raw) else {
            is_damaged = true;
            let what = "the line is no sequence; NeoMutt reads none of the file then";
            let damage = damage("sequence-line", Severity::Warning).at(offset).what(what);
            diagnosis.note(damage.repair("it is left out"));
            continue;
        };
        let mut sequence =
            Sequence { name, ranges: Ranges::default(), raw: raw.to_vec(), is_changed: false };
        let bad = sequence.add(&words);
        if bad > 0 {
            is_damaged = true;
            let what = format!("{bad} words are no message; NeoMutt reads none of the file then");
            let damage = damage("sequence-range", Severity::Warning).at(offset).what(what);
            diagnosis.note(damage.repair("they are left out"));
        }
        if sequence.name != CURRENT && sequence.drop_missing(numbers) {
            is_damaged = true;
            let what = "it names messages that are not there: new ones would get its flag";
            let damage = damage("sequence-gone", Severity::Warning).at(offset).what(what);
            diagnosis.note(damage.repair("they are left out"));
        }
        match sequences.iter_mut().find(|other| other.name == sequence.name) {
            Some(other) => {
                is_damaged = true;
                let what = "the sequence stands there already";
                let damage = damage("sequence-twice", Severity::Warning).at(offset).what(what);
                diagnosis.note(damage.repair("both become one"));
                other.is_changed = true;
                other.ranges.add(sequence.ranges.pairs());
            }
            None => sequences.push(sequence),
        }
    }
    if !text.is_empty() && !text.ends_with(b"\n") {
        is_damaged = true;
        let damage = damage("sequence-end", Severity::Note).at(text.len() as u64);
        diagnosis.note(damage.what("the last line has no end").repair("it gets one"));
    }
    if is_damaged {
        let mut new = Vec::new();
        sequences.iter().for_each(|sequence| sequence.write(&mut new));
        let step = Step::write(&*folder.vfs, &folder.path, Path::new(SEQUENCES), new)?;
        diagnosis.plan.steps.push(step);
    }
    Ok(())
}

/// Bytes of a line with those that go on.
fn line_len(text: &[u8]) -> usize {
    let mut len = 0;
    loop {
        len = match memchr::memchr(b'\n', &text[len..]) {
            Some(end) => len + end + 1,
            None => return text.len(),
        };
        if !matches!(text.get(len), Some(b' ' | b'\t')) {
            return len;
        }
    }
}

/// The name of a sequence and the words behind it.
fn parts(raw: &[u8]) -> Option<(Vec<u8>, Vec<&[u8]>)> {
    let colon = memchr::memchr(b':', raw)?;
    let name = &raw[..colon];
    let is_valid = |byte: &u8| byte.is_ascii_graphic() || *byte >= 0x80;
    if !(1..=SEQUENCE_NAME_LEN_MAX).contains(&name.len()) || !name.iter().all(is_valid) {
        return None;
    }
    let words = raw[colon + 1..].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    Some((name.to_vec(), words.collect()))
}

impl Sequence {
    /// Adds what is a number or a range; returns how many words are none.
    fn add(&mut self, words: &[&[u8]]) -> usize {
        let range = |word: &&[u8]| {
            let word = std::str::from_utf8(word).ok()?;
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            let (first, last): (Number, Number) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last).then_some((first, last))
        };
        let ranges: Vec<_> = words.iter().filter_map(range).collect();
        let bad = words.len() - ranges.len();
        self.ranges.add(ranges);
        self.is_changed |= bad > 0;
        bad
    }

    /// Leaves out messages that are not there; whether there are such.
    fn drop_missing(&mut self, numbers: &[Number]) -> bool {
        let mut gaps = Vec::new();
        let mut from: Number = 0;
        for number in numbers {
            if *number > from {
                gaps.push((from, number - 1));
            }
            from = number.saturating_add(1);
        }
        gaps.push((from, Number::MAX));
        gaps.retain(|(first, last)| self.ranges.overlaps(*first, *last));
        self.is_changed |= !gaps.is_empty();
        self.ranges.remove(gaps.iter().copied());
        !gaps.is_empty()
    }

    fn write(&self, out: &mut Vec<u8>) {
        if !self.is_changed {
            out.extend_from_slice(&self.raw);
            if !self.raw.ends_with(b"\n") {
                out.push(b'\n');
            }
        } else if !self.ranges.is_empty() {
            out.extend_from_slice(&self.name);
            out.push(b':');
            self.ranges.write(out);
            out.push(b'\n');
        }
    }
}
