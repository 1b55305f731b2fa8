//! COMPRESS=DEFLATE (RFC 4978).

use std::io;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::limits::GIVEN_BACK_LEN_MAX;

/// Both directions of a compressed connection.
pub(super) struct Deflate {
    compress: Compress,
    decompress: Decompress,
    /// Bytes after the end of the client's stream, which are not compressed.
    plain: Option<Vec<u8>>,
}

/// Bytes that are added to a buffer at a time.
const ROOM_LEN: usize = 16 * 1024;

impl Deflate {
    pub(super) fn new() -> Self {
        Self {
            compress: Compress::new(Compression::fast(), false),
            decompress: Decompress::new(false),
            plain: None,
        }
    }

    /// Ends the compression; returns the bytes after the end of the client's stream.
    pub(super) fn into_plain(self) -> Vec<u8> {
        self.plain.unwrap_or_default()
    }

    /// Compresses bytes; with `flush` so that the client can read all of them at once. A client
    /// waits for ever for an answer that is not flushed.
    pub(super) fn compress(&mut self, bytes: &[u8], flush: bool) -> io::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(bytes.len() / 2 + 64);
        let how = if flush { FlushCompress::Sync } else { FlushCompress::None };
        let before = self.compress.total_in();
        loop {
            let used = (self.compress.total_in() - before) as usize;
            if out.len() == out.capacity() {
                out.reserve(ROOM_LEN);
            }
            self.compress.compress_vec(&bytes[used..], &mut out, how)?;
            let is_all = self.compress.total_in() - before == bytes.len() as u64;
            if is_all && out.len() < out.capacity() {
                return Ok(out);
            }
        }
    }

    /// Decompresses bytes of the client, and passes on pieces of a bounded size; keeps the bytes
    /// after the end of its stream.
    ///
    /// # Errors
    /// Bytes that are not deflated; too many after the end; whatever `take` returns.
    pub(super) fn decompress(
        &mut self,
        bytes: &[u8],
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.plain.is_some() {
            return self.keep_plain(bytes);
        }
        let mut piece = Vec::with_capacity(ROOM_LEN);
        let before = self.decompress.total_in();
        loop {
            piece.clear();
            let used = (self.decompress.total_in() - before) as usize;
            let status = self
                .decompress
                .decompress_vec(&bytes[used..], &mut piece, FlushDecompress::Sync)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if !piece.is_empty() {
                take(&piece)?;
            }
            let used = (self.decompress.total_in() - before) as usize;
            if status == Status::StreamEnd {
                return self.keep_plain(&bytes[used..]);
            }
            if used == bytes.len() && piece.len() < ROOM_LEN {
                return Ok(());
            }
        }
    }

    fn keep_plain(&mut self, bytes: &[u8]) -> io::Result<()> {
        let plain = self.plain.get_or_insert_default();
        if (plain.len() + bytes.len()) as u64 > GIVEN_BACK_LEN_MAX {
            let text = "too much input after the end of the compressed stream";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        plain.extend_from_slice(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flush_can_be_read_at_once() {
        let (mut server, mut client) = (Deflate::new(), Deflate::new());
        for len in [0, 1, 100, ROOM_LEN, 10 * ROOM_LEN + 7] {
            let text: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let sent = server.compress(&text, true).unwrap();
            let mut read = Vec::new();
            client
                .decompress(&sent, &mut |piece| {
                    read.extend_from_slice(piece);
                    Ok(())
                })
                .unwrap();
            assert!(read == text, "{len}");
        }
    }

    #[test]
    fn bytes_that_are_not_deflated_are_an_error() {
        let mut server = Deflate::new();
        assert!(server.decompress(b"\xff\xff\xff\xff", &mut |_| Ok(())).is_err());
    }
}
