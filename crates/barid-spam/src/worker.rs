//! The resources of a thread that processes messages, reused from one message to the next.

use std::sync::{Mutex, MutexGuard, PoisonError};

use barid_bayes::{Distinct, Options, Profile, Scorer, Tokenizer};
use barid_wordlist::{
    AnyList, DistinctTokens, storable_hashed, storable_tokens, store_of_bogofilter,
};

use crate::canonical::write_canonical;
use crate::limits::BUFFER_KEPT_LEN;
use crate::{Filter, Result};

/// The resources of one thread.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) list: AnyList,
    pub(crate) scorer: Scorer,
    pub(crate) counts: Vec<barid_wordlist::Counts>,
    pub(crate) maker: Maker,
}

impl Worker {
    fn new(list: AnyList) -> Self {
        let (scorer, maker) = (Scorer::new(), Maker::default());
        Self { list, scorer, counts: Vec::new(), maker }
    }

    /// Looks up the counts of the tokens, in the order of the tokens.
    pub(crate) fn look_up(&mut self) -> Result<()> {
        let tokens: Vec<&[u8]> = self.maker.tokens().collect();
        self.counts.clear();
        self.counts.resize(tokens.len(), barid_wordlist::Counts::default());
        Ok(self.list.counts(&tokens, &mut self.counts)?)
    }
}

/// Makes the tokens of messages.
#[derive(Debug, Default)]
pub(crate) struct Maker {
    distinct: Distinct,
    tokenizers: Vec<(Profile, Tokenizer)>,
    text: Vec<u8>,
}

impl Maker {
    /// Reads a message in place of the one before; returns its canonical text.
    pub(crate) fn read(&mut self, message: &[u8]) -> &[u8] {
        self.text.clear();
        self.text.shrink_to(BUFFER_KEPT_LEN);
        write_canonical(message, &mut self.text);
        &self.text
    }

    /// Makes the tokens of the message that was read.
    pub(crate) fn tokenize(&mut self, profile: Profile) {
        let known = self.tokenizers.iter().position(|(known, _)| *known == profile);
        let index = known.unwrap_or_else(|| {
            self.tokenizers.push((profile, Tokenizer::new(Options::new(profile))));
            self.tokenizers.len() - 1
        });
        self.distinct.read(&mut self.tokenizers[index].1, &self.text);
    }

    /// Sorts the tokens by their bytes.
    pub(crate) fn sort(&mut self) {
        self.distinct.sort();
    }

    /// Returns the tokens that a word list can store.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = &[u8]> + Clone {
        storable_tokens(&self.distinct)
    }

    /// Returns these tokens in packed form.
    pub(crate) fn packed(&self) -> DistinctTokens {
        DistinctTokens::new(
            storable_hashed(&self.distinct),
            self.distinct.bytes_len(),
            self.distinct.len(),
        )
    }
}

/// Free makers, for work that uses no list.
#[derive(Debug, Default)]
pub(crate) struct Makers(Mutex<Vec<Maker>>);

impl Makers {
    /// Runs `work` with a maker for its exclusive use.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Maker) -> R) -> R {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let free = lock().pop();
        let mut maker = free.unwrap_or_default();
        let done = work(&mut maker);
        lock().push(maker);
        done
    }
}

/// Free workers. There are as many as threads that have worked at once.
#[derive(Debug)]
pub(crate) struct Pool<'a> {
    filter: &'a Filter,
    free: Mutex<Vec<Worker>>,
    /// Locked while a thread queries a file of bogofilter's: a process that closes such a file
    /// releases its locks on it, including those of other threads.
    asking: Option<Mutex<()>>,
}

impl<'a> Pool<'a> {
    pub(crate) fn new(filter: &'a Filter) -> Self {
        let asking = store_of_bogofilter(&*filter.vfs, &filter.path).map(|_| Mutex::default());
        Self { filter, free: Mutex::default(), asking }
    }

    /// Runs `work` with a worker for its exclusive use.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Worker) -> Result<R>) -> Result<R> {
        let mut worker = self.take()?;
        let done = work(&mut worker);
        self.filter.look_for_damage(&*worker.list);
        self.lock().push(worker);
        done
    }

    /// Runs `work` with a worker for its exclusive use, and discards the worker if that fails: the
    /// next one opens the list anew.
    pub(crate) fn with_sound<R>(&self, work: impl FnOnce(&mut Worker) -> Result<R>) -> Result<R> {
        let mut worker = self.take()?;
        let done = work(&mut worker)?;
        self.filter.look_for_damage(&*worker.list);
        self.lock().push(worker);
        Ok(done)
    }

    fn take(&self) -> Result<Worker> {
        // The lock must be free again before a list is opened.
        let free = self.lock().pop();
        match free {
            Some(worker) => Ok(worker),
            None => {
                let _asking = self.asking();
                Ok(Worker::new(self.filter.open_list()?))
            }
        }
    }

    /// Returns `true` if only one thread may query the list at a time.
    pub(crate) fn asks_one_by_one(&self) -> bool {
        self.asking.is_some()
    }

    /// Waits until no other thread queries the list, if only one may.
    pub(crate) fn asking(&self) -> Option<MutexGuard<'_, ()>> {
        let asking = self.asking.as_ref()?;
        Some(asking.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Worker>> {
        // The value is consistent whenever the lock is free.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
