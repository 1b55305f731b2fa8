//! Damage of an mbox file, and its repair.
//!
//! The check covers bytes before the first message and after the last, zeros, and damaged
//! separators (`raw.rs`), then every message as readers see it (`messages.rs`). Every repair
//! replaces some bytes; if that changes the length of the file, the bytes after move.

mod messages;
mod raw;

use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use barid_mailbox::{Error, Result};
use barid_vfs::{File, OpenOptions};

use self::messages::look_at_messages;
use self::raw::look_at_bytes;
use super::file_end::size_without_nuls;
use super::layout::MMDF_SEPARATOR;
use super::lock::{MboxLockPurpose as LockPurpose, MboxWriteLocks, lock_for_reading};
use super::status::Separators;
use super::walk::{MboxWalker, Next};
use super::window::{FileSource, Window};
use super::{MboxMailbox, Variant};
use crate::check::{CheckPurpose, Damage, Diagnosis, Doctor, LockedMailbox, Segment, Severity};

impl Doctor for MboxMailbox {
    fn hold(&self, purpose: CheckPurpose) -> Result<LockedMailbox> {
        let at = || Error::at(&self.path);
        if self.compressed.is_some() {
            let what = "a compressed mailbox is not checked: decompress it first";
            return Err(Error::Unsupported { path: self.path.clone(), what });
        }
        if purpose == CheckPurpose::Write {
            let locks = MboxWriteLocks::acquire(self, LockPurpose::Change)?;
            let path = locks.path().to_owned();
            let mode = locks.file().metadata().map_err(at())?.mode;
            return Ok(LockedMailbox::file(&path, mode, locks));
        }
        let path = self.vfs.canonicalize(&self.path).map_err(at())?;
        let file = self.vfs.open(&path, OpenOptions::READ).map_err(at())?;
        lock_for_reading(self, &*file)?;
        let mode = file.metadata().map_err(at())?.mode;
        Ok(LockedMailbox::file(&path, mode, file))
    }

    fn diagnose(&self, held: &LockedMailbox) -> Result<Diagnosis> {
        let path = held.place.mailbox_path();
        let at = || Error::at(path);
        let file = self.vfs.open(path, OpenOptions::READ).map_err(at())?;
        let size = file.metadata().map_err(at())?.size;
        let end = size_without_nuls(&*file, size).map_err(at())?;
        let (diagnosis, fixes) = (Diagnosis::default(), Fixes::default());
        let lengths = Vec::new();
        let (suspects, bodies) = (Vec::new(), Vec::new());
        let mailbox = self;
        let file = &*file;
        let mut look =
            MboxCheck { mailbox, path, file, end, diagnosis, fixes, lengths, suspects, bodies };
        if end < size {
            let what = format!("{} zeros follow the last message", size - end);
            let damage = look.damage("zeros-at-end", Severity::Warning, end).what(what);
            look.fix(end..size, b"", damage.repair("they are cut off"));
        }
        look.run().map_err(at())?;
        look.lengths();
        let MboxCheck { mut diagnosis, fixes, .. } = look;
        let name = path.file_name().unwrap_or_default().as_bytes();
        diagnosis.edit(name, file, &fixes.segments(size)).map_err(at())?;
        Ok(diagnosis)
    }
}

/// Replacements of bytes.
#[derive(Default)]
struct Fixes(Vec<(Range<u64>, Vec<u8>)>);

impl Fixes {
    /// Sorts them by their start.
    fn sort(&mut self) {
        self.0.sort_by_key(|(range, _)| (range.start, range.end));
    }

    /// Returns the ranges that they cover.
    fn reach(&mut self) -> Reach {
        self.sort();
        let mut end = 0;
        let reach = |(range, _): &(Range<u64>, Vec<u8>)| {
            end = end.max(range.end);
            (range.start, end)
        };
        Reach(self.0.iter().map(reach).collect())
    }

    /// Returns the segments of the repaired file. Of two overlapping fixes the first is made; the
    /// other is left to the next repair.
    fn segments(mut self, size: u64) -> Vec<Segment> {
        self.sort();
        let mut segments = Vec::with_capacity(self.0.len() * 2 + 1);
        let mut at = 0;
        for (range, bytes) in self.0 {
            if range.start < at {
                continue;
            }
            segments.push(Segment::Keep(at..range.start));
            segments.push(Segment::New(bytes));
            at = range.end;
        }
        segments.push(Segment::Keep(at..size));
        segments
    }
}

/// Starts of fixes, ascending, each with the farthest end of it and those before it.
struct Reach(Vec<(u64, u64)>);

impl Reach {
    /// Returns `true` if a fix overlaps or adjoins a range. O(log n).
    fn touches(&self, bytes: &Range<u64>) -> bool {
        let before = self.0.partition_point(|(start, _)| *start <= bytes.end);
        before > 0 && self.0[before - 1].1 >= bytes.start
    }
}

/// State of the check of one file.
struct MboxCheck<'a> {
    mailbox: &'a MboxMailbox,
    path: &'a Path,
    file: &'a dyn File,
    /// End of the file without the zeros at its end.
    end: u64,
    diagnosis: Diagnosis,
    fixes: Fixes,
    /// `Content-Length` fields that lead nowhere.
    lengths: Vec<WrongLength>,
    /// Possible damage: not damage if it is in one of `bodies`.
    suspects: Vec<Suspect>,
    /// Bodies that end where their `Content-Length` says, ascending.
    bodies: Vec<Range<u64>>,
}

/// Possible damage, and the bytes that would repair it.
struct Suspect {
    range: Range<u64>,
    bytes: Vec<u8>,
    damage: Damage,
}

