//! Bytes between a client and its worker.
//!
//! A connection without traffic has no buffer here: bytes are read into the stack and written on at
//! once. What the other side does not take is kept, and nothing more is read meanwhile.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::limits::RELAY_LEN;
use crate::server::handover::Frames;

/// The end of a relay.
pub(super) enum RelayEnd {
    /// The worker has ended the session.
    Ended,
    /// The worker gives the connection back; the bytes of the client were not passed on.
    GivenBack(Frames, Vec<u8>),
}

/// One direction.
#[derive(Default)]
struct Half {
    /// Frames of a worker; `None` for the bytes of a client.
    frames: Option<Frames>,
    /// Bytes that were read and not written, from `at`.
    kept: Vec<u8>,
    at: usize,
    is_unflushed: bool,
    has_ended: bool,
    /// The end of the time in which the other side must take something.
    patience: Option<Pin<Box<Sleep>>>,
}

/// Relays bytes until the worker ends the session or gives the connection back, or one side
/// fails; a client that takes nothing for `patience` is given up. The end of the client's input is
/// passed on.
///
/// # Errors
/// Errors of both connections, and `TimedOut`.
pub(super) async fn relay<C, W>(
    client: &mut C,
    worker: &mut W,
    patience: Duration,
) -> io::Result<RelayEnd>
where
    C: AsyncRead + AsyncWrite + Unpin,
    W: AsyncRead + AsyncWrite + Unpin,
{
    let frames = Some(Frames::default());
    let (mut up, mut down) = (Half::default(), Half { frames, ..Half::default() });
    let mut is_up_over = false;
    poll_fn(|context| {
        if !is_up_over && let Poll::Ready(end) = up.poll(context, client, worker, patience) {
            // A worker that takes nothing more may still have something to say.
            is_up_over = true;
            if end.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
                return Poll::Ready(end);
            }
            if end.is_err() {
                let _ = Pin::new(&mut *worker).poll_shutdown(context);
            }
        }
        down.poll(context, worker, client, patience)
    })
    .await?;
    Ok(match down.frames {
        Some(frames) if frames.is_given_back() => {
            RelayEnd::GivenBack(frames, up.kept.split_off(up.at))
        }
        _ => RelayEnd::Ended,
    })
}

impl Half {
    /// Passes bytes on; ready once the end was passed on.
    fn poll<F: AsyncRead + Unpin, T: AsyncWrite + Unpin>(
        &mut self,
        context: &mut Context<'_>,
        from: &mut F,
        to: &mut T,
        patience: Duration,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.at < self.kept.len() {
                ready!(self.write_kept(context, to, patience))?;
                continue;
            }
            if self.frames.as_ref().is_some_and(Frames::is_given_back) {
                return Pin::new(to).poll_flush(context);
            }
            if self.has_ended {
                return Pin::new(to).poll_shutdown(context);
            }
            let mut space = [MaybeUninit::uninit(); RELAY_LEN];
            let mut piece = ReadBuf::uninit(&mut space);
            match Pin::new(&mut *from).poll_read(context, &mut piece) {
                Poll::Pending => {
                    if self.is_unflushed {
                        ready!(Pin::new(&mut *to).poll_flush(context))?;
                        self.is_unflushed = false;
                    }
                    return Poll::Pending;
                }
                Poll::Ready(read) => read?,
            }
            let mut bytes = piece.filled_mut();
            if bytes.is_empty() {
                self.has_ended = true;
                continue;
            }
            if let Some(frames) = &mut self.frames {
                let len = frames.strip(bytes);
                bytes = &mut bytes[..len];
                if bytes.is_empty() {
                    continue;
                }
            }
            self.is_unflushed = true;
            let written = match Pin::new(&mut *to).poll_write(context, bytes) {
                Poll::Ready(written) => written?,
                Poll::Pending => 0,
            };
            if written < bytes.len() {
                self.kept = bytes[written..].to_vec();
                self.at = 0;
            }
        }
    }

    fn write_kept<T: AsyncWrite + Unpin>(
        &mut self,
        context: &mut Context<'_>,
        to: &mut T,
        patience: Duration,
    ) -> Poll<io::Result<()>> {
        match Pin::new(to).poll_write(context, &self.kept[self.at..]) {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(len)) => {
                self.patience = None;
                self.at += len;
                if self.at == self.kept.len() {
                    (self.kept, self.at) = (Vec::new(), 0);
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                let timer = self.patience.get_or_insert_with(|| Box::pin(sleep(patience)));
                ready!(timer.as_mut().poll(context));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;
    use crate::server::handover::WorkerEnd;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn bytes_and_ends_pass() {
        block_on(async {
            let (mut client, near_client) = duplex(7);
            let (mut worker, near_worker) = duplex(5);
            let relayed = tokio::spawn(async move {
                let (mut client, mut worker) = (near_client, near_worker);
                relay(&mut client, &mut worker, Duration::from_secs(60)).await
            });
            let sent: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
            let (to_send, expected) = (sent.clone(), sent);
            let client = tokio::spawn(async move {
                client.write_all(&to_send).await.unwrap();
                client.shutdown().await.unwrap();
                let mut answer = Vec::new();
                client.read_to_end(&mut answer).await.unwrap();
                answer
            });
            let mut received = Vec::new();
            worker.read_to_end(&mut received).await.unwrap();
            assert!(received == expected);
            WorkerEnd::new(&mut worker).write_all(b"bye").await.unwrap();
            drop(worker);
            assert_eq!(client.await.unwrap(), b"bye");
            assert!(matches!(relayed.await.unwrap().unwrap(), RelayEnd::Ended));
        });
    }

    #[test]
    fn one_who_reads_nothing_is_given_up() {
        block_on(async {
            let (_client, near_client) = duplex(16);
            let (mut worker, near_worker) = duplex(16);
            let relayed = tokio::spawn(async move {
                let (mut client, mut worker) = (near_client, near_worker);
                relay(&mut client, &mut worker, Duration::from_millis(50)).await.err()
            });
            let sent =
                tokio::spawn(
                    async move { WorkerEnd::new(&mut worker).write_all(&[0; 100_000]).await },
                );
            let error = relayed.await.unwrap().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(sent.await.unwrap().is_err());
        });
    }
}
