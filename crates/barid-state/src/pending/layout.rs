//! The bytes of a journal of pending changes; `docs/formats/pending.md` is their map.

use barid_types::{FlagSet, Keyword, ModSeq, Uid, UidValidity};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::{FlagDelta, PendingChange, PendingKind, PendingRecord};
use crate::MessageKey;
use crate::bytes::{Take, u32_at, u64_at};

/// The version of the layout.
pub(super) const VERSION: u32 = 1;

const HEADER_MAGIC: &[u8; 8] = b"baridPND";
const BATCH_MAGIC: &[u8; 4] = b"PBAT";

pub(super) const HEADER_LEN: usize = 64;
const BATCH_HEAD_LEN: usize = 32;
const CHECKED_LEN: usize = BATCH_HEAD_LEN - 8;
const RECORD_HEAD_LEN: usize = 44;

const FLAGS: u8 = 1;
const EXPUNGE: u8 = 2;

/// What a header says.
pub(super) enum Header {
    /// A journal of this mailbox; its random number.
    Good(u64),
    /// One of a later version.
    Version(u32),
    /// No journal, or one of another mailbox.
    Bad,
}

pub(super) fn header(id: u128, random: u64, created_nanos: i64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_LEN);
    bytes.extend(HEADER_MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((HEADER_LEN as u32).to_le_bytes());
    bytes.extend(id.to_le_bytes());
    bytes.extend(random.to_le_bytes());
    bytes.extend(created_nanos.to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(xxh3_64(&bytes).to_le_bytes());
    bytes
}

pub(super) fn read_header(bytes: &[u8], id: u128) -> Header {
    let Some((header, _)) = bytes.split_at_checked(HEADER_LEN) else { return Header::Bad };
    if !header.starts_with(HEADER_MAGIC) || u64_at(header, 56) != xxh3_64(&header[..56]) {
        return Header::Bad;
    }
    match u32_at(header, 8) {
        VERSION if header[16..32] == id.to_le_bytes() => Header::Good(u64_at(header, 32)),
        VERSION => Header::Bad,
        version => Header::Version(version),
    }
}

/// Appends a batch of records whose sequence numbers follow each other.
pub(super) fn put_batch(out: &mut Vec<u8>, random: u64, records: &[PendingRecord]) {
    let Some(first) = records.first() else { return };
    let start = out.len();
    out.extend(BATCH_MAGIC);
    out.extend([0; 4]);
    out.extend(first.sequence.to_le_bytes());
    out.extend((records.len() as u32).to_le_bytes());
    out.extend([0; 12]);
    for record in records {
        put_record(out, &record.change);
    }
    let payload_len = (out.len() - start - BATCH_HEAD_LEN) as u32;
    out[start + 4..start + 8].copy_from_slice(&payload_len.to_le_bytes());
    let checksum = checksum(&out[start..], random);
    out[start + CHECKED_LEN..start + BATCH_HEAD_LEN].copy_from_slice(&checksum.to_le_bytes());
}

/// The checksum of a batch: of its head and its payload, bound to the file.
fn checksum(batch: &[u8], random: u64) -> u64 {
    let payload = xxh3_64_with_seed(&batch[BATCH_HEAD_LEN..], random);
    xxh3_64_with_seed(&batch[..CHECKED_LEN], payload)
}

/// Takes the batch that `bytes` begin with, if it is whole: its records and its length.
pub(super) fn read_batch(bytes: &[u8], random: u64) -> Option<(Vec<PendingRecord>, usize)> {
    if !bytes.starts_with(BATCH_MAGIC) || bytes.len() < BATCH_HEAD_LEN {
        return None;
    }
    let len = BATCH_HEAD_LEN.checked_add(u32_at(bytes, 4) as usize)?;
    let batch = bytes.get(..len)?;
    if u64_at(batch, CHECKED_LEN) != checksum(batch, random) {
        return None;
    }
    let (first, count) = (u64_at(batch, 8), u32_at(batch, 16));
    let mut take = Take(&batch[BATCH_HEAD_LEN..]);
    // What the count claims is not believed before the records are there.
    let mut records = Vec::new();
    for index in 0..u64::from(count) {
        let sequence = first.checked_add(index)?;
        records.push(PendingRecord { sequence, change: take_record(&mut take)? });
    }
    (take.0.is_empty() && !records.is_empty()).then_some((records, len))
}

/// Where the next whole batch begins, at `from` or later.
pub(super) fn find_batch(bytes: &[u8], from: usize, random: u64) -> Option<usize> {
    let places = from..bytes.len().saturating_sub(BATCH_HEAD_LEN - 1);
    places.into_iter().find(|at| {
        bytes[*at..].starts_with(BATCH_MAGIC) && read_batch(&bytes[*at..], random).is_some()
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

/// No more keywords than a byte counts; a mailbox has no more than 64.
fn names(keywords: &[Keyword]) -> &[Keyword] {
    &keywords[..keywords.len().min(usize::from(u8::MAX))]
}

fn take_record(take: &mut Take<'_>) -> Option<PendingChange> {
    let head = take.bytes(RECORD_HEAD_LEN)?;
    let mut keywords = |count: u8| -> Option<Vec<Keyword>> {
        let mut names = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let len = take.bytes(1)?[0];
            let name = std::str::from_utf8(take.bytes(usize::from(len))?).ok()?;
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
