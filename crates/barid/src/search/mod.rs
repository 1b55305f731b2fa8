//! SEARCH over a mailbox (RFC 9051 §6.4.4).
//!
//! Three passes, each over the messages that those before it could not answer: the fixed-size facts
//! of the cache, the header fields of the cache, the messages themselves. The last two are shared
//! among as many threads as there are cores, in stretches in mailbox order. A thread has one
//! message in memory at a time; of a message that is too large for that, it reads no attachments,
//! or one after the other where their texts are compared (`attached.rs`).

mod attached;
mod content;
mod passes;
mod relevance;
mod threads;

use std::sync::Mutex;

use barid_query::search::{Cost, Matcher, MatcherContext, SearchProgram};
use barid_types::{Uid, UidSet};

pub(crate) use self::passes::MessageReader;
use self::passes::Passes;
pub use self::relevance::{RankedMessage, RankedMessages, ranked_together};
use crate::limits::{INDEX_ASKED_MIN, INDEX_WORTH_MIN};
use crate::text_index::{INDEX_ADDED_BY_SEARCH, IndexAnswers};
use crate::{Error, Mailbox, Result, View};

/// Result of a search.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FoundMessages {
    /// Rows of the messages that match, in the view that was searched; ascending.
    pub rows: Vec<u32>,
    /// Messages that could not be read, and the errors. They do not match, negated or not.
    pub unreadable: Vec<(Uid, Error)>,
    /// Number of messages that have an attachment which could not be read, and on whose text the
    /// answer may depend. They are compared as without it.
    pub attachments_unread: u32,
    /// Number of messages that were read, as neither the cache nor an index decided them.
    pub read: u32,
    /// `true` if many messages were read that a text index would have answered for
    /// ([`View::index_texts`]), and too many for this search to index them.
    pub index_missing: bool,
}

impl Mailbox {
    /// Searches as [`View::search`] does; rebuilds the cache if it is damaged.
    ///
    /// # Errors
    /// As [`View::search`]; [`Error::Renumbered`] if the UIDs in the program are no longer valid.
    pub fn search(&mut self, program: &SearchProgram, saved: &UidSet) -> Result<FoundMessages> {
        self.healing(&mut |view| view.search(program, saved))
    }
}

impl View {
    /// Finds the messages that match a program; `saved` is the value of `$` in it.
    ///
    /// A program with only flags, dates, sizes and numbers costs a pass over the cache, one with
    /// the usual header fields a second one; messages are read only if the result depends on a
    /// text, another field or a size that is not in the cache. `docs/design/search.md` describes
    /// the comparison of texts. A message that is gone and would have to be read does not match,
    /// negated or not.
    ///
    /// # Errors
    /// A damaged cache; errors of the file system; [`Error::Renumbered`] if a message has moved and
    /// the UIDs are no longer valid. A single message that cannot be read is
    /// [`FoundMessages::unreadable`].
    pub fn search(&self, program: &SearchProgram, saved: &UidSet) -> Result<FoundMessages> {
        self.check_read()?;
        let (program, unreadable) = self.with_email_ids(program)?;
        let program = self.with_threads(program)?;
        let mut found = self.search_resolved(&program, saved)?;
        found.unreadable.extend(unreadable);
        Ok(found)
    }

    /// Searches for keys that the facts, fields and texts of messages decide.
    fn search_resolved(&self, program: &SearchProgram, saved: &UidSet) -> Result<FoundMessages> {
        let saved: Vec<(u32, u32)> = saved.numbers().collect();
        let greatest = self.greatest_uid()?;
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
        self.run(&matcher)
    }

    /// Returns the UID of the last message; 0 for an empty mailbox.
    fn greatest_uid(&self) -> Result<u32> {
        let last = self.len().checked_sub(1);
        Ok(last.map(|row| self.uid_of(row)).transpose()?.map_or(0, Uid::get))
    }

    fn run(&self, matcher: &Matcher) -> Result<FoundMessages> {
        let turn = Mutex::default();
        let mut passes =
            Passes { view: self, matcher, index: None, hides_unread: false, turn: &turn };
        let (mut rows, mut unknown) = passes.facts()?;
        let mut attachments_unread = Vec::new();
        let index = match self.options.use_index && unknown.len() >= INDEX_ASKED_MIN {
            true => IndexAnswers::of(self, matcher)?,
            false => None,
        };
        if index.is_some() {
            passes.index = index.as_ref();
            attachments_unread = passes.rows_of_unread(&unknown)?;
            let more = passes.indexed_rows(unknown)?;
            rows.extend(more.rows);
            unknown = more.unknown;
        }
        let (mut unreadable, mut index_missing) = (Vec::new(), false);
        if matcher.asks(Cost::Fields) && !unknown.is_empty() {
            let more = passes.fields(&unknown)?;
            rows.extend(more.rows);
            unknown = more.unknown;
        }
        let read = unknown.len() as u32;
        if read > 0 {
            index_missing = self.lacks_index(index.as_ref(), matcher, unknown.len());
            let more = passes.messages(&unknown)?;
            self.keep_restart_points();
            rows.extend(more.rows);
            unreadable = more.unreadable;
            attachments_unread.extend(more.attachments_unread);
        }
        if read > 0 && index.as_ref().is_some_and(IndexAnswers::is_behind) {
            // The answer stands; an index that cannot be extended is tried again by the next.
            let _ = self.extend_index(INDEX_ADDED_BY_SEARCH, None);
        }
        // Each pass gives its rows in order.
        rows.sort_unstable();
        attachments_unread.sort_unstable();
        attachments_unread.dedup();
        let attachments_unread = attachments_unread.len() as u32;
        Ok(FoundMessages { rows, unreadable, attachments_unread, read, index_missing })
    }

    /// Returns `true` if a text index is worth its while for messages that are read.
    fn lacks_index(&self, index: Option<&IndexAnswers>, matcher: &Matcher, read: usize) -> bool {
        self.options.use_index
            && self.place.on_disk
            && read >= INDEX_WORTH_MIN
            && matcher.texts().next().is_some()
            && index.is_none_or(IndexAnswers::is_far_behind)
    }
}
