//! The note of an unfinished move, in the state folder (`docs/formats/move-note.md`).
//!
//! It is durable before the first message is copied, and removed when the last is expunged. So a
//! message of the source that no note names has no copy in the target that a move has made.

use barid_types::{Uid, UidSet};
use barid_vfs::le::PutLe as _;
use xxhash_rust::xxh3::xxh3_128;

use super::locked_note::{opened, sealed};
use crate::limits::MOVE_NOTE_RANGES_MAX;

const MAGIC: &[u8; 8] = b"barid-mv";
const VERSION: u32 = 1;

/// The messages that a move began to copy, and where their copies can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MoveNote {
    /// The identity of the source.
    pub(super) source: u128,
    /// Its UIDVALIDITY.
    pub(super) source_validity: u32,
    /// The identity of the target.
    pub(super) target: u128,
    /// Its UIDVALIDITY.
    pub(super) target_validity: u32,
    /// UIDNEXT of the target before the first copy: the copies have this UID or higher ones.
    pub(super) uidnext: u32,
    /// The messages of the source.
    pub(super) uids: UidSet,
}

impl MoveNote {
    /// Returns the name of the note for a pair of mailboxes.
    pub(super) fn name(source: u128, target: u128) -> String {
        let pair = [source.to_le_bytes(), target.to_le_bytes()].concat();
        format!("move-{:032x}", xxh3_128(&pair))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        // Of very many ranges the last ones are joined: more messages are compared than need be.
        let ranges = self.uids.ranges();
        let (single, joined) = ranges.split_at(ranges.len().min(MOVE_NOTE_RANGES_MAX - 1));
        let joined = joined.first().zip(joined.last()).map(|(first, last)| (first.0, last.1));
        let ranges = single.iter().copied().chain(joined);
        sealed(MAGIC, VERSION, |out| {
            out.put_u32(self.source_validity);
            out.put_u128(self.source);
            out.put_u32(self.target_validity);
            out.put_u32(self.uidnext);
            out.put_u128(self.target);
            out.put_u64(ranges.clone().count() as u64);
            for (first, last) in ranges {
                out.put_u32(first.get());
                out.put_u32(last.get());
            }
        })
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = opened(bytes, MAGIC, VERSION)?;
        let (source_validity, source) = (rest.u32()?, rest.u128()?);
        let (target_validity, uidnext) = (rest.u32()?, rest.u32()?);
        let target = rest.u128()?;
        let count = rest.u64()?;
        if count.checked_mul(8)? != rest.0.len() as u64 {
            return None;
        }
        let mut uids = UidSet::new();
        for _ in 0..count {
            let (first, last) = (Uid::new(rest.u32()?)?, Uid::new(rest.u32()?)?);
            uids.insert_range(first, last);
        }
        Some(Self { source, source_validity, target, target_validity, uidnext, uids })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> MoveNote {
        let uids = [3, 4, 5, 9].into_iter().filter_map(Uid::new).collect();
        let (source, target) = (7 << 64 | 9, 11);
        MoveNote { source, source_validity: 5, target, target_validity: 6, uidnext: 70, uids }
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let bytes = note().encode();
        assert_eq!(MoveNote::decode(&bytes), Some(note()));
        for at in 0..bytes.len() {
            assert_eq!(MoveNote::decode(&bytes[..at]), None, "cut at {at}");
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_eq!(MoveNote::decode(&other), None, "another byte at {at}");
        }
    }

    #[test]
    fn the_layout_is_what_it_was() {
        let hex: String = note().encode().iter().map(|byte| format!("{byte:02x}")).collect();
        let (body, _) = hex.split_at(hex.len() - 16);
        assert_eq!(
            body,
            "62617269642d6d76\
             01000000\
             05000000\
             09000000000000000700000000000000\
             06000000\
             46000000\
             0b000000000000000000000000000000\
             0200000000000000\
             03000000050000000900000009000000"
        );
    }

    #[test]
    fn very_many_ranges_are_joined() {
        let count = MOVE_NOTE_RANGES_MAX as u32 + 5;
        let uids = (1..=count).filter_map(|at| Uid::new(2 * at)).collect();
        let read = MoveNote::decode(&MoveNote { uids, ..note() }.encode()).unwrap();
        assert_eq!(read.uids.ranges().len(), MOVE_NOTE_RANGES_MAX);
        assert!(read.uids.contains(Uid::new(2 * count).unwrap()));
    }
}
