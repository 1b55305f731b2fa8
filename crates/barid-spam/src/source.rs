//! Sources of messages, and reading them: by several threads, in order, in bounded memory.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use barid::{Mailbox, ReadOutcome, WHOLE_LEN_MAX};
use barid_types::Uid;
use barid_vfs::Vfs;

use crate::Result;
use crate::limits::{CHUNK, CHUNKS_WAITING, THREADS_MAX};

/// Messages for the filter.
#[derive(Debug)]
pub enum Source<'a> {
    /// Messages of a mailbox, by UID, ascending.
    Mailbox(&'a mut Mailbox, &'a [Uid]),
    /// Files, each of which is a message.
    Files(&'a [PathBuf]),
    /// Messages in memory.
    Messages(&'a [&'a [u8]]),
}

impl Source<'_> {
    /// Returns the number of messages.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Mailbox(_, uids) => uids.len(),
            Self::Files(files) => files.len(),
            Self::Messages(messages) => messages.len(),
        }
    }
}

/// Position of a message in its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// A message of the mailbox.
    Uid(Uid),
    /// Index among the files or messages.
    Index(usize),
}

/// Computes a result from the bytes of a message, in any thread.
pub(crate) type Make<'a, T> = dyn Fn(&[u8]) -> T + Sync + 'a;

/// Receives the results, in order; `false` ends the reading.
pub(crate) type TakeResult<'a, T> = dyn FnMut(At, ReadOutcome<T>) -> Result<bool> + 'a;

/// Reads all messages of a source.
pub(crate) fn each<T: Send>(
    vfs: &dyn Vfs,
    source: Source<'_>,
    threads: usize,
    make: &Make<'_, T>,
    take: &mut TakeResult<'_, T>,
) -> Result<()> {
    match source {
        Source::Mailbox(mailbox, uids) => {
            mailbox.read_each(uids, make, &mut |uid, outcome| take(At::Uid(uid), outcome))
        }
        Source::Files(files) => {
            let make = |path: &PathBuf| match vfs.read(path, WHOLE_LEN_MAX) {
                Ok(bytes) => ReadOutcome::Made(make(&bytes)),
                Err(source) => {
                    ReadOutcome::Unreadable(barid::Error::Io { path: path.clone(), source })
                }
            };
            in_order(files, threads, &make, &mut |index, made| take(At::Index(index), made))
        }
        Source::Messages(messages) => {
            let make = |message: &&[u8]| ReadOutcome::Made(make(message));
            in_order(messages, threads, &make, &mut |index, made| take(At::Index(index), made))
        }
    }
}

/// Computes results for all items by several threads, and passes them on in order.
fn in_order<I: Sync, T: Send>(
    items: &[I],
    threads: usize,
    make: &(dyn Fn(&I) -> T + Sync),
    take: &mut dyn FnMut(usize, T) -> Result<bool>,
) -> Result<()> {
    let chunks = items.chunks(CHUNK).len();
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let threads = if threads == 0 { cores() } else { threads };
    let threads = threads.min(chunks).min(THREADS_MAX);
    if threads <= 1 {
        for (index, item) in items.iter().enumerate() {
            if !take(index, make(item))? {
                break;
            }
        }
        return Ok(());
    }
    thread::scope(|scope| {
        let receivers: Vec<Receiver<Vec<T>>> = (0..threads)
            .map(|worker| {
                let (sender, receiver) = sync_channel(CHUNKS_WAITING);
                scope.spawn(move || {
                    for chunk in items.chunks(CHUNK).skip(worker).step_by(threads) {
                        // The results may not be wanted any more.
                        if sender.send(chunk.iter().map(make).collect()).is_err() {
                            return;
                        }
                    }
                });
                receiver
            })
            .collect();
        for chunk in 0..chunks {
            // A thread that is gone before its last chunk has panicked; the scope resumes the
            // panic.
            let Ok(made) = receivers[chunk % threads].recv() else { break };
            for (index, made) in (chunk * CHUNK..).zip(made) {
                if !take(index, made)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(items: usize, threads: usize, most: usize) {
        let items: Vec<usize> = (0..items).collect();
        let mut taken = Vec::new();
        let done = in_order(&items, threads, &|item| item * 2, &mut |index, made| {
            taken.push((index, made));
            Ok(taken.len() < most)
        });
        done.unwrap();
        let expected: Vec<_> = items.iter().map(|item| (*item, item * 2)).take(most).collect();
        assert_eq!(taken, expected);
    }

    #[test]
    fn what_is_made_by_many_comes_in_order() {
        for threads in [1, 2, 3, 9] {
            check(0, threads, 1);
            check(1, threads, 5);
            check(100, threads, 1000);
            check(1000, threads, 17);
        }
    }
}
