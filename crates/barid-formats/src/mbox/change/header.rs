//! The header and the records of a journal; the byte map is `docs/formats/mbox-journal.md`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use barid_vfs::le::u64_at;
use xxhash_rust::xxh3::xxh3_64;

use super::intent::{self, IntentHeader};
use super::limits::{COLLAPSES_MAX, ORIGIN_PATH_LEN, UNITS_CLAIMED_MAX};
use super::steps::StepParams;
use super::unit::{Collapse, Unit};

/// Bytes of the header; scripts follow it.
pub(super) const HEADER_LEN: u64 = 512;

/// Bytes of the records, each in a sector of its own.
pub(super) const RECORDS_LEN: u64 = 4096;

/// Alignment of the records.
const ALIGN: u64 = 4096;
const MAGIC: &[u8; 8] = b"baridMBJ";
const VERSION: u32 = 2;
const HAS_PENDING: u32 = 1;
const IN_PLACE: u32 = 2;

/// Fingerprint of the end of a file: a number of bytes and their XXH3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TailHash {
    /// Number of bytes.
    pub(super) len: u64,
    /// XXH3 of them.
    pub(super) hash: u64,
}

/// Identity of the file that a journal belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// Its inode.
    pub(super) inode: u64,
    path: [u8; ORIGIN_PATH_LEN],
}

impl Origin {
    /// Creates the identity of the file with this inode and path; a path that is too long is left
    /// out.
    pub(super) fn of(inode: u64, path: &[u8]) -> Self {
        let mut kept = [0; ORIGIN_PATH_LEN];
        if let Some(room) = kept.get_mut(..path.len()) {
            room.copy_from_slice(path);
        }
        Self { inode, path: kept }
    }

    /// Decodes [`Origin::put`].
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self { inode: u64_at(bytes, 0), path: *bytes.get(8..)?.first_chunk()? })
    }

    /// Encodes inode and path into the header of a journal.
    pub(super) fn put(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.inode.to_le_bytes());
        out[8..][..ORIGIN_PATH_LEN].copy_from_slice(&self.path);
    }

    /// Returns the path of the file when the journal was written, if it is known.
    pub(super) fn path(&self) -> Option<&Path> {
        let len = self.path.iter().position(|byte| *byte == 0).unwrap_or(self.path.len());
        (len > 0).then(|| Path::new(OsStr::from_bytes(&self.path[..len])))
    }
}

/// Content of the first sector of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heading {
    /// Nothing was written, or too little for a header.
    Nothing,
    /// Bytes that no journal begins with.
    Foreign,
    /// A journal of another version.
    Version(u32),
    /// A journal whose header is damaged.
    Damaged,
    /// A journal.
    Journal(Box<JournalHeader>),
    /// The journal of an append.
    Append(Box<IntentHeader>),
}

impl Heading {
    /// Parses the beginning of a file.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let Some(bytes) = bytes.first_chunk::<{ HEADER_LEN as usize }>() else {
            let has_magic = bytes.starts_with(MAGIC) || bytes.starts_with(intent::MAGIC);
            let is_ours = has_magic || bytes.iter().all(|byte| *byte == 0);
            return if is_ours { Self::Nothing } else { Self::Foreign };
        };
        if bytes.iter().all(|byte| *byte == 0) {
            return Self::Nothing;
        }
        if bytes.starts_with(intent::MAGIC) {
            return match (u64_at(bytes, 8) as u32, IntentHeader::from_bytes(bytes)) {
                (_, Some(header)) => Self::Append(Box::new(header)),
                (intent::VERSION, None) => Self::Damaged,
                (version, None) => Self::Version(version),
            };
        }
        if !bytes.starts_with(MAGIC) {
            return Self::Foreign;
        }
        match (u64_at(bytes, 8) as u32, JournalHeader::from_bytes(bytes)) {
            (_, Some(header)) => Self::Journal(Box::new(header)),
            (VERSION, None) => Self::Damaged,
            (version, None) => Self::Version(version),
        }
    }
}

/// Header of a journal: the properties of the whole change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JournalHeader {
    /// Random id; records and the mailbox's attribute repeat it.
    pub(super) id: [u8; 16],
    /// Identity of the mailbox.
    pub(super) origin: Origin,
    /// Bytes of the mailbox before the change.
    pub(super) old_size: u64,
    /// Bytes of the mailbox before the change, without the collapsed ranges.
    pub(super) base_size: u64,
    /// Bytes of the mailbox after the change.
    pub(super) new_size: u64,
    /// See [`SyncContext::pending_through`](barid_mailbox::SyncContext::pending_through).
    pub(super) pending_through: Option<u64>,
    /// `true` if bytes change only in place, so that the file is readable at every moment.
    pub(super) is_in_place: bool,
    /// Bytes of all scripts.
    pub(super) scripts_len: u64,
    /// Number of units, which follow the scripts.
    pub(super) units: u64,
    /// Number of collapses, which follow the units.
    pub(super) collapses: u64,
    /// XXH3 of scripts, units and collapses.
    pub(super) plan_hash: u64,
    /// Bytes reserved for a window.
    pub(super) window_cap: u64,
    /// Fingerprint of the end of the old file.
    pub(super) tail: TailHash,
    /// Fingerprint of the bytes that are cut off at the end, or of the last of them.
    pub(super) cut: TailHash,
    /// Parameters by which units are grouped into steps.
    pub(super) params: StepParams,
}

