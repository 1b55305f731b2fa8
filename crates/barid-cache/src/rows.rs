//! Rows held in memory until the scan is over.

use crate::column::BLOCK_LEN;
use crate::core_row::CORE_ROW_LEN;
use crate::thread_row::{REFERENCE_ROW_LEN, THREAD_ROW_LEN};

/// Rows of one length in pieces, so that growing never copies nor doubles what is held.
#[derive(Debug)]
pub(crate) struct Pieces<const LEN: usize> {
    pieces: Vec<Vec<u8>>,
    rows: u32,
}

impl<const LEN: usize> Default for Pieces<LEN> {
    fn default() -> Self {
        Self { pieces: Vec::new(), rows: 0 }
    }
}

impl<const LEN: usize> Pieces<LEN> {
    const PIECE_LEN: usize = BLOCK_LEN / LEN * LEN;

    pub(crate) fn push(&mut self, row: &[u8; LEN]) {
        match self.pieces.last_mut() {
            Some(piece) if piece.len() < Self::PIECE_LEN => piece.extend_from_slice(row),
            _ => {
                let first = if self.pieces.is_empty() { LEN * 16 } else { Self::PIECE_LEN };
                let mut piece = Vec::with_capacity(first);
                piece.extend_from_slice(row);
                self.pieces.push(piece);
            }
        }
        self.rows += 1;
    }

    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    pub(crate) fn shrink(&mut self) {
        if let Some(piece) = self.pieces.last_mut() {
            piece.shrink_to_fit();
        }
        self.pieces.shrink_to_fit();
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.pieces.iter_mut().flat_map(|piece| piece.chunks_exact_mut(LEN))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().flat_map(|piece| piece.chunks_exact(LEN))
    }
}

/// The columns of one chunk of a scan. References are numbered within the chunk; a UID of 0 is
/// still to come.
#[derive(Debug, Default)]
pub(crate) struct ChunkRows {
    pub(crate) core: Pieces<CORE_ROW_LEN>,
    pub(crate) thread: Pieces<THREAD_ROW_LEN>,
    pub(crate) references: Pieces<REFERENCE_ROW_LEN>,
    pub(crate) recent: u32,
    pub(crate) unseen: u32,
}

impl ChunkRows {
    pub(crate) fn shrink(&mut self) {
        self.core.shrink();
        self.thread.shrink();
        self.references.shrink();
    }
}
