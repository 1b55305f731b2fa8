//! Makes the new bytes of a unit from its old ones, and checks which of them a file has.

use std::io;

use xxhash_rust::xxh3::Xxh3;

use super::limits::{SECTOR_LEN, SKIP_HASHED_MAX};
use super::script::{Op, ops};
use super::source::BufferedFile;
use super::unit::Unit;

/// Makes the new bytes of `unit` and passes those that are written to `put`, with their offsets.
/// Returns the hash of the kept and copied bytes, which should be [`Unit::hash`].
pub(super) fn assemble(
    unit: &Unit,
    script: &[u8],
    source: &mut BufferedFile<'_>,
    mut put: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let mut hash = Xxh3::new();
    let (mut old, mut new) = (unit.old, unit.new);
    for op in ops(script) {
        match op? {
            Op::Keep(len) => {
                source.hash(old, len, &mut hash)?;
                (old, new) = (old + len, new + len);
            }
            Op::Stay(len) => (old, new) = (old + len, new + len),
            Op::Copy(len) => {
                source.visit(old, len, |bytes| {
                    hash.update(bytes);
                    put(new, bytes)?;
                    new += bytes.len() as u64;
                    Ok(())
                })?;
                old += len;
            }
            Op::Skip(len) => old += len,
            Op::Insert(bytes) => {
                put(new, bytes)?;
                new += bytes.len() as u64;
            }
        }
    }
    Ok(hash.digest())
}

/// Visits the runs of new bytes that are written, ascending: offset and length.
pub(super) fn runs(
    unit: &Unit,
    script: &[u8],
    mut visit: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<()> {
    let (mut from, mut new) = (unit.new, unit.new);
    for op in ops(script) {
        match op? {
            Op::Copy(len) => new += len,
            Op::Insert(bytes) => new += bytes.len() as u64,
            Op::Skip(_) => {}
            Op::Keep(len) | Op::Stay(len) => {
                if new > from {
                    visit(from, new - from)?;
                }
                new += len;
                from = new;
            }
        }
    }
    match new > from {
        true => visit(from, new - from),
        false => Ok(()),
    }
}

/// Visits the pieces of a run, each of which lies in one sector.
pub(super) fn pieces(
    from: u64,
    len: u64,
    visit: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<()> {
    chunks(from, len, 0, visit)
}

/// Visits a run in chunks of about `chunk_len` bytes, no two of which share a sector.
pub(super) fn chunks(
    from: u64,
    len: u64,
    chunk_len: u64,
    mut visit: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<()> {
    let (mut at, end) = (from, from + len);
    while at < end {
        let next = (at + 1).max(at + chunk_len).next_multiple_of(SECTOR_LEN).min(end);
        visit(at, next - at)?;
        at = next;
    }
    Ok(())
}

/// Computes [`Unit::hash`] and [`Unit::skip_hash`] of the old bytes in `source`.
pub(super) fn hash_old(
    unit: &Unit,
    script: &[u8],
    source: &mut BufferedFile<'_>,
) -> io::Result<(u64, u64)> {
    let (mut hash, mut skip_hash) = (Xxh3::new(), Xxh3::new());
    let mut old = unit.old;
    for op in ops(script) {
        let len = match op? {
            Op::Keep(len) | Op::Copy(len) => {
                source.hash(old, len, &mut hash)?;
                len
            }
            Op::Skip(len) if len <= SKIP_HASHED_MAX => {
                source.hash(old, len, &mut skip_hash)?;
                len
            }
            Op::Stay(len) | Op::Skip(len) => len,
            Op::Insert(_) => 0,
        };
        old += len;
    }
    Ok((hash.digest(), skip_hash.digest()))
}

/// Returns `true` if `source` has all old bytes of `unit` that were hashed.
pub(super) fn has_old(
    unit: &Unit,
    script: &[u8],
    source: &mut BufferedFile<'_>,
) -> io::Result<bool> {
    Ok(hash_old(unit, script, source)? == (unit.hash, unit.skip_hash))
}

/// Returns `true` if `source` has all new bytes of `unit`.
pub(super) fn has_new(
    unit: &Unit,
    script: &[u8],
    source: &mut BufferedFile<'_>,
) -> io::Result<bool> {
    let mut hash = Xxh3::new();
    let (mut new, mut is_new) = (unit.new, true);
    for op in ops(script) {
        new += match op? {
            Op::Keep(len) | Op::Copy(len) => {
                source.hash(new, len, &mut hash)?;
                len
            }
            Op::Insert(bytes) => {
                let mut rest = bytes;
                source.visit(new, bytes.len() as u64, |found| {
                    let (expected, later) = rest.split_at(found.len());
                    is_new &= found == expected;
                    rest = later;
                    Ok(())
                })?;
                bytes.len() as u64
            }
            Op::Skip(_) => 0,
            Op::Stay(len) => len,
        };
    }
    Ok(is_new && hash.digest() == unit.hash)
}

/// Returns `true` if `source` has all kept bytes of `unit`, where the copied bytes are those of
/// `payload` from `offset` on.
pub(super) fn has_kept(
    unit: &Unit,
    script: &[u8],
    source: &mut BufferedFile<'_>,
    payload: &mut BufferedFile<'_>,
    mut offset: u64,
) -> io::Result<bool> {
    let mut hash = Xxh3::new();
    let mut new = unit.new;
    for op in ops(script) {
        match op? {
            Op::Keep(len) => {
                source.hash(new, len, &mut hash)?;
                new += len;
            }
            Op::Copy(len) => {
                payload.hash(offset, len, &mut hash)?;
                (offset, new) = (offset + len, new + len);
            }
            Op::Insert(bytes) => {
                let len = bytes.len() as u64;
                (offset, new) = (offset + len, new + len);
            }
            Op::Skip(_) => {}
            Op::Stay(len) => new += len,
        }
    }
    Ok(hash.digest() == unit.hash)
}