impl JournalHeader {
    /// Returns the offset of the units.
    pub(super) fn units_at(&self) -> u64 {
        HEADER_LEN + self.scripts_len
    }

    /// Returns the offset of the records, which follow the plan.
    pub(super) fn records_at(&self) -> u64 {
        self.plan_end().next_multiple_of(ALIGN)
    }

    /// Returns the offset of the end of the plan.
    pub(super) fn plan_end(&self) -> u64 {
        let units = self.units * Unit::LEN as u64;
        self.units_at() + units + self.collapses * Collapse::LEN as u64
    }

    /// Returns the offset of the window.
    pub(super) fn window_at(&self) -> u64 {
        self.records_at() + RECORDS_LEN
    }

    /// Returns the offset of saved mail that others delivered meanwhile.
    pub(super) fn foreign_at(&self) -> u64 {
        self.window_at() + self.window_cap
    }

    /// Returns the size that the file has while bytes are moved.
    pub(super) fn working_size(&self) -> u64 {
        self.base_size.max(self.new_size)
    }

    /// Encodes the header.
    pub(super) fn to_bytes(self) -> [u8; HEADER_LEN as usize] {
        let mut bytes = [0; HEADER_LEN as usize];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let mut bits = 0;
        if self.pending_through.is_some() {
            bits |= HAS_PENDING;
        }
        if self.is_in_place {
            bits |= IN_PLACE;
        }
        bytes[12..16].copy_from_slice(&bits.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.id);
        let words = [
            self.old_size,
            self.base_size,
            self.new_size,
            self.pending_through.unwrap_or_default(),
            self.scripts_len,
            self.units,
            self.collapses,
            self.plan_hash,
            self.window_cap,
            self.tail.len,
            self.tail.hash,
            self.cut.len,
            self.cut.hash,
            self.params.window_len,
            self.params.direct_len_min,
            self.params.direct_len_max,
        ];
        put_words(&mut bytes[32..], &words);
        self.origin.put(&mut bytes[ORIGIN_AT..]);
        let hash = xxh3_64(&bytes[..HASH_AT]);
        bytes[HASH_AT..].copy_from_slice(&hash.to_le_bytes());
        bytes
    }

    /// Decodes [`JournalHeader::to_bytes`]; `None` for damage, another version or absurd numbers.
    pub(super) fn from_bytes(bytes: &[u8; HEADER_LEN as usize]) -> Option<Self> {
        let is_whole = u64_at(bytes, HASH_AT) == xxh3_64(&bytes[..HASH_AT]);
        let version = u64_at(bytes, 8) as u32;
        if !is_whole || !bytes.starts_with(MAGIC) || version != VERSION {
            return None;
        }
        let bits = (u64_at(bytes, 8) >> 32) as u32;
        let word = |at: usize| u64_at(bytes, 32 + at * 8);
        let header = Self {
            id: bytes[16..32].try_into().ok()?,
            origin: Origin::from_bytes(&bytes[ORIGIN_AT..])?,
            old_size: word(0),
            base_size: word(1),
            new_size: word(2),
            pending_through: (bits & HAS_PENDING != 0).then(|| word(3)),
            is_in_place: bits & IN_PLACE != 0,
            scripts_len: word(4),
            units: word(5),
            collapses: word(6),
            plan_hash: word(7),
            window_cap: word(8),
            tail: TailHash { len: word(9), hash: word(10) },
            cut: TailHash { len: word(11), hash: word(12) },
            params: StepParams {
                window_len: word(13),
                direct_len_min: word(14),
                direct_len_max: word(15),
            },
        };
        let is_sane = header.units <= UNITS_CLAIMED_MAX
            && header.collapses <= COLLAPSES_MAX as u64
            && header.scripts_len <= 1 << 56
            && header.window_cap <= 1 << 56;
        is_sane.then_some(header)
    }
}

/// Offset in the header of a journal of the identity of its mailbox.
pub(super) const ORIGIN_AT: usize = 160;

/// Offset in the header of a journal of its own hash.
pub(super) const HASH_AT: usize = HEADER_LEN as usize - 8;

/// Kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// Number of ranges that have been collapsed.
    Collapsed,
    /// The file has the size that it needs while bytes are moved.
    Grown,
    /// A window: the step, the number of new bytes, the number of all bytes with the hashes of the
    /// pieces that they replace, and the XXH3 of all.
    Window,
    /// All bytes are in their new place.
    Moved,
    /// Mail delivered by others is in the journal: bytes, their hash, and the state of its return
    /// (see `foreign.rs`).
    Foreign,
    /// The change is complete.
    Commit,
}

