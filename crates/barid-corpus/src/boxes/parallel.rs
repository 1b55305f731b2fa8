//! Making mail on all cores, with a bounded number of messages in memory.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::Written;
use crate::corpus::{Corpus, GeneratedMessage};

/// Messages that a thread processes at once.
const CHUNK_LEN: u64 = 256;
/// Finished chunks that may wait for each thread.
const CHUNKS_WAITING_MAX: usize = 4;

fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Calls `write` with every message, in no order, from all cores; it returns the bytes written.
pub(super) fn for_each_chunk(
    corpus: &Corpus,
    write: impl Fn(u64, &GeneratedMessage) -> io::Result<u64> + Sync,
) -> io::Result<Written> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut message = GeneratedMessage::default();
        let mut bytes = 0;
        loop {
            let first = next.fetch_add(CHUNK_LEN, Ordering::Relaxed);
            for number in first..(first + CHUNK_LEN).min(corpus.len()) {
                corpus.write_message(number, &mut message);
                bytes += write(number, &message)?;
            }
            if first >= corpus.len() {
                return Ok(bytes);
            }
        }
    };
    let bytes = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads()).map(|_| scope.spawn(work)).collect();
        let joined = workers
            .into_iter()
            .map(|worker| worker.join().expect("because making and writing mail does not panic"));
        joined.sum::<io::Result<u64>>()
    })?;
    Ok(Written { messages: corpus.len(), bytes })
}

/// Renders every message on all cores and passes the bytes to `write` in the order of the messages.
pub(super) fn in_order(
    corpus: &Corpus,
    render: impl Fn(&GeneratedMessage, &mut Vec<u8>) + Sync,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let chunks = corpus.len().div_ceil(CHUNK_LEN);
    let threads = threads() as u64;
    let render = &render;
    thread::scope(|scope| {
        let mut receivers: Vec<Receiver<Vec<u8>>> = Vec::new();
        for worker in 0..threads {
            let (sender, receiver) = sync_channel(CHUNKS_WAITING_MAX);
            receivers.push(receiver);
            scope.spawn(move || render_chunks(corpus, (worker, threads, chunks), render, &sender));
        }
        for chunk in 0..chunks {
            let receiver = &receivers[(chunk % threads) as usize];
            write(&receiver.recv().expect("because rendering mail does not panic"))?;
        }
        Ok(())
    })
}

/// Renders the chunks `first`, `first + step`, ... below `end` until the receiver is gone.
fn render_chunks(
    corpus: &Corpus,
    (first, step, end): (u64, u64, u64),
    render: impl Fn(&GeneratedMessage, &mut Vec<u8>),
    sender: &SyncSender<Vec<u8>>,
) {
    let mut message = GeneratedMessage::default();
    let mut chunk = first;
    while chunk < end {
        let start = chunk * CHUNK_LEN;
        let mut out = Vec::with_capacity(1 << 21);
        for number in start..(start + CHUNK_LEN).min(corpus.len()) {
            corpus.write_message(number, &mut message);
            render(&message, &mut out);
        }
        if sender.send(out).is_err() {
            return;
        }
        chunk += step;
    }
}
