//! Destination of the new messages of a scan: a new cache, or a change of the existing one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use barid_cache::{Builder, CacheOptions, Delta, Snapshot};
use barid_mailbox::{ScanSink, ScannedMessage, SinkError, Sinks};

use crate::limits::LISTED_MESSAGES_MIN;
use crate::opening::CachePlace;

/// The sinks of one scan.
///
/// A scan of a mailbox never seen before, or of one of which nothing known is valid, streams into a
/// [`Builder`]; any other collects its few messages in a [`Delta`].
pub(crate) struct Intake<'a> {
    place: &'a CachePlace,
    options: CacheOptions,
    delta: Option<Delta<'a>>,
    builder: OnceLock<Result<Builder, barid_cache::Error>>,
    /// The place in memory for the names of messages, if they are taken without texts.
    names_place: Option<CachePlace>,
    /// `true` once they are.
    takes_names: AtomicBool,
}

/// Result of a scan in its [`Intake`].
pub(crate) enum Taken<'a> {
    /// The whole mailbox.
    Whole(Box<Builder>),
    /// The new messages.
    New(Delta<'a>),
}

impl<'a> Intake<'a> {
    /// Prepares for a scan against `known`, or of the whole mailbox if nothing is known. A new
    /// cache is made with `options`.
    pub(crate) fn new(
        place: &'a CachePlace,
        options: CacheOptions,
        known: Option<&'a Snapshot>,
    ) -> Self {
        let delta = known.map(Delta::new);
        let (builder, takes_names) = (OnceLock::new(), AtomicBool::new(false));
        Self { place, options, delta, builder, names_place: None, takes_names }
    }

    /// Takes the messages of a large mailbox without their texts, into a cache in memory at
    /// `place`, if nothing is known.
    pub(crate) fn with_names_in(self, place: Option<CachePlace>) -> Self {
        let names_place = place.filter(|_| self.delta.is_none());
        Self { names_place, ..self }
    }

    /// Returns the place of the cache if the messages have no texts.
    pub(crate) fn place_of_names(&self) -> Option<&CachePlace> {
        self.names_place.as_ref().filter(|_| self.takes_names.load(Ordering::Relaxed))
    }

    /// Returns the messages of the scan; fails if the cache could not be written.
    pub(crate) fn taken(self) -> Result<Taken<'a>, barid_cache::Error> {
        if self.delta.is_none() {
            self.expect_whole();
        }
        match (self.builder.into_inner(), self.delta) {
            (Some(builder), _) => builder.map(|builder| Taken::Whole(Box::new(builder))),
            (None, Some(delta)) => Ok(Taken::New(delta)),
            (None, None) => unreachable!("without a delta the builder was made above"),
        }
    }
}

impl Sinks for Intake<'_> {
    fn sink(&self, chunk: u32) -> Box<dyn ScanSink + '_> {
        if self.delta.is_none() {
            self.expect_whole();
        }
        match (self.builder.get(), &self.delta) {
            (Some(Ok(builder)), _) => builder.sink(chunk),
            (Some(Err(_)), _) | (None, None) => Box::new(Nowhere),
            (None, Some(delta)) => delta.sink(chunk),
        }
    }

    fn expect_whole(&self) {
        self.builder.get_or_init(|| {
            let (place, options) = match self.place_of_names() {
                Some(place) => (place, CacheOptions::default()),
                None => (self.place, self.options),
            };
            Builder::create(Arc::clone(&place.vfs), &place.path, &options)
        });
    }

    fn takes_names(&self, messages: usize) -> bool {
        let takes_names = self.names_place.is_some() && messages >= LISTED_MESSAGES_MIN;
        self.takes_names.store(takes_names, Ordering::Relaxed);
        takes_names
    }
}

/// The sink of a scan whose cache could not be created: it stops the scan at its first message.
struct Nowhere;

#[derive(Debug, thiserror::Error)]
#[error("the cache could not be created")]
struct NoCache;

impl ScanSink for Nowhere {
    fn message(&mut self, _: &ScannedMessage<'_>) -> Result<(), SinkError> {
        Err(Box::new(NoCache))
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        Ok(())
    }
}
