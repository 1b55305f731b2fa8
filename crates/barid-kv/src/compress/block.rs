//! Blocks of a file: rows or names.

use std::sync::Arc;

use super::codec::{Coding, Compressor, Decompressor, Defect};
use super::{Compression, Dictionary, Method, varint};

/// Bit in the first byte of a block whose rows were transposed; the row length follows.
const TRANSPOSED: u8 = 0x80;

/// A compressor of blocks; one per thread.
#[derive(Debug)]
pub struct Packer {
    compressor: Compressor,
    columns: Vec<u8>,
}

impl Packer {
    /// Creates a packer; it treats `zstd+dict` as `zstd`.
    pub fn new(compression: Compression) -> Self {
        let compressor = Compressor::new(compression, None::<&Arc<Dictionary>>);
        debug_assert!(compression.method != Method::ZstdDict || compressor.dictionary().is_none());
        Self { compressor, columns: Vec::new() }
    }

    /// Appends the packed `raw`. Rows of `stride` bytes are transposed before compressing: all
    /// first bytes, then all second bytes, and so on; 0 leaves the bytes unchanged.
    pub fn pack(&mut self, stride: u8, raw: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.push(0);
        let transposed = stride > 1 && raw.len() >= 2 * usize::from(stride);
        if transposed {
            out.push(stride);
        }
        varint::put(raw.len() as u32, out);
        let bytes = if transposed {
            self.columns.clear();
            self.columns.resize(raw.len(), 0);
            transpose(raw, usize::from(stride), &mut self.columns);
            &self.columns
        } else {
            raw
        };
        match self.compressor.compress(bytes, out) {
            Some(coding) if transposed => out[start] = coding as u8 | TRANSPOSED,
            Some(coding) => out[start] = coding as u8,
            None => {
                out.truncate(start);
                out.push(Coding::None as u8);
                out.extend_from_slice(raw);
            }
        }
    }
}

/// A decompressor of blocks; one per thread.
#[derive(Debug, Default)]
pub struct Unpacker {
    decompressor: Decompressor,
    columns: Vec<u8>,
}

impl Unpacker {
    /// Creates an unpacker for every coding.
    pub fn new() -> Self {
        Self::default()
    }

    /// Unpacks a block and appends its bytes, at most `raw_len_max`.
    ///
    /// # Errors
    /// Returns the [`Defect`] of the block. A damaged block may also unpack to wrong bytes, since
    /// it has no checksum of its own.
    pub fn unpack(
        &mut self,
        stored: &[u8],
        raw_len_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Defect> {
        let (&tag, rest) = stored.split_first().ok_or(Defect::Truncated)?;
        let number = tag & !TRANSPOSED;
        let coding = Coding::from_number(number).ok_or(Defect::Coding { coding: number })?;
        if coding == Coding::None {
            check_len(rest.len(), raw_len_max)?;
            out.extend_from_slice(rest);
            return Ok(());
        }
        let (stride, rest) = match tag & TRANSPOSED {
            0 => (0, rest),
            _ => rest.split_first().map(|(len, rest)| (*len, rest)).ok_or(Defect::Truncated)?,
        };
        let (raw_len, payload) = varint::take(rest).ok_or(Defect::Truncated)?;
        let raw_len = raw_len as usize;
        check_len(raw_len, raw_len_max)?;
        if stride == 0 {
            return self.decompressor.decompress(coding, None, payload, raw_len, out);
        }
        self.columns.clear();
        self.decompressor.decompress(coding, None, payload, raw_len, &mut self.columns)?;
        let start = out.len();
        out.resize(start + raw_len, 0);
        restore(&self.columns, usize::from(stride), &mut out[start..]);
        Ok(())
    }
}

fn check_len(len: usize, max: usize) -> Result<(), Defect> {
    if len > max { Err(Defect::TooLong { len, max }) } else { Ok(()) }
}

/// Transposes rows to columns; bytes after the last whole row stay at the end.
fn transpose(rows: &[u8], stride: usize, columns: &mut [u8]) {
    let count = rows.len() / stride;
    let (rows_by_8, bytes_by_8) = (count / 8 * 8, stride / 8 * 8);
    for row in (0..rows_by_8).step_by(8) {
        for at in (0..bytes_by_8).step_by(8) {
            let tile = load(rows, row * stride + at, stride);
            store(flip(tile), columns, at * count + row, count);
        }
        for at in bytes_by_8..stride {
            for row in row..row + 8 {
                columns[at * count + row] = rows[row * stride + at];
            }
        }
    }
    for row in rows_by_8..count {
        for at in 0..stride {
            columns[at * count + row] = rows[row * stride + at];
        }
    }
    columns[count * stride..].copy_from_slice(&rows[count * stride..]);
}

/// Transposes columns to rows.
fn restore(columns: &[u8], stride: usize, rows: &mut [u8]) {
    let count = rows.len() / stride;
    let (rows_by_8, bytes_by_8) = (count / 8 * 8, stride / 8 * 8);
    for row in (0..rows_by_8).step_by(8) {
        for at in (0..bytes_by_8).step_by(8) {
            let tile = load(columns, at * count + row, count);
            store(flip(tile), rows, row * stride + at, stride);
        }
        for at in bytes_by_8..stride {
            for row in row..row + 8 {
                rows[row * stride + at] = columns[at * count + row];
            }
        }
    }
    for row in rows_by_8..count {
        for at in 0..stride {
            rows[row * stride + at] = columns[at * count + row];
        }
    }
    rows[count * stride..].copy_from_slice(&columns[count * stride..]);
}

/// Loads eight runs of eight bytes, `step` bytes apart.
fn load(bytes: &[u8], start: usize, step: usize) -> [u64; 8] {
    let bytes = &bytes[start..start + 7 * step + 8];
    std::array::from_fn(|index| {
        let (run, _) = bytes[index * step..].split_first_chunk().expect("because it was cut so");
        u64::from_le_bytes(*run)
    })
}

fn store(tile: [u64; 8], bytes: &mut [u8], start: usize, step: usize) {
    let bytes = &mut bytes[start..start + 7 * step + 8];
    for (index, run) in tile.iter().enumerate() {
        bytes[index * step..][..8].copy_from_slice(&run.to_le_bytes());
    }
}

/// Transposes eight by eight bytes: swaps quarters, then quarters of each quarter, and so on.
fn flip(mut tile: [u64; 8]) -> [u64; 8] {
    for (step, shift, mask) in [
        (4, 32, 0x0000_0000_ffff_ffff),
        (2, 16, 0x0000_ffff_0000_ffff),
        (1, 8, 0x00ff_00ff_00ff_00ff),
    ] {
        for index in (0..8).filter(|index| index & step == 0) {
            let swap = (tile[index] >> shift ^ tile[index + step]) & mask;
            tile[index] ^= swap << shift;
            tile[index + step] ^= swap;
        }
    }
    tile
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(compression: Compression, stride: u8, raw: &[u8]) -> usize {
        let mut stored = b"before".to_vec();
        Packer::new(compression).pack(stride, raw, &mut stored);
        let stored = &stored[6..];
        let mut out = b"other".to_vec();
        let mut unpacker = Unpacker::new();
        unpacker.unpack(stored, raw.len(), &mut out).unwrap();
        assert!(out.starts_with(b"other") && &out[5..] == raw, "{compression} {stride}");
        assert!(stored.len() <= raw.len() + 1);
        if !raw.is_empty() {
            let too_long = Defect::TooLong { len: raw.len(), max: raw.len() - 1 };
            assert_eq!(unpacker.unpack(stored, raw.len() - 1, &mut out), Err(too_long));
        }
        assert_eq!(out.len(), 5 + raw.len());
        stored.len()
    }

    fn rows(count: u32, stride: usize) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(4);
        let mut rows = Vec::new();
        for index in 0..count {
            let mut row = vec![0; stride];
            row[..4].copy_from_slice(&index.to_le_bytes());
            row[stride - 2..].fill_with(|| random.u8(..));
            rows.extend(row);
        }
        rows
    }

