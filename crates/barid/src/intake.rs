//! Destination of the new messages of a scan: a new cache, or a change of the existing one.

use std::sync::{Arc, OnceLock};

use barid_cache::{Builder, CacheOptions, Delta, Snapshot};
use barid_mailbox::{ScanSink, ScannedMessage, SinkError, Sinks};

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
        let intake = Self { place, options, delta, builder: OnceLock::new() };
        if intake.delta.is_none() {
            intake.expect_whole();
        }
        intake
    }

    /// Returns the messages of the scan; fails if the cache could not be written.
    pub(crate) fn taken(self) -> Result<Taken<'a>, barid_cache::Error> {
        match (self.builder.into_inner(), self.delta) {
            (Some(builder), _) => builder.map(|builder| Taken::Whole(Box::new(builder))),
            (None, Some(delta)) => Ok(Taken::New(delta)),
            (None, None) => unreachable!("without a delta the builder is made at once"),
        }
    }
}

impl Sinks for Intake<'_> {
    fn sink(&self, chunk: u32) -> Box<dyn ScanSink + '_> {
        match (self.builder.get(), &self.delta) {
            (Some(Ok(builder)), _) => builder.sink(chunk),
            (Some(Err(_)), _) | (None, None) => Box::new(Nowhere),
            (None, Some(delta)) => delta.sink(chunk),
        }
    }

    fn expect_whole(&self) {
        let CachePlace { vfs, path, .. } = self.place;
        self.builder.get_or_init(|| Builder::create(Arc::clone(vfs), path, &self.options));
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
