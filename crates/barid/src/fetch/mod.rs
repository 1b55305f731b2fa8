//! FETCH over a mailbox (RFC 9051 §6.4.5).
//!
//! Cached data is used where possible; messages are read only for sections, for structures and
//! sizes that were not requested before, and for header fields that are too long for the cache or
//! occur twice. Messages are processed in blocks of a bounded size, by as many threads as there are
//! cores, and the output comes in the order requested. No flag is changed: every section is peeked
//! at.

mod blocks;
mod facts;
mod fetched;
mod imap;
mod large;
mod preview;

pub use self::fetched::Fetched;
pub use barid_imap::fetch::{FetchError, FetchItem, FetchItems, Partial};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use barid_query::search::NumberSet;
use barid_types::Uid;

use self::blocks::{Learned, run};
use crate::limits::FETCH_RANGES_FEW;
use crate::{Error, LongOperation, Mailbox, Progress, Result, Unit, View};

/// Report of a fetch.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FetchReport {
    /// Number of messages written.
    pub fetched: u64,
    /// Messages that do not exist.
    pub gone: Vec<Uid>,
    /// Messages that could not be read, or not decoded ([`Error::UnknownEncoding`]; their other
    /// items were written), and the errors.
    pub unreadable: Vec<(Uid, Error)>,
}

/// Writes the fetched data of one message; called from many threads.
pub type WriteFetched<'a> = dyn Fn(&Fetched<'_>, &mut Vec<u8>) + Sync + 'a;

/// Receives the output, in order; `false` ends the fetch. The bytes may be taken out of the buffer,
/// which is reused otherwise.
pub type TakeFetched<'a> = dyn FnMut(&mut Vec<u8>) -> bool + 'a;

/// Sizes that a fetch has computed.
type LearnedSizes = Vec<(Uid, u64)>;

impl View {
    /// Fetches `items` of the messages `uids`, in their order. Messages that have moved are
    /// followed. Of a view that is only listed, the items can be fetched that a name contains
    /// ([`FetchItems::are_marks`]); nothing else in [`Fetched`] is then right.
    ///
    /// # Errors
    /// A damaged cache; errors of the file system; [`Error::Renumbered`] if a message has moved and
    /// the UIDs are no longer valid. A single message that cannot be read is
    /// [`FetchReport::unreadable`].
    pub fn fetch(
        &self,
        uids: &[Uid],
        items: &FetchItems,
        write: &WriteFetched<'_>,
        take: &mut TakeFetched<'_>,
    ) -> Result<FetchReport> {
        Ok(self.fetch_and_learn(uids, items, write, take)?.0)
    }

    fn fetch_and_learn(
        &self,
        uids: &[Uid],
        items: &FetchItems,
        write: &WriteFetched<'_>,
        take: &mut TakeFetched<'_>,
    ) -> Result<(FetchReport, LearnedSizes)> {
        if !items.are_marks() {
            self.check_read()?;
        }
        let mut learned = Learned::default();
        let report = run(self, uids, items, write, &mut learned, take)?;
        // Later fetches use the stored values.
        self.keep_structures(&learned.structures);
        self.keep_email_ids(&learned.email_ids);
        self.keep_restart_points();
        Ok((report, learned.sizes))
    }

