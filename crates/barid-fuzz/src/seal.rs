//! Checksums of files, corrected after a mutation (`docs/formats/`). A file whose structure does
//! not lead to a checksum keeps it.

use std::ops::Range;

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// Most batches, messages, blocks or records of a file that are sealed.
const PIECES_MAX: usize = 1_024;

fn u32_at(bytes: &[u8], at: usize) -> usize {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    found.map_or(0, |found| u32::from_le_bytes(*found) as usize)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
    found.map_or(0, |found| u64::from_le_bytes(*found))
}

fn offset_at(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u64_at(bytes, at)).unwrap_or(usize::MAX)
}

fn put(bytes: &mut [u8], at: usize, number: u64) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<8>()) {
        *place = number.to_le_bytes();
    }
}

/// Writes the checksum of a range to `at`, if the range exists.
fn sum(bytes: &mut [u8], range: Range<usize>, seed: u64, at: usize) {
    if let Some(hash) = bytes.get(range).map(|part| xxh3_64_with_seed(part, seed)) {
        put(bytes, at, hash);
    }
}

/// Seals a file that ends with the checksum of all before.
pub(crate) fn tail(bytes: &mut [u8]) {
    if let Some(end) = bytes.len().checked_sub(8) {
        sum(bytes, 0..end, 0, end);
    }
}

/// Seals a file of texts of attachments: each record, and its text.
pub(crate) fn attachment_texts(bytes: &mut [u8]) {
    let mut at = 8_usize;
    for _ in 0..PIECES_MAX {
        let (header, text) = (at..at + 52, at + 60);
        let end = text.saturating_add(u32_at(bytes, at + 36));
        if end > bytes.len() {
            return;
        }
        sum(bytes, text..end, 0, at + 44);
        sum(bytes, header, at as u64, at + 52);
        at = end;
    }
}

/// Seals a redo journal.
pub(crate) fn redo_journal(bytes: &mut [u8]) {
    let end = 1_024_usize.saturating_add(offset_at(bytes, 48));
    sum(bytes, 1_024..end, 0, 56);
    sum(bytes, 0..504, 0, 504);
}

/// Seals the header and the plan of the journal of an mbox.
pub(crate) fn mbox_journal(bytes: &mut [u8]) {
    let units = offset_at(bytes, 72).saturating_mul(80);
    let collapses = offset_at(bytes, 80).saturating_mul(16);
    let plan = offset_at(bytes, 64).saturating_add(units).saturating_add(collapses);
    sum(bytes, 512..plan.saturating_add(512), 0, 88);
    sum(bytes, 0..504, 0, 504);
}

/// Seals a journal of pending changes.
pub(crate) fn pending(bytes: &mut [u8]) {
    sum(bytes, 0..64, 0, 64);
    let (random, mut at) = (u64_at(bytes, 32), 72);
    for _ in 0..PIECES_MAX {
        let end = at + 40 + u32_at(bytes, at + 4);
        if bytes.get(at..at + 4) != Some(b"PBAT") || end > bytes.len() {
            break;
        }
        sum(bytes, at..at + 24, random, at + 24);
        let seed = u64_at(bytes, at + 24);
        sum(bytes, at + 40..end, seed, at + 32);
        at = end + 4;
    }
}

/// Length of a block of a ledger, which is there twice.
const LEDGER_BLOCK_LEN: usize = 4_096;

/// Seals a ledger: its first copy, which the second one then equals.
pub(crate) fn ledger(bytes: &mut Vec<u8>) {
    let version = u32_at(bytes, 8);
    if version == 1 {
        return ledger_stream(bytes, 136, 144);
    }
    let mut stream = Vec::new();
    for pair in bytes.chunks(2 * LEDGER_BLOCK_LEN) {
        let len = pair.len().checked_sub(LEDGER_BLOCK_LEN).unwrap_or(pair.len());
        stream.extend_from_slice(&pair[..len]);
    }
    let (checksum, footer_len) = if version == 2 { (152, 168) } else { (168, 184) };
    ledger_stream(&mut stream, checksum, footer_len);
    bytes.clear();
    for block in stream.chunks(LEDGER_BLOCK_LEN) {
        bytes.extend_from_slice(block);
        bytes.resize(bytes.len().next_multiple_of(LEDGER_BLOCK_LEN), 0);
        bytes.extend_from_slice(block);
    }
}

