//! Blocks of a file: rows or names.

use std::sync::Arc;

use super::codec::{Coding, Compressor, Decompressor, Defect};
use super::{Compression, Dictionary, Method, varint};

/// Set in the first byte where rows were transposed; the row length follows.
const TRANSPOSED: u8 = 0x80;

/// Packs blocks; one per thread.
#[derive(Debug)]
pub struct Packer {
    compressor: Compressor,
    columns: Vec<u8>,
}

impl Packer {
    /// A packer; `zstd+dict` packs as `zstd` does.
    pub fn new(compression: Compression) -> Self {
        let compressor = Compressor::new(compression, None::<&Arc<Dictionary>>);
        debug_assert!(compression.method != Method::ZstdDict || compressor.dictionary().is_none());
        Self { compressor, columns: Vec::new() }
    }

    /// Appends the packed `raw`. Rows of `stride` bytes are transposed before compressing: all
    /// first bytes, then all second bytes, and so on; 0 leaves the bytes as they are.
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

/// Unpacks blocks; one per thread.
#[derive(Debug, Default)]
pub struct Unpacker {
    decompressor: Decompressor,
    columns: Vec<u8>,
}

impl Unpacker {
    /// An unpacker for every coding.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the block, of at most `raw_len_max` bytes.
    ///
    /// # Errors
    /// What is wrong with it; a damaged block may also come out as a wrong one, as it has no
    /// checksum of its own.
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

/// Rows to columns; what is left after the last whole row stays at the end.
fn transpose(rows: &[u8], stride: usize, columns: &mut [u8]) {
    let count = rows.len() / stride;
    let whole = count * stride;
    for (at, column) in columns[..whole].chunks_exact_mut(count).enumerate() {
        for (byte, row) in column.iter_mut().zip(rows.chunks_exact(stride)) {
            *byte = row[at];
        }
    }
    columns[whole..].copy_from_slice(&rows[whole..]);
}

/// Columns to rows.
fn restore(columns: &[u8], stride: usize, rows: &mut [u8]) {
    let count = rows.len() / stride;
    let whole = count * stride;
    for (index, row) in rows.chunks_exact_mut(stride).enumerate() {
        for (at, byte) in row.iter_mut().enumerate() {
            *byte = columns[at * count + index];
        }
    }
    rows[whole..].copy_from_slice(&columns[whole..]);
}