/// A `Content-Length` that leads nowhere.
struct WrongLength {
    /// Range of its value, and the right value.
    range: Range<u64>,
    bytes: Vec<u8>,
    body: Range<u64>,
}

impl<'a> MboxCheck<'a> {
    fn damage(&self, kind: &'static str, severity: Severity, at: u64) -> Damage {
        Damage::new(kind, severity, self.path).at(at)
    }

    /// Records damage that `bytes` in place of `range` repair.
    fn fix(&mut self, range: Range<u64>, bytes: &[u8], damage: Damage) {
        self.diagnosis.note(damage);
        self.fixes.0.push((range, bytes.to_vec()));
    }

    /// Records possible damage.
    fn suspect(&mut self, range: Range<u64>, bytes: &[u8], damage: Damage) {
        self.suspects.push(Suspect { range, bytes: bytes.to_vec(), damage });
    }

    /// Drops possible damage inside a body whose length is right: that is text of a message,
    /// whatever it looks like.
    fn settle(&mut self) {
        let rest = std::mem::take(&mut self.fixes);
        for Suspect { range, bytes, damage } in std::mem::take(&mut self.suspects) {
            let at = self.bodies.partition_point(|body| body.end < range.end);
            if self.bodies.get(at).is_none_or(|body| range.start < body.start) {
                self.fix(range, &bytes, damage);
            }
        }
        self.fixes.0.extend(rest.0);
    }

    fn is_mmdf(&self) -> bool {
        self.mailbox.separators() == Separators::Mmdf
    }

    /// Returns `true` if `>` quotes From_ lines in bodies.
    fn quotes(&self) -> bool {
        !matches!(self.mailbox.variant, Some(Variant::Mboxcl2 | Variant::Mmdf))
    }

    /// Returns a new walker over the file.
    fn walker(&self) -> MboxWalker<'a> {
        let source = Box::new(FileSource { file: self.file, size: self.end });
        let window = Window::new(source, self.mailbox.options.window_len);
        MboxWalker::new(window, self.mailbox.separators())
    }

    fn run(&mut self) -> std::io::Result<()> {
        let mut walker = self.walker();
        let first = match walker.first()? {
            Some(Next::End) => None,
            Some(Next::Message(separator)) => Some(separator),
            None => match self.walker().search(0, self.end)? {
                Some(separator) => {
                    let what = format!("{} bytes before the first message", separator.offset);
                    let damage = self.damage("garbage", Severity::Error, 0).what(what);
                    self.fix(0..separator.offset, b"", damage.repair("they are removed"));
                    Some(separator)
                }
                None => {
                    let damage = self.damage("garbage", Severity::Error, 0);
                    self.diagnosis.note(damage.what("the file has no message"));
                    return Ok(());
                }
            },
        };
        look_at_bytes(self)?;
        if let Some(first) = first {
            look_at_messages(self, first)?;
            self.last_line()?;
        }
        self.settle();
        Ok(())
    }

    /// Repairs the lengths of bodies that no fix touches; the others may be right after the fixes.
    /// In variants without lengths, a wrong field may be as old as the message and is only noted.
    fn lengths(&mut self) {
        let counts = matches!(self.mailbox.variant, Some(Variant::Mboxcl | Variant::Mboxcl2));
        // Lengths are in headers, so fixing them changes no body.
        let reach = self.fixes.reach();
        for WrongLength { range, bytes, body } in std::mem::take(&mut self.lengths) {
            if reach.touches(&body) {
                continue;
            }
            let what = format!("its body has {} bytes, a different number", body.end - body.start);
            let severity = if counts { Severity::Warning } else { Severity::Note };
            let damage = self.damage("content-length", severity, range.start).what(what);
            match counts {
                true => self.fix(range, &bytes, damage.repair("the right length is written")),
                false => self.diagnosis.note(damage),
            }
        }
    }

    /// Checks that the last line has an end, and in MMDF that a separator closes the last message.
    fn last_line(&mut self) -> std::io::Result<()> {
        let mut tail = [0; MMDF_SEPARATOR.len()];
        let len = self.end.min(tail.len() as u64);
        let tail = &mut tail[..len as usize];
        self.file.read_exact_at(tail, self.end - len)?;
        let (end, ends_line) = (self.end, tail.ends_with(b"\n"));
        if self.is_mmdf() {
            if tail != MMDF_SEPARATOR {
                let what = "no separator ends the last message";
                let damage = self.damage("mmdf-end", Severity::Warning, end).what(what);
                let line_end: &[u8] = if ends_line { b"" } else { b"\n" };
                let bytes = [line_end, MMDF_SEPARATOR].concat();
                self.fix(end..end, &bytes, damage.repair("it is added"));
            }
        } else if !ends_line {
            let what = "the last line has no line end, so that an appended message would be \
                        joined to it";
            let damage = self.damage("no-line-end", Severity::Warning, end).what(what);
            self.fix(end..end, b"\n", damage.repair("it is added"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixes_that_touch_a_body_are_found() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..2000 {
            let mut range = || {
                let start = rng.u64(..40);
                start..start + rng.u64(..10)
            };
            let body = range();
            let mut fixes = Fixes((0..3).map(|_| (range(), Vec::new())).collect());
            let touches = |(fixed, _): &(Range<u64>, Vec<u8>)| {
                fixed.start <= body.end && fixed.end >= body.start
            };
            let expected = fixes.0.iter().any(touches);
            assert_eq!(fixes.reach().touches(&body), expected, "{body:?}, {:?}", fixes.0);
        }
        assert!(!Fixes::default().reach().touches(&(0..9)));
    }
}