    #[test]
    fn blocks_come_back() {
        for info in Compression::METHODS {
            let compression = Compression::new(info.method);
            for stride in [0u8, 1, 7, 8, 12, 40, 96, 255] {
                let at_least_6 = usize::from(stride).max(6);
                for count in [0, 1, 2, 7, 8, 9, 31, 300] {
                    let mut raw = rows(count, at_least_6);
                    check(compression, stride, &raw);
                    raw.extend_from_slice(b"left over");
                    check(compression, stride, &raw);
                }
            }
            check(compression, 0, &vec![0; 65_520]);
            check(compression, 96, &vec![7; 65_520]);
        }
    }

    #[test]
    fn transposed_rows_are_shorter() {
        let raw = rows(682, 96);
        let compression = Compression::new(Method::Zstd);
        let (plain, transposed) = (check(compression, 0, &raw), check(compression, 96, &raw));
        assert!(transposed * 4 < plain * 3, "{transposed} {plain}");
    }

    #[test]
    fn columns_stand_one_after_another() {
        let mut columns = vec![0; 20];
        transpose(b"aAbBcCdDeEfFgGhHiIjx", 2, &mut columns);
        assert_eq!(columns, b"abcdefghijABCDEFGHIx");
    }

    #[test]
    fn damage_never_hurts() {
        let raw = rows(100, 40);
        let mut random = fastrand::Rng::with_seed(5);
        let mut unpacker = Unpacker::new();
        let mut out = Vec::new();
        for info in Compression::METHODS {
            let mut stored = Vec::new();
            Packer::new(Compression::new(info.method)).pack(40, &raw, &mut stored);
            for _ in 0..2_000 {
                let mut damaged = stored.clone();
                damaged.truncate(random.usize(0..=stored.len()));
                for _ in 0..random.usize(0..4).min(damaged.len()) {
                    let at = random.usize(0..damaged.len());
                    damaged[at] ^= random.u8(1..);
                }
                out.clear();
                let unpacked = unpacker.unpack(&damaged, raw.len(), &mut out);
                assert!(out.len() <= raw.len() && (unpacked.is_ok() || out.is_empty()));
            }
        }
        assert!(out.capacity() <= 2 * raw.len() && unpacker.columns.capacity() <= 2 * raw.len());
        assert_eq!(unpacker.unpack(&[], 9, &mut out), Err(Defect::Truncated));
        assert_eq!(unpacker.unpack(&[9, 1], 9, &mut out), Err(Defect::Coding { coding: 9 }));
    }
}
