//! Reading ahead: while one message is judged, threads make the words of the following ones.

use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use barid_bayes::{Distinct, Facts, Options, Tokenizer};

use crate::limits::{AHEAD_LEN, AHEAD_MESSAGES, AHEAD_THREADS_MAX, BUFFER_KEPT_LEN};

/// A message with its words.
#[derive(Debug, Default)]
pub struct ReadMessage {
    /// Bytes of the message.
    pub bytes: Vec<u8>,
    /// Name of the file that it is from, if it is to be reported.
    pub name: Option<Vec<u8>>,
    pub(super) words: MessageWords,
}

/// The words and facts of a message.
#[derive(Debug, Default)]
pub(super) struct MessageWords {
    pub(super) distinct: Distinct,
    pub(super) facts: Facts,
}

impl MessageWords {
    /// Replaces the content with the words of a message.
    pub(super) fn read(&mut self, tokenizer: &mut Tokenizer, message: &[u8]) {
        self.distinct.read(tokenizer, message);
        self.facts.clone_from(tokenizer.facts());
    }
}

/// Messages in order, with words that are made by as many threads as there are processors.
///
/// The amount read ahead is bounded. A reader that waits for more input delays nothing: messages
/// read before come out.
#[derive(Debug)]
pub struct Ahead<R> {
    shared: Arc<Shared>,
    made: Vec<Receiver<ReadMessage>>,
    makers: Vec<JoinHandle<()>>,
    reader: JoinHandle<R>,
    next: usize,
    wanted: Wanted,
}

/// Marks messages as wanted until it is dropped.
#[derive(Debug)]
struct Wanted(Arc<Shared>);

/// State shared by the threads.
#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    taken: Condvar,
    /// Messages whose buffers can be reused.
    free: Mutex<Vec<ReadMessage>>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Bytes of messages that were read and not yet taken.
    len: usize,
    /// `true` once no more messages are wanted.
    is_over: bool,
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.waiting().is_over = true;
        self.0.taken.notify_all();
    }
}

/// Destination for the messages of a reader.
#[derive(Debug)]
pub struct Reading {
    shared: Arc<Shared>,
    makers: Vec<SyncSender<ReadMessage>>,
    next: usize,
}

impl<R: Send + 'static> Ahead<R> {
    /// Starts reading: `read` runs in a thread of its own, and [`Ahead::finish`] returns its
    /// result. `options` define how words are made ([`super::Judge::token_options`]); with `sorts`,
    /// words are sorted in the order in which they are scored.
    ///
    /// # Errors
    /// Threads cannot be created.
    pub fn start(
        options: &Options,
        sorts: bool,
        read: impl FnOnce(&mut Reading) -> R + Send + 'static,
    ) -> io::Result<Self> {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(AHEAD_THREADS_MAX);
        let shared = Arc::<Shared>::default();
        let wanted = Wanted(Arc::clone(&shared));
        let mut reading = Reading { shared: Arc::clone(&shared), makers: Vec::new(), next: 0 };
        let (mut made, mut makers) = (Vec::new(), Vec::new());
        for _ in 0..threads {
            let (to_maker, messages) = sync_channel::<ReadMessage>(AHEAD_MESSAGES);
            let (to_taker, words) = sync_channel(AHEAD_MESSAGES);
            let mut tokenizer = Tokenizer::new(options.clone());
            makers.push(thread::Builder::new().spawn(move || {
                for mut message in messages {
                    message.words.read(&mut tokenizer, &message.bytes);
                    if sorts {
                        message.words.distinct.sort();
                    }
                    // The message may not be wanted any more.
                    if to_taker.send(message).is_err() {
                        return;
                    }
                }
            })?);
            reading.makers.push(to_maker);
            made.push(words);
        }
        let reader = thread::Builder::new().spawn(move || read(&mut reading))?;
        Ok(Self { shared, made, makers, reader, next: 0, wanted })
    }

    /// Returns the next message, once its words are made; `None` after the last.
    pub fn take(&mut self) -> Option<ReadMessage> {
        let message = self.made[self.next % self.made.len()].recv().ok()?;
        self.next += 1;
        self.shared.waiting().len -= message.bytes.len();
        self.shared.taken.notify_one();
        Some(message)
    }

    /// Returns a message for reuse of its buffers.
    pub fn give_back(&self, mut message: ReadMessage) {
        message.bytes.clear();
        message.bytes.shrink_to(BUFFER_KEPT_LEN);
        self.shared.free().push(message);
    }

    /// Returns the result of the reader, after the last message.
    pub fn finish(self) -> R {
        // A thread that has panicked leaves the reader with messages that nobody takes.
        drop((self.wanted, self.made));
        let read = self.reader.join().unwrap_or_else(|panic| resume_unwind(panic));
        for maker in self.makers {
            maker.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        read
    }
}

