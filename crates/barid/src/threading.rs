//! Threads, stored beside the cache.
//!
//! There are two derived snapshots: the finished threads, one per algorithm, so that a repeated
//! query is a read; and the links that they were made from, to which newer messages are added.
//! Links cannot be undone, so after an expunge the mailbox is threaded anew.

use barid_message::Profile;
use barid_query::{ThreadAlgorithm, Threads};
use barid_vfs::le::{LeReader, PutLe};

use crate::kept::{DerivedSnapshot, worth_storing};
use crate::links::{Links, threads_of_texts};
use crate::{Result, View};

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
