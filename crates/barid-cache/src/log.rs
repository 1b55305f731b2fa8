//! Log records (`docs/formats/cache.md`, "Log records").

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use barid_vfs::le::{LeReader, PutLe, u32_at, u64_at};

use crate::core_row::{CORE_ROW_LEN, Core};
use crate::limits::{META_LEN_MAX, NAME_LEN_MAX};
use crate::meta::Meta;
use crate::record::{Record, put_framed};
use crate::shifts::RowShift;
use crate::thread_row::{IdHash, REFERENCE_ROW_LEN, THREAD_ROW_LEN, ThreadRow};

const MAGIC: &[u8; 4] = b"BHCL";
/// Bytes of a record before its payload.
pub(crate) const RECORD_HEAD_LEN: usize = 32;
const CHECKSUM_AT: usize = 24;

const BIT_NAME: u8 = 1;
const BIT_IN_NEW: u8 = 2;

/// The position of a record in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The sequence number of the record before; 0 before the first.
    pub(crate) sequence: u64,
    /// The checksum of the record before, or of the header page.
    pub(crate) stem: u64,
}

/// A row with changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangedRow {
    pub(crate) physical: u32,
    pub(crate) flags: u8,
    pub(crate) keywords: u64,
    pub(crate) modseq: u64,
    /// The new file name, and `true` if it is in `new`.
    pub(crate) file: Option<(Vec<u8>, bool)>,
}

/// A row whose message has another position in its file, or another length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangedPlace {
    pub(crate) physical: u32,
    pub(crate) separator_len: u32,
    pub(crate) offset: u64,
    pub(crate) header_len: u32,
    pub(crate) body_len: u64,
}

/// A message of the log, borrowed from the record.
pub(crate) struct AddedRow<'a> {
    pub(crate) core: Core,
    pub(crate) thread: ThreadRow,
    pub(crate) references: &'a [u8],
    pub(crate) name: &'a [u8],
    /// The header record.
    pub(crate) record: &'a [u8],
}

/// A record, decoded.
pub(crate) struct LogRecord<'a> {
    pub(crate) meta: Meta,
    pub(crate) expunged: Vec<u32>,
    pub(crate) changed: Vec<ChangedRow>,
    pub(crate) sizes: Vec<(u32, u64)>,
    pub(crate) shifts: Vec<RowShift>,
    pub(crate) places: Vec<ChangedPlace>,
    pub(crate) added: Vec<AddedRow<'a>>,
}

fn checksum(record: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&record[..CHECKSUM_AT]);
    hasher.update(&record[RECORD_HEAD_LEN..]);
    hasher.digest()
}

/// The content of a record.
#[derive(Default)]
pub(crate) struct LogEntry<'a> {
    /// Physical rows, ascending.
    pub(crate) expunged: &'a [u32],
    pub(crate) changed: &'a [ChangedRow],
    /// RFC822.SIZE of physical rows.
    pub(crate) sizes: &'a [(u32, u64)],
    /// Ranges of rows that moved, ascending.
    pub(crate) shifts: &'a [RowShift],
    /// Positions of rows after all shifts.
    pub(crate) places: &'a [ChangedPlace],
    /// Number of added messages; the next field has their bytes ([`put_added`]).
    pub(crate) added_count: u32,
    pub(crate) added: &'a [u8],
}

/// Builds the record that follows `link`.
pub(crate) fn encode(link: Link, meta: &Meta, entry: &LogEntry<'_>) -> Vec<u8> {
    let LogEntry { expunged, changed, sizes, shifts, places, added_count, added } = *entry;
    let mut out = Vec::with_capacity(1024 + added.len() + changed.len() * 32);
    out.extend_from_slice(MAGIC);
    out.put_u32(0);
    out.put_u64(link.sequence + 1);
    out.put_u64(link.stem);
    out.put_u64(0);
    out.put_bytes(&meta.encode());
    out.put_u32(expunged.len() as u32);
    expunged.iter().for_each(|row| out.put_u32(*row));
    out.put_u32(changed.len() as u32);
    for row in changed {
        let bits = match &row.file {
            Some((_, in_new)) => BIT_NAME | if *in_new { BIT_IN_NEW } else { 0 },
            None => 0,
        };
        out.put_u32(row.physical);
        out.put_u8(row.flags);
        out.put_u8(bits);
        out.put_u16(0);
        out.put_u64(row.keywords);
        out.put_u64(row.modseq);
        out.put_bytes(row.file.as_ref().map_or(&[], |(name, _)| name));
    }
    out.put_u32(sizes.len() as u32);
    for (row, size) in sizes {
        out.put_u32(*row);
        out.put_u64(*size);
    }
    put_moves(&mut out, shifts, places);
    out.put_u32(added_count);
    out.extend_from_slice(added);
    let len = out.len() as u32;
    out[4..8].copy_from_slice(&len.to_le_bytes());
    let checksum = checksum(&out);
    out[CHECKSUM_AT..RECORD_HEAD_LEN].copy_from_slice(&checksum.to_le_bytes());
    out
}

