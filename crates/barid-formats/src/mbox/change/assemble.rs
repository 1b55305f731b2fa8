//! Making the new bytes of a unit of its old ones, and telling which of them are there.

use std::io;

use xxhash_rust::xxh3::Xxh3;

use super::limits::{SECTOR_LEN, SKIP_HASHED_MAX};
use super::script::{Op, ops};
use super::source::Source;
use super::unit::Unit;

/// Makes the new bytes of `unit` and gives those that are written to `put`, with their places.
/// Returns the hash of all new bytes, which should be [`Unit::new_hash`].
pub(super) fn assemble(
    unit: &Unit,
    script: &[u8],
    source: &mut Source<'_>,
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
                hash.update(bytes);
                put(new, bytes)?;
                new += bytes.len() as u64;
            }
        }
    }
    Ok(hash.digest())
}

/// Visits the runs of new bytes that are written, ascending: place and length.
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

/// Visits the pieces of a run, of which each lies in one sector.
pub(super) fn pieces(
    from: u64,
    len: u64,
    visit: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<()> {
    chunks(from, len, 0, visit)
}

/// Visits a run in chunks of about `chunk_len` bytes that have no sector in common.
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

/// The hash of the old bytes that `source` has, which is [`Unit::old_hash`] if all are there.
pub(super) fn old_hash(unit: &Unit, script: &[u8], source: &mut Source<'_>) -> io::Result<u64> {
    let mut hash = Xxh3::new();
    let mut old = unit.old;
    for op in ops(script) {
        let len = match op? {
            Op::Keep(len) | Op::Copy(len) => {
                source.hash(old, len, &mut hash)?;
                len
            }
            Op::Skip(len) if len <= SKIP_HASHED_MAX => {
                source.hash(old, len, &mut hash)?;
                len
            }
            Op::Stay(len) | Op::Skip(len) => len,
            Op::Insert(_) => 0,
        };
        old += len;
    }
    Ok(hash.digest())
}

/// The hash of the new bytes that `source` has, which is [`Unit::new_hash`] if all are there.
pub(super) fn new_hash(unit: &Unit, script: &[u8], source: &mut Source<'_>) -> io::Result<u64> {
    hash_new(unit, script, |at, len, _, hash| source.hash(at, len, hash))
}

/// The hash of the new bytes if those that are written are taken from `payload`, from `offset` on.
pub(super) fn new_hash_from(
    unit: &Unit,
    script: &[u8],
    source: &mut Source<'_>,
    payload: &mut Source<'_>,
    mut offset: u64,
) -> io::Result<u64> {
    hash_new(unit, script, |at, len, is_written, hash| {
        if is_written {
            offset += len;
            return payload.hash(offset - len, len, hash);
        }
        source.hash(at, len, hash)
    })
}

fn hash_new(
    unit: &Unit,
    script: &[u8],
    mut add: impl FnMut(u64, u64, bool, &mut Xxh3) -> io::Result<()>,
) -> io::Result<u64> {
    let mut hash = Xxh3::new();
    let mut new = unit.new;
    for op in ops(script) {
        let (len, is_written) = match op? {
            Op::Keep(len) => (len, false),
            Op::Copy(len) => (len, true),
            Op::Insert(bytes) => (bytes.len() as u64, true),
            Op::Skip(_) => continue,
            Op::Stay(len) => {
                new += len;
                continue;
            }
        };
        add(new, len, is_written, &mut hash)?;
        new += len;
    }
    Ok(hash.digest())
}
