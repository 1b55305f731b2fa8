//! The bytes of a journal.

use xxhash_rust::xxh3::xxh3_64;

use super::change::{Change, FileChange, RedoWrite};
use super::limits::{BODY_LEN_MAX, CUT_HASH_LEN_MAX, FILES_MAX, NAME_LEN_MAX, OFFSET_MAX};

/// First bytes of a journal.
pub(super) const MAGIC: &[u8; 8] = b"baridRDO";
const VERSION: u32 = 1;
/// Length of the header in bytes.
pub(super) const HEADER_LEN: usize = 512;
/// Offset of the record of completion.
pub(super) const COMMIT_AT: usize = 512;
/// Offset of the body.
pub(super) const BODY_AT: usize = 1024;
/// Length of a file's entry without its name, in bytes.
const FILE_LEN: usize = 40;
/// Length of a write's entry without hashes and bytes, in bytes.
const WRITE_LEN: usize = 16;
const HAS_PENDING: u32 = 1;
const IS_EVIDENCE: u32 = 1;

/// A journal that was read.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) id: [u8; 16],
    pub(super) change: Change,
    /// `true` if the change is complete.
    pub(super) is_committed: bool,
}

/// Result of parsing a journal.
#[derive(Debug)]
pub(super) enum Parsed {
    /// A complete journal.
    Whole(Journal),
    /// A journal that was never finished, so the change was not begun.
    Incomplete,
    /// A journal of another version, or one that contradicts itself.
    Unusable(&'static str),
}

/// Returns the bytes of a journal; `None` if they are too many.
pub(super) fn encode(change: &Change, id: &[u8; 16]) -> Option<Vec<u8>> {
    let mut bytes = vec![0; BODY_AT];
    for file in &change.files {
        put_file(file, &mut bytes);
        if (bytes.len() - BODY_AT) as u64 > BODY_LEN_MAX {
            return None;
        }
    }
    if change.files.len() > FILES_MAX {
        return None;
    }
    let body_len = (bytes.len() - BODY_AT) as u64;
    let body_hash = xxh3_64(&bytes[BODY_AT..]);
    let bits = if change.pending_through.is_some() { HAS_PENDING } else { 0 };
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&bits.to_le_bytes());
    bytes[16..32].copy_from_slice(id);
    bytes[32..40].copy_from_slice(&change.pending_through.unwrap_or(0).to_le_bytes());
    bytes[40..48].copy_from_slice(&(change.files.len() as u64).to_le_bytes());
    bytes[48..56].copy_from_slice(&body_len.to_le_bytes());
    bytes[56..64].copy_from_slice(&body_hash.to_le_bytes());
    let hash = xxh3_64(&bytes[..HEADER_LEN - 8]);
    bytes[HEADER_LEN - 8..HEADER_LEN].copy_from_slice(&hash.to_le_bytes());
    Some(bytes)
}

fn put_file(file: &FileChange, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(file.name.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(file.writes.len() as u32).to_le_bytes());
    for number in [file.old_size, file.new_size, file.cut_len, file.cut_hash] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&file.name);
    let (mut hashes, mut content) = (file.hashes.iter(), file.bytes.as_slice());
    for write in &file.writes {
        let bits = if write.is_evidence { IS_EVIDENCE } else { 0 };
        bytes.extend_from_slice(&write.offset.to_le_bytes());
        bytes.extend_from_slice(&write.len.to_le_bytes());
        bytes.extend_from_slice(&bits.to_le_bytes());
        for hash in hashes.by_ref().take(write.piece_count()) {
            bytes.extend_from_slice(&hash.to_le_bytes());
        }
        if !write.is_evidence {
            let (own, rest) = content.split_at(write.len as usize);
            bytes.extend_from_slice(own);
            content = rest;
        }
    }
}

/// Returns the record that a change is complete.
pub(super) fn commit_record(id: &[u8; 16]) -> [u8; 512] {
    let mut bytes = [0; 512];
    bytes[..8].copy_from_slice(b"COMMIT  ");
    bytes[8..24].copy_from_slice(id);
    let hash = xxh3_64(&bytes[..24]);
    bytes[24..32].copy_from_slice(&hash.to_le_bytes());
    bytes
}

