//! FETCH over a mailbox (RFC 9051 §6.4.5).
//!
//! What the cache knows is answered from it; messages are read only for sections, for structures
//! and sizes that nobody has asked for before, and for header fields that are too long for the
//! cache or occur twice. Messages are worked on in blocks of a bounded size, by as many threads as
//! there are cores, and what they write comes out in the order asked for. No flag is changed: every
//! section is peeked at.

mod blocks;
mod fetched;
mod imap;
mod items;
mod large;

pub use self::fetched::Fetched;
pub use self::items::{FetchError, FetchItem, FetchItems, Partial};

pub use barid_query::search::NumberSet;
use barid_types::Uid;

use self::blocks::{Learned, Stop, run};
use crate::limits::FETCH_ATTEMPTS_MAX;
use crate::{Error, Mailbox, Result};

/// What became of a fetch.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FetchReport {
    /// How many messages were written.
    pub fetched: u64,
    /// Messages that are not there.
    pub gone: Vec<Uid>,
    /// Messages that could not be read, and why.
    pub unreadable: Vec<(Uid, Error)>,
}

/// Writes what was fetched of one message; called from many threads.
pub type WriteFetched<'a> = dyn Fn(&Fetched<'_>, &mut Vec<u8>) + Sync + 'a;

/// Takes what was written, in order; `false` ends the fetch.
pub type TakeFetched<'a> = dyn FnMut(&[u8]) -> bool + 'a;

impl Mailbox {
    /// Fetches `items` of the messages `uids`, in their order.
    ///
    /// If a message is no longer where it was, the mailbox is scanned again and the fetch goes on
    /// with it; rows are then counted anew, and so are sequence numbers.
    ///
    /// # Errors
    /// A damaged cache; what the file system says of the mailbox; [`Error::Renumbered`] if the UIDs
    /// mean nothing any more. A single message that cannot be read is [`FetchReport::unreadable`].
    pub fn fetch(
        &mut self,
        uids: &[Uid],
        items: &FetchItems,
        write: &WriteFetched<'_>,
        take: &mut TakeFetched<'_>,
    ) -> Result<FetchReport> {
        let mut report = FetchReport::default();
        let uidvalidity = self.snapshot.meta().uidvalidity;
        let (mut next, mut attempts, mut learned) = (0, 0, Learned::default());
        while next < uids.len() {
            let stop = run(self, &uids[next..], items, write, take, &mut report, &mut learned)?;
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
                // What looks unchanged may have been read at its end only.
                self.rescan(attempts > 1)?;
                self.check_numbering(uidvalidity)?;
            }
        }
        self.keep_restart_points();
        self.keep_sizes(&learned.sizes);
        self.keep_structures(&learned.structures);
        Ok(report)
    }

    /// The UIDs of the rows that ranges of UIDs, or of sequence numbers, name: ascending ranges
    /// that do not overlap.
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

    /// Keeps the sizes that were found, if that can be done.
    fn keep_sizes(&mut self, sizes: &[(Uid, u64)]) {
        let row = |&(uid, size): &(Uid, u64)| Some((self.row_of(uid).ok()??, size));
        let mut rows: Vec<(u32, u64)> = sizes.iter().filter_map(row).collect();
        rows.sort_unstable();
        if !rows.is_empty() {
            // Who asks again finds them again.
            let _ = self.snapshot.set_rfc822_sizes(&rows);
            self.snapshot.release();
        }
    }
}