    /// Returns the UIDs in ranges of UIDs, or of sequence numbers, which must be ascending and must
    /// not overlap.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn uids_in(&self, ranges: &[(u32, u32)], by_sequence: bool) -> Result<Vec<Uid>> {
        if ranges.len() <= FETCH_RANGES_FEW {
            return self.uids_in_few(ranges, by_sequence);
        }
        let all = self.uids()?;
        let mut found = Vec::new();
        for &(first, last) in ranges {
            let rows = match by_sequence {
                true => first.saturating_sub(1) as usize..(last as usize).min(all.len()),
                false => {
                    all.partition_point(|uid| *uid < first)..all.partition_point(|uid| *uid <= last)
                }
            };
            let rows = all.get(rows).unwrap_or_default();
            found.extend(rows.iter().copied().filter_map(Uid::new));
        }
        Ok(found)
    }

    /// Returns the UIDs in ranges, and reads nothing else of the cache.
    fn uids_in_few(&self, ranges: &[(u32, u32)], by_sequence: bool) -> Result<Vec<Uid>> {
        let mut found = Vec::new();
        let row_from = |uid| Uid::new(uid).map_or(Ok(0), |uid| self.row_from(uid));
        for &(first, last) in ranges {
            let rows = match by_sequence {
                true => first.saturating_sub(1)..last.min(self.len()),
                false => {
                    row_from(first)?..match last.checked_add(1) {
                        Some(after) => row_from(after)?,
                        None => self.len(),
                    }
                }
            };
            let uids = self.snapshot.uids_in(rows)?;
            found.extend(uids.into_iter().filter_map(Uid::new));
        }
        Ok(found)
    }

    /// Computes the missing RFC822.SIZE of all messages by reading those messages. Returns also the
    /// messages that could not be read, and the errors.
    pub(crate) fn missing_sizes(&self) -> Result<(LearnedSizes, Vec<(Uid, Error)>)> {
        let unknown = self.uids_without_size()?;
        let items = FetchItems::of(FetchItem::Rfc822Size);
        let (progress, total) = (self.options.progress.clone(), unknown.len() as u64);
        let done = AtomicU64::new(0);
        let count = |_: &Fetched<'_>, _: &mut Vec<u8>| {
            done.fetch_add(1, Ordering::Relaxed);
        };
        let (report, sizes) = self.fetch_and_learn(&unknown, &items, &count, &mut |_| {
            if let Some(progress) = &progress {
                let (work, done) = (LongOperation::Scan, done.load(Ordering::Relaxed));
                progress(Progress { work, unit: Unit::Messages, done, total });
            }
            true
        })?;
        Ok((sizes, report.unreadable))
    }

    /// Returns the UIDs of messages without a known size.
    fn uids_without_size(&self) -> Result<Vec<Uid>> {
        let mut unknown = Vec::new();
        let read = self.snapshot.cores(0..self.len(), &mut |_, core| {
            if core.rfc822_size.is_none() {
                unknown.push(core.uid);
            }
        });
        self.done(read)?;
        Ok(unknown)
    }

    /// Adds sizes, and stores them in the cache.
    pub(crate) fn add_sizes(&mut self, sizes: &[(Uid, u64)]) -> Result<()> {
        let mut rows = Vec::with_capacity(sizes.len());
        for &(uid, size) in sizes {
            rows.extend(self.row_of(uid)?.map(|row| (row, size)));
        }
        rows.sort_unstable();
        if !rows.is_empty() {
            let written = Arc::make_mut(&mut self.snapshot).set_rfc822_sizes(&rows);
            self.done(written)?;
        }
        Ok(())
    }
}

impl Mailbox {
    /// Fetches as [`View::fetch`] does, and stores the sizes that were computed.
    ///
    /// # Errors
    /// As [`View::fetch`].
    pub fn fetch(
        &mut self,
        uids: &[Uid],
        items: &FetchItems,
        write: &WriteFetched<'_>,
        take: &mut TakeFetched<'_>,
    ) -> Result<FetchReport> {
        let (report, sizes) = self.view.fetch_and_learn(uids, items, write, take)?;
        // Later fetches use the stored values; without them they read the messages again.
        let _ = self.view.add_sizes(&sizes);
        Ok(report)
    }

    /// Computes the missing RFC822.SIZE of all messages by reading those messages, and stores it in
    /// the cache. Returns the messages that could not be read, and the errors.
    ///
    /// # Errors
    /// As [`Mailbox::fetch`]; a cache that cannot store the sizes.
    pub fn fill_rfc822_sizes(&mut self) -> Result<Vec<(Uid, Error)>> {
        let (sizes, unreadable) = self.view.missing_sizes()?;
        self.view.add_sizes(&sizes)?;
        Ok(unreadable)
    }
}
