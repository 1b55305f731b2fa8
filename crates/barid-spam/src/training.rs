//! Training the filter with messages, and reverting that.
//!
//! A thread looks up the receipt of a message and makes its tokens only if the message changes the
//! list. Changes are collected and written in batches, each of them completely or not at all. If
//! another process has trained one of the messages meanwhile, the list refuses the batch; that
//! message is removed, and the rest is written.

use std::collections::HashMap;
use std::sync::Arc;

use barid::{LongOperation, ReadOutcome};
use barid_bayes::Profile;
use barid_wordlist::{
    AnyList, Batch, Class, Conflict, Counts, DistinctTokens, Error as ListError, Receipt, Sums,
    WordList,
};

use crate::canonical::content_of;
use crate::filter::{number_of, profile_of};
use crate::limits::{BATCH_LEN, BATCH_MESSAGES, CONFLICTS_MAX};
use crate::source::{At, Source, each};
use crate::worker::{Pool, Worker};
use crate::{Error, Filter, Result};

/// The kind of training with messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainingKind {
    /// Trains the filter with the messages as this class. Messages that were trained before stay as
    /// they are.
    Train(Class),
    /// Reverts the training with the messages; with a class, only with those trained as that class.
    Untrain(Option<Class>),
    /// Trains the filter with the messages as this class, whatever they were trained as before.
    Retrain(Class),
}

/// Outcome of a training for one message.
#[derive(Debug)]
#[non_exhaustive]
pub enum Became {
    /// It counts as this class now, and did not count before.
    Trained(Class),
    /// It does not count any more.
    Untrained(Class),
    /// It counts as this class now, and counted as the other before.
    Moved(Class),
    /// Unchanged: it already counts as the requested class.
    Already(Class),
    /// Unchanged: it counts as the other class.
    Otherwise(Class),
    /// Unchanged: it was never trained.
    Never,
    /// Unchanged: it has no receipt, and some messages count without one, such as those that
    /// bogofilter's drop-in registered and those of a dump. It may be one of them.
    Unreceipted,
    /// Unchanged: a later version of barid made its tokens.
    Unknown,
    /// Unchanged: it no longer exists.
    Gone,
    /// Unchanged: it cannot be read.
    Unreadable(Error),
}

/// Called with the outcome for each message; for a change, once it is durable.
pub type OnTrainingOutcome<'a> = dyn FnMut(At, Became) + 'a;

/// Numbers of messages by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trained {
    /// Number of all messages.
    pub messages: u64,
    /// [`Became::Trained`].
    pub trained: u64,
    /// [`Became::Untrained`].
    pub untrained: u64,
    /// [`Became::Moved`].
    pub moved: u64,
    /// [`Became::Already`].
    pub already: u64,
    /// [`Became::Otherwise`].
    pub otherwise: u64,
    /// [`Became::Never`].
    pub never: u64,
    /// [`Became::Unreceipted`].
    pub unreceipted: u64,
    /// [`Became::Gone`].
    pub gone: u64,
    /// [`Became::Unreadable`] and [`Became::Unknown`].
    pub failed: u64,
    /// Counts of tokens that would have become negative, and are 0 instead.
    pub floored: u64,
    /// Counts of tokens that would have exceeded 32 bits, and stay at the maximum.
    pub saturated: u64,
    /// Generation of the word list after the last change; 0 if nothing changed.
    pub generation: u64,
    /// `true` if it was stopped on request before all messages were read.
    pub is_stopped: bool,
}

impl Trained {
    fn add(&mut self, became: &Became) {
        self.messages += 1;
        *match became {
            Became::Trained(_) => &mut self.trained,
            Became::Untrained(_) => &mut self.untrained,
            Became::Moved(_) => &mut self.moved,
            Became::Already(_) => &mut self.already,
            Became::Otherwise(_) => &mut self.otherwise,
            Became::Never => &mut self.never,
            Became::Unreceipted => &mut self.unreceipted,
            Became::Gone => &mut self.gone,
            Became::Unknown | Became::Unreadable(_) => &mut self.failed,
        } += 1;
    }
}

/// Class of a trained message, and the number of the profile that made its tokens.
type Known = Option<(Class, u8)>;

/// Result of a thread for a message.
struct TrainingResult {
    content: u128,
    /// `true` if the message has no receipt, though the list stores receipts.
    misses_receipt: bool,
    /// The change, or the outcome if there is none.
    plan: Decided<Change>,
}

/// Change of the list for a message.
#[derive(Clone, Debug, Default)]
struct Change {
    /// Tokens to subtract.
    remove: Option<(Class, DistinctTokens)>,
    /// Tokens to add.
    add: Option<(Class, DistinctTokens)>,
    /// `true` if the list stores receipts.
    has_receipt: bool,
    /// `true` if the message to subtract has a receipt.
    removes_receipt: bool,
}