/// Seals the header and the batches of a ledger, whose footers have their checksum at `checksum`.
fn ledger_stream(stream: &mut [u8], checksum: usize, footer_len: usize) {
    sum(stream, 0..56, 0, 56);
    let mut at = 64;
    for _ in 0..PIECES_MAX {
        let end = at + 8 + u32_at(stream, at + 4);
        if stream.get(at..at + 4) != Some(b"BTCH") || end > stream.len() {
            break;
        }
        sum(stream, at..end, 0, end + 128);
        sum(stream, end..end + checksum, 0, end + checksum);
        at = end + footer_len;
    }
}

/// Seals a file of kept messages.
pub(crate) fn expunged(bytes: &mut [u8]) {
    let mut at = u32_at(bytes, 12);
    let path = bytes.get(80..at).unwrap_or(&[]).to_vec();
    if let Some(head) = bytes.get(..72) {
        let hash = hash_of(&[head, &path]);
        put(bytes, 72, hash);
    }
    for _ in 0..PIECES_MAX {
        if bytes.get(at..at.saturating_add(4)) != Some(b"EMSG") {
            break;
        }
        let names = u32_at(bytes, at + 36);
        let text = if bytes.get(at + 52) == Some(&3) { 8 } else { offset_at(bytes, at + 16) };
        let end = (at + 64 + (names & 0xffff) + (names >> 16)).saturating_add(text);
        sum(bytes, at + 64..end, 0, at + 40);
        sum(bytes, at..at + 56, 0, at + 56);
        at = end;
    }
    if let Some(footer) = bytes.len().checked_sub(40) {
        sum(bytes, offset_at(bytes, footer + 8)..footer, 0, footer + 16);
        sum(bytes, footer..footer + 32, 0, footer + 32);
    }
}

fn hash_of(parts: &[&[u8]]) -> u64 {
    let mut hasher = Xxh3::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.digest()
}

/// Seals a derived column.
pub(crate) fn derived(bytes: &mut [u8]) {
    sum(bytes, 0..56, 0, 56);
    let generation = u64_at(bytes, 16);
    for (number, start) in (64..bytes.len()).step_by(64 << 10).enumerate() {
        let end = bytes.len().min(start + (64 << 10));
        sum(bytes, start + 8..end, generation.wrapping_add(number as u64), start);
    }
}

/// Length of a header page of a cache.
const PAGE_LEN: usize = 2_048;
/// Length of a block of a column of a cache.
const COLUMN_BLOCK_LEN: usize = 64 << 10;

/// Seals a cache without packed columns: heap blocks, columns, pages, log records.
pub(crate) fn cache(bytes: &mut [u8]) {
    for page in [0, PAGE_LEN] {
        if bytes.get(page..page + 8) != Some(b"BARIDHC\n") {
            continue;
        }
        heap_blocks(bytes, page);
        (0..5).for_each(|column| column_blocks(bytes, page + 96 + column * 32));
        let meta = offset_at(bytes, page + 72);
        let start = if meta < PAGE_LEN { page + meta } else { meta };
        sum(bytes, start..start.saturating_add(u32_at(bytes, page + 80)), 0, page + 88);
        put(bytes, page + 16, 0);
        sum(bytes, page..page + PAGE_LEN, 0, page + 16);
        log_records(bytes, page);
    }
}

fn heap_blocks(bytes: &mut [u8], page: usize) {
    let directory = page + 96 + 3 * 32;
    let start = offset_at(bytes, directory).saturating_add(16);
    let generation = u64_at(bytes, directory + 16);
    for number in 0..offset_at(bytes, directory + 8).min(COLUMN_BLOCK_LEN / 24 - 1) {
        let row = start.saturating_add(number * 24);
        let from = offset_at(bytes, row);
        let to = from.saturating_add(u32_at(bytes, row + 8));
        sum(bytes, from..to, generation.wrapping_add(number as u64), row.saturating_add(16));
    }
}

fn column_blocks(bytes: &mut [u8], column: usize) {
    let row_len = u32_at(bytes, column + 24).clamp(1, 1 << 10);
    let per_block = (COLUMN_BLOCK_LEN - 16) / row_len;
    let (rows, mut start) = (offset_at(bytes, column + 8), offset_at(bytes, column));
    let generation = u64_at(bytes, column + 16);
    for block in 0..rows.div_ceil(per_block).min(PIECES_MAX) {
        let rows = per_block.min(rows - block * per_block);
        let end = start.saturating_add(16 + rows * row_len);
        sum(bytes, start.saturating_add(8)..end, generation, start);
        start = start.saturating_add(COLUMN_BLOCK_LEN);
    }
}

