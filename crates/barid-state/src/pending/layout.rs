//! The bytes of a journal of pending changes; `docs/formats/pending.md` is their map.

use barid_types::{FlagSet, Keyword, ModSeq, Uid, UidValidity};
use barid_vfs::le::{LeReader, u32_at, u64_at};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::{FlagDelta, PendingChange, PendingKind, PendingRecord};
use crate::MessageKey;
use crate::bytes::has_unwritten_sector;

/// The two versions of the layout. New files have the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingLayout {
    /// Version 1: a batch has one checksum, which cannot distinguish a damaged length from a torn
    /// batch.
    One,
    /// Version 2: the head of a batch has its own checksum, and the batch ends with [`BATCH_END`].
    Two,
}

impl PendingLayout {
    pub(super) fn header_len(self) -> usize {
        match self {
            Self::One => 64,
            Self::Two => 72,
        }
    }

    fn batch_head_len(self) -> usize {
        match self {
            Self::One => 32,
            Self::Two => BATCH_HEAD_LEN,
        }
    }

    fn end(self) -> &'static [u8] {
        match self {
            Self::One => b"",
            Self::Two => BATCH_END,
        }
    }
}

/// The smallest and the largest length of a header in any version, in bytes.
const HEADER_LEN_MIN: usize = 64;
const HEADER_LEN_MAX: usize = 4096;

const HEADER_MAGIC: &[u8; 8] = b"baridPND";
const BATCH_MAGIC: &[u8; 4] = b"PBAT";

/// The end of every batch, so that no sector of a whole batch is all zeros.
const BATCH_END: &[u8; 4] = b"PEND";

const BATCH_HEAD_LEN: usize = 40;
/// Bytes of the head of a batch before its checksums.
const CHECKED_LEN: usize = 24;
const RECORD_HEAD_LEN: usize = 44;

const FLAGS: u8 = 1;
const EXPUNGE: u8 = 2;

/// A parsed header.
pub(super) enum PendingHeader {
    /// A journal of this mailbox.
    Good(PendingLayout, Identified),
    /// A journal of a later version.
    Version(u32),
    /// Not a journal, damaged, or of another mailbox.
    Bad,
}

/// Fields of a header other than the mailbox's identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Identified {
    /// The random number of the file, which seeds the checksums of its batches.
    pub(super) random: u64,
    /// The random number in the second name of an earlier, damaged file; 0 if none is kept.
    pub(super) aside: u32,
    /// Estimated number of changes that were lost with that file.
    pub(super) lost: u32,
}

pub(super) fn header(id: u128, identified: &Identified, created_nanos: i64) -> Vec<u8> {
    let len = PendingLayout::Two.header_len();
    let mut bytes = Vec::with_capacity(len);
    bytes.extend(HEADER_MAGIC);
    bytes.extend(2_u32.to_le_bytes());
    bytes.extend((len as u32).to_le_bytes());
    bytes.extend(id.to_le_bytes());
    bytes.extend(identified.random.to_le_bytes());
    bytes.extend(created_nanos.to_le_bytes());
    bytes.extend(identified.aside.to_le_bytes());
    bytes.extend(identified.lost.to_le_bytes());
    bytes.extend(identified.random.to_le_bytes());
    bytes.extend(xxh3_64(&bytes).to_le_bytes());
    bytes
}

pub(super) fn read_header(bytes: &[u8], id: u128) -> PendingHeader {
    if bytes.len() < HEADER_LEN_MIN || !bytes.starts_with(HEADER_MAGIC) {
        return PendingHeader::Bad;
    }
    // Every version has the length here and the checksum at the end.
    let len = u32_at(bytes, 12) as usize;
    let header = bytes.get(..len).filter(|_| (HEADER_LEN_MIN..=HEADER_LEN_MAX).contains(&len));
    let is_whole = header.is_some_and(|header| {
        let (body, hash) = header.split_at(len - 8);
        u64_at(hash, 0) == xxh3_64(body)
    });
    let layout = match u32_at(bytes, 8) {
        _ if !is_whole => return PendingHeader::Bad,
        1 => PendingLayout::One,
        2 => PendingLayout::Two,
        version => return PendingHeader::Version(version),
    };
    if len != layout.header_len() || bytes[16..32] != id.to_le_bytes() {
        return PendingHeader::Bad;
    }
    let mut identified = Identified { random: u64_at(bytes, 32), ..Identified::default() };
    if layout == PendingLayout::Two {
        (identified.aside, identified.lost) = (u32_at(bytes, 48), u32_at(bytes, 52));
    }
    PendingHeader::Good(layout, identified)
}

