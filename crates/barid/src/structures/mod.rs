//! Structures of messages that were read once, stored beside the cache.
//!
//! They are found by UID and UIDVALIDITY, so they outlive the rows of the cache; the hash of the
//! header and the length of the body prove that a message is the one that was read. The file may
//! vanish at any moment and contains only requested structures (`docs/formats/derived.md`).

mod codec;

use std::ops::Range;

use barid_cache::Core;
use barid_types::{BodyStructure, Uid};
use barid_vfs::le::{LeReader, PutLe};

use crate::kept::DerivedSnapshot;
use crate::limits::{STRUCTURE_LEN_MAX, STRUCTURES_KEPT_PART, STRUCTURES_LEN_MAX};
use crate::view::{View, check_of};

const KIND: &str = "structures";
/// Bytes of UIDVALIDITY and count.
const HEAD_LEN: usize = 8;
/// Bytes of an entry: UID, check, end of its structure.
const ENTRY_LEN: usize = 12;
/// Maximum bytes of a file that are read: twice the bytes of structures, to include entries.
const FILE_LEN_MAX: u64 = 2 * STRUCTURES_LEN_MAX as u64;

/// Structures, by UID.
#[derive(Debug, Default)]
pub(crate) struct Structures {
    bytes: Vec<u8>,
    count: usize,
}

/// New structures, to be stored.
#[derive(Debug, Default)]
pub(crate) struct NewStructures {
    entries: Vec<(Uid, u32, Range<usize>)>,
    encoded: Vec<u8>,
}

impl NewStructures {
    /// Adds the structure of a message; structures beyond the limits are left out.
    pub(crate) fn add(&mut self, core: &Core, structure: &BodyStructure) {
        let start = self.encoded.len();
        codec::encode(structure, &mut self.encoded);
        let end = self.encoded.len();
        if end - start > STRUCTURE_LEN_MAX || end > STRUCTURES_LEN_MAX {
            return self.encoded.truncate(start);
        }
        self.entries.push((core.uid, check_of(core), start..end));
    }

    /// Adds the structures of another thread.
    pub(crate) fn append(&mut self, other: Self) {
        let start = self.encoded.len();
        if start + other.encoded.len() <= STRUCTURES_LEN_MAX {
            self.encoded.extend_from_slice(&other.encoded);
            let moved = |(uid, check, range): (Uid, u32, Range<usize>)| {
                (uid, check, range.start + start..range.end + start)
            };
            self.entries.extend(other.entries.into_iter().map(moved));
        }
    }
}

impl Structures {
    /// Returns the structure of a message, if it is stored.
    pub(crate) fn of(&self, core: &Core) -> Option<BodyStructure> {
        let at = self.place(core.uid).ok()?;
        let (_, check, range) = self.entry(at)?;
        (check == check_of(core)).then(|| codec::decode(self.bytes.get(range)?))?
    }

    fn from_bytes(bytes: Vec<u8>, uidvalidity: u32) -> Option<Self> {
        let mut take = LeReader(&bytes);
        let (same, count) = (take.u32()? == uidvalidity, take.u32()? as usize);
        let has_all = count.checked_mul(ENTRY_LEN)? <= take.0.len();
        (same && has_all).then_some(Self { bytes, count })
    }

    /// Returns UID, check, and range of the structure of an entry.
    fn entry(&self, at: usize) -> Option<(u32, u32, Range<usize>)> {
        let words = |at: usize| self.bytes.get(HEAD_LEN + at * ENTRY_LEN..).map(LeReader);
        let first = HEAD_LEN + self.count * ENTRY_LEN;
        let start = match at.checked_sub(1) {
            Some(before) => {
                let mut entry = words(before)?;
                (entry.u64()?, entry.u32()?).1 as usize
            }
            None => 0,
        };
        let mut entry = words(at)?;
        let (uid, check, end) = (entry.u32()?, entry.u32()?, entry.u32()? as usize);
        Some((uid, check, first + start..first + end))
    }

    /// Returns the index of the entry of a UID, or the index where it would be inserted.
    fn place(&self, uid: Uid) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            match self.entry(middle).map(|(found, ..)| found.cmp(&uid.get())) {
                Some(std::cmp::Ordering::Less) => low = middle + 1,
                Some(std::cmp::Ordering::Equal) => return Ok(middle),
                _ => high = middle,
            }
        }
        Err(low)
    }

    /// Serializes these and new structures, without those of messages for which `is_there` is
    /// `false`.
    fn with(
        &self,
        new: &NewStructures,
        uidvalidity: u32,
        is_there: &dyn Fn(u32) -> bool,
    ) -> Vec<u8> {
        let mut all: Vec<(u32, u32, &[u8])> = Vec::new();
        for (uid, check, range) in &new.entries {
            all.push((uid.get(), *check, &new.encoded[range.clone()]));
        }
        for (uid, check, range) in (0..self.count).filter_map(|at| self.entry(at)) {
            all.extend(self.bytes.get(range).map(|encoded| (uid, check, encoded)));
        }
        // The sort is stable: of two for one message the new one stays.
        all.sort_by_key(|(uid, ..)| *uid);
        all.dedup_by_key(|(uid, ..)| *uid);
        all.retain(|(uid, ..)| is_there(*uid));
        let mut end = 0;
        let fits = |(_, _, encoded): &&(u32, u32, &[u8])| {
            end += encoded.len();
            end <= STRUCTURES_LEN_MAX
        };
        let kept = all.iter().take_while(fits).count();
        let mut out = Vec::new();
        out.put_u32(uidvalidity);
        out.put_u32(kept as u32);
        let mut end = 0;
        for (uid, check, encoded) in &all[..kept] {
            end += encoded.len() as u32;
            out.put_u32(*uid);
            out.put_u32(*check);
            out.put_u32(end);
        }
        all[..kept].iter().for_each(|(.., encoded)| out.extend_from_slice(encoded));
        out
    }
}

impl View {
    /// Loads the stored structures; none if the file is missing or damaged.
    pub(crate) fn structures(&self) -> Structures {
        let uidvalidity = self.snapshot.meta().uidvalidity.get();
        let bytes = self.kept_structures().load_lasting(FILE_LEN_MAX);
        bytes.and_then(|bytes| Structures::from_bytes(bytes, uidvalidity)).unwrap_or_default()
    }

    /// Stores new structures, if they are many compared with the stored ones.
    pub(crate) fn keep_structures(&self, new: &NewStructures) {
        if new.entries.is_empty() || !self.place.on_disk {
            return;
        }
        let old = self.structures();
        if new.entries.len() < old.count / STRUCTURES_KEPT_PART {
            return;
        }
        let Ok(uids) = self.uids() else { return };
        let is_there = |uid: u32| uids.binary_search(&uid).is_ok();
        let uidvalidity = self.snapshot.meta().uidvalidity.get();
        self.kept_structures().store(old.with(new, uidvalidity, &is_there));
    }

    fn kept_structures(&self) -> DerivedSnapshot<'_> {
        DerivedSnapshot::new(&self.place, &self.snapshot, KIND.to_owned())
    }
}