impl RecordKind {
    /// All kinds, in the order of their sectors.
    pub(super) const ALL: [Self; 6] =
        [Self::Collapsed, Self::Grown, Self::Window, Self::Moved, Self::Foreign, Self::Commit];

    /// Returns the offset of its sector among the records.
    pub(super) fn offset(self) -> u64 {
        self as u64 * 512
    }
}

/// Bytes of a record.
pub(super) const RECORD_LEN: usize = 64;

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JournalRecord {
    /// Kind of the record.
    pub(super) kind: RecordKind,
    /// Numbers; their meaning depends on the kind.
    pub(super) words: [u64; 4],
}

impl JournalRecord {
    /// Encodes the record, bound to the journal `id`.
    pub(super) fn to_bytes(self, id: &[u8; 16]) -> [u8; RECORD_LEN] {
        let mut bytes = [0; RECORD_LEN];
        bytes[..4].copy_from_slice(b"REC ");
        bytes[4..8].copy_from_slice(&(self.kind as u32 + 1).to_le_bytes());
        bytes[8..24].copy_from_slice(id);
        put_words(&mut bytes[24..], &self.words);
        let hash = xxh3_64(&bytes[..56]);
        bytes[56..].copy_from_slice(&hash.to_le_bytes());
        bytes
    }

    /// Decodes [`JournalRecord::to_bytes`]; `None` unless it is a record of `kind` of this journal.
    pub(super) fn from_bytes(bytes: &[u8], kind: RecordKind, id: &[u8; 16]) -> Option<Self> {
        let bytes: &[u8; RECORD_LEN] = bytes.get(..RECORD_LEN)?.try_into().ok()?;
        let words = [24, 32, 40, 48].map(|at| u64_at(bytes, at));
        let record = Self { kind, words };
        (record.to_bytes(id) == *bytes).then_some(record)
    }
}

/// Writes little-endian numbers in sequence.
pub(super) fn put_words(out: &mut [u8], words: &[u64]) {
    for (out, word) in out.chunks_exact_mut(8).zip(words) {
        out.copy_from_slice(&word.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> JournalHeader {
        JournalHeader {
            id: *b"0123456789abcdef",
            origin: Origin::of(77, b"/mail/box"),
            old_size: 100,
            base_size: 90,
            new_size: 120,
            pending_through: Some(0),
            is_in_place: true,
            scripts_len: 7,
            units: 2,
            collapses: 1,
            plan_hash: 42,
            window_cap: 1000,
            tail: TailHash { len: 1, hash: 2 },
            cut: TailHash { len: 3, hash: 4 },
            params: StepParams { window_len: 5, direct_len_min: 6, direct_len_max: 7 },
        }
    }

    #[test]
    fn a_header_is_read_back_and_nothing_else_is_one() {
        for header in
            [header(), JournalHeader { pending_through: None, is_in_place: false, ..header() }]
        {
            let bytes = header.to_bytes();
            assert_eq!(JournalHeader::from_bytes(&bytes), Some(header));
            for at in 0..bytes.len() {
                let mut torn = bytes;
                torn[at] ^= 1;
                assert_eq!(JournalHeader::from_bytes(&torn), None, "byte {at}");
            }
        }
        assert_eq!(JournalHeader::from_bytes(&[0; 512]), None);
        assert_eq!(header().origin.path(), Some(Path::new("/mail/box")));
        assert_eq!(Origin::of(1, &[b'x'; 257]).path(), None);
        assert_eq!(Heading::of(&[0; 600]), Heading::Nothing);
        assert_eq!(Heading::of(b""), Heading::Nothing);
        assert_eq!(Heading::of(b"From a@b"), Heading::Foreign);
        assert_eq!(Heading::of(&[b'x'; 512]), Heading::Foreign);
        let mut bytes = header().to_bytes();
        assert_eq!(Heading::of(&bytes), Heading::Journal(Box::new(header())));
        bytes[40] ^= 1;
        assert_eq!(Heading::of(&bytes), Heading::Damaged);
        bytes[8] = 9;
        assert_eq!(Heading::of(&bytes), Heading::Version(9));
        assert_eq!(header().records_at(), 4096);
        assert_eq!(header().foreign_at(), 4096 + 4096 + 1000);
    }

    #[test]
    fn a_record_is_bound_to_its_kind_and_its_journal() {
        let id = *b"0123456789abcdef";
        for kind in RecordKind::ALL {
            let record = JournalRecord { kind, words: [1, 2, 3, u64::MAX] };
            let bytes = record.to_bytes(&id);
            for other in RecordKind::ALL {
                let found = JournalRecord::from_bytes(&bytes, other, &id);
                assert_eq!(found, (other == kind).then_some(record));
            }
            assert_eq!(JournalRecord::from_bytes(&bytes, kind, b"fedcba9876543210"), None);
            assert!(kind.offset() + 512 <= RECORDS_LEN);
        }
    }
}
