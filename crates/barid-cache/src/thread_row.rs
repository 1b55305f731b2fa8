//! The threading data of a message (`docs/formats/cache.md`, "Thread row").

use xxhash_rust::xxh3::xxh3_128_with_seed;

use barid_vfs::le::{u16_at, u32_at, u64_at};

/// A message id or base subject, hashed with the cache's own random seed.
///
/// Two ids with equal `hash` and different `check` collide: the caller then compares the texts
/// ([`crate::Snapshot::record`]). Different texts with equal `hash` and `check` are not expected
/// (96 bits, seeded).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdHash {
    /// The hash.
    pub hash: u64,
    /// A second, independent hash.
    pub check: u32,
}

impl IdHash {
    /// Hashes a normalised id or base subject.
    pub fn of(seed: u64, bytes: &[u8]) -> Self {
        let wide = xxh3_128_with_seed(bytes, seed);
        Self { hash: wide as u64, check: (wide >> 64) as u32 }
    }

    /// Returns `true` if two different ids share a hash.
    pub fn collides_with(&self, other: &Self) -> bool {
        self.hash == other.hash && self.check != other.check
    }

    pub(crate) fn encode(self) -> [u8; REFERENCE_ROW_LEN] {
        let mut row = [0; REFERENCE_ROW_LEN];
        row[..8].copy_from_slice(&self.hash.to_le_bytes());
        row[8..].copy_from_slice(&self.check.to_le_bytes());
        row
    }

    pub(crate) fn decode(row: &[u8]) -> Self {
        Self { hash: u64_at(row, 0), check: u32_at(row, 8) }
    }
}

/// Bytes of a reference row.
pub(crate) const REFERENCE_ROW_LEN: usize = 12;
/// Bytes of a thread row.
pub(crate) const THREAD_ROW_LEN: usize = 40;

const BIT_MESSAGE_ID: u16 = 1;
const BIT_SUBJECT: u16 = 2;
const BIT_REPLY: u16 = 4;

/// A thread row as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadRow {
    pub(crate) message_id: Option<IdHash>,
    pub(crate) subject: Option<IdHash>,
    pub(crate) is_reply: bool,
    pub(crate) date: i64,
    pub(crate) references_start: u32,
    pub(crate) references_count: u16,
}

impl ThreadRow {
    pub(crate) fn encode(&self) -> [u8; THREAD_ROW_LEN] {
        let mut row = [0; THREAD_ROW_LEN];
        let bit = |set: bool, bit: u16| if set { bit } else { 0 };
        let bits = bit(self.message_id.is_some(), BIT_MESSAGE_ID)
            | bit(self.subject.is_some(), BIT_SUBJECT)
            | bit(self.is_reply, BIT_REPLY);
        row[0..12].copy_from_slice(&self.message_id.unwrap_or_default().encode());
        row[12..24].copy_from_slice(&self.subject.unwrap_or_default().encode());
        row[24..28].copy_from_slice(&self.references_start.to_le_bytes());
        row[28..30].copy_from_slice(&self.references_count.to_le_bytes());
        row[30..32].copy_from_slice(&bits.to_le_bytes());
        row[32..40].copy_from_slice(&self.date.to_le_bytes());
        row
    }

    /// Moves the references of an encoded row, which were numbered from 0, to `first`.
    pub(crate) fn renumber(row: &mut [u8], first: u32) {
        let start = u32_at(row, 24).saturating_add(first);
        row[24..28].copy_from_slice(&start.to_le_bytes());
    }

    pub(crate) fn decode(row: &[u8]) -> Self {
        let bits = u16_at(row, 30);
        let id = |bit: u16, at: usize| (bits & bit != 0).then(|| IdHash::decode(&row[at..]));
        Self {
            message_id: id(BIT_MESSAGE_ID, 0),
            subject: id(BIT_SUBJECT, 12),
            is_reply: bits & BIT_REPLY != 0,
            date: u64_at(row, 32).cast_signed(),
            references_start: u32_at(row, 24),
            references_count: u16_at(row, 28),
        }
    }
}

/// The threading data of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadView<'a> {
    /// Its message id, if it has a valid one.
    pub message_id: Option<IdHash>,
    /// Its base subject (RFC 5256 §2.1), unless that is empty.
    pub subject: Option<IdHash>,
    /// `true` if the subject is that of a reply or forward.
    pub is_reply: bool,
    /// Its sent date, or the internal date; seconds since 1970.
    pub date: i64,
    /// The valid ids of References, else the first valid one of In-Reply-To.
    pub references: &'a [IdHash],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(row: ThreadRow) {
        assert_eq!(ThreadRow::decode(&row.encode()), row);
    }

    #[test]
    fn rows_come_back() {
        let id = |hash, check| Some(IdHash { hash, check });
        check(ThreadRow::default());
        check(ThreadRow {
            message_id: id(1, u32::MAX),
            subject: id(u64::MAX, 2),
            is_reply: true,
            date: -5,
            references_start: 7,
            references_count: 8,
        });
        check(ThreadRow { subject: id(0, 0), date: i64::MAX, ..ThreadRow::default() });
    }

    #[test]
    fn a_collision_shows() {
        let (one, two) = (IdHash::of(1, b"<a@b>"), IdHash::of(1, b"<c@d>"));
        assert!(one != two && !one.collides_with(&two) && !one.collides_with(&one));
        assert!(one.collides_with(&IdHash { hash: one.hash, check: two.check }));
        assert_ne!(one, IdHash::of(2, b"<a@b>"), "the seed matters");
    }
}
