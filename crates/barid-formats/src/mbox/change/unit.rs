//! Units: the stretches of a file that a change writes.

/// A stretch of the new file and where it comes from. Offsets are those of the file after
/// everything to be collapsed is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unit {
    /// Where its old bytes are.
    pub(super) old: u64,
    /// How many.
    pub(super) old_len: u64,
    /// Where its new bytes are to be.
    pub(super) new: u64,
    /// How many.
    pub(super) new_len: u64,
    /// How many of these are written; others stay. A unit with none is there as evidence only.
    pub(super) write_len: u64,
    /// Pieces of sectors that are written: what of the file one sector and one run of written
    /// bytes have in common.
    pub(super) pieces: u64,
    /// XXH3 of the bytes that are kept or copied, in the old file as in the new one.
    pub(super) hash: u64,
    /// XXH3 of the old bytes that are skipped, up to
    /// [`SKIP_HASHED_MAX`](super::limits::SKIP_HASHED_MAX) at once.
    pub(super) skip_hash: u64,
    /// Where its script is among the scripts.
    pub(super) script_at: u64,
    /// Bytes of it as stored.
    pub(super) script_len: u32,
    /// Bytes of it; if that is `script_len`, it is not compressed.
    pub(super) script_raw_len: u32,
}

impl Unit {
    /// Bytes of [`Unit::to_bytes`].
    pub(super) const LEN: usize = 80;

    /// The end of the old bytes.
    pub(super) fn old_end(&self) -> u64 {
        self.old + self.old_len
    }

    /// The end of the new bytes.
    pub(super) fn new_end(&self) -> u64 {
        self.new + self.new_len
    }

    /// Whether its bytes only change where they are.
    pub(super) fn is_in_place(&self) -> bool {
        self.old == self.new && self.old_len == self.new_len
    }

    /// The unit as little-endian bytes, in the order of the fields.
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

    /// Reads [`Unit::to_bytes`] back.
    pub(super) fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let word = |at: usize| super::header::u64_at(bytes, at * 8);
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

/// A range that the file system cuts out before anything is moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Collapse {
    /// Where it is once those before it are gone.
    pub(super) offset: u64,
    /// Its bytes.
    pub(super) len: u64,
}

impl Collapse {
    /// Bytes of [`Collapse::to_bytes`].
    pub(super) const LEN: usize = 16;

    /// The range as little-endian bytes.
    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// Reads [`Collapse::to_bytes`] back.
    pub(super) fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let word = |at: usize| super::header::u64_at(bytes, at * 8);
        Self { offset: word(0), len: word(1) }
    }
}
