//! Contents of a disk, and changes to them.

use std::sync::Arc;

/// Bytes of a block; unwritten blocks use no memory.
const BLOCK_LEN: usize = 4096;

/// A request to a disk.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// Writes bytes.
    Write { offset: u64, bytes: Arc<[u8]> },
    /// Makes all earlier writes durable.
    Flush,
}

/// The contents of a disk. A copy shares its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    blocks: Vec<Option<Arc<[u8; BLOCK_LEN]>>>,
}

impl Image {
    /// Creates a disk of zeros; `len` is rounded up to whole blocks.
    pub(crate) fn new(len: u64) -> Self {
        Self { blocks: vec![None; (len as usize).div_ceil(BLOCK_LEN)] }
    }

    /// Returns the size in bytes.
    pub(crate) fn len(&self) -> u64 {
        (self.blocks.len() * BLOCK_LEN) as u64
    }

    /// Returns at most `len` bytes from `offset`, fewer at the end.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let end = (offset + len as u64).min(self.len());
        let mut bytes = Vec::with_capacity(len);
        let mut at = offset;
        while at < end {
            let (block, within) = (at as usize / BLOCK_LEN, at as usize % BLOCK_LEN);
            let take = (BLOCK_LEN - within).min((end - at) as usize);
            match &self.blocks[block] {
                Some(block) => bytes.extend_from_slice(&block[within..within + take]),
                None => bytes.resize(bytes.len() + take, 0),
            }
            at += take as u64;
        }
        bytes
    }

    /// Writes bytes; those beyond the end are dropped.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (offset as usize, bytes);
        while !rest.is_empty() {
            let (block, within) = (at / BLOCK_LEN, at % BLOCK_LEN);
            let Some(slot) = self.blocks.get_mut(block) else { return };
            let (now, later) = rest.split_at((BLOCK_LEN - within).min(rest.len()));
            let block = Arc::make_mut(slot.get_or_insert_with(|| Arc::new([0; BLOCK_LEN])));
            block[within..within + now.len()].copy_from_slice(now);
            at += now.len();
            rest = later;
        }
    }
}

impl Event {
    /// Applies the event to a disk.
    pub(crate) fn apply(&self, image: &mut Image) {
        if let Self::Write { offset, bytes } = self {
            image.write(*offset, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut image = Image::new(3 * BLOCK_LEN as u64);
        let before = image.clone();
        image.write(4_000, &[7; 200]);
        assert_eq!(image.read(3_999, 202), [&[0][..], &[7; 200], &[0]].concat());
        assert_eq!(before.read(0, 20_000), vec![0; 3 * BLOCK_LEN]);
        image.write(image.len() - 1, b"xy");
        assert_eq!(image.read(image.len() - 1, 10), b"x");
    }
}
