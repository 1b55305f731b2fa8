//! Bytes that a disk may never have written.

/// Bytes of a sector, which a disk writes as a unit.
const SECTOR_LEN: u64 = 512;

/// Returns `true` if the part of `bytes` in some sector is all zeros, so that the disk may never
/// have written it. `bytes` are at `offset` in the file.
pub(crate) fn has_unwritten_sector(bytes: &[u8], offset: u64) -> bool {
    let mut rest = bytes;
    let mut room = (SECTOR_LEN - offset % SECTOR_LEN) as usize;
    while !rest.is_empty() {
        let (part, after) = rest.split_at(room.min(rest.len()));
        if part.iter().all(|byte| *byte == 0) {
            return true;
        }
        (rest, room) = (after, SECTOR_LEN as usize);
    }
    false
}