fn log_records(bytes: &mut [u8], page: usize) {
    let (mut at, mut stem) = (offset_at(bytes, page + 56), u64_at(bytes, page + 16));
    for _ in 0..PIECES_MAX {
        let end = at.saturating_add(u32_at(bytes, at.saturating_add(4)).max(32));
        if bytes.get(at..at.saturating_add(4)) != Some(b"BHCL") || end > bytes.len() {
            break;
        }
        put(bytes, at + 16, stem);
        stem = hash_of(&[&bytes[at..at + 24], &bytes[at + 32..end]]);
        put(bytes, at + 24, stem);
        at = end;
    }
}

/// Seals the header of a word list's table, and those of its blocks; or the header of its log.
pub(crate) fn word_list(bytes: &mut [u8]) {
    if bytes.starts_with(b"baridWLG") {
        sum(bytes, 0..56, 0, 56);
        return;
    }
    sum(bytes, 0..120, 0, 120);
    let generation = u64_at(bytes, 16).rotate_left(33);
    let sorted = u32_at(bytes, 56).min(PIECES_MAX);
    for number in 0..sorted {
        let start = 4_096 + number * 4_096;
        half_sum(bytes, start, 4_096, generation ^ (number as u64 * 2));
    }
    let hashed = offset_at(bytes, 64);
    for number in 0..u32_at(bytes, 60).min(PIECES_MAX) {
        let start = hashed.saturating_add(number * 1_024);
        half_sum(bytes, start, 1_024, generation ^ (number as u64 * 2) ^ 1);
    }
}

/// Writes the lower half of the checksum of a block after its first four bytes to these.
fn half_sum(bytes: &mut [u8], start: usize, len: usize, seed: u64) {
    let block = bytes.get_mut(start..).and_then(|rest| rest.get_mut(..len));
    if let Some((checksum, rest)) = block.and_then(|block| block.split_first_chunk_mut::<4>()) {
        *checksum = (xxh3_64_with_seed(rest, seed) as u32).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::{cache as cache_targets, mailbox, spam, state};

    #[test]
    fn any_bytes_can_be_sealed() {
        let mut random = fastrand::Rng::with_seed(1);
        let seals: [fn(&mut Vec<u8>); 9] = [
            |bytes| tail(bytes),
            |bytes| redo_journal(bytes),
            |bytes| mbox_journal(bytes),
            |bytes| pending(bytes),
            ledger,
            |bytes| expunged(bytes),
            |bytes| derived(bytes),
            |bytes| cache(bytes),
            |bytes| word_list(bytes),
        ];
        for len in 0..400 {
            for seal in seals {
                let mut bytes: Vec<u8> = (0..len * 13).map(|_| random.u8(..)).collect();
                seal(&mut bytes);
            }
        }
        let mut bytes = b"content and its sum.".to_vec();
        tail(&mut bytes);
        assert_eq!(u64_at(&bytes, 12), xxh3_64_with_seed(b"content and ", 0));
    }

    /// Checks that files as they were written have the checksums that a seal gives them.
    fn check(name: &str, files: Vec<Vec<u8>>, seal: impl Fn(&mut Vec<u8>)) {
        assert!(!files.is_empty(), "{name}");
        for file in files {
            let mut sealed = file.clone();
            seal(&mut sealed);
            let differs = file.iter().zip(&sealed).position(|(one, other)| one != other);
            assert_eq!((differs, sealed.len()), (None, file.len()), "{name}");
            // A seal that does nothing would pass, too.
            let mut other = file.clone();
            other[20] ^= 0x10;
            let mutated = other.clone();
            seal(&mut other);
            assert!(other != mutated, "{name}: the header has no checksum");
        }
    }

    #[test]
    fn files_as_they_were_written_are_sealed() {
        let first = |files: Vec<Vec<u8>>| files[..1].to_vec();
        check("redo", state::redo_journals(), |bytes| redo_journal(bytes));
        check("mbox", state::mbox_journals(), |bytes| mbox_journal(bytes));
        check("pending", first(state::pending_seeds()), |bytes| pending(bytes));
        check("ledger", state::ledger_seeds(), ledger);
        check("expunged", first(state::expunged_seeds()), |bytes| expunged(bytes));
        check("cache", cache_targets::cache_seeds(), |bytes| cache(bytes));
        let links = vec![mailbox::seed(&mailbox::MBOX, ".bhc.links")];
        check("derived", links, |bytes| derived(bytes));
        check("scores", vec![spam::seed("/scores-")], |bytes| tail(bytes));
        check("list", spam::list_seed(0), |bytes| word_list(bytes));
    }
}
