//! The bytes from a worker to the front: frames, so that a worker can give a connection back.
//!
//! A frame is its length (`u32`, little endian) and as many bytes for the client. The length
//! [`GIVEN_BACK`] gives the connection back after UNAUTHENTICATE (RFC 8437): the front ends its
//! direction, and the frames that follow are input that the session has not read, which a client
//! may send ahead; the same length again ends them. Bytes to the worker have no frames.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::timeout;

use crate::limits::{GIVEN_BACK_LEN_MAX, PRELUDE_TIMEOUT, RELAY_LEN, SLOW_READER_TIMEOUT};

/// The length that is none.
const GIVEN_BACK: u32 = u32::MAX;
const HEADER_LEN: usize = 4;

/// The socket of a session as the worker uses it: what is written becomes frames.
pub(super) struct WorkerEnd<S> {
    stream: S,
    header: [u8; HEADER_LEN],
    /// Bytes of the header that were written.
    header_at: usize,
    /// Bytes of the frame that are to be written.
    left: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> WorkerEnd<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, header: [0; HEADER_LEN], header_at: HEADER_LEN, left: 0 }
    }

    /// Gives the connection back to the front, with input that was not read.
    ///
    /// # Errors
    /// Errors of the socket; too much input.
    pub(super) async fn give_back(mut self, mut unread: Vec<u8>) -> io::Result<()> {
        self.stream.write_all(&GIVEN_BACK.to_le_bytes()).await?;
        self.stream.flush().await?;
        // What the front had passed on before it knew.
        let mut rest = (&mut self.stream).take(GIVEN_BACK_LEN_MAX);
        // The front may have to write to a slow client first.
        let read = timeout(SLOW_READER_TIMEOUT, rest.read_to_end(&mut unread)).await;
        read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        if unread.len() as u64 >= GIVEN_BACK_LEN_MAX {
            return Err(io::Error::other("too much input behind UNAUTHENTICATE"));
        }
        self.write_all(&unread).await?;
        self.stream.write_all(&GIVEN_BACK.to_le_bytes()).await?;
        self.stream.shutdown().await
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WorkerEnd<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, space)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WorkerEnd<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let this = &mut *self;
        if this.left == 0 {
            let len = bytes.len().min(RELAY_LEN);
            this.left = len;
            this.header = (len as u32).to_le_bytes();
            this.header_at = 0;
        }
        while this.header_at < HEADER_LEN {
            let header = &this.header[this.header_at..];
            match ready!(Pin::new(&mut this.stream).poll_write(context, header))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                len => this.header_at += len,
            }
        }
        let part = &bytes[..bytes.len().min(this.left)];
        let written = ready!(Pin::new(&mut this.stream).poll_write(context, part))?;
        this.left -= written;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The place in the frames of a worker, as the front reads them.
#[derive(Default)]
pub(super) struct Frames {
    header: [u8; HEADER_LEN],
    /// Bytes of the header that were read.
    header_len: usize,
    /// Bytes of the frame that are to be read.
    left: usize,
    /// Number of marks: the connection is given back, and the input is complete.
    marks: u32,
}

impl Frames {
    /// Moves the bytes for the client to the beginning of what was read, and returns their number.
    pub(super) fn strip(&mut self, bytes: &mut [u8]) -> usize {
        let (mut at, mut len) = (0, 0);
        while at < bytes.len() {
            if self.left > 0 {
                let part = self.left.min(bytes.len() - at);
                bytes.copy_within(at..at + part, len);
                (at, len, self.left) = (at + part, len + part, self.left - part);
                continue;
            }
            self.header[self.header_len] = bytes[at];
            (at, self.header_len) = (at + 1, self.header_len + 1);
            if self.header_len == HEADER_LEN {
                self.header_len = 0;
                match u32::from_le_bytes(self.header) {
                    GIVEN_BACK => self.marks = self.marks.saturating_add(1),
                    frame => self.left = frame as usize,
                }
            }
        }
        len
    }

    /// Returns `true` if the worker has given the connection back.
    pub(super) fn is_given_back(&self) -> bool {
        self.marks > 0
    }

    /// Reads the input that a worker gives back, and appends `kept`, which it was not sent.
    ///
    /// # Errors
    /// Errors of the socket; too much input.
    pub(super) async fn unread<W: AsyncRead + AsyncWrite + Unpin>(
        mut self,
        worker: &mut W,
        kept: &[u8],
    ) -> io::Result<Vec<u8>> {
        worker.shutdown().await?;
        let mut unread = Vec::new();
        let mut rest = worker.take(GIVEN_BACK_LEN_MAX * 2);
        let read = timeout(PRELUDE_TIMEOUT, rest.read_to_end(&mut unread)).await;
        read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let len = self.strip(&mut unread);
        unread.truncate(len);
        unread.extend_from_slice(kept);
        let is_whole = self.marks == 2 && self.left == 0 && self.header_len == 0;
        match unread.len() as u64 > GIVEN_BACK_LEN_MAX || !is_whole {
            true => Err(io::Error::other("a connection that was not given back whole")),
            false => Ok(unread),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_pass_in_pieces_of_any_size() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for room in [1, 3, 64, 100_000] {
            let sent: Vec<u8> = (0..50_000_u32).map(|n| (n % 251) as u8).collect();
            let expected = sent.clone();
            let (worker, front) = tokio::io::duplex(room);
            runtime.block_on(async move {
                let write = async move {
                    let mut worker = WorkerEnd::new(worker);
                    worker.write_all(&sent).await.unwrap();
                    worker.give_back(b"unread ".to_vec()).await.unwrap();
                };
                let read = async move {
                    let (mut frames, mut received) = (Frames::default(), Vec::new());
                    let (mut from, mut to) = tokio::io::split(front);
                    // The worker reads it when it gives the connection back.
                    let sent = async { to.write_all(b"on its way").await.unwrap() };
                    let down = async {
                        while !frames.is_given_back() {
                            let mut piece = [0; 17];
                            let len = from.read(&mut piece).await.unwrap();
                            assert!(len > 0);
                            let len = frames.strip(&mut piece[..len]);
                            received.extend_from_slice(&piece[..len]);
                        }
                    };
                    tokio::join!(sent, down);
                    assert!(received == expected);
                    let mut front = from.unsplit(to);
                    let unread = frames.unread(&mut front, b" kept").await.unwrap();
                    assert_eq!(unread, b"unread on its way kept");
                };
                tokio::join!(write, read);
            });
        }
    }
}
