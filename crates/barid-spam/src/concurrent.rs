//! A long-lived handle for classifying one message after another.

use barid_wordlist::{Class, Counts};

use crate::classify::{Rules, scored};
use crate::worker::Pool;
use crate::{Became, Classified, Filter, Result, Source, TrainingKind};

/// Classifies messages from any number of threads at once, with handles of the word list that stay
/// open and follow what others train.
#[derive(Debug)]
pub struct ConcurrentFilter<'a> {
    filter: &'a Filter,
    pool: Pool<'a>,
}

impl Filter {
    /// Creates an [`ConcurrentFilter`]. Reads nothing yet.
    pub fn concurrent(&self) -> ConcurrentFilter<'_> {
        ConcurrentFilter { filter: self, pool: Pool::new(self) }
    }
}

impl ConcurrentFilter<'_> {
    /// Classifies a message with the current word list.
    ///
    /// # Errors
    /// Errors of the word list. The next call opens it anew.
    pub fn classify(&self, message: &[u8], explains: bool) -> Result<Classified> {
        self.pool.with_sound(|worker| {
            worker.maker.read(message);
            worker.maker.tokenize(self.filter.options.profile);
            let _asking = self.pool.asking();
            worker.list.refresh()?;
            let rules = Rules::new(self.filter, &mut worker.list, explains)?;
            scored(worker, &rules)
        })
    }

    /// Returns the current counts of `tokens`, in the same order, and the generation of the word
    /// list.
    ///
    /// # Errors
    /// As [`ConcurrentFilter::classify`].
    pub fn counts(&self, tokens: &[&[u8]]) -> Result<(Vec<Counts>, u64)> {
        self.pool.with_sound(|worker| {
            let _asking = self.pool.asking();
            worker.list.refresh()?;
            let mut counts = vec![Counts::default(); tokens.len()];
            worker.list.counts(tokens, &mut counts)?;
            Ok((counts, worker.list.generation()))
        })
    }

    /// Trains the filter with a message; with `registered`, as after
    /// [`crate::Trainer::taking_registered`]. The work for the processor runs inside `in_turn`,
    /// which must call its argument once; waiting for other writers does not. **Commit point:**
    /// durable when this returns.
    ///
    /// # Errors
    /// Errors of the word list.
    pub fn train(
        &self,
        message: &[u8],
        (kind, registered): (TrainingKind, bool),
        in_turn: &dyn Fn(&mut dyn FnMut()),
    ) -> Result<(Became, u64)> {
        if !self.pool.asks_one_by_one() {
            return self.train_now(message, (kind, registered), in_turn);
        }
        // `classify` takes a turn before it waits for other callers; training must do the same.
        let mut taught = None;
        let mut train = || {
            taught = Some(self.train_now(message, (kind, registered), &|work| work()));
        };
        in_turn(&mut train);
        taught.expect("because it was done in its turn")
    }

    fn train_now(
        &self,
        message: &[u8],
        (kind, registered): (TrainingKind, bool),
        in_turn: &dyn Fn(&mut dyn FnMut()),
    ) -> Result<(Became, u64)> {
        // The trainer closes the list, which releases all locks of a file of bogofilter's.
        let _asking = self.pool.asking();
        let mut found = None;
        let mut report = |_, became| found = Some(became);
        let mut trainer = self.filter.trainer(kind)?;
        if registered {
            trainer = trainer.taking_registered();
        }
        let mut added = Ok(());
        in_turn(&mut || added = trainer.add(Source::Messages(&[message]), &mut report));
        added?;
        let trained = trainer.finish(&mut report)?;
        Ok((found.expect("because the message was given"), trained.generation))
    }
}

impl Became {
    /// Returns the class that it names.
    pub fn class(&self) -> Option<Class> {
        match self {
            Self::Trained(class)
            | Self::Untrained(class)
            | Self::Moved(class)
            | Self::Already(class)
            | Self::Otherwise(class) => Some(*class),
            Self::Never | Self::Unreceipted | Self::Unknown | Self::Gone | Self::Unreadable(_) => {
                None
            }
        }
    }
}