fn put_moves(out: &mut Vec<u8>, shifts: &[RowShift], places: &[ChangedPlace]) {
    out.put_u32(shifts.len() as u32);
    for shift in shifts {
        out.put_u32(shift.first);
        out.put_u32(shift.end);
        out.put_u64(shift.by);
    }
    out.put_u32(places.len() as u32);
    for place in places {
        out.put_u32(place.physical);
        out.put_u32(place.separator_len);
        out.put_u64(place.offset);
        out.put_u32(place.header_len);
        out.put_u64(place.body_len);
    }
}

/// Appends a message in the form of a record.
pub(crate) fn put_added(
    out: &mut Vec<u8>,
    core: &Core,
    thread: &ThreadRow,
    references: &[IdHash],
    name: &[u8],
    record: &Record<'_>,
) {
    let start = out.len();
    out.extend_from_slice(&core.encode());
    out.extend_from_slice(&thread.encode());
    for reference in references {
        out.extend_from_slice(&reference.encode());
    }
    out.extend_from_slice(name);
    if put_framed(out, |out| record.encode(out)) {
        let core = Core { cut: true, ..*core };
        out[start..start + CORE_ROW_LEN].copy_from_slice(&core.encode());
    }
}

/// Returns the record at the front of `log` and its link, if it is complete and follows `link`.
pub(crate) fn next(log: &[u8], link: Link) -> Option<(&[u8], Link)> {
    if log.len() < RECORD_HEAD_LEN || &log[..4] != MAGIC {
        return None;
    }
    let len = u32_at(log, 4) as usize;
    let record = log.get(..len).filter(|record| record.len() >= RECORD_HEAD_LEN)?;
    let sequence = u64_at(record, 8);
    if link.sequence.checked_add(1) != Some(sequence) || u64_at(record, 16) != link.stem {
        return None;
    }
    let found = u64_at(record, CHECKSUM_AT);
    (checksum(record) == found).then_some((record, Link { sequence, stem: found }))
}

/// Decodes a complete record.
pub(crate) fn decode(record: &[u8], generation: u64) -> Option<LogRecord<'_>> {
    let mut reader = LeReader(record.get(RECORD_HEAD_LEN..)?);
    let meta = reader.bytes().filter(|meta| meta.len() <= META_LEN_MAX)?;
    let meta = Meta::decode(meta, generation)?;
    let mut expunged = Vec::new();
    for _ in 0..reader.u32()? {
        expunged.push(reader.u32()?);
    }
    let mut changed = Vec::new();
    for _ in 0..reader.u32()? {
        let (physical, flags, bits) = (reader.u32()?, reader.u8()?, reader.u8()?);
        reader.u16()?;
        let (keywords, modseq) = (reader.u64()?, reader.u64()?);
        let name = reader.bytes().filter(|name| name.len() <= NAME_LEN_MAX)?;
        let file = (bits & BIT_NAME != 0).then(|| (name.to_vec(), bits & BIT_IN_NEW != 0));
        changed.push(ChangedRow { physical, flags, keywords, modseq, file });
    }
    let mut sizes = Vec::new();
    for _ in 0..reader.u32()? {
        sizes.push((reader.u32()?, reader.u64()?));
    }
    let mut shifts = Vec::new();
    for _ in 0..reader.u32()? {
        let (first, end, by) = (reader.u32()?, reader.u32()?, reader.u64()?);
        shifts.push(RowShift { first, end, by });
    }
    let mut places = Vec::new();
    for _ in 0..reader.u32()? {
        places.push(ChangedPlace {
            physical: reader.u32()?,
            separator_len: reader.u32()?,
            offset: reader.u64()?,
            header_len: reader.u32()?,
            body_len: reader.u64()?,
        });
    }
    let mut added = Vec::new();
    for _ in 0..reader.u32()? {
        let core = Core::decode(reader.take(CORE_ROW_LEN)?)?;
        let thread = ThreadRow::decode(reader.take(THREAD_ROW_LEN)?);
        let references = reader.take(usize::from(thread.references_count) * REFERENCE_ROW_LEN)?;
        let name = reader.take(core.name_len as usize)?;
        let record = Record::framed(reader.0)?;
        reader.take(Record::framed_len(record))?;
        added.push(AddedRow { core, thread, references, name, record });
    }
    reader.0.is_empty().then_some(LogRecord {
        meta,
        expunged,
        changed,
        sizes,
        shifts,
        places,
        added,
    })
}

/// Returns the checksum of metadata outside of the header page.
pub(crate) fn meta_checksum(meta: &[u8]) -> u64 {
    xxh3_64(meta)
}
