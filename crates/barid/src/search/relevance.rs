//! The order by relevance of messages that a search found.
//!
//! The numbers of messages with each term come from searches, which an index answers; of the
//! messages themselves only those that are ordered are read, on all cores.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use barid_query::search::{RelevanceModel, RelevanceTerms, TermCounts, TextBuffers};
use barid_types::{Uid, UidSet};
use barid_vfs::on_threads;

use super::MessageReader;
use crate::limits::{SEARCH_LARGE_LEN, SEARCH_MESSAGES_ROWS};
use crate::{Error, LongOperation, Progress, Result, Unit, View};

/// Messages in the order of their relevance.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RankedMessages {
    /// The best first; of equal ones the newest, by the date that a message list shows.
    pub messages: Vec<RankedMessage>,
    /// Messages that could not be read, each with the index of its mailbox, and the errors. They
    /// have the score 0.
    pub unreadable: Vec<(usize, Uid, Error)>,
}

/// A message and its relevance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankedMessage {
    /// The index of its mailbox among those that were given.
    pub part: usize,
    /// Its row.
    pub row: u32,
    /// The score of BM25; comparable with those of the same call only.
    pub score: f64,
}

impl View {
    /// Orders rows by relevance to the texts of a query, as [`ranked_together`] does.
    ///
    /// # Errors
    /// As [`ranked_together`].
    pub fn relevance(&self, terms: &RelevanceTerms, rows: &[u32]) -> Result<RankedMessages> {
        ranked_together(&[(self, rows)], terms)
    }
}

/// Orders rows of several mailboxes together by relevance to the texts of a query (BM25,
/// [`RelevanceModel`]). The rarity of a text is that in all messages of these mailboxes.
///
/// Searches each mailbox once for each term, and reads the messages of the rows: O(rows * terms)
/// memory, and one message for each thread. The order does not depend on text indexes.
///
/// # Errors
/// As [`View::search`].
pub fn ranked_together(
    parts: &[(&View, &[u32])],
    terms: &RelevanceTerms,
) -> Result<RankedMessages> {
    let mut found_in = vec![0; terms.programs().len()];
    let (mut messages, mut unreadable, mut all) = (0, Vec::new(), Vec::new());
    for (part, (view, rows)) in parts.iter().enumerate() {
        messages += u64::from(view.len());
        for (program, found_in) in terms.programs().zip(&mut found_in) {
            *found_in += view.search(program, &UidSet::new())?.rows.len() as u64;
        }
        let counted = view.counted(rows, terms)?;
        unreadable.extend(counted.unreadable.into_iter().map(|(uid, error)| (part, uid, error)));
        all.extend(counted.rows.into_iter().map(|row| (part, row)));
    }
    let lens = all.iter().filter_map(|(_, row)| Some(row.counts.as_ref()?.body_len));
    let (sum, read) = lens.fold((0, 0), |(sum, read), len| (sum + len, read + 1));
    let model = RelevanceModel::new(messages, &found_in, sum as f64 / f64::from(read.max(1)));
    let score = |row: &CountedRow| row.counts.as_ref().map_or(0.0, |counts| model.score(counts));
    let mut dated: Vec<(i64, RankedMessage)> = all
        .iter()
        .map(|(part, row)| {
            (row.date, RankedMessage { part: *part, row: row.row, score: score(row) })
        })
        .collect();
    dated.sort_by(|(left_date, left), (right_date, right)| {
        let better = right.score.total_cmp(&left.score);
        let newer = || right_date.cmp(left_date);
        let place = |message: &RankedMessage| (message.part, Reverse(message.row));
        better.then_with(newer).then_with(|| place(left).cmp(&place(right)))
    });
    let messages = dated.into_iter().map(|(_, message)| message).collect();
    Ok(RankedMessages { messages, unreadable })
}

/// A message whose terms were counted.
struct CountedRow {
    row: u32,
    /// The date that a message list shows, in seconds since 1970.
    date: i64,
    /// `None` if it could not be read.
    counts: Option<TermCounts>,
}

