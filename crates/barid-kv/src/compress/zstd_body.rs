//! Zstandard frames without their redundant bytes (RFC 8878 §3.1.1).
//!
//! The frame header contains the length of the content, which the record contains as well; the
//! header of a lone block contains the length of the block, which is all the rest. Both are removed
//! before storing and restored before decompressing: 10 bytes of a record, 14 with a dictionary, of
//! some 150.

use super::codec::Coding;

const MAGIC: [u8; 4] = 0xfd2f_b528u32.to_le_bytes();
const BLOCK_HEAD_LEN: usize = 3;
/// Frame header descriptor: the content is one segment, its size has four bytes, no checksum, no
/// dictionary id.
const DESCRIPTOR: u8 = 0b1010_0000;
/// A block's size and content are at most this long.
const BLOCK_LEN_MAX: usize = 128 * 1024;
/// Block type: compressed; the last one.
const LAST_COMPRESSED: u32 = 2 << 1 | 1;

/// Returns the number of bytes to remove from the front of a frame, and the coding of the rest,
/// which depends on whether it is a lone block.
pub(super) fn cut_of(frame: &[u8], dictionary: bool) -> Option<(usize, Coding)> {
    let (magic, rest) = frame.split_first_chunk::<4>()?;
    let (&descriptor, _) = rest.split_first()?;
    if *magic != MAGIC || descriptor & 0b100 != 0 {
        return None;
    }
    let single = descriptor >> 5 & 1;
    let dictionary_id_len = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size_len = [usize::from(single), 2, 4, 8][usize::from(descriptor >> 6)];
    let head_len = 4 + 1 + usize::from(1 - single) + dictionary_id_len + size_len;
    let block = frame.get(head_len..)?;
    let head = block.first_chunk::<BLOCK_HEAD_LEN>()?;
    let head = u32::from_le_bytes([head[0], head[1], head[2], 0]);
    let lone = head & 7 == LAST_COMPRESSED && head >> 3 == (block.len() - BLOCK_HEAD_LEN) as u32;
    Some(match (lone, dictionary) {
        (true, false) => (head_len + BLOCK_HEAD_LEN, Coding::ZstdBlock),
        (true, true) => (head_len + BLOCK_HEAD_LEN, Coding::ZstdDictBlock),
        (false, false) => (head_len, Coding::Zstd),
        (false, true) => (head_len, Coding::ZstdDict),
    })
}

/// Restores a frame in `frame`; `None` if such a block is impossible.
pub(super) fn restore(body: &[u8], lone: bool, raw_len: u32, frame: &mut Vec<u8>) -> Option<()> {
    frame.clear();
    frame.extend_from_slice(&MAGIC);
    frame.push(DESCRIPTOR);
    frame.extend_from_slice(&raw_len.to_le_bytes());
    if lone {
        if body.len() > BLOCK_LEN_MAX {
            return None;
        }
        let head = LAST_COMPRESSED | (body.len() as u32) << 3;
        frame.extend_from_slice(&head.to_le_bytes()[..BLOCK_HEAD_LEN]);
    }
    frame.extend_from_slice(body);
    Some(())
}