/// Returns the layout and the random number of a file whose header is damaged, if a batch confirms
/// them.
pub(super) fn salvage(bytes: &[u8]) -> Option<(PendingLayout, u64)> {
    let places = [(PendingLayout::Two, 32), (PendingLayout::Two, 56), (PendingLayout::One, 32)];
    places.into_iter().find_map(|(layout, at)| {
        let random = u64_at(bytes.get(..layout.header_len())?, at);
        find_batch(bytes, layout.header_len(), layout, random).map(|_| (layout, random))
    })
}

/// Appends a batch of records whose sequence numbers follow each other.
pub(super) fn put_batch(out: &mut Vec<u8>, random: u64, records: &[PendingRecord]) {
    let Some(first) = records.first() else { return };
    let start = out.len();
    out.extend(BATCH_MAGIC);
    out.extend([0; 4]);
    out.extend(first.sequence.to_le_bytes());
    out.extend((records.len() as u32).to_le_bytes());
    out.extend([0; 4 + 16]);
    for record in records {
        put_record(out, &record.change);
    }
    let payload_len = (out.len() - start - BATCH_HEAD_LEN) as u32;
    out[start + 4..start + 8].copy_from_slice(&payload_len.to_le_bytes());
    let head = xxh3_64_with_seed(&out[start..start + CHECKED_LEN], random);
    let payload = xxh3_64_with_seed(&out[start + BATCH_HEAD_LEN..], head);
    out[start + CHECKED_LEN..start + CHECKED_LEN + 8].copy_from_slice(&head.to_le_bytes());
    out[start + CHECKED_LEN + 8..start + BATCH_HEAD_LEN].copy_from_slice(&payload.to_le_bytes());
    out.extend(BATCH_END);
}

/// Returns the length in bytes of the batch at the start of `bytes`, if its head is whole. In
/// version 1 the head has no checksum.
fn batch_len(bytes: &[u8], layout: PendingLayout, random: u64) -> Option<usize> {
    let head = bytes.get(..layout.batch_head_len()).filter(|head| head.starts_with(BATCH_MAGIC))?;
    let is_whole = match layout {
        PendingLayout::One => true,
        PendingLayout::Two => {
            u64_at(head, CHECKED_LEN) == xxh3_64_with_seed(&head[..CHECKED_LEN], random)
        }
    };
    let len = (head.len() + layout.end().len()).checked_add(u32_at(head, 4) as usize);
    len.filter(|_| is_whole)
}

/// Returns `true` if the payload of a batch has the checksum in its head.
fn is_payload_whole(batch: &[u8], layout: PendingLayout, random: u64) -> bool {
    let (head, payload) = batch.split_at(layout.batch_head_len());
    let Some(payload) = payload.strip_suffix(layout.end()) else { return false };
    match layout {
        PendingLayout::One => {
            let payload = xxh3_64_with_seed(payload, random);
            u64_at(head, CHECKED_LEN) == xxh3_64_with_seed(&head[..CHECKED_LEN], payload)
        }
        PendingLayout::Two => {
            let seed = u64_at(head, CHECKED_LEN);
            u64_at(head, CHECKED_LEN + 8) == xxh3_64_with_seed(payload, seed)
        }
    }
}

/// Returns `true` if the batch at the start of `bytes`, the rest of a file from `offset` on, was
/// never whole on the disk: it is shorter than its head states or than any batch, or has a sector
/// of zeros.
pub(super) fn is_torn(bytes: &[u8], offset: usize, layout: PendingLayout, random: u64) -> bool {
    bytes.len() < layout.batch_head_len()
        || batch_len(bytes, layout, random).is_some_and(|len| len > bytes.len())
        || has_unwritten_sector(bytes, offset as u64)
}

/// Returns the most records that fit in `len` bytes.
pub(super) fn records_max(len: usize) -> u64 {
    (len / RECORD_HEAD_LEN) as u64
}

/// Returns the number of records that the head of a damaged batch names; 0 if the head is damaged.
pub(super) fn claimed(bytes: &[u8], layout: PendingLayout, random: u64) -> u64 {
    batch_len(bytes, layout, random).map_or(0, |_| u64::from(u32_at(bytes, 16)))
}