impl Change {
    fn len(&self) -> usize {
        self.remove.iter().chain(&self.add).map(|(_, tokens)| tokens.bytes_len()).sum()
    }

    /// Returns the change without its subtraction.
    fn without_removal(self) -> Decided<Self> {
        match self.add {
            None => Err(Became::Never),
            add => Ok(Self { remove: None, add, ..self }),
        }
    }

    fn became(&self) -> Became {
        match (&self.remove, &self.add) {
            (Some(_), Some((class, _))) => Became::Moved(*class),
            (None, Some((class, _))) => Became::Trained(*class),
            (Some((class, _)), None) => Became::Untrained(*class),
            (None, None) => Became::Never,
        }
    }
}

/// A change that is not written yet.
struct Waiting {
    at: At,
    content: u128,
    change: Change,
}

/// A training with the messages of any number of sources.
pub struct Trainer<'a> {
    filter: &'a Filter,
    kind: TrainingKind,
    pool: Arc<Pool<'a>>,
    list: AnyList,
    waiting: Vec<Waiting>,
    waiting_len: usize,
    /// Classes of the messages processed before.
    known: HashMap<u128, Known>,
    takes_registered: bool,
    /// Numbers of messages that count without a receipt; computed when needed.
    unreceipted: Option<Counts>,
    trained: Trained,
}

impl Filter {
    /// Starts a training. Creates the word list if it does not exist and the kind may add
    /// messages.
    ///
    /// # Errors
    /// Errors of the word list.
    pub fn trainer(&self, kind: TrainingKind) -> Result<Trainer<'_>> {
        let list = match kind {
            TrainingKind::Untrain(_) => self.open_list()?,
            TrainingKind::Train(_) | TrainingKind::Retrain(_) => self.open_or_create_list(false)?,
        };
        Ok(Trainer {
            filter: self,
            kind,
            pool: Arc::new(Pool::new(self)),
            list,
            waiting: Vec::new(),
            waiting_len: 0,
            known: HashMap::new(),
            takes_registered: false,
            unreceipted: None,
            trained: Trained::default(),
        })
    }
}

