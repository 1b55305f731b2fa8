//! Threads, stored beside the cache.
//!
//! There are two derived snapshots: the finished threads, one per algorithm, so that a repeated
//! query is a read; and the links that they were made from, to which newer messages are added.
//! Links cannot be undone, so after an expunge the mailbox is threaded anew.

use barid_message::Profile;
use barid_query::{ThreadAlgorithm, ThreadTexts, Threads};
use barid_vfs::le::{LeReader, PutLe};

use crate::kept::{DerivedSnapshot, worth_storing};
use crate::links::{Links, threads_of_texts};
use crate::{Result, View};

/// The threads of the messages of several mailboxes.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct JoinedThreads {
    /// The threads; their rows are indices of `messages`.
    pub threads: Threads,
    /// For each message the index of its mailbox, and its row there.
    pub messages: Vec<(usize, u32)>,
    /// For each mailbox and row the index in `messages`: of a copy that is left out, that of the
    /// first one.
    pub indices: Vec<Vec<u32>>,
}

/// Returns the threads of all messages of several mailboxes together (RFC 5256 §3; REFS as Dovecot
/// defines it): a reply in one of them follows its parent in another. Of messages with the same
/// Message-ID only the first is there, unless `copies` are wanted.
///
/// Nothing is stored: the fields of all messages are read from the caches, and their ids and base
/// subjects are in memory, each once. A `References` field counts as far as caches keep it.
///
/// # Errors
/// A damaged cache; [`crate::Error::Threads`] beyond [`barid_query::limits`].
pub fn threads_together(
    views: &[&View],
    algorithm: ThreadAlgorithm,
    copies: bool,
) -> Result<JoinedThreads> {
    let mut texts = ThreadTexts::new(algorithm, Profile::Rfc);
    let mut joined = JoinedThreads::default();
    for (part, view) in views.iter().enumerate() {
        view.check_read()?;
        let rows: Vec<u32> = (0..view.len()).collect();
        let mut indices = Vec::with_capacity(rows.len());
        let read = view.snapshot.records(&rows, &mut |row, core, record| {
            let first = texts.row_with_id_of(&record.fields).filter(|_| !copies);
            indices.push(first.unwrap_or_else(|| {
                let index = texts.rows();
                texts.push(&record.fields, core.sent_date.unix_seconds);
                joined.messages.push((part, row));
                index
            }));
        });
        view.done(read)?;
        joined.indices.push(indices);
    }
    joined.threads = texts.threads()?;
    Ok(joined)
}

