//! Teaching messages, and taking that back.
//!
//! A thread asks for the receipt of a message and makes its tokens only if something is to be done.
//! What is to be done is collected and written in batches, each of them whole or not at all. If
//! another process has taught one of the messages meanwhile, the list refuses the batch; that
//! message is taken out, and the rest written.

use std::collections::HashMap;
use std::sync::Arc;

use barid_bayes::Profile;
use barid_wordlist::{Batch, Class, Conflict, Counts, Error as ListError, Receipt, WordList};

use super::canonical::content_of;
use super::source::{At, Source, each};
use super::sums::{Sums, Tokens};
use super::worker::{Pool, Worker};
use super::{AnyList, Filter, number_of, profile_of};
use crate::convert::reading::Outcome;
use crate::limits::{SPAM_BATCH_LEN, SPAM_BATCH_MESSAGES, SPAM_CONFLICTS_MAX};
use crate::{Error, Result, Work};

/// What is to be done with messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lesson {
    /// They are of this class. Those that were trained before stay as they are.
    Train(Class),
    /// What was taught of them is taken back; if a class is given only what was taught as that.
    Untrain(Option<Class>),
    /// They are of this class, whatever was taught before.
    Retrain(Class),
}

/// What became of a message.
#[derive(Debug)]
#[non_exhaustive]
pub enum Became {
    /// It counts as this class now, and did not count before.
    Trained(Class),
    /// It does not count any more.
    Untrained(Class),
    /// It counts as this class now, and counted as the other before.
    Moved(Class),
    /// Nothing: it counts already as what it is to count.
    Already(Class),
    /// Nothing: it counts as the other class.
    Otherwise(Class),
    /// Nothing: it was never trained.
    Never,
    /// Nothing: it has no receipt, and there are messages that count without one, as those that
    /// bogofilter's drop-in registered and those of a dump. It may be one of them.
    Unreceipted,
    /// Nothing: a later version has made its tokens.
    Unknown,
    /// Nothing: it is not there any more.
    Gone,
    /// Nothing: it cannot be read.
    Unreadable(Error),
}

/// Told what became of each message, those that changed something when that is durable.
pub type TellTraining<'a> = dyn FnMut(At, Became) + 'a;

/// How many messages became what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trained {
    /// All of them.
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
    /// Counts of tokens that would have gone below zero, and stay at that.
    pub floored: u64,
    /// Counts of tokens that would have gone above 32 bits, and stay at the most.
    pub saturated: u64,
    /// The word list's generation after the last change; 0 if nothing was changed.
    pub generation: u64,
    /// It was told to end before all messages were read.
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

/// What a message counts as, and how its tokens were made.
type Known = Option<(Class, u8)>;

/// What a thread has made of a message.
struct Made {
    content: u128,
    /// There is none, though the list keeps them.
    misses_receipt: bool,
    /// What is to be changed, or why nothing is.
    plan: Decided<Change>,
}

/// What is to be changed because of a message.
#[derive(Clone, Debug, Default)]
struct Change {
    /// Is taken off.
    remove: Option<(Class, Tokens)>,
    /// Is added.
    add: Option<(Class, Tokens)>,
    /// Whether the list keeps receipts.
    has_receipt: bool,
    /// Whether the message that is to be taken off has one.
    removes_receipt: bool,
}

impl Change {
    fn len(&self) -> usize {
        self.remove.iter().chain(&self.add).map(|(_, tokens)| tokens.len()).sum()
    }

    /// Where nothing can be taken off.
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

/// A change that waits to be written.
struct Waiting {
    at: At,
    content: u128,
    change: Change,
}

/// Teaches messages of any number of sources.
pub struct Trainer<'a> {
    filter: &'a Filter,
    lesson: Lesson,
    pool: Arc<Pool<'a>>,
    list: AnyList,
    waiting: Vec<Waiting>,
    waiting_len: usize,
    /// What messages count as that came before.
    known: HashMap<u128, Known>,
    takes_registered: bool,
    /// How many messages count that have no receipt; asked for when it matters.
    unreceipted: Option<Counts>,
    trained: Trained,
}

