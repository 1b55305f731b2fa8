//! Messages of known classes: their tokens as numbers, in byte order.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use barid::{LongOperation, ReadOutcome};
use barid_bayes::MessagePart;
use barid_message::{fields, parse_date};
use barid_wordlist::{Class, DistinctTokens, Interner};
use xxhash_rust::xxh3::xxh3_64;

use super::matrix::Role;
use crate::canonical::content_of;
use crate::limits::TUNE_TOKENS_MAX;
use crate::source::{At, Source, each};
use crate::worker::Makers;
use crate::{Error, Filter, Result};

/// Outcome of adding one message.
#[derive(Debug)]
#[non_exhaustive]
pub enum Taken {
    /// It was added.
    New,
    /// Skipped: a message with the same text was added before.
    Twice,
    /// Skipped: a message with the same text was added before as the other class, which is this.
    Otherwise(Class),
    /// Skipped: it no longer exists.
    Gone,
    /// Skipped: it cannot be read.
    Unreadable(Error),
}

/// Called with the outcome for each message, in order.
pub type OnSampleTaken<'a> = dyn FnMut(At, Taken) + 'a;

/// Messages of known classes.
#[derive(Debug)]
pub struct Samples<'a> {
    filter: &'a Filter,
    interner: Interner,
    messages: Vec<Message>,
    /// Classes of the messages added, by the hash of their text.
    known: HashMap<u128, Class>,
    /// The tokens of all messages.
    tokens: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    class: Class,
    content: u128,
    /// Date of arrival, in seconds since 1970.
    date: Option<i64>,
    /// Index of its first token.
    start: usize,
    count: usize,
}

struct SampleResult {
    content: u128,
    date: Option<i64>,
    tokens: DistinctTokens,
}

impl<'a> Samples<'a> {
    pub(super) fn new(filter: &'a Filter) -> Self {
        let (interner, known) = (Interner::default(), HashMap::new());
        Self { filter, interner, messages: Vec::new(), known, tokens: Vec::new() }
    }

