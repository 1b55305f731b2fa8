//! Damage of an mbx, and its repair.
//!
//! The check covers the header of the file, line by line (`header.rs`), the line before each
//! message with its offset (`lines.rs`), and UIDs, flags and keywords of all messages (here). A
//! message whose bytes all exist is kept: lines that can be reconstructed are rewritten, and
//! bytes between messages that are not messages are removed.

mod header;
mod lines;

use barid_mailbox::{Error, Result};
use barid_vfs::{File, FileType, OpenOptions};

use self::header::look_at_header;
use self::lines::{Lines, MbxMessageLine};
use super::MbxMailbox;
use super::journal::file_name;
use super::layout::{
    EXPUNGED, HEADER_LEN, KEYWORDS_MAX, MbxHeader, MbxRecord, OLD, SLIDE_LEN_MAX,
    UIDVALIDITY_OFFSET,
};
use super::lock::{MbxWriteLocks, Permission, lock_shared, wait_exclusive};
use crate::check::{
    CheckPurpose, DOUBT, Damage, Diagnosis, Doctor, LockedMailbox, NEW_UIDVALIDITY, Segment,
    Severity, UidsFound, new_uidvalidity, uidvalidity_now,
};

/// Flag bits that have a meaning.
const FLAGS_KNOWN: u16 = EXPUNGED | OLD | 0x2f;

impl Doctor for MbxMailbox {
    fn hold(&self, purpose: CheckPurpose) -> Result<LockedMailbox> {
        if purpose == CheckPurpose::Write {
            let locks = MbxWriteLocks::acquire(self)?;
            wait_exclusive(self, &*locks.file)?;
            let (path, mode) = (locks.path.clone(), locks.metadata.mode);
            return Ok(LockedMailbox::file(&path, mode, locks));
        }
        let at = || Error::at(&self.path);
        let path = self.vfs.canonicalize(&self.path).map_err(at())?;
        let file = self.vfs.open(&path, OpenOptions::READ).map_err(at())?;
        lock_shared(self, &*file)?;
        let metadata = file.metadata().map_err(at())?;
        // The permission keeps appends out; without it the check continues unlocked.
        let permission = Permission::acquire(self, &metadata).ok();
        Ok(LockedMailbox::file(&path, metadata.mode, (file, permission)))
    }

    fn diagnose(&self, held: &LockedMailbox) -> Result<Diagnosis> {
        let path = held.place.mailbox_path();
        let at = || Error::at(path);
        let file = self.vfs.open(path, OpenOptions::READ).map_err(at())?;
        let metadata = file.metadata().map_err(at())?;
        if metadata.file_type != FileType::File {
            return Err(Error::NotAMailbox { path: path.to_owned(), reason: "it is not a file" });
        }
        let mut diagnosis = Diagnosis::default();
        let now = uidvalidity_now(&*self.vfs);
        let size = metadata.size;
        let mut head = look_at_header(path, &*file, size, &mut diagnosis).map_err(at())?;
        let lines = Lines::look(path, &*file, size, &mut diagnosis);
        let Lines { mut lines, gaps, .. } = lines.map_err(at())?;
        if !head.has_magic && lines.iter().all(|line| line.fresh.is_some()) {
            let reason = "it neither begins as an mbx nor has a message of one";
            return Err(Error::NotAMailbox { path: path.to_owned(), reason });
        }
        look_at_bits(path, &mut lines, &mut head.header, &*file, &mut diagnosis).map_err(at())?;
        look_at_uids(path, &mut lines, &mut head, now, &*file, &mut diagnosis).map_err(at())?;
        diagnosis.messages = lines.iter().filter(|line| !line.record.is_hidden()).count() as u64;
        let new = head.bytes();
        let segments = segments(&lines, &gaps, new, size);
        diagnosis.edit(file_name(path), &*file, &segments).map_err(at())?;
        Ok(diagnosis)
    }
}

/// Returns the segments of the repaired file.
fn segments(
    lines: &[MbxMessageLine],
    gaps: &[std::ops::Range<u64>],
    header: Vec<u8>,
    size: u64,
) -> Vec<Segment> {
    let mut segments = vec![Segment::New(header)];
    let mut gaps = gaps.iter().peekable();
    let mut put_gap = |segments: &mut Vec<Segment>, before: u64| {
        while let Some(gap) = gaps.next_if(|gap| gap.start < before) {
            // If too much would have to be moved, the gap becomes an expunged message.
            if size - gap.end > SLIDE_LEN_MAX
                && let Some(line) = lines::hidden_line(gap.end - gap.start)
            {
                let from = gap.start + line.len() as u64;
                segments.extend([Segment::New(line), Segment::Keep(from..gap.end)]);
            }
        }
    };
    for line in lines {
        put_gap(&mut segments, line.record.offset);
        let MbxRecord { offset, .. } = line.record;
        match &line.fresh {
            Some(fresh) => {
                segments.push(Segment::New(fresh.clone()));
                segments.push(Segment::Keep(line.text..line.end));
            }
            None => segments.push(Segment::Keep(offset..line.end)),
        }
    }
    segments
}

