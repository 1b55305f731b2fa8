//! FETCH over a mailbox (RFC 9051 §6.4.5).
//!
//! Cached data is used where possible; messages are read only for sections, for structures and
//! sizes that were not requested before, and for header fields that are too long for the cache or
//! occur twice. Messages are processed in blocks of a bounded size, by as many threads as there are
//! cores, and the output comes in the order requested. No flag is changed: every section is peeked
//! at.

mod blocks;
mod fetched;
mod imap;
mod items;
mod large;

pub use self::fetched::Fetched;
pub use self::items::{FetchError, FetchItem, FetchItems, Partial};

use std::sync::atomic::{AtomicU64, Ordering};

pub use barid_query::search::NumberSet;
use barid_types::Uid;

use self::blocks::{Learned, Stop, run};
use crate::limits::FETCH_ATTEMPTS_MAX;
use crate::{Error, Mailbox, Progress, Result, Unit, Work};

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

/// Receives the output, in order; `false` ends the fetch.
pub type TakeFetched<'a> = dyn FnMut(&[u8]) -> bool + 'a;

impl Mailbox {
    /// Fetches `items` of the messages `uids`, in their order.
    ///
    /// If a message has moved, the mailbox is scanned again and the fetch continues with it; rows
    /// and sequence numbers are then renumbered.
    ///
    /// # Errors
    /// A damaged cache; errors of the file system; [`Error::Renumbered`] if the UIDs are no longer
    /// valid. A single message that cannot be read is [`FetchReport::unreadable`].
    pub fn fetch(
        &mut self,
        uids: &[Uid],
        items: &FetchItems,
        write: &WriteFetched<'_>,
        take: &mut TakeFetched<'_>,
    ) -> Result<FetchReport> {
        let mut learned = Learned::default();
        let report = self.fetch_into(uids, items, write, &mut learned, take)?;
        // Later fetches use the stored values.
        let _ = self.keep_sizes(&learned.sizes);
        self.keep_structures(&learned.structures);
        Ok(report)
    }

    /// Fetches as [`Mailbox::fetch`], and leaves storing the learned values to its caller.
    fn fetch_into(
        &mut self,
        uids: &[Uid],
        items: &FetchItems,
        write: &WriteFetched<'_>,
        learned: &mut Learned,
        take: &mut TakeFetched<'_>,
    ) -> Result<FetchReport> {
        let mut report = FetchReport::default();
        let uidvalidity = self.snapshot.meta().uidvalidity;
        let (mut next, mut attempts) = (0, 0);
        while next < uids.len() {
            let stop = run(self, &uids[next..], items, write, take, &mut report, learned)?;
            let at = match stop {
                Stop::Done => break,
                Stop::Gone(at) => next + at,
            };
            attempts = if at == next { attempts + 1 } else { 1 };
            next = at;
            if attempts > FETCH_ATTEMPTS_MAX {
                let path = self.path().to_owned();
                report.unreadable.push((uids[next], Error::KeepsChanging { path }));
                (next, attempts) = (next + 1, 0);
            } else {
                // A mailbox that looks unchanged may have been read at its end only.
                self.rescan(attempts > 1)?;
                self.check_numbering(uidvalidity)?;
            }
        }
        self.keep_restart_points();
        Ok(report)
    }

    /// Returns the UIDs in ranges of UIDs, or of sequence numbers, which must be ascending and must
    /// not overlap.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn uids_in(&self, ranges: &[(u32, u32)], by_sequence: bool) -> Result<Vec<Uid>> {
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

    /// Computes the missing RFC822.SIZE of all messages by reading those messages, and stores it in
    /// the cache. Returns the messages that could not be read, and the errors. Rows may be
    /// renumbered, as by [`Mailbox::fetch`].
    ///
    /// # Errors
    /// As [`Mailbox::fetch`]; a cache that cannot store the sizes.
    pub fn fill_rfc822_sizes(&mut self) -> Result<Vec<(Uid, Error)>> {
        let items = FetchItems::of(FetchItem::Rfc822Size);
        let mut unreadable: Vec<(Uid, Error)> = Vec::new();
        for _ in 0..FETCH_ATTEMPTS_MAX {
            let unknown = self.uids_without_size(&unreadable)?;
            if unknown.is_empty() {
                return Ok(unreadable);
            }
            let (progress, total) = (self.options.progress.clone(), unknown.len() as u64);
            let done = AtomicU64::new(0);
            let count = |_: &Fetched<'_>, _: &mut Vec<u8>| {
                done.fetch_add(1, Ordering::Relaxed);
            };
            let mut learned = Learned::default();
            let report = self.fetch_into(&unknown, &items, &count, &mut learned, &mut |_| {
                if let Some(progress) = &progress {
                    let (work, done) = (Work::Scan, done.load(Ordering::Relaxed));
                    progress(Progress { work, unit: Unit::Messages, done, total });
                }
                true
            })?;
            self.keep_sizes(&learned.sizes)?;
            unreadable.extend(report.unreadable);
        }
        Err(Error::KeepsChanging { path: self.path().to_owned() })
    }

    /// Returns the UIDs of messages without a known size, except those that cannot be read.
    fn uids_without_size(&self, unreadable: &[(Uid, Error)]) -> Result<Vec<Uid>> {
        let mut unknown = Vec::new();
        let read = self.snapshot.cores(0..self.len(), &mut |_, core| {
            if core.rfc822_size.is_none() {
                unknown.push(core.uid);
            }
        });
        self.done(read)?;
        let mut known: Vec<Uid> = unreadable.iter().map(|(uid, _)| *uid).collect();
        known.sort_unstable();
        unknown.retain(|uid| known.binary_search(uid).is_err());
        Ok(unknown)
    }

    /// Stores the sizes.
    fn keep_sizes(&mut self, sizes: &[(Uid, u64)]) -> Result<()> {
        let mut rows = Vec::with_capacity(sizes.len());
        for &(uid, size) in sizes {
            rows.extend(self.row_of(uid)?.map(|row| (row, size)));
        }
        rows.sort_unstable();
        if rows.is_empty() {
            return Ok(());
        }
        let written = self.snapshot.set_rfc822_sizes(&rows);
        self.done(written)
    }
}