impl Trainer<'_> {
    /// Treats messages without a receipt as registered without one, in the class to revert, as long
    /// as the list counts such messages: their words are subtracted.
    #[must_use]
    pub fn taking_registered(self) -> Self {
        Self { takes_registered: true, ..self }
    }

    /// Trains the filter with the messages of a source. **Commit points:** each batch;
    /// [`Trainer::finish`] writes the last. If this fails, unwritten changes are lost; messages
    /// given again are then trained.
    ///
    /// # Errors
    /// Errors of the word list and the mailbox; a message that cannot be read is passed to `report`
    /// instead.
    pub fn add(&mut self, source: Source<'_>, report: &mut OnTrainingOutcome<'_>) -> Result<()> {
        let total = source.len();
        let (filter, kind) = (self.filter, self.kind);
        // Threads need the workers while their results are processed.
        let pool = Arc::clone(&self.pool);
        let registered = self.takes_registered;
        let make =
            |message: &[u8]| pool.with(|worker| made(worker, message, (kind, registered), filter));
        let mut done = 0;
        each(&*filter.vfs, source, filter.options.threads, &make, &mut |at, outcome| {
            done += 1;
            filter.report_progress(LongOperation::Train, done, total);
            self.take(at, outcome, report)?;
            self.trained.is_stopped = filter.is_stopped();
            Ok(!self.trained.is_stopped)
        })
    }

    /// Writes the remaining changes.
    ///
    /// # Errors
    /// Errors of the word list.
    pub fn finish(mut self, report: &mut OnTrainingOutcome<'_>) -> Result<Trained> {
        self.write(report)?;
        Ok(self.trained)
    }

    fn take(
        &mut self,
        at: At,
        outcome: ReadOutcome<Result<TrainingResult>>,
        report: &mut OnTrainingOutcome<'_>,
    ) -> Result<()> {
        let became = match outcome {
            ReadOutcome::Gone => Became::Gone,
            ReadOutcome::Unreadable(error) => Became::Unreadable(error.into()),
            ReadOutcome::Made(made) => {
                let TrainingResult { content, misses_receipt, plan } = made?;
                let known = self.known.get(&content).copied();
                let plan = match misses_receipt && known.is_none() {
                    true => self.without_receipt(plan)?,
                    false => plan,
                };
                match (known, plan) {
                    (Some(known), _) => repeated(self.kind, known),
                    (None, Err(became)) => became,
                    (None, Ok(change)) => {
                        return self.wait(Waiting { at, content, change }, report);
                    }
                }
            }
        };
        self.trained.add(&became);
        report(at, became);
        Ok(())
    }

    /// Decides about a message without a receipt, which may be among those that count without one.
    fn without_receipt(&mut self, plan: Decided<Change>) -> Result<Decided<Change>> {
        let class = match self.kind {
            TrainingKind::Train(_) => return Ok(plan),
            TrainingKind::Untrain(class) => class,
            TrainingKind::Retrain(class) => Some(other(class)),
        };
        let list = &mut self.list;
        let left = match &mut self.unreceipted {
            Some(left) => left,
            none => none.insert(unreceipted(&mut **list)?),
        };
        let of_class = match class {
            Some(Class::Spam) => left.spam,
            Some(Class::Ham) => left.ham,
            None => left.spam.max(left.ham),
        };
        Ok(match (plan, class) {
            (plan, _) if of_class == 0 => plan.and_then(Change::without_removal),
            (Ok(change), Some(class)) if change.remove.is_some() => {
                let one = class.counts(1);
                *left = Counts::new(left.spam - one.spam, left.ham - one.ham);
                Ok(change)
            }
            _ => Err(Became::Unreceipted),
        })
    }

    fn wait(&mut self, waiting: Waiting, report: &mut OnTrainingOutcome<'_>) -> Result<()> {
        let change = &waiting.change;
        if change.has_receipt {
            let number = number_of(self.filter.options.profile);
            let known = change.add.as_ref().map(|(class, _)| (*class, number));
            self.known.insert(waiting.content, known);
        }
        self.waiting_len += change.len();
        self.waiting.push(waiting);
        let is_full = self.waiting_len > BATCH_LEN || self.waiting.len() >= BATCH_MESSAGES;
        if is_full { self.write(report) } else { Ok(()) }
    }

    /// Writes the collected changes: all of them or none.
    fn write(&mut self, report: &mut OnTrainingOutcome<'_>) -> Result<()> {
        for _ in 0..CONFLICTS_MAX {
            if self.waiting.is_empty() {
                return Ok(());
            }
            let batch = self.batch()?;
            let updated = {
                let _asking = self.pool.asking();
                self.list.update(&batch)
            };
            self.filter.look_for_damage(&*self.list);
            match updated {
                Err(ListError::Conflicts(conflicts)) => self.give_way(&conflicts, report),
                Err(error) => return Err(error.into()),
                Ok(updated) => {
                    self.trained.generation = updated.generation;
                    self.trained.floored += updated.floored;
                    self.trained.saturated += updated.saturated;
                    self.waiting_len = 0;
                    for waiting in std::mem::take(&mut self.waiting) {
                        let became = waiting.change.became();
                        self.trained.add(&became);
                        report(waiting.at, became);
                    }
                    return Ok(());
                }
            }
        }
        Err(ListError::Busy { path: self.filter.path.clone() }.into())
    }

    fn batch(&self) -> Result<Batch> {
        let mut batch = Batch::new(self.filter.date());
        let (mut sums, none) = (Sums::default(), Counts::default());
        let (mut add, mut sub) = (none, none);
        for Waiting { content, change, .. } in &self.waiting {
            if let Some((class, tokens)) = &change.remove {
                sums.count(tokens.iter(), none, class.counts(1));
                plus(&mut sub, class.counts(1));
                if change.removes_receipt {
                    batch.untrain(*content, *class);
                }
            }
            if let Some((class, tokens)) = &change.add {
                sums.count(tokens.iter(), class.counts(1), none);
                plus(&mut add, class.counts(1));
                if change.has_receipt {
                    batch.train(*content, *class, number_of(self.filter.options.profile));
                }
            }
        }
        sums.write(&mut batch)?;
        batch.messages(add, sub)?;
        Ok(batch)
    }

    /// Removes the messages that others have trained or reverted meanwhile.
    fn give_way(&mut self, conflicts: &[Conflict], report: &mut OnTrainingOutcome<'_>) {
        let found: HashMap<u128, Option<Receipt>> =
            conflicts.iter().map(|conflict| (conflict.content, conflict.found)).collect();
        let kind = self.kind;
        for mut waiting in std::mem::take(&mut self.waiting) {
            let Some(found) = found.get(&waiting.content) else {
                self.waiting.push(waiting);
                continue;
            };
            let found = found.map(|receipt| (receipt.class, receipt.profile));
            self.known.insert(waiting.content, found);
            if found.is_none() && waiting.change.add.is_some() {
                // It was to be moved, and is now only added.
                waiting.change.remove = None;
                self.waiting.push(waiting);
                continue;
            }
            let became = repeated(kind, found);
            self.trained.add(&became);
            report(waiting.at, became);
        }
    }
}

