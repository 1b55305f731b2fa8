//! Reading a file in chunks on many threads, with the result of one walk from its beginning.
//!
//! The file is cut into chunks, and each thread takes the next one. The first message of a chunk
//! depends on everything before it, since a `Content-Length` may hide From_ lines, so a thread
//! assumes that it is at the first From_ line of the chunk. Chunks become certain one after the
//! other (`Frontier`). If the assumption was wrong, the chunk's sink is dropped unfinished and the
//! chunk is read again. So the messages are exactly those of one walk from the beginning, and no
//! chunk is read more than twice.

use std::sync::{Condvar, Mutex, PoisonError};

use super::layout::{CHUNKS_AHEAD_MAX, CHUNKS_LEN_MAX, SCAN_THREADS_MAX};
use super::scan::{ChunkReader, OpenedMbox, ScannedMessages, SharedScan, lock};
use super::status::Separators;
use super::walk::{Next, Separator};
use barid_mailbox::{Error, Result, ScanContext, ScanSink};
use barid_vfs::on_threads;

/// Reads all chunks; returns what was found, in file order, and the number of bytes read.
pub(super) fn chunks(
    shared: &SharedScan<'_>,
    opened: &OpenedMbox,
    first: Separator,
    context: &ScanContext<'_>,
) -> Result<(ScannedMessages, u64)> {
    let size = opened.size();
    let mmdf = shared.mailbox.separators() == Separators::Mmdf;
    let threads = context.thread_count().clamp(1, SCAN_THREADS_MAX);
    let chunk_len = match mmdf || shared.mailbox.compressed.is_some() {
        true => size,
        false => shared.mailbox.chunk_len(size, threads),
    };
    let plan = ChunkPlan { size, chunk_len: chunk_len.max(1) };
    let threads = threads.min(plan.count() as usize);
    let ahead_max = (CHUNKS_LEN_MAX / plan.chunk_len / threads as u64).saturating_sub(1);
    let ahead_max = ahead_max.min(CHUNKS_AHEAD_MAX) as usize;
    let frontier = Frontier::new(Next::Message(first));
    let progress = context.progress;
    let work = || {
        let reader = ChunkReader::new(shared, opened.source(shared.mailbox));
        let (frontier, pending) = (&frontier, Vec::new());
        let worker = Worker { reader, plan, ahead_max, frontier, pending, progress };
        frontier.guard(|| worker.run())
    };
    on_threads(threads, work);
    frontier.into_found()
}

/// Division of a file into chunks of equal length.
#[derive(Clone, Copy)]
struct ChunkPlan {
    size: u64,
    chunk_len: u64,
}

impl ChunkPlan {
    fn count(self) -> u64 {
        self.size.div_ceil(self.chunk_len).max(1)
    }

    fn start(self, chunk: u64) -> u64 {
        chunk * self.chunk_len
    }

    /// Returns the end of a chunk. The last one includes bytes added while the file is read.
    fn end(self, chunk: u64) -> u64 {
        if chunk + 1 == self.count() { u64::MAX } else { (chunk + 1) * self.chunk_len }
    }
}

/// The part of the file, from its start, in which the message boundaries are certain.
struct Frontier {
    state: Mutex<ParallelState>,
    moved: Condvar,
}

struct ParallelState {
    /// The next chunk that a thread may take.
    unclaimed: u64,
    /// The first chunk that is not yet certain.
    chunk: u64,
    /// First message that starts in that chunk or after it.
    entry: Next,
    /// Start and end of the chunks that were read ahead of it.
    ahead: Vec<AssumedChunk>,
    /// Results of finished chunks, by chunk number.
    found: Vec<(u64, ScannedMessages)>,
    bytes_read: u64,
    failure: Option<Error>,
    failed: bool,
}

/// A chunk that was read from an assumed first message.
#[derive(Clone, Copy)]
struct AssumedChunk {
    chunk: u64,
    entered: Option<Separator>,
    exit: Option<Next>,
}

impl Frontier {
    fn new(entry: Next) -> Self {
        let state = ParallelState {
            unclaimed: 0,
            chunk: 0,
            entry,
            ahead: Vec::new(),
            found: Vec::new(),
            bytes_read: 0,
            failure: None,
            failed: false,
        };
        Self { state: Mutex::new(state), moved: Condvar::new() }
    }

    /// Runs a worker; its error or panic stops the others.
    fn guard(&self, work: impl FnOnce() -> Result<u64>) {
        struct OnPanic<'f>(&'f Frontier);
        impl Drop for OnPanic<'_> {
            fn drop(&mut self) {
                lock(&self.0.state).failed = true;
                self.0.moved.notify_all();
            }
        }
        let on_panic = OnPanic(self);
        let result = work();
        std::mem::forget(on_panic);
        let mut state = lock(&self.state);
        match result {
            Ok(bytes) => state.bytes_read += bytes,
            Err(error) => {
                state.failed = true;
                state.failure.get_or_insert(error);
            }
        }
        self.moved.notify_all();
    }

    fn into_found(self) -> Result<(ScannedMessages, u64)> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = state.failure {
            return Err(error);
        }
        let mut chunks = state.found;
        chunks.sort_unstable_by_key(|(chunk, _)| *chunk);
        let mut all = ScannedMessages::default();
        chunks.into_iter().for_each(|(_, found)| all.append(found));
        Ok((all, state.bytes_read))
    }
}

