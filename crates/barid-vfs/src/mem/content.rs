//! The bytes and holes of a file in memory.

use std::ops::Range;
use std::sync::Arc;

use crate::limits::BLOCK_LEN;

/// The content of a file. Clones share the bytes until one of them is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileContent {
    pub(crate) bytes: Arc<Vec<u8>>,
    /// Ranges of blocks that were never written, in ascending order, without overlaps.
    holes: Vec<Range<usize>>,
}

impl FileContent {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the size of all blocks in bytes, holes included.
    pub(crate) fn allocated(&self) -> u64 {
        self.bytes.len().next_multiple_of(BLOCK_LEN) as u64
    }

    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        let len = self.len();
        if bytes.is_empty() {
            return;
        }
        if end > len {
            self.add_hole(len.div_ceil(BLOCK_LEN)..end.div_ceil(BLOCK_LEN));
        }
        if !self.holes.is_empty() {
            self.remove_holes(offset / BLOCK_LEN..end.div_ceil(BLOCK_LEN));
        }
        let content = Arc::make_mut(&mut self.bytes);
        if offset == len {
            content.extend_from_slice(bytes);
            return;
        }
        if end > len {
            content.resize(end, 0);
        }
        content[offset..end].copy_from_slice(bytes);
    }

    /// Truncates, or extends by a hole.
    pub(crate) fn set_len(&mut self, len: usize) {
        let (before, after) = (self.len().div_ceil(BLOCK_LEN), len.div_ceil(BLOCK_LEN));
        if after < before {
            self.remove_holes(after..usize::MAX);
        } else {
            self.add_hole(before..after);
        }
        if len != self.len() {
            Arc::make_mut(&mut self.bytes).resize(len, 0);
        }
    }

    /// Removes whole blocks, which must end before the end of the file.
    pub(crate) fn collapse(&mut self, offset: usize, len: usize) {
        Arc::make_mut(&mut self.bytes).drain(offset..offset + len);
        let (first, count) = (offset / BLOCK_LEN, len / BLOCK_LEN);
        self.remove_holes(first..first + count);
        for hole in self.holes.iter_mut().filter(|hole| hole.start >= first) {
            *hole = hole.start - count..hole.end - count;
        }
    }

    /// Applies a collapse that was interrupted when its hole was at `hole`: blocks from `offset` to
    /// there have moved down, those after the hole have not, and the size is unchanged.
    pub(crate) fn collapse_halfway(&mut self, offset: usize, len: usize, hole: usize) {
        let before = self.clone();
        let size = before.len();
        self.collapse(offset, len);
        let bytes = Arc::make_mut(&mut self.bytes);
        bytes.truncate(hole);
        bytes.resize((hole + len).min(size), 0);
        bytes.extend_from_slice(&before.bytes[(hole + len).min(size)..]);
        let (first, end) = (hole / BLOCK_LEN, (hole + len) / BLOCK_LEN);
        self.remove_holes(first..usize::MAX);
        self.add_hole(first..end.min(size.div_ceil(BLOCK_LEN)));
        let behind = before.holes.iter().map(|hole| hole.start.max(end)..hole.end);
        self.holes.extend(behind.filter(|hole| !hole.is_empty()));
    }

    pub(crate) fn first_hole(&self, from: u64) -> Option<u64> {
        let len = self.len() as u64;
        let bytes = |block: usize| block as u64 * BLOCK_LEN as u64;
        let hole = self.holes.iter().find(|hole| bytes(hole.end) > from)?;
        Some(bytes(hole.start).max(from)).filter(|hole| *hole < len)
    }

    /// Adds a hole that does not overlap others.
    fn add_hole(&mut self, blocks: Range<usize>) {
        if blocks.is_empty() {
            return;
        }
        let at = self.holes.partition_point(|hole| hole.start < blocks.start);
        self.holes.insert(at, blocks);
    }

    fn remove_holes(&mut self, blocks: Range<usize>) {
        if self.holes.is_empty() {
            return;
        }
        let rest = |hole: &Range<usize>| {
            let before = hole.start..hole.end.min(blocks.start);
            let after = hole.start.max(blocks.end)..hole.end;
            [before, after]
        };
        let kept = self.holes.iter().flat_map(rest).filter(|hole| !hole.is_empty());
        self.holes = kept.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the number of the block of the first hole from each block on.
    fn check(change: impl Fn(&mut FileContent), expected: &[Option<u64>]) {
        let mut content = FileContent::default();
        content.write(0, &[b'x'; 4 * BLOCK_LEN + 1]);
        change(&mut content);
        let block = BLOCK_LEN as u64;
        let found = |at: usize| content.first_hole(at as u64 * block).map(|hole| hole / block);
        assert_eq!((0..expected.len()).map(found).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn holes_are_where_nothing_was_written() {
        let grown = |content: &mut FileContent| content.set_len(8 * BLOCK_LEN);
        check(|_| {}, &[None; 6]);
        check(
            grown,
            &[Some(5), Some(5), Some(5), Some(5), Some(5), Some(5), Some(6), Some(7), None],
        );
        let written = |content: &mut FileContent| {
            grown(content);
            content.write(6 * BLOCK_LEN + 9, b"x");
        };
        check(written, &[Some(5), Some(5), Some(5), Some(5), Some(5), Some(5), Some(7), Some(7)]);
        let collapsed = |content: &mut FileContent| {
            written(content);
            content.collapse(BLOCK_LEN, 2 * BLOCK_LEN);
            assert_eq!(content.len(), 6 * BLOCK_LEN);
        };
        check(collapsed, &[Some(3), Some(3), Some(3), Some(3), Some(5), Some(5), None]);
        let cut = |content: &mut FileContent| {
            written(content);
            content.set_len(6 * BLOCK_LEN - 1);
        };
        check(cut, &[Some(5), Some(5), Some(5), Some(5), Some(5), Some(5), None]);
        check(|content| content.write(6 * BLOCK_LEN, b"x"), &[Some(5); 6]);
        let halfway = |hole: usize| {
            move |content: &mut FileContent| {
                content.collapse_halfway(BLOCK_LEN, BLOCK_LEN, hole * BLOCK_LEN);
                assert_eq!(content.len(), 4 * BLOCK_LEN + 1);
            }
        };
        check(halfway(1), &[Some(1), Some(1), None]);
        check(halfway(3), &[Some(3), Some(3), Some(3), Some(3), None]);
        check(halfway(4), &[Some(4), Some(4), Some(4), Some(4), Some(4), None]);
    }
}