/// Clears flag and keyword bits that have no meaning, and names used keywords that have no name.
fn look_at_bits(
    path: &std::path::Path,
    lines: &mut [MbxMessageLine],
    header: &mut MbxHeader,
    file: &dyn File,
    diagnosis: &mut Diagnosis,
) -> std::io::Result<()> {
    let mut used = 0;
    for line in lines.iter_mut() {
        let uid = line.record.uid;
        let at = line.text - 23;
        let unknown = line.record.flags & !FLAGS_KNOWN;
        if unknown != 0 {
            diagnosis.note(
                Damage::new("flag-bits", Severity::Warning, path)
                    .at(at + 8)
                    .of(uid)
                    .what(format!("unknown flag bits are set: {unknown:04x}"))
                    .repair("they are cleared"),
            );
            line.record.flags &= FLAGS_KNOWN;
        }
        let beyond = line.record.keywords & !((1 << KEYWORDS_MAX) - 1);
        if beyond != 0 {
            diagnosis.note(
                Damage::new("keyword-bits", Severity::Warning, path)
                    .at(at)
                    .of(uid)
                    .what(format!("keyword bits above the highest possible are set: {beyond:08x}"))
                    .repair("they are cleared"),
            );
            line.record.keywords &= !beyond;
        }
        if unknown != 0 || beyond != 0 {
            line.renew_status(file)?;
        }
        if !line.record.is_hidden() {
            used |= line.record.keywords;
        }
    }
    let named = header.names.len() as u32;
    let count = 32 - used.leading_zeros();
    if count > named {
        diagnosis.note(
            Damage::new("keyword-name", Severity::Warning, path)
                .at(25)
                .what(format!("messages have keyword {count}, but only {named} have names"))
                .repair("it is named `unknown` with its number"),
        );
        for number in named..count {
            header.names.push(format!("unknown-{}", number + 1).into_bytes());
        }
    }
    Ok(())
}

/// Repairs UIDs that do not ascend, and the last UID in the header.
fn look_at_uids(
    path: &std::path::Path,
    lines: &mut [MbxMessageLine],
    head: &mut header::HeaderRepair,
    now: u32,
    file: &dyn File,
    diagnosis: &mut Diagnosis,
) -> std::io::Result<()> {
    let found: Vec<u32> = lines.iter().map(|line| line.record.uid).collect();
    let last = head.uid_last_is_sound.then_some(head.header.uid_last);
    let mended = UidsFound { found: &found, last }.mend();
    for &at in &mended.changed {
        let line = &mut lines[at];
        let (old, new) = (found[at], mended.uids[at]);
        line.record.uid = new;
        line.renew_status(file)?;
        if line.is_told && old == 0 {
            continue;
        }
        let what = match old {
            0 => "it has no UID, but later messages have".to_owned(),
            old => format!("its UID is {old}, which is not above the previous one"),
        };
        let repair = match mended.is_void {
            true => "all messages get new UIDs, and the mailbox a new UIDVALIDITY",
            false => {
                "it gets the UID between those of its neighbours, or a new one at the next opening"
            }
        };
        diagnosis.note(
            Damage::new("uid-order", Severity::Warning, path)
                .at(line.text - 10)
                .of(old)
                .what(what)
                .repair(repair),
        );
    }
    if head.uid_last_is_sound && mended.last > head.header.uid_last && !mended.is_void {
        diagnosis.note(
            Damage::new("uid-last", Severity::Warning, path)
                .at(super::layout::UID_LAST_OFFSET)
                .of(mended.last)
                .what(format!(
                    "the last assigned UID is {}, but a message has {}",
                    head.header.uid_last, mended.last
                ))
                .repair("the UID of the last message is written to the header"),
        );
    }
    if !head.uid_last_is_sound || mended.last > head.header.uid_last || mended.is_void {
        head.set_uid_last(mended.last);
    }
    let old = head.header.uidvalidity;
    let is_doubtful = !head.uid_last_is_sound || mended.is_reused && !mended.is_void;
    if is_doubtful && old > 0 {
        let damage = Damage::new("uidvalidity", Severity::Error, path).at(UIDVALIDITY_OFFSET);
        diagnosis.note(damage.what(DOUBT).repair(NEW_UIDVALIDITY));
    }
    if mended.is_void || is_doubtful || old == 0 {
        head.set_uidvalidity(new_uidvalidity(now, old));
    }
    Ok(())
}

const _: () = assert!(HEADER_LEN == 2048, "the offsets here are those of c-client");
