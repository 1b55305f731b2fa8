//! Little-endian numbers out of bytes.

/// Returns the number at offset `at`. Panics if `bytes` is too short.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Returns the number at offset `at`. Panics if `bytes` is too short.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// A reader that takes bytes from the front of a slice.
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

impl<'a> Take<'a> {
    /// Takes the next `len` bytes; `None` if there are fewer.
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }
}

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
