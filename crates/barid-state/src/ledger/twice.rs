//! The byte stream of a ledger, and the mapping of its offsets to the file.
//!
//! From version 2 on the file has two copies of every block of the stream, one after the other, so
//! that no data is in one block of the disk only. In version 1 the file is the stream.

use std::cell::RefCell;
use std::io;

use barid_vfs::File;

use super::layout::LedgerLayout;

/// Bytes of a block.
pub(super) const BLOCK_LEN: u64 = 4096;

/// Returns the offset in the file of a byte of the stream, in its first (0) or second (1) copy.
pub(super) fn place(at: u64, copy: u64) -> u64 {
    (at / BLOCK_LEN * 2 + copy) * BLOCK_LEN + at % BLOCK_LEN
}

/// Returns the size in bytes of a file that holds a stream of `len` bytes, at least one.
pub(super) fn file_len(len: u64) -> u64 {
    place(len.saturating_sub(1), 1) + 1
}

/// Returns `true` if the block in which the stream ends, at `at`, has bytes after that in its first
/// copy: an interrupted append that did not write the second copy. They could be mistaken for a
/// part of the next batch.
pub(super) fn has_remains(file: &dyn File, at: u64) -> io::Result<bool> {
    let mut rest = vec![0; ((BLOCK_LEN - at % BLOCK_LEN) % BLOCK_LEN) as usize];
    let len = file.read_full_at(&mut rest, place(at, 0))?;
    Ok(rest[..len].iter().any(|byte| *byte != 0))
}

/// Writes both copies of `bytes` at offset `at` of the stream.
pub(super) fn write_at(file: &dyn File, bytes: &[u8], at: u64) -> io::Result<()> {
    let (mut at, mut rest) = (at, bytes);
    while !rest.is_empty() {
        let room = (BLOCK_LEN - at % BLOCK_LEN) as usize;
        let whole = rest.len() - rest.len() % BLOCK_LEN as usize;
        let len = if room == BLOCK_LEN as usize && whole > room {
            let blocks = rest[..whole].chunks(room);
            let twice: Vec<u8> =
                blocks.flat_map(|block| [block, block]).flatten().copied().collect();
            file.write_all_at(&twice, place(at, 0))?;
            whole
        } else {
            let len = room.min(rest.len());
            for copy in 0..2 {
                file.write_all_at(&rest[..len], place(at, copy))?;
            }
            len
        };
        (at, rest) = (at + len as u64, &rest[len..]);
    }
    Ok(())
}

/// The stream of a file, for reading.
#[derive(Debug)]
pub(super) struct Stream<'a> {
    file: &'a dyn File,
    pub(super) layout: LedgerLayout,
    /// Length of the stream in bytes, according to the size of the file.
    pub(super) len: u64,
    /// The first error of a block that cannot be read and was replaced by zeros.
    unreadable: RefCell<Option<io::Error>>,
}

impl<'a> Stream<'a> {
    pub(super) fn new(file: &'a dyn File, layout: LedgerLayout, size: u64) -> Self {
        let len = match layout {
            LedgerLayout::V1 => size,
            LedgerLayout::V2 | LedgerLayout::V3 => {
                let rest = size % (2 * BLOCK_LEN);
                let of_last = if rest > BLOCK_LEN { rest - BLOCK_LEN } else { rest };
                size / (2 * BLOCK_LEN) * BLOCK_LEN + of_last
            }
        };
        Self { file, layout, len, unreadable: RefCell::default() }
    }

    /// Returns the number of copies of each byte.
    pub(super) fn copies(&self) -> usize {
        self.layout.copies()
    }

    /// Returns the offset in the file of a byte of the stream, in its first copy.
    pub(super) fn file_offset(&self, at: u64) -> u64 {
        match self.layout {
            LedgerLayout::V1 => at,
            LedgerLayout::V2 | LedgerLayout::V3 => place(at, 0),
        }
    }

    /// Reads both copies of a range of the stream; in version 1 the second one is empty. Bytes
    /// beyond the end of the file are zeros.
    pub(super) fn read(&self, at: u64, len: usize) -> io::Result<[Vec<u8>; 2]> {
        if self.layout == LedgerLayout::V1 || len == 0 {
            let mut bytes = vec![0; len];
            self.read_file(&mut bytes, at)?;
            return Ok([bytes, Vec::new()]);
        }
        let start = place(at, 0);
        let mut both = vec![0; (file_len(at + len as u64) - start) as usize];
        self.read_file(&mut both, start)?;
        let mut copies = [Vec::with_capacity(len), Vec::with_capacity(len)];
        let end = at + len as u64;
        let mut from = at;
        while from < end {
            let to = end.min((from / BLOCK_LEN + 1) * BLOCK_LEN);
            for (copy, bytes) in (0..).zip(&mut copies) {
                let begin = (place(from, copy) - start) as usize;
                bytes.extend_from_slice(&both[begin..begin + (to - from) as usize]);
            }
            from = to;
        }
        Ok(copies)
    }

    /// Reads bytes of the file in one call, or, after a media error, block by block.
    fn read_file(&self, bytes: &mut [u8], start: u64) -> io::Result<()> {
        match self.file.read_full_at(bytes, start) {
            Ok(_) => return Ok(()),
            Err(error) if is_of_the_medium(&error) => {}
            Err(error) => return Err(error),
        }
        let mut at = 0;
        while at < bytes.len() {
            let room = BLOCK_LEN - (start + at as u64) % BLOCK_LEN;
            let end = bytes.len().min(at + room as usize);
            match self.file.read_full_at(&mut bytes[at..end], start + at as u64) {
                Ok(_) => {}
                Err(error) if is_of_the_medium(&error) => {
                    bytes[at..end].fill(0);
                    self.unreadable.borrow_mut().get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
            at = end;
        }
        Ok(())
    }

    /// Fails if a block could not be read: a read error does not prove that its data is lost.
    pub(super) fn check_readable(&self) -> io::Result<()> {
        self.unreadable.borrow_mut().take().map_or(Ok(()), Err)
    }
}

/// Returns `true` for a media error, which may affect single blocks only.
fn is_of_the_medium(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    error.raw_os_error() == Some(EIO) || error.kind() == io::ErrorKind::Other
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use barid_vfs::{MemVfs, OpenOptions, Vfs};

    use super::*;

    #[test]
    fn every_byte_is_there_twice() {
        for pieces in [vec![1, 70], vec![4096], vec![4095, 2, 4096], vec![5, 20_000, 9, 8191]] {
            let vfs = MemVfs::new();
            let file = vfs.open(Path::new("/file"), OpenOptions::create(0o600)).unwrap();
            let mut all = Vec::new();
            for len in pieces {
                let bytes: Vec<u8> = (0..len).map(|at: usize| (at % 251) as u8 + 1).collect();
                write_at(&*file, &bytes, all.len() as u64).unwrap();
                all.extend(bytes);
            }
            let size = file.metadata().unwrap().size;
            assert_eq!(size, file_len(all.len() as u64));
            let stream = Stream::new(&*file, LedgerLayout::V3, size);
            assert_eq!(stream.len, all.len() as u64);
            for (at, len) in [(0, all.len()), (all.len() / 3, all.len() / 2), (all.len() - 1, 1)] {
                let [first, second] = stream.read(at as u64, len).unwrap();
                assert!(first == all[at..at + len] && first == second);
            }
        }
    }
}