    pub(super) fn filter(&self) -> &'a Filter {
        self.filter
    }

    /// Adds the messages of a source, all of one class.
    ///
    /// # Errors
    /// [`Error::TooManySamples`]; errors of the mailbox; a message that cannot be read is passed to
    /// `report` instead.
    pub fn add(
        &mut self,
        class: Class,
        source: Source<'_>,
        report: &mut OnSampleTaken<'_>,
    ) -> Result<()> {
        let (filter, total) = (self.filter, source.len());
        let (profile, makers) = (filter.options.profile, Makers::default());
        let make = |message: &[u8]| {
            makers.with(|maker| {
                let text = maker.read(message);
                let (content, date) = (content_of(text), arrived(text));
                maker.tokenize(profile);
                maker.sort();
                SampleResult { content, date, tokens: maker.packed() }
            })
        };
        let mut done = 0;
        each(&*filter.vfs, source, filter.options.threads, &make, &mut |at, outcome| {
            done += 1;
            filter.report_progress(LongOperation::Scan, done, total);
            let taken = match outcome {
                ReadOutcome::Made(made) => self.take(class, &made)?,
                ReadOutcome::Gone => Taken::Gone,
                ReadOutcome::Unreadable(error) => Taken::Unreadable(error.into()),
            };
            report(at, taken);
            Ok(!filter.is_stopped())
        })
    }

    fn take(&mut self, class: Class, made: &SampleResult) -> Result<Taken> {
        let SampleResult { content, date, ref tokens } = *made;
        match self.known.entry(content) {
            Entry::Vacant(place) => drop(place.insert(class)),
            Entry::Occupied(known) if *known.get() == class => return Ok(Taken::Twice),
            Entry::Occupied(known) => return Ok(Taken::Otherwise(*known.get())),
        }
        let start = self.tokens.len();
        self.interner.touch(tokens.iter().map(|(hash, _)| hash), |_| 0);
        for (hash, token) in tokens.iter() {
            let index = self.interner.place(hash, token);
            self.tokens.push(u32::try_from(index).expect("because fewer than that are taken"));
        }
        let count = self.tokens.len() - start;
        self.messages.push(Message { class, content, date, start, count });
        if self.tokens.len() > TUNE_TOKENS_MAX {
            return Err(Error::TooManySamples { messages: self.messages.len() });
        }
        Ok(Taken::New)
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns `true` if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns the number of distinct tokens.
    pub(super) fn tokens(&self) -> usize {
        self.interner.tokens_len()
    }

    /// Returns the places of the tokens, by their numbers.
    pub(super) fn places(&self) -> impl Iterator<Item = MessagePart> {
        self.interner.iter().map(MessagePart::of)
    }

    /// Returns the classes of all messages.
    pub(super) fn classes(&self) -> impl Iterator<Item = Class> {
        self.messages.iter().map(|message| message.class)
    }

    /// Returns the tokens of a message, in byte order.
    pub(super) fn tokens_of(&self, message: usize) -> &[u32] {
        let message = &self.messages[message];
        &self.tokens[message.start..message.start + message.count]
    }

    /// Checks that there is a message of each class for each fold.
    pub(super) fn check(&self, folds: usize) -> Result<()> {
        let count = |class| self.classes().filter(|it| *it == class).count();
        let least = count(Class::Spam).min(count(Class::Ham));
        if least < folds { Err(Error::TooFewSamples { least: folds }) } else { Ok(()) }
    }

    /// Divides messages into folds, those of each class evenly, in the order of a hash of their
    /// text: so the folds do not depend on the order in which messages were read.
    pub(super) fn deal(&self, folds: usize, seed: u64, takes: &[bool]) -> Vec<Role> {
        let mut roles = vec![Role::Out; self.messages.len()];
        for class in [Class::Spam, Class::Ham] {
            let of_class = self.messages.iter().enumerate().zip(takes);
            let mut order: Vec<(u64, usize)> = of_class
                .filter(|((_, message), takes)| message.class == class && **takes)
                .map(|((index, message), _)| {
                    let mut bytes = [0; 24];
                    bytes[..16].copy_from_slice(&message.content.to_le_bytes());
                    bytes[16..].copy_from_slice(&seed.to_le_bytes());
                    (xxh3_64(&bytes), index)
                })
                .collect();
            order.sort_unstable();
            for (place, (_, index)) in order.into_iter().enumerate() {
                roles[index] = Role::Tested(place % folds);
            }
        }
        roles
    }

    /// Returns one value for each message: `true` if it is in the older half, `None` if it has no
    /// date; and the number of messages without a date.
    pub(super) fn older_half(&self) -> (Vec<Option<bool>>, usize) {
        let mut dates: Vec<i64> = self.messages.iter().filter_map(|message| message.date).collect();
        dates.sort_unstable();
        let middle = dates.get(dates.len() / 2).copied().unwrap_or_default();
        let is_older =
            self.messages.iter().map(|message| message.date.map(|date| date < middle)).collect();
        (is_older, self.messages.len() - dates.len())
    }
}

/// Returns the date of arrival: that of the topmost `Received`, which the receiver's own server has
/// written, else `Date`.
fn arrived(message: &[u8]) -> Option<i64> {
    let find = |name: &[u8]| {
        fields(message).find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.body)
    };
    let received = find(b"received").and_then(|body| {
        let at = memchr::memrchr(b';', body)?;
        parse_date(&body[at + 1..])
    });
    let date = received.or_else(|| parse_date(find(b"date")?))?;
    Some(date.unix_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_as_old_as_its_arrival() {
        let check = |message: &str, expected| {
            assert_eq!(arrived(message.as_bytes()), expected, "{message}");
        };
        let date = "Date: Thu, 01 Jan 1970 00:01:00 +0000\n";
        check(&format!("{date}\n"), Some(60));
        let received = "Received: from a (b; c)\n by d; Thu, 01 Jan 1970 00:02:00 +0000\n";
        check(&format!("{received}{date}\n"), Some(120));
        check(&format!("Received: from a by b\n{date}\n"), Some(60));
        check("Subject: none\n\n", None);
    }
}