impl ParallelState {
    /// Moves the frontier over all chunks whose assumed first message proved right.
    fn advance(&mut self, plan: ChunkPlan) {
        while self.chunk < plan.count() {
            let end = plan.end(self.chunk);
            let inside = match self.entry {
                Next::Message(separator) => separator.offset < end,
                Next::End => false,
            };
            let Some(place) = self.ahead.iter().position(|ahead| ahead.chunk == self.chunk) else {
                return;
            };
            let ahead = self.ahead[place];
            let right = match self.entry {
                Next::Message(separator) if inside => ahead.entered == Some(separator),
                _ => ahead.entered.is_none(),
            };
            if !right {
                return;
            }
            self.ahead.swap_remove(place);
            if inside {
                self.entry = ahead.exit.unwrap_or(Next::End);
            }
            self.chunk += 1;
        }
    }
}

/// A chunk that was read but is not yet certain.
struct UncertainChunk<'a> {
    chunk: u64,
    sink: Box<dyn ScanSink + 'a>,
    found: ScannedMessages,
}

struct Worker<'a> {
    reader: ChunkReader<'a>,
    plan: ChunkPlan,
    /// Chunks that may wait until they are certain.
    ahead_max: usize,
    frontier: &'a Frontier,
    pending: Vec<UncertainChunk<'a>>,
    progress: Option<&'a (dyn Fn(u64, u64) + Sync)>,
}

impl Worker<'_> {
    /// Reads chunks until none is left; returns the number of bytes read.
    fn run(mut self) -> Result<u64> {
        loop {
            let (chunk, entry) = {
                let mut state = lock(&self.frontier.state);
                if state.failed {
                    return Ok(0);
                }
                let chunk = state.unclaimed;
                if chunk >= self.plan.count() {
                    break;
                }
                state.unclaimed += 1;
                (chunk, (state.chunk == chunk).then_some(state.entry))
            };
            self.read(chunk, entry)?;
            self.settle(self.ahead_max)?;
            if let Some(progress) = self.progress {
                progress(self.plan.end(chunk).min(self.plan.size), self.plan.size);
            }
        }
        self.settle(0)?;
        Ok(self.reader.walker.window.bytes_read)
    }

    /// Reads a chunk from its first message: that of `entry`, or if that is not known yet, the
    /// first one found in the chunk.
    fn read(&mut self, chunk: u64, entry: Option<Next>) -> Result<()> {
        let (start, end) = (self.plan.start(chunk), self.plan.end(chunk));
        let mailbox = self.reader.shared.mailbox;
        let entered = match entry {
            Some(Next::Message(separator)) => (separator.offset < end).then_some(separator),
            Some(Next::End) => None,
            None => self.reader.walker.search(start, end).map_err(Error::at(&mailbox.path))?,
        };
        let mut sink = self.reader.shared.sinks.sink(chunk as u32);
        let mut found = ScannedMessages::default();
        let exit = match entered {
            Some(first) => Some(self.reader.walk(first, end, &mut *sink, &mut found)?),
            None => None,
        };
        self.pending.push(UncertainChunk { chunk, sink, found });
        let mut state = lock(&self.frontier.state);
        state.ahead.push(AssumedChunk { chunk, entered, exit });
        state.advance(self.plan);
        self.frontier.moved.notify_all();
        Ok(())
    }

    /// Finishes chunks that have become certain, reads again those whose assumption was wrong, and
    /// waits until at most `most` are pending.
    fn settle(&mut self, most: usize) -> Result<()> {
        loop {
            let (certain, entry) = {
                let mut state = lock(&self.frontier.state);
                loop {
                    if state.failed {
                        return Ok(());
                    }
                    let first = self.pending.first().map(|pending| pending.chunk);
                    let wrong = first == Some(state.chunk);
                    if first.is_none_or(|first| first < state.chunk)
                        || wrong
                        || self.pending.len() <= most
                    {
                        break;
                    }
                    state = self.frontier.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                (state.chunk, state.entry)
            };
            while self.pending.first().is_some_and(|pending| pending.chunk < certain) {
                let mut pending = self.pending.remove(0);
                pending.found.items.shrink();
                pending.sink.finish().map_err(Error::Sink)?;
                lock(&self.frontier.state).found.push((pending.chunk, pending.found));
            }
            if self.pending.first().is_some_and(|pending| pending.chunk == certain) {
                drop(self.pending.remove(0));
                let mut state = lock(&self.frontier.state);
                state.ahead.retain(|ahead| ahead.chunk != certain);
                drop(state);
                self.read_again(certain, entry)?;
            } else if self.pending.len() <= most {
                return Ok(());
            }
        }
    }

    /// Reads a chunk from its true first message; it stays the first of the pending ones.
    fn read_again(&mut self, chunk: u64, entry: Next) -> Result<()> {
        self.read(chunk, Some(entry))?;
        self.pending.sort_by_key(|pending| pending.chunk);
        Ok(())
    }
}