/// Parses a journal.
pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let Some((header, _)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return Parsed::Incomplete;
    };
    let number = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&header[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let is_sound = xxh3_64(&header[..HEADER_LEN - 8]) == number(HEADER_LEN - 8);
    if !header.starts_with(MAGIC) || !is_sound {
        return Parsed::Incomplete;
    }
    if number(8) as u32 != VERSION {
        return Parsed::Unusable("was written by another version");
    }
    let body = bytes.get(BODY_AT..).unwrap_or_default();
    let body_len = usize::try_from(number(48)).unwrap_or(usize::MAX);
    let Some(body) = body.get(..body_len) else { return Parsed::Incomplete };
    if xxh3_64(body) != number(56) {
        return Parsed::Incomplete;
    }
    let mut id = [0; 16];
    id.copy_from_slice(&header[16..32]);
    let has_pending = (number(8) >> 32) as u32 & HAS_PENDING != 0;
    let pending_through = has_pending.then(|| number(32));
    let Some(files) = parse_files(body, number(40)) else {
        return Parsed::Unusable("contradicts itself");
    };
    let change = Change { files, pending_through };
    let is_committed = bytes.get(COMMIT_AT..BODY_AT) == Some(&commit_record(&id)[..]);
    Parsed::Whole(Journal { id, change, is_committed })
}

fn parse_files(mut body: &[u8], count: u64) -> Option<Vec<FileChange>> {
    let mut files = Vec::new();
    if count > FILES_MAX as u64 {
        return None;
    }
    for _ in 0..count {
        files.push(parse_file(&mut body)?);
    }
    body.is_empty().then_some(files)
}

fn take<'a>(body: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, rest) = body.split_at_checked(len)?;
    *body = rest;
    Some(head)
}

fn take_u32(body: &mut &[u8]) -> Option<u32> {
    let (head, rest) = body.split_first_chunk()?;
    *body = rest;
    Some(u32::from_le_bytes(*head))
}

fn take_u64(body: &mut &[u8]) -> Option<u64> {
    let (head, rest) = body.split_first_chunk()?;
    *body = rest;
    Some(u64::from_le_bytes(*head))
}

fn parse_file(body: &mut &[u8]) -> Option<FileChange> {
    if body.len() < FILE_LEN {
        return None;
    }
    let name_len = take_u32(body)? as usize;
    let count = take_u32(body)?;
    let mut file = FileChange {
        old_size: take_u64(body)?,
        new_size: take_u64(body)?,
        cut_len: take_u64(body)?,
        cut_hash: take_u64(body)?,
        ..FileChange::default()
    };
    let is_name = |name: &[u8]| {
        let is_path = name.contains(&b'/') || name.contains(&0);
        !matches!(name, b"" | b"." | b"..") && !is_path && name.len() <= NAME_LEN_MAX
    };
    file.name = take(body, name_len).filter(|name| is_name(name))?.to_vec();
    let sizes = [file.old_size, file.new_size];
    let cut_len_max = file.old_size.saturating_sub(file.new_size).min(CUT_HASH_LEN_MAX);
    if sizes.iter().any(|size| *size > OFFSET_MAX) || file.cut_len > cut_len_max {
        return None;
    }
    let mut end = 0;
    for _ in 0..count {
        if body.len() < WRITE_LEN {
            return None;
        }
        let (offset, len, bits) = (take_u64(body)?, take_u32(body)?, take_u32(body)?);
        let write = RedoWrite { offset, len, is_evidence: bits & IS_EVIDENCE != 0 };
        if offset < end || offset > OFFSET_MAX {
            return None;
        }
        end = write.end();
        let hashes = take(body, write.piece_count().checked_mul(8)?)?;
        file.hashes.extend(hashes.as_chunks::<8>().0.iter().map(|hash| u64::from_le_bytes(*hash)));
        if !write.is_evidence {
            file.bytes.extend_from_slice(take(body, len as usize)?);
        }
        file.writes.push(write);
    }
    (end <= file.new_size).then_some(file)
}
