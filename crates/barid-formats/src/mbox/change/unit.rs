//! Units: the parts of a file that a change writes.

/// A range of the new file and the old range that it is made from. Offsets are those of the file
/// without the collapsed ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unit {
    /// Offset of its old bytes.
    pub(super) old: u64,
    /// Number of its old bytes.
    pub(super) old_len: u64,
    /// Offset of its new bytes.
    pub(super) new: u64,
    /// Number of its new bytes.
    pub(super) new_len: u64,
    /// Number of new bytes that are written; others stay. A unit with none is evidence only.
    pub(super) write_len: u64,
    /// Number of pieces that are written: a piece is the part of a run of written bytes in one
    /// sector.
    pub(super) pieces: u64,
    /// XXH3 of the bytes that are kept or copied, the same in the old and in the new file.
    pub(super) hash: u64,
    /// XXH3 of the old bytes in skipped runs of at most
    /// [`SKIP_HASHED_MAX`](super::limits::SKIP_HASHED_MAX) bytes.
    pub(super) skip_hash: u64,
    /// Offset of its script among the scripts.
    pub(super) script_at: u64,
    /// Length of the script as stored.
    pub(super) script_len: u32,
    /// Length of the script; if equal to `script_len`, it is not compressed.
    pub(super) script_raw_len: u32,
}

impl Unit {
    /// Length of [`Unit::to_bytes`].
    pub(super) const LEN: usize = 80;

    /// Returns the end of the old bytes.
    pub(super) fn old_end(&self) -> u64 {
        self.old + self.old_len
    }

    /// Returns the end of the new bytes.
    pub(super) fn new_end(&self) -> u64 {
        self.new + self.new_len
    }

    /// Returns `true` if its bytes change only in place.
    pub(super) fn is_in_place(&self) -> bool {
        self.old == self.new && self.old_len == self.new_len
    }

    /// Encodes the unit as little-endian numbers, in the order of the fields.
    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let script = u64::from(self.script_len) | u64::from(self.script_raw_len) << 32;
        let words = [
            self.old,
            self.old_len,
            self.new,
            self.new_len,
            self.write_len,
            self.pieces,
            self.hash,
            self.skip_hash,
            self.script_at,
            script,
        ];
        for (out, word) in bytes.chunks_exact_mut(8).zip(words) {
            out.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes [`Unit::to_bytes`].
    pub(super) fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let word = |at: usize| barid_vfs::le::u64_at(bytes, at * 8);
        Self {
            old: word(0),
            old_len: word(1),
            new: word(2),
            new_len: word(3),
            write_len: word(4),
            pieces: word(5),
            hash: word(6),
            skip_hash: word(7),
            script_at: word(8),
            script_len: word(9) as u32,
            script_raw_len: (word(9) >> 32) as u32,
        }
    }
}

/// A range that the file system removes before anything is moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Collapse {
    /// Its offset once the ranges before it are removed.
    pub(super) offset: u64,
    /// Its length.
    pub(super) len: u64,
}

impl Collapse {
    /// Length of [`Collapse::to_bytes`].
    pub(super) const LEN: usize = 16;

    /// Encodes the range as little-endian numbers.
    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// Decodes [`Collapse::to_bytes`].
    pub(super) fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let word = |at: usize| barid_vfs::le::u64_at(bytes, at * 8);
        Self { offset: word(0), len: word(1) }
    }
}
