//! Rows that wait until the end of the scan: a few in memory, more in a file.

use crate::column::BLOCK_LEN;
use crate::core_row::CORE_ROW_LEN;
use crate::error::Result;
use crate::spool::Spool;
use crate::thread_row::{REFERENCE_ROW_LEN, THREAD_ROW_LEN};

/// Rows of one length in pieces, so that growing neither copies them nor doubles the memory.
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

    /// Returns the length of the rows in bytes.
    fn bytes_len(&self) -> u64 {
        u64::from(self.rows) * LEN as u64
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().flat_map(|piece| piece.chunks_exact(LEN))
    }
}

/// Rows of one complete chunk: in memory, or in a file.
#[derive(Debug)]
pub(crate) enum Rows<const LEN: usize> {
    Held(Pieces<LEN>),
    Spooled { at: u64, rows: u32 },
}

impl<const LEN: usize> Default for Rows<LEN> {
    fn default() -> Self {
        Self::Held(Pieces::default())
    }
}

impl<const LEN: usize> Rows<LEN> {
    fn put_aside(pieces: Pieces<LEN>, spool: &Spool) -> Result<Self> {
        let start = spool.reserve(pieces.bytes_len());
        let mut at = start;
        for piece in &pieces.pieces {
            spool.write(piece, at)?;
            at += piece.len() as u64;
        }
        Ok(Self::Spooled { at: start, rows: pieces.rows })
    }

    pub(crate) fn rows(&self) -> u32 {
        match self {
            Self::Held(pieces) => pieces.rows,
            Self::Spooled { rows, .. } => *rows,
        }
    }

    /// Passes all rows to `show`, many at a time, and removes them; `show` may change them.
    pub(crate) fn drain(
        &mut self,
        spool: Option<&Spool>,
        show: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        match (std::mem::take(self), spool) {
            (Self::Held(pieces), _) => {
                pieces.pieces.into_iter().try_for_each(|mut piece| show(&mut piece))?;
            }
            (Self::Spooled { mut at, mut rows }, Some(spool)) => {
                let piece_rows = (Pieces::<LEN>::PIECE_LEN / LEN) as u32;
                let mut piece = Vec::new();
                while rows > 0 {
                    let now = rows.min(piece_rows);
                    piece.resize(now as usize * LEN, 0);
                    spool.read(&mut piece, at)?;
                    show(&mut piece)?;
                    at += piece.len() as u64;
                    rows -= now;
                }
            }
            (Self::Spooled { .. }, None) => {}
        }
        Ok(())
    }
}

/// The columns of one chunk of a scan. References are numbered within the chunk; a UID of 0 is
/// still unknown.
#[derive(Debug, Default)]
pub(crate) struct ChunkRows {
    pub(crate) core: Pieces<CORE_ROW_LEN>,
    pub(crate) thread: Pieces<THREAD_ROW_LEN>,
    pub(crate) references: Pieces<REFERENCE_ROW_LEN>,
    pub(crate) recent: u32,
    pub(crate) unseen: u32,
}

/// The columns of a complete chunk.
#[derive(Debug, Default)]
pub(crate) struct ColumnChunk {
    pub(crate) core: Rows<CORE_ROW_LEN>,
    pub(crate) thread: Rows<THREAD_ROW_LEN>,
    pub(crate) references: Rows<REFERENCE_ROW_LEN>,
    pub(crate) recent: u32,
    pub(crate) unseen: u32,
}

impl ChunkRows {
    pub(crate) fn bytes_len(&self) -> u64 {
        self.core.bytes_len() + self.thread.bytes_len() + self.references.bytes_len()
    }

    /// Returns the chunk in memory.
    pub(crate) fn into_memory(mut self) -> ColumnChunk {
        self.core.shrink();
        self.thread.shrink();
        self.references.shrink();
        let Self { core, thread, references, recent, unseen } = self;
        let (core, thread, references) =
            (Rows::Held(core), Rows::Held(thread), Rows::Held(references));
        ColumnChunk { core, thread, references, recent, unseen }
    }

    /// Writes the chunk to a file.
    pub(crate) fn put_aside(self, spool: &Spool) -> Result<ColumnChunk> {
        Ok(ColumnChunk {
            core: Rows::put_aside(self.core, spool)?,
            thread: Rows::put_aside(self.thread, spool)?,
            references: Rows::put_aside(self.references, spool)?,
            recent: self.recent,
            unseen: self.unseen,
        })
    }
}
