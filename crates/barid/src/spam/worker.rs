//! What a thread needs to work on messages, kept from one message to the next.

use std::sync::{Mutex, MutexGuard, PoisonError};

use barid_bayes::{Distinct, Options, Profile, Scorer, Tokenizer};
use barid_wordlist::limits::TOKEN_LEN_MAX;

use super::canonical::write_canonical;
use super::{AnyList, Filter, dropin};
use crate::Result;
use crate::limits::SPAM_BUFFER_KEPT_LEN;

/// What one thread works with.
pub(super) struct Worker {
    pub(super) list: AnyList,
    pub(super) scorer: Scorer,
    pub(super) counts: Vec<barid_wordlist::Counts>,
    distinct: Distinct,
    tokenizers: Vec<(Profile, Tokenizer)>,
    text: Vec<u8>,
}

impl Worker {
    fn new(list: AnyList) -> Self {
        Self {
            list,
            scorer: Scorer::new(),
            counts: Vec::new(),
            distinct: Distinct::new(),
            tokenizers: Vec::new(),
            text: Vec::new(),
        }
    }

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
        tokens(&self.distinct)
    }

    /// Looks up the counts of the tokens; in their order.
    pub(super) fn look_up(&mut self) -> Result<()> {
        let tokens: Vec<&[u8]> = tokens(&self.distinct).collect();
        self.counts.clear();
        self.counts.resize(tokens.len(), barid_wordlist::Counts::default());
        Ok(self.list.counts(&tokens, &mut self.counts)?)
    }
}

fn tokens(distinct: &Distinct) -> impl Iterator<Item = &[u8]> + Clone {
    let can_be_held =
        |token: &&[u8]| !token.is_empty() && token.len() <= TOKEN_LEN_MAX && !token.contains(&0);
    distinct.iter().filter(can_be_held)
}

/// Workers that are free. There are as many as threads came to work at once.
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
        let free = self.lock().pop();
        let mut worker = match free {
            Some(worker) => worker,
            None => {
                let _asking = self.asking();
                Worker::new(self.filter.open_list()?)
            }
        };
        let done = work(&mut worker);
        self.lock().push(worker);
        done
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
