//! What a thread needs to work on messages, kept from one message to the next.

use std::sync::{Mutex, MutexGuard, PoisonError};

use barid_bayes::{Distinct, Options, Profile, Scorer, Tokenizer};
use barid_wordlist::limits::TOKEN_LEN_MAX;

use super::canonical::write_canonical;
use super::sums::Tokens;
use super::{AnyList, Filter, dropin};
use crate::Result;
use crate::limits::SPAM_BUFFER_KEPT_LEN;

/// What one thread works with.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) list: AnyList,
    pub(super) scorer: Scorer,
    pub(super) counts: Vec<barid_wordlist::Counts>,
    pub(super) maker: Maker,
}

impl Worker {
    fn new(list: AnyList) -> Self {
        let (scorer, maker) = (Scorer::new(), Maker::default());
        Self { list, scorer, counts: Vec::new(), maker }
    }

    /// Looks up the counts of the tokens; in their order.
    pub(super) fn look_up(&mut self) -> Result<()> {
        let tokens: Vec<&[u8]> = self.maker.tokens().collect();
        self.counts.clear();
        self.counts.resize(tokens.len(), barid_wordlist::Counts::default());
        Ok(self.list.counts(&tokens, &mut self.counts)?)
    }
}

/// What makes tokens of messages.
#[derive(Debug, Default)]
pub(super) struct Maker {
    distinct: Distinct,
    tokenizers: Vec<(Profile, Tokenizer)>,
    text: Vec<u8>,
}

impl Maker {
    /// Takes a message in place of the one before; its canonical text.
    pub(super) fn read(&mut self, message: &[u8]) -> &[u8] {
        self.text.clear();
        self.text.shrink_to(SPAM_BUFFER_KEPT_LEN);
        write_canonical(message, &mut self.text);
        &self.text
    }

    /// Makes the tokens of the message that was read.
    pub(super) fn tokenize(&mut self, profile: Profile) {
        let known = self.tokenizers.iter().position(|(known, _)| *known == profile);
        let index = known.unwrap_or_else(|| {
            self.tokenizers.push((profile, Tokenizer::new(Options::new(profile))));
            self.tokenizers.len() - 1
        });
        self.distinct.read(&mut self.tokenizers[index].1, &self.text);
    }

    /// Puts the tokens in the order of their bytes.
    pub(super) fn sort(&mut self) {
        self.distinct.sort();
    }

    /// The tokens that a word list can hold.
    pub(super) fn tokens(&self) -> impl Iterator<Item = &[u8]> + Clone {
        held(&self.distinct)
    }

    /// The same, packed.
    pub(super) fn packed(&self) -> Tokens {
        Tokens::new(held_hashed(&self.distinct), self.distinct.bytes_len(), self.distinct.len())
    }
}

/// The tokens that a word list can hold.
pub(super) fn held(distinct: &Distinct) -> impl Iterator<Item = &[u8]> + Clone {
    held_hashed(distinct).map(|(_, token)| token)
}

/// The same with their hashes.
pub(super) fn held_hashed(distinct: &Distinct) -> impl Iterator<Item = (u32, &[u8])> + Clone {
    let has_nul = distinct.has_byte(0);
    distinct.hashed().filter(move |(_, token)| {
        (1..=TOKEN_LEN_MAX).contains(&token.len()) && !(has_nul && token.contains(&0))
    })
}

/// Makers that are free, where no list is asked.
#[derive(Debug, Default)]
pub(super) struct Makers(Mutex<Vec<Maker>>);

impl Makers {
    /// Does something with a maker that nobody else has.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut Maker) -> R) -> R {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let free = lock().pop();
        let mut maker = free.unwrap_or_default();
        let done = work(&mut maker);
        lock().push(maker);
        done
    }
}

/// Workers that are free. There are as many as threads came to work at once.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    filter: &'a Filter,
    free: Mutex<Vec<Worker>>,
    /// Held by whoever asks a file of bogofilter's: a process that closes it gives back its locks
    /// of it, those that other threads took included.
    asking: Option<Mutex<()>>,
}

impl<'a> Pool<'a> {
    pub(super) fn new(filter: &'a Filter) -> Self {
        let asking =
            dropin::store_of_bogofilter(&*filter.vfs, &filter.path).map(|_| Mutex::default());
        Self { filter, free: Mutex::default(), asking }
    }

    /// Does something with a worker that nobody else has.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut Worker) -> Result<R>) -> Result<R> {
        let mut worker = self.take()?;
        let done = work(&mut worker);
        self.filter.look_for_damage(&*worker.list);
        self.lock().push(worker);
        done
    }

    /// Does something with a worker that nobody else has, and leaves it behind if that fails: its
    /// list is opened anew.
    pub(super) fn with_sound<R>(&self, work: impl FnOnce(&mut Worker) -> Result<R>) -> Result<R> {
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

    /// Whether only one may ask the list at a time.
    pub(super) fn asks_one_by_one(&self) -> bool {
        self.asking.is_some()
    }

    /// Waits until nobody else asks the list, if only one may.
    pub(super) fn asking(&self) -> Option<MutexGuard<'_, ()>> {
        let asking = self.asking.as_ref()?;
        Some(asking.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Worker>> {
        // What is in it is whole whenever the lock is free.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