impl Filter {
    /// Begins to teach. The word list is made if there is none and something is to be added.
    ///
    /// # Errors
    /// What the word list says.
    pub fn trainer(&self, lesson: Lesson) -> Result<Trainer<'_>> {
        let list = match lesson {
            Lesson::Untrain(_) => self.open_list()?,
            Lesson::Train(_) | Lesson::Retrain(_) => self.open_or_create_list(false)?,
        };
        Ok(Trainer {
            filter: self,
            lesson,
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
    /// Takes messages without a receipt for some that were registered without one, as the class
    /// that is to be taken back, as long as the list counts so many: their words are taken off.
    #[must_use]
    pub fn taking_registered(self) -> Self {
        Self { takes_registered: true, ..self }
    }

    /// Teaches the messages of a source. **Commit points:** each batch; [`Trainer::finish`] writes
    /// the last. What waits is lost if this fails, and is taught if it is given again.
    ///
    /// # Errors
    /// What the word list and the mailbox say; a message that cannot be read is told.
    pub fn add(&mut self, source: Source<'_>, tell: &mut TellTraining<'_>) -> Result<()> {
        let total = source.len();
        let (filter, lesson) = (self.filter, self.lesson);
        // Threads need the workers while what they made is taken.
        let pool = Arc::clone(&self.pool);
        let registered = self.takes_registered;
        let make = |message: &[u8]| {
            pool.with(|worker| made(worker, message, (lesson, registered), filter))
        };
        let mut done = 0;
        each(&*filter.vfs, source, filter.options.threads, &make, &mut |at, outcome| {
            done += 1;
            filter.tell(Work::Train, done, total);
            self.take(at, outcome, tell)?;
            self.trained.is_stopped = filter.is_stopped();
            Ok(!self.trained.is_stopped)
        })
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// What the word list says.
    pub fn finish(mut self, tell: &mut TellTraining<'_>) -> Result<Trained> {
        self.write(tell)?;
        Ok(self.trained)
    }

    fn take(
        &mut self,
        at: At,
        outcome: Outcome<Result<Made>>,
        tell: &mut TellTraining<'_>,
    ) -> Result<()> {
        let became = match outcome {
            Outcome::Gone => Became::Gone,
            Outcome::Unreadable(error) => Became::Unreadable(error),
            Outcome::Made(made) => {
                let Made { content, misses_receipt, plan } = made?;
                let known = self.known.get(&content).copied();
                let plan = match misses_receipt && known.is_none() {
                    true => self.without_receipt(plan)?,
                    false => plan,
                };
                match (known, plan) {
                    (Some(known), _) => repeated(self.lesson, known),
                    (None, Err(became)) => became,
                    (None, Ok(change)) => return self.wait(Waiting { at, content, change }, tell),
                }
            }
        };
        self.trained.add(&became);
        tell(at, became);
        Ok(())
    }

    /// What is to be done with a message without a receipt, which may be among those that count
    /// without one.
    fn without_receipt(&mut self, plan: Decided<Change>) -> Result<Decided<Change>> {
        let class = match self.lesson {
            Lesson::Train(_) => return Ok(plan),
            Lesson::Untrain(class) => class,
            Lesson::Retrain(class) => Some(other(class)),
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

    fn wait(&mut self, waiting: Waiting, tell: &mut TellTraining<'_>) -> Result<()> {
        let change = &waiting.change;
        if change.has_receipt {
            let number = number_of(self.filter.options.profile);
            let known = change.add.as_ref().map(|(class, _)| (*class, number));
            self.known.insert(waiting.content, known);
        }
        self.waiting_len += change.len();
        self.waiting.push(waiting);
        let is_full =
            self.waiting_len > SPAM_BATCH_LEN || self.waiting.len() >= SPAM_BATCH_MESSAGES;
        if is_full { self.write(tell) } else { Ok(()) }
    }

    /// Writes what waits: all of it or nothing.
    fn write(&mut self, tell: &mut TellTraining<'_>) -> Result<()> {
        for _ in 0..SPAM_CONFLICTS_MAX {
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
                Err(ListError::Conflicts(conflicts)) => self.give_way(&conflicts, tell),
                Err(error) => return Err(error.into()),
                Ok(updated) => {
                    self.trained.generation = updated.generation;
                    self.trained.floored += updated.floored;
                    self.trained.saturated += updated.saturated;
                    self.waiting_len = 0;
                    for waiting in std::mem::take(&mut self.waiting) {
                        let became = waiting.change.became();
                        self.trained.add(&became);
                        tell(waiting.at, became);
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

    /// Takes out what others have taught meanwhile, or taken back.
    fn give_way(&mut self, conflicts: &[Conflict], tell: &mut TellTraining<'_>) {
        let found: HashMap<u128, Option<Receipt>> =
            conflicts.iter().map(|conflict| (conflict.content, conflict.found)).collect();
        let lesson = self.lesson;
        for mut waiting in std::mem::take(&mut self.waiting) {
            let Some(found) = found.get(&waiting.content) else {
                self.waiting.push(waiting);
                continue;
            };
            let found = found.map(|receipt| (receipt.class, receipt.profile));
            self.known.insert(waiting.content, found);
            if found.is_none() && waiting.change.add.is_some() {
                // It was to be moved, and is only to be added now.
                waiting.change.remove = None;
                self.waiting.push(waiting);
                continue;
            }
            let became = repeated(lesson, found);
            self.trained.add(&became);
            tell(waiting.at, became);
        }
    }
}

fn plus(sum: &mut Counts, more: Counts) {
    sum.spam += more.spam;
    sum.ham += more.ham;
}

/// What becomes of a message of which something was done just now: nothing more.
fn repeated(lesson: Lesson, known: Known) -> Became {
    match (lesson, known) {
        (_, None) => Became::Never,
        (Lesson::Train(class) | Lesson::Retrain(class), Some((found, _))) if class == found => {
            Became::Already(found)
        }
        (_, Some((found, _))) => Became::Otherwise(found),
    }
}

/// What is to be done, or why nothing is.
type Decided<T> = std::result::Result<T, Became>;

/// What is to be taken off and what added, each with the profile of its tokens.
type Plan = (Option<(Class, Profile)>, Option<(Class, Profile)>);

/// What is to be done with a message that counts as `known`.
fn plan(lesson: Lesson, known: Known, profile: Profile) -> Decided<Plan> {
    let before = match known {
        None => None,
        Some((class, number)) => Some((class, profile_of(number).ok_or(Became::Unknown)?)),
    };
    match (lesson, before) {
        (Lesson::Train(class) | Lesson::Retrain(class), None) => Ok((None, Some((class, profile)))),
        (Lesson::Train(class) | Lesson::Retrain(class), Some((found, _))) if class == found => {
            Err(Became::Already(found))
        }
        (Lesson::Train(_), Some((found, _))) => Err(Became::Otherwise(found)),
        (Lesson::Retrain(class), before) => Ok((before, Some((class, profile)))),
        (Lesson::Untrain(_), None) => Err(Became::Never),
        (Lesson::Untrain(class), Some((found, _))) if class.is_some_and(|it| it != found) => {
            Err(Became::Otherwise(found))
        }
        (Lesson::Untrain(_), before) => Ok((before, None)),
    }
}

fn other(class: Class) -> Class {
    match class {
        Class::Spam => Class::Ham,
        Class::Ham => Class::Spam,
    }
}

/// How many messages count that have no receipt.
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

/// What is to be done with any message where no receipts are kept: what is said is believed.
fn plan_without_receipts(lesson: Lesson, profile: Profile) -> Decided<Plan> {
    match lesson {
        Lesson::Train(class) => Ok((None, Some((class, profile)))),
        Lesson::Retrain(class) => Ok((Some((other(class), profile)), Some((class, profile)))),
        Lesson::Untrain(Some(class)) => Ok((Some((class, profile)), None)),
        Lesson::Untrain(None) => Err(Became::Unreceipted),
    }
}

fn made(
    worker: &mut Worker,
    message: &[u8],
    (lesson, registered): (Lesson, bool),
    filter: &Filter,
) -> Result<Made> {
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
    let is_believed = match lesson {
        Lesson::Train(_) => false,
        Lesson::Untrain(class) => registered && class.is_some(),
        Lesson::Retrain(_) => registered,
    };
    let plan = match has_receipt && !(misses_receipt && is_believed) {
        true => plan(lesson, known, profile),
        false => plan_without_receipts(lesson, profile),
    };
    let (remove, add) = match plan {
        Ok(plan) => plan,
        Err(became) => return Ok(Made { content, misses_receipt, plan: Err(became) }),
    };
    let mut tokens_of = |(class, profile): (Class, Profile)| {
        worker.maker.tokenize(profile);
        (class, worker.maker.packed())
    };
    let (remove, add) = (remove.map(&mut tokens_of), add.map(&mut tokens_of));
    let removes_receipt = known.is_some();
    let change = Change { remove, add, has_receipt, removes_receipt };
    Ok(Made { content, misses_receipt, plan: Ok(change) })
}
