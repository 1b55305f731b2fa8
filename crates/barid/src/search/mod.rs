//! SEARCH over a mailbox (RFC 9051 §6.4.4).
//!
//! Three passes, each over the messages that those before it could not answer: the fixed-size facts
//! of the cache, the header fields of the cache, the messages themselves. The last two are shared
//! among as many threads as there are cores, in stretches in mailbox order; a thread holds one
//! message at a time, and of a message that is too large to be held no attachments.

mod passes;

use std::sync::Mutex;

use barid_formats::Error as FormatError;
use barid_query::search::{Cost, Matcher, MatcherContext, SearchProgram};
use barid_types::{Uid, UidSet};

use self::passes::Passes;
use crate::limits::SEARCHES_MAX;
use crate::{Error, Mailbox, Result};

/// Result of a search.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Found {
    /// The rows of the messages that match, ascending; valid until the mailbox is refreshed or
    /// searched again.
    pub rows: Vec<u32>,
    /// Messages that could not be read, and the errors. They do not match, negated or not.
    pub unreadable: Vec<(Uid, Error)>,
}

/// The reason to restart a search.
enum Again {
    /// A message has moved.
    Gone,
    /// The cache cannot be read.
    Cache(Error),
}

impl Mailbox {
    /// Finds the messages that match a program; `saved` is the value of `$` in it.
    ///
    /// A program with only flags, dates, sizes and numbers costs a pass over the cache, one with
    /// the usual header fields a second one; messages are read only if the result depends on a
    /// text, another field or a size that is not in the cache. `docs/design/search.md` describes
    /// the comparison of texts.
    ///
    /// If a message has moved, the mailbox is scanned again and searched anew; rows are then
    /// renumbered.
    ///
    /// # Errors
    /// As [`Mailbox::open`]; [`Error::Renumbered`] if the mailbox is scanned again and the UIDs in
    /// the program are no longer valid. A single message that cannot be read is
    /// [`Found::unreadable`].
    pub fn search(&mut self, program: &SearchProgram, saved: &UidSet) -> Result<Found> {
        let uidvalidity = self.snapshot.meta().uidvalidity;
        for attempt in 1..=SEARCHES_MAX {
            match self.search_once(program, saved)? {
                Ok(found) => return Ok(found),
                // A mailbox that looks unchanged may have been read at its end only.
                Err(Again::Gone) if attempt < SEARCHES_MAX => self.rescan(attempt > 1)?,
                Err(Again::Cache(error)) if attempt < SEARCHES_MAX => self.heal(error)?,
                Err(Again::Cache(error)) => return Err(error),
                Err(Again::Gone) => {}
            }
            self.check_numbering(uidvalidity)?;
        }
        Err(Error::KeepsChanging { path: self.path().to_owned() })
    }

    fn search_once(
        &self,
        program: &SearchProgram,
        saved: &UidSet,
    ) -> Result<std::result::Result<Found, Again>> {
        let saved: Vec<(u32, u32)> =
            saved.ranges().iter().map(|(first, last)| (first.get(), last.get())).collect();
        let greatest = match self.len().checked_sub(1).map(|row| self.uid_of(row)) {
            Some(Ok(uid)) => uid.get(),
            Some(Err(error)) => return again(error).map(Err),
            None => 0,
        };
        let nanos_per_second = 1_000_000_000;
        let matcher = Matcher::new(
            program,
            &MatcherContext {
                now: self.vfs.now().unix_nanos.div_euclid(nanos_per_second),
                exists: self.len(),
                greatest_uid: greatest,
                keywords: self.keywords(),
                saved: &saved,
            },
        );
        match self.run(&matcher) {
            Ok(found) => Ok(Ok(found)),
            Err(error) => again(error).map(Err),
        }
    }

    fn run(&self, matcher: &Matcher) -> Result<Found> {
        let passes = Passes { mailbox: self, matcher, turn: &Mutex::default() };
        let (mut rows, mut unknown) = passes.facts()?;
        let mut unreadable = Vec::new();
        if matcher.asks(Cost::Fields) && !unknown.is_empty() {
            let more = passes.fields(&unknown)?;
            rows.extend(more.rows);
            unknown = more.unknown;
        }
        if !unknown.is_empty() {
            let more = passes.messages(&unknown)?;
            self.keep_restart_points();
            rows.extend(more.rows);
            unreadable = more.unreadable;
        }
        // Each pass gives its rows in order.
        rows.sort_unstable();
        Ok(Found { rows, unreadable })
    }
}

/// Returns the reason to restart a search after an error, or the error.
fn again(error: Error) -> Result<Again> {
    match error {
        Error::Mailbox(FormatError::MessageGone { .. }) => Ok(Again::Gone),
        Error::Cache(_) | Error::Superseded { .. } => Ok(Again::Cache(error)),
        error => Err(error),
    }
}