impl Reading {
    /// Passes a message on. Returns `true` if more are wanted. Waits while enough are ahead.
    pub fn put(&mut self, bytes: &[u8], name: Option<&[u8]>) -> bool {
        let mut message = self.shared.free().pop().unwrap_or_default();
        message.bytes.clear();
        message.bytes.extend_from_slice(bytes);
        message.name = name.map(<[u8]>::to_vec);
        let mut waiting = self.shared.waiting();
        while waiting.len > AHEAD_LEN && !waiting.is_over {
            waiting = self.shared.taken.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.len += bytes.len();
        drop(waiting);
        // A thread that is gone has panicked; the panic is resumed when all threads are joined.
        let is_sent = self.makers[self.next % self.makers.len()].send(message).is_ok();
        self.next += 1;
        is_sent
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // A number is whole whenever the lock is free.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn free(&self) -> MutexGuard<'_, Vec<ReadMessage>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use barid_bayes::Profile;

    use super::*;

    fn check(count: usize, len: usize) {
        let options = Options::new(Profile::Bogofilter);
        let text = move |number: usize| {
            let filler = "word ".repeat(len / 5 * (number % 3));
            format!("Subject: a{number}\n\nb{number} {filler}\n")
        };
        let mut ahead = Ahead::start(&options, true, move |reading| {
            (0..count).for_each(|number| {
                let name = number.to_string();
                reading.put(text(number).as_bytes(), Some(name.as_bytes()));
            });
            "the end"
        })
        .unwrap();
        let mut tokenizer = Tokenizer::new(options);
        let mut expected = Distinct::new();
        for number in 0..count {
            let message = ahead.take().expect("because it was put in");
            assert_eq!(message.bytes, text(number).as_bytes());
            assert_eq!(message.name, Some(number.to_string().into_bytes()));
            expected.read(&mut tokenizer, &message.bytes);
            expected.sort();
            assert!(message.words.distinct.iter().eq(expected.iter()), "{number}");
            ahead.give_back(message);
        }
        assert!(ahead.take().is_none());
        assert_eq!(ahead.finish(), "the end");
    }

    #[test]
    fn messages_come_in_order() {
        check(0, 0);
        check(1, 10);
        check(1_000, 100);
        // More than may be ahead.
        check(40, AHEAD_LEN / 8);
    }

    #[test]
    fn what_was_read_comes_out_while_the_reader_waits() {
        let (answer, wait) = sync_channel::<()>(0);
        let mut ahead = Ahead::start(&Options::new(Profile::Bogofilter), true, move |reading| {
            for _ in 0..3 {
                reading.put(b"Subject: a\n\nb\n", None);
                wait.recv().expect("because it is answered");
            }
        })
        .unwrap();
        for _ in 0..3 {
            assert!(ahead.take().is_some());
            answer.send(()).expect("because it is waited for");
        }
        assert!(ahead.take().is_none());
    }

    #[test]
    fn a_reader_of_whom_nobody_wants_more_ends() {
        let message = vec![b'a'; AHEAD_LEN / 2];
        let mut ahead = Ahead::start(&Options::new(Profile::Bogofilter), true, move |reading| {
            while reading.put(&message, None) {}
            "the end"
        })
        .unwrap();
        assert!(ahead.take().is_some());
        assert_eq!(ahead.finish(), "the end");
    }
}