fn plus(sum: &mut Counts, more: Counts) {
    sum.spam += more.spam;
    sum.ham += more.ham;
}

/// Returns the outcome for a message that was processed a moment ago: no further change.
fn repeated(kind: TrainingKind, known: Known) -> Became {
    match (kind, known) {
        (_, None) => Became::Never,
        (TrainingKind::Train(class) | TrainingKind::Retrain(class), Some((found, _)))
            if class == found =>
        {
            Became::Already(found)
        }
        (_, Some((found, _))) => Became::Otherwise(found),
    }
}

/// A decision, or the outcome if there is nothing to do.
type Decided<T> = std::result::Result<T, Became>;

/// The class to subtract and the class to add, each with the profile of its tokens.
type Plan = (Option<(Class, Profile)>, Option<(Class, Profile)>);

/// Decides about a message that counts as `known`.
fn plan(kind: TrainingKind, known: Known, profile: Profile) -> Decided<Plan> {
    let before = match known {
        None => None,
        Some((class, number)) => Some((class, profile_of(number).ok_or(Became::Unknown)?)),
    };
    match (kind, before) {
        (TrainingKind::Train(class) | TrainingKind::Retrain(class), None) => {
            Ok((None, Some((class, profile))))
        }
        (TrainingKind::Train(class) | TrainingKind::Retrain(class), Some((found, _)))
            if class == found =>
        {
            Err(Became::Already(found))
        }
        (TrainingKind::Train(_), Some((found, _))) => Err(Became::Otherwise(found)),
        (TrainingKind::Retrain(class), before) => Ok((before, Some((class, profile)))),
        (TrainingKind::Untrain(_), None) => Err(Became::Never),
        (TrainingKind::Untrain(class), Some((found, _))) if class.is_some_and(|it| it != found) => {
            Err(Became::Otherwise(found))
        }
        (TrainingKind::Untrain(_), before) => Ok((before, None)),
    }
}

fn other(class: Class) -> Class {
    match class {
        Class::Spam => Class::Ham,
        Class::Ham => Class::Spam,
    }
}

/// Returns the numbers of messages that count without a receipt.
fn unreceipted(list: &mut dyn WordList) -> Result<Counts> {
    let mut left = list.totals()?;
    list.scan_receipts(&mut |_, receipt| {
        let count = match receipt.class {
            Class::Spam => &mut left.spam,
            Class::Ham => &mut left.ham,
        };
        *count = count.saturating_sub(1);
    })?;
    Ok(left)
}

/// Decides about any message if the list stores no receipts: the kind is trusted.
fn plan_without_receipts(kind: TrainingKind, profile: Profile) -> Decided<Plan> {
    match kind {
        TrainingKind::Train(class) => Ok((None, Some((class, profile)))),
        TrainingKind::Retrain(class) => Ok((Some((other(class), profile)), Some((class, profile)))),
        TrainingKind::Untrain(Some(class)) => Ok((Some((class, profile)), None)),
        TrainingKind::Untrain(None) => Err(Became::Unreceipted),
    }
}

fn made(
    worker: &mut Worker,
    message: &[u8],
    (kind, registered): (TrainingKind, bool),
    filter: &Filter,
) -> Result<TrainingResult> {
    let content = content_of(worker.maker.read(message));
    let profile = filter.options.profile;
    let (known, has_receipt) = match worker.list.receipts(&[content]) {
        Ok(receipts) => {
            let receipt = receipts.first().copied().flatten();
            (receipt.map(|receipt| (receipt.class, receipt.profile)), true)
        }
        Err(ListError::Unsupported { .. }) => (None, false),
        Err(error) => return Err(error.into()),
    };
    let misses_receipt = has_receipt && known.is_none();
    let is_believed = match kind {
        TrainingKind::Train(_) => false,
        TrainingKind::Untrain(class) => registered && class.is_some(),
        TrainingKind::Retrain(_) => registered,
    };
    let plan = match has_receipt && !(misses_receipt && is_believed) {
        true => plan(kind, known, profile),
        false => plan_without_receipts(kind, profile),
    };
    let (remove, add) = match plan {
        Ok(plan) => plan,
        Err(became) => return Ok(TrainingResult { content, misses_receipt, plan: Err(became) }),
    };
    let mut tokens_of = |(class, profile): (Class, Profile)| {
        worker.maker.tokenize(profile);
        (class, worker.maker.packed())
    };
    let (remove, add) = (remove.map(&mut tokens_of), add.map(&mut tokens_of));
    let removes_receipt = known.is_some();
    let change = Change { remove, add, has_receipt, removes_receipt };
    Ok(TrainingResult { content, misses_receipt, plan: Ok(change) })
}
