//! Plan of a recovery, according to the files found.
//!
//! Others may have appended to a file that is cut: before the cut, and then their bytes must be
//! moved with the end, or afterwards. The bytes to be cut off show which, since nobody else writes
//! there.

use std::io;

use barid_mailbox::{Error, Result};
use barid_vfs::{File, OpenOptions, Vfs};
use xxhash_rust::xxh3::xxh3_64;

use super::change::{Change, FileChange};
use super::limits::BODY_LEN_MAX;
use super::place::{JournalPath, is_missing};

/// Plan of a recovery.
#[derive(Default)]
pub(super) struct RecoveryPlan {
    /// The change of the journal, adapted to what others have appended.
    pub(super) change: Change,
    /// Its files.
    pub(super) files: Vec<Box<dyn File>>,
    /// Bytes that others have appended and that must be moved with the end of a file.
    pub(super) bytes_kept: u64,
    /// `true` if files that others have changed are left out.
    pub(super) is_part: bool,
    /// The files left out.
    pub(super) others: Vec<FileChange>,
}

impl RecoveryPlan {
    /// Makes the plan; `None` if a file is missing or contains bytes that are neither old nor new.
    /// But such files are left out if there are others that `is_moved` names.
    pub(super) fn of(
        vfs: &dyn Vfs,
        place: &JournalPath,
        change: Change,
        is_moved: Option<fn(&[u8]) -> bool>,
    ) -> Result<Option<Self>> {
        let mut found = Vec::with_capacity(change.files.len());
        for mut file in change.files {
            let path = place.file(&file.name);
            let options = OpenOptions { no_follow: true, ..OpenOptions::WRITE };
            let opened = match vfs.open(&path, options) {
                Ok(opened) => Some(opened),
                Err(error) if is_missing(&error) => None,
                Err(error) => return Err(Error::at(&path)(error)),
            };
            let kept = match &opened {
                Some(opened) => judge(&mut file, &**opened).map_err(Error::at(&path))?,
                None => None,
            };
            found.push((file, kept.zip(opened)));
        }
        let is_part = found.iter().any(|(_, state)| state.is_none());
        let moves = |file: &FileChange| is_moved.is_some_and(|is_moved| is_moved(&file.name));
        if is_part && !found.iter().any(|(file, _)| moves(file)) {
            return Ok(None);
        }
        let mut plan = Self { is_part, ..Self::default() };
        plan.change.pending_through = change.pending_through;
        for (file, state) in found {
            if is_part && !moves(&file) {
                plan.others.push(file);
                continue;
            }
            let Some((kept, opened)) = state else { return Ok(None) };
            plan.bytes_kept += kept;
            plan.change.files.push(file);
            plan.files.push(opened);
        }
        Ok(Some(plan))
    }
}

/// Returns `None` if a file does not match the journal; otherwise the number of bytes that others
/// have appended and that move with its end. Adapts the change to them.
fn judge(change: &mut FileChange, file: &dyn File) -> io::Result<Option<u64>> {
    let size = file.metadata()?.size;
    let (old_size, new_size) = (change.old_size, change.new_size);
    // Others may append to a file that does not grow.
    let is_possible = match new_size > old_size {
        true => (old_size..=new_size).contains(&size),
        false => size >= new_size,
    };
    if !is_possible || !is_old_or_new(change, file, size)? {
        return Ok(None);
    }
    if new_size >= old_size || size == new_size {
        return Ok(Some(0));
    }
    if size < old_size || change.hash_of_cut(file)? != change.cut_hash {
        // They appended after the cut.
        change.leave_end(size);
        return Ok(Some(0));
    }
    let appended = size - old_size;
    if appended > BODY_LEN_MAX {
        return Ok(None);
    }
    if appended > 0 {
        change.move_end(size, file)?;
    }
    Ok(Some(appended))
}

/// Returns `true` if every sector of a file that is written contains its old bytes or its new ones.
fn is_old_or_new(change: &FileChange, file: &dyn File, size: u64) -> io::Result<bool> {
    let old_size = change.old_size;
    let (mut hashes, mut bytes) = (change.hashes.iter(), change.bytes.as_slice());
    let mut found = Vec::new();
    for write in &change.writes {
        // A write may extend beyond the end, as long as the file has not grown.
        let len = size.saturating_sub(write.offset).min(u64::from(write.len)) as usize;
        found.resize(len, 0);
        file.read_exact_at(&mut found, write.offset)?;
        let new = match write.is_evidence {
            true => &[][..],
            false => {
                let (own, rest) = bytes.split_at(write.len as usize);
                bytes = rest;
                own
            }
        };
        for ((at, len), hash) in write.pieces().zip(hashes.by_ref()) {
            let from = (at - write.offset) as usize;
            let piece = &found[from.min(found.len())..(from + len).min(found.len())];
            let old_len = old_size.saturating_sub(at).min(len as u64) as usize;
            if !is_piece_known(piece, old_len, *hash, new.get(from..from + len)) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns `true` if a piece of a sector contains its old bytes, with nothing or zeros after them,
/// or its new bytes, as far as these were written.
fn is_piece_known(found: &[u8], old_len: usize, old_hash: u64, new: Option<&[u8]>) -> bool {
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let is_old = found
        .split_at_checked(old_len)
        .is_some_and(|(old, after)| xxh3_64(old) == old_hash && is_zero(after));
    let is_new = |new: &[u8]| {
        let common = found.iter().zip(new).take_while(|(found, new)| found == new).count();
        common >= old_len && is_zero(&found[common..])
    };
    is_old || new.is_some_and(is_new)
}