/// Messages whose terms were counted.
#[derive(Default)]
struct CountedRows {
    rows: Vec<CountedRow>,
    unreadable: Vec<(Uid, Error)>,
}

impl View {
    /// Counts terms in messages, on all cores.
    fn counted(&self, rows: &[u32], terms: &RelevanceTerms) -> Result<CountedRows> {
        let stretches: Vec<&[u32]> = rows.chunks(SEARCH_MESSAGES_ROWS).collect();
        let (next, turn) = (AtomicUsize::new(0), Mutex::new(()));
        let run = || -> Result<CountedRows> {
            let mut counter =
                Counter { view: self, terms, turn: &turn, reader: MessageReader::default() };
            let (mut buffers, mut counted) = (TextBuffers::default(), CountedRows::default());
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(stretch) = stretches.get(at) else { return Ok(counted) };
                for row in *stretch {
                    let done = counter.count(*row, &mut buffers, &mut counted);
                    if done.is_err() {
                        next.store(stretches.len(), Ordering::Relaxed);
                    }
                    done?;
                }
                self.report_read(at * SEARCH_MESSAGES_ROWS, rows.len());
            }
        };
        let threads = self.options.thread_count().min(stretches.len());
        let mut all = CountedRows::default();
        for counted in on_threads(threads, run) {
            let counted = counted?;
            all.rows.extend(counted.rows);
            all.unreadable.extend(counted.unreadable);
        }
        self.keep_restart_points();
        all.rows.sort_unstable_by_key(|row| row.row);
        all.unreadable.sort_unstable_by_key(|(uid, _)| *uid);
        Ok(all)
    }

    fn report_read(&self, done: usize, total: usize) {
        if let Some(progress) = &self.options.progress {
            let (done, total) = (done as u64, total as u64);
            progress(Progress { work: LongOperation::Scan, unit: Unit::Messages, done, total });
        }
    }
}

/// Counts terms in one message after another.
struct Counter<'a> {
    view: &'a View,
    terms: &'a RelevanceTerms,
    /// Locked by a thread that reads a large message.
    turn: &'a Mutex<()>,
    reader: MessageReader,
}