impl View {
    /// Returns the threads of the mailbox as rows (RFC 5256 §3; REFS as Dovecot defines it).
    ///
    /// The first call threads the mailbox, in near linear time in messages and references. Later
    /// calls read the stored answer; newer messages are added to the stored links.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn threads(&self, algorithm: ThreadAlgorithm) -> Result<Threads> {
        self.check_read()?;
        let kept = self.derived(format!("threads-{}", algorithm.name()));
        if let Some(threads) = self.read_threads(&kept) {
            return Ok(threads);
        }
        let stored = self.read_links();
        let is_stored = stored.is_some();
        let mut links = stored.unwrap_or_else(|| Links::new(self.snapshot.hash_seed()));
        let (old, new) = (links.rows(), self.snapshot.len() - links.rows());
        if links.extend(&self.snapshot, old..old + new)?.is_err() {
            return self.threads_as(algorithm, Profile::Rfc);
        }
        let threads = links.threads(algorithm);
        let outdated = !is_stored || worth_storing(new as usize, old);
        if outdated {
            self.derived("links".to_owned()).store(self.with_expunges(&links.to_bytes()));
        }
        if outdated || new == 0 {
            kept.store(self.with_expunges(&threads.to_bytes()));
        }
        Ok(threads)
    }

    /// Returns the threads as another program would compute them: from the header texts, with
    /// nothing stored.
    ///
    /// The cache stores fields without the white space at their end, which c-client takes into
    /// account in subjects.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn threads_as(&self, algorithm: ThreadAlgorithm, profile: Profile) -> Result<Threads> {
        self.check_read()?;
        let rows: Vec<u32> = (0..self.len()).collect();
        self.threads_of(&rows, algorithm, profile)
    }

    /// Returns the threads of some rows, ascending, as if the mailbox had no others. The rows of
    /// the answer are positions in `among`.
    ///
    /// Reads the links of these rows; nothing is stored.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn threads_among(&self, algorithm: ThreadAlgorithm, among: &[u32]) -> Result<Threads> {
        self.check_read()?;
        let mut links = Links::new(self.snapshot.hash_seed());
        for run in among.chunk_by(|before, row| before + 1 == *row) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            if links.extend(&self.snapshot, *first..last + 1)?.is_err() {
                return self.threads_of(among, algorithm, Profile::Rfc);
            }
        }
        Ok(links.threads(algorithm))
    }

    fn threads_of(
        &self,
        rows: &[u32],
        algorithm: ThreadAlgorithm,
        profile: Profile,
    ) -> Result<Threads> {
        let threads = self.done(threads_of_texts(&self.snapshot, rows, algorithm, profile))?;
        Ok(threads.expect("because the columns were made together"))
    }

    fn derived(&self, kind: String) -> DerivedSnapshot<'_> {
        DerivedSnapshot::new(&self.place, &self.snapshot, kind)
    }

    fn read_threads(&self, kept: &DerivedSnapshot<'_>) -> Option<Threads> {
        let bytes = kept.load()?;
        let threads = Threads::from_bytes(self.without_expunges(&bytes)?).ok()?;
        (threads.rows() == self.snapshot.len()).then_some(threads)
    }

    fn read_links(&self) -> Option<Links> {
        let bytes = self.derived("links".to_owned()).load()?;
        let links = Links::from_bytes(self.without_expunges(&bytes)?, self.snapshot.hash_seed())?;
        (links.rows() <= self.snapshot.len()).then_some(links)
    }

    /// Prepends the number of expunges: rows keep their numbers as long as nothing is expunged.
    fn with_expunges(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + 4);
        out.put_u32(self.snapshot.expunged_rows().len() as u32);
        out.extend_from_slice(bytes);
        out
    }

    fn without_expunges<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let mut take = LeReader(bytes);
        let expunged = take.u32()? as usize;
        (expunged == self.snapshot.expunged_rows().len()).then_some(take.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_mailbox::{created, disk};
    use crate::{ChangeOptions, ChangeRequest, Mailbox, NewMessage};

    #[test]
    fn a_reply_follows_its_parent_in_another_mailbox() {
        let vfs = disk();
        let filled = |name: &str, texts: &[&'static str]| -> Mailbox {
            let mut mailbox = created(&vfs, &format!("maildir:/mail/{name}"), None);
            let new = texts
                .iter()
                .map(|text| NewMessage { bytes: text.as_bytes(), ..NewMessage::default() });
            let appends: Vec<_> = new.collect();
            let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
            mailbox.change(&request, &ChangeOptions::default()).unwrap();
            mailbox
        };
        let reply = "Message-ID: <2@x>\nReferences: <1@x>\nSubject: Re: a\n\n";
        let other = "Message-ID: <9@x>\nSubject: b\nDate: Mon, 1 Jan 2024 10:00:00 +0000\n\n";
        let inbox = filled("inbox", &[reply, other]);
        let last = "Message-ID: <3@x>\nIn-Reply-To: <2@x>\nSubject: Re: a\n\n";
        let sent = filled("sent", &["Message-ID: <1@x>\nSubject: a\n\n", reply, last]);
        let check = |copies: bool, expected: &[(u32, (usize, u32))]| {
            let joined =
                threads_together(&[&inbox, &sent], ThreadAlgorithm::References, copies).unwrap();
            let nodes = joined.threads.nodes();
            let found: Vec<_> = nodes
                .map(|node| (node.depth, joined.messages[node.row.unwrap() as usize]))
                .collect();
            assert_eq!(found, expected, "{copies}");
            joined.indices
        };
        let thread = [(0, (0, 1)), (0, (1, 0)), (1, (0, 0)), (2, (1, 2))];
        let indices = check(false, &thread);
        assert_eq!(indices, [vec![0, 1], vec![2, 0, 3]]);
        let all = [(0, (0, 1)), (0, (1, 0)), (1, (0, 0)), (2, (1, 2)), (1, (1, 1))];
        check(true, &all);
    }
}