/// Parses the batch at the start of `bytes`: returns its records and its length in bytes, or `None`
/// if it is not whole.
pub(super) fn read_batch(
    bytes: &[u8],
    layout: PendingLayout,
    random: u64,
) -> Option<(Vec<PendingRecord>, usize)> {
    let len = batch_len(bytes, layout, random)?;
    let batch = bytes.get(..len).filter(|batch| is_payload_whole(batch, layout, random))?;
    let (first, count) = (u64_at(batch, 8), u32_at(batch, 16));
    let mut take = LeReader(&batch[layout.batch_head_len()..len - layout.end().len()]);
    // The count is not trusted: no memory is reserved for records that are not there.
    let mut records = Vec::new();
    for index in 0..u64::from(count) {
        let sequence = first.checked_add(index)?;
        records.push(PendingRecord { sequence, change: take_record(&mut take)? });
    }
    (take.0.is_empty() && !records.is_empty()).then_some((records, len))
}

/// Parses a batch that is all of `bytes`, replacing the length in its head by that of `bytes`.
/// Repairs a damaged length.
pub(super) fn read_batch_of_len(
    bytes: &[u8],
    layout: PendingLayout,
    random: u64,
) -> Option<Vec<PendingRecord>> {
    let overhead = layout.batch_head_len() + layout.end().len();
    let len = u32::try_from(bytes.len().checked_sub(overhead)?).ok()?;
    let mut batch = bytes.to_vec();
    batch[4..8].copy_from_slice(&len.to_le_bytes());
    read_batch(&batch, layout, random).map(|(records, _)| records)
}

/// Returns the offset of the first whole batch at `from` or later.
pub(super) fn find_batch(
    bytes: &[u8],
    from: usize,
    layout: PendingLayout,
    random: u64,
) -> Option<usize> {
    let places = from..bytes.len().saturating_sub(layout.batch_head_len() - 1);
    places.into_iter().find(|at| {
        bytes[*at..].starts_with(BATCH_MAGIC) && read_batch(&bytes[*at..], layout, random).is_some()
    })
}

fn put_record(out: &mut Vec<u8>, change: &PendingChange) {
    let nothing = FlagDelta::default();
    let (kind, delta) = match &change.kind {
        PendingKind::Flags(delta) => (FLAGS, delta),
        PendingKind::Expunge => (EXPUNGE, &nothing),
    };
    out.extend(change.uid.get().to_le_bytes());
    out.extend(change.uidvalidity.get().to_le_bytes());
    out.extend(change.key.0.to_le_bytes());
    out.extend(change.body_hash.to_le_bytes());
    out.extend(change.modseq.get().to_le_bytes());
    out.extend(change.ordinal.to_le_bytes());
    let (add, remove) = (names(&delta.add_keywords), names(&delta.remove_keywords));
    out.extend([kind, delta.add.bits(), delta.remove.bits(), 0]);
    out.extend([add.len() as u8, remove.len() as u8, 0, 0]);
    for keyword in add.iter().chain(remove) {
        out.push(keyword.as_str().len() as u8);
        out.extend(keyword.as_str().as_bytes());
    }
}

/// Returns the first 255 keywords, which is what a byte can count; a mailbox has at most 64.
fn names(keywords: &[Keyword]) -> &[Keyword] {
    &keywords[..keywords.len().min(usize::from(u8::MAX))]
}

fn take_record(take: &mut LeReader<'_>) -> Option<PendingChange> {
    let head = take.take(RECORD_HEAD_LEN)?;
    let mut keywords = |count: u8| -> Option<Vec<Keyword>> {
        let mut names = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let len = take.take(1)?[0];
            let name = std::str::from_utf8(take.take(usize::from(len))?).ok()?;
            names.push(Keyword::new(name)?);
        }
        Some(names)
    };
    let (add_keywords, remove_keywords) = (keywords(head[40])?, keywords(head[41])?);
    let delta = FlagDelta {
        add: FlagSet::from_bits(head[37]),
        remove: FlagSet::from_bits(head[38]),
        add_keywords,
        remove_keywords,
    };
    Some(PendingChange {
        uid: Uid::new(u32_at(head, 0))?,
        uidvalidity: UidValidity::new(u32_at(head, 4))?,
        key: MessageKey(u64_at(head, 8)),
        body_hash: u64_at(head, 16),
        modseq: ModSeq::new(u64_at(head, 24))?,
        ordinal: u32_at(head, 32),
        kind: match head[36] {
            FLAGS => PendingKind::Flags(delta),
            EXPUNGE => PendingKind::Expunge,
            _ => return None,
        },
    })
}