impl Counter<'_> {
    fn count(
        &mut self,
        row: u32,
        buffers: &mut TextBuffers,
        counted: &mut CountedRows,
    ) -> Result<()> {
        let core = self.view.snapshot.core(row)?;
        let is_large = core.size > SEARCH_LARGE_LEN;
        let _turn = is_large.then(|| self.turn.lock().unwrap_or_else(PoisonError::into_inner));
        let reader = &mut self.reader;
        let counts = match self.view.follow(row, &mut |view, row| reader.read(view, row))? {
            Ok(_) => Some(self.terms.count(&self.reader.bytes, buffers)),
            Err(Error::NoSuchMessage { .. }) => None,
            Err(error @ (Error::Cache(_) | Error::Superseded { .. })) => return Err(error),
            Err(error) => {
                counted.unreadable.push((core.uid, error));
                None
            }
        };
        let date = core.sent_date.unix_seconds;
        counted.rows.push(CountedRow { row, date, counts });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use barid_query::search::{Day, ShortOptions, parse_short_with};
    use barid_vfs::Vfs;

    use super::*;
    use crate::test_mailbox::{created, disk};
    use crate::{ChangeOptions, ChangeRequest, Mailbox, NewMessage};

    fn filled(vfs: &Arc<dyn Vfs>, name: &str, texts: &[&'static str]) -> Mailbox {
        let mut mailbox = created(vfs, &format!("maildir:/mail/{name}"), Some("/cache"));
        let new =
            |text: &&'static str| NewMessage { bytes: text.as_bytes(), ..NewMessage::default() };
        let appends: Vec<NewMessage<'_>> = texts.iter().map(new).collect();
        let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        mailbox.change(&request, &ChangeOptions::default()).unwrap();
        mailbox
    }

    fn terms(query: &str) -> RelevanceTerms {
        let options = ShortOptions { today: Day(0), fold_accents: false };
        RelevanceTerms::of(&parse_short_with(query, options).unwrap()).unwrap()
    }

    /// Bodies of 10, 10, 20 and 0 bytes, an average of 10.
    const TEXTS: [&str; 4] = [
        "Date: Mon, 1 Jan 2024 10:00:00 +0000\n\nbudget 89\n",
        "Date: Tue, 2 Jan 2024 10:00:00 +0000\n\nbudget 89\n",
        "Subject: budget\n\nbudget bud, budge 9\n",
        "Subject: lunch\n\n",
    ];

    #[test]
    fn a_small_mailbox_is_scored_by_hand() {
        let vfs = disk();
        let mailbox = filled(&vfs, "a", &TEXTS);
        let ranked = mailbox.relevance(&terms("budget"), &[0, 1, 2, 3]).unwrap();
        assert!(ranked.unreadable.is_empty());
        let rows: Vec<u32> = ranked.messages.iter().map(|message| message.row).collect();
        assert_eq!(rows, [2, 1, 0, 3], "equal ones: the newest first");
        // Three of four messages have it. The third counts 4 for the subject and 1 for the body,
        // and is twice as long as the average; the first two have one and the average length.
        let idf = (1.0_f64 + 1.5 / 3.5).ln();
        let saturation = 1.2 * (0.25 + 0.75 * 2.0);
        let expected = [idf * 5.0 * 2.2 / (5.0 + saturation), idf, idf, 0.0];
        for (message, expected) in ranked.messages.iter().zip(expected) {
            assert!((message.score - expected).abs() < 1e-12, "{message:?} {expected}");
        }
    }

    #[test]
    fn a_message_that_is_gone_comes_last() {
        let vfs = disk();
        let mut mailbox = filled(&vfs, "a", &TEXTS);
        let view = mailbox.view();
        let expunge = vec![mailbox.uid_of(2).unwrap()];
        let request = ChangeRequest { expunge, ..ChangeRequest::default() };
        mailbox.change(&request, &ChangeOptions::default()).unwrap();
        let ranked = view.relevance(&terms("budget"), &[0, 1, 2]).unwrap();
        assert!(ranked.unreadable.is_empty());
        let found: Vec<_> = ranked.messages.iter().map(|found| (found.row, found.score)).collect();
        // It is not in the average length either, which is that of the two others.
        let rows: Vec<u32> = found.iter().map(|(row, _)| *row).collect();
        assert_eq!((rows, found[2].1), (vec![1, 0, 2], 0.0), "{found:?}");
        assert!(found[0].1 > 0.0 && found[0].1.total_cmp(&found[1].1).is_eq(), "{found:?}");
    }

    #[test]
    fn the_rarity_is_that_in_all_mailboxes() {
        let vfs = disk();
        let (first, second) =
            (filled(&vfs, "a", &TEXTS), filled(&vfs, "b", &["Subject: x\n\nlunch 789\n"]));
        let terms = terms("budget or lunch");
        let parts: [(&View, &[u32]); 2] = [(&first, &[0, 3]), (&second, &[0])];
        let ranked = ranked_together(&parts, &terms).unwrap();
        let places: Vec<_> = ranked.messages.iter().map(|found| (found.part, found.row)).collect();
        assert_eq!(places, [(0, 3), (1, 0), (0, 0)]);
        let idf = |found: f64| (1.0 + (5.0 - found + 0.5) / (found + 0.5)).ln();
        // The bodies have 10, 0 and 10 bytes, and so 20 / 3 on average.
        let saturation = 1.2 * (0.25 + 0.75 * 1.5);
        let expected = [idf(2.0) * 4.0 * 2.2 / 4.3, idf(2.0) * 2.2 / (1.0 + saturation)];
        for (message, expected) in ranked.messages.iter().zip(expected) {
            assert!((message.score - expected).abs() < 1e-12, "{message:?} {expected}");
        }
    }
}
