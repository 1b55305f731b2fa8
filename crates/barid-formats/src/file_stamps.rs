//! Stamps of mailboxes on a file system: a few `stat` calls that show whether anything changed.

use std::time::Duration;

use barid_mailbox::{Known, Stamp, StampRules};
use barid_vfs::{FileStamp, Timestamp};

/// Result of a few `stat` calls on a mailbox (docs/protocol.md, "Open", step 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileStamps {
    /// An mbox: the file. A Maildir: `new`, `cur`, `dovecot-uidlist`, `dovecot-keywords`. An MH
    /// folder: the folder, `.mh_sequences`. Unused or missing ones are zero.
    pub(crate) files: [FileStamp; 4],
    /// Time at which the stamp was taken; not part of the comparison of [`FileStamps::same_files`].
    pub(crate) taken: Timestamp,
}

impl FileStamps {
    /// Time after its last change for which a file is racy, in nanoseconds, where the file system
    /// may count in whole or two seconds.
    pub(crate) const RACY_INTERVAL_NANOS: i64 = Stamp::SETTLE_NANOS_MAX;
    /// The same time where the times of the file system have fractions of a second.
    const RACY_INTERVAL_FINE_NANOS: i64 = Stamp::WAIT_NANOS_MAX;
    /// Number of files whose content may change without a change of size and inode: the mbox; `new`
    /// and `cur`. `dovecot-uidlist` and `dovecot-keywords` only grow or are replaced.
    const RACY_FILES: usize = 2;

    /// Compares the files, but not the time at which the stamps were taken.
    pub(crate) fn same_files(&self, other: &Self) -> bool {
        self.files == other.files
    }

    /// Returns `true` if equal stamps prove that no file changed: a change within the same clock
    /// tick can be ruled out.
    pub(crate) fn are_settled(&self) -> bool {
        (0..Self::RACY_FILES).all(|at| self.is_settled(at))
    }

    /// Returns `true` if the only change since `earlier` is that the one file of the mailbox grew.
    pub(crate) fn is_growth_of(&self, earlier: &Self) -> bool {
        let (now, before) = (&self.files[0], &earlier.files[0]);
        let one_file = self.files[1..].iter().all(|file| file.inode == 0);
        one_file && now.inode == before.inode && now.size > before.size
    }

    /// Returns `true` if file `at` was so old when the stamp was taken that an equal one proves
    /// that it did not change.
    pub(crate) fn is_settled(&self, at: usize) -> bool {
        self.unsettled_nanos(at) <= 0
    }

    /// Returns how much later the stamp would have to be taken for no file to be racy; `None` where
    /// that is longer than a program should wait.
    pub(crate) fn wait(&self) -> Option<Duration> {
        let nanos = self.most_unsettled_nanos().max(0);
        let short = nanos <= Self::RACY_INTERVAL_FINE_NANOS;
        short.then(|| Duration::from_nanos(nanos.unsigned_abs()))
    }

    fn most_unsettled_nanos(&self) -> i64 {
        (0..Self::RACY_FILES).map(|at| self.unsettled_nanos(at)).max().unwrap_or(0)
    }

    fn unsettled_nanos(&self, at: usize) -> i64 {
        let file = &self.files[at];
        let latest = file.modified.max(file.changed).unix_nanos;
        let interval = match file.changed.unix_nanos % 1_000_000 {
            0 => Self::RACY_INTERVAL_NANOS,
            _ => Self::RACY_INTERVAL_FINE_NANOS,
        };
        interval.saturating_sub(self.taken.unix_nanos.saturating_sub(latest))
    }

    /// Decodes a stamp that this crate made.
    pub(crate) fn of(stamp: &Stamp) -> Self {
        let content = stamp.content();
        let number = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&content[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let time = |at| Timestamp { unix_nanos: number(at).cast_signed() };
        let file = |index: usize| FileStamp {
            inode: number(index * 32),
            size: number(index * 32 + 8),
            modified: time(index * 32 + 16),
            changed: time(index * 32 + 24),
        };
        let taken = Timestamp { unix_nanos: stamp.taken_nanos() };
        Self { files: std::array::from_fn(file), taken }
    }

    /// Decodes the stamp of the known messages, if there is one.
    pub(crate) fn of_known(known: &dyn Known) -> Option<Self> {
        known.stamp().as_ref().map(Self::of)
    }
}

/// Strength of a listing as proof that a name does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListingProof {
    /// The listing is complete: nothing changed during it.
    Whole,
    /// The times show no change, but they do not show one within a clock tick: a listing after this
    /// time may prove more. `None` if that is longer than a program should wait.
    Racy(Option<Duration>),
    /// Something changed during it: a rename may have hidden any name.
    Disturbed,
}

impl ListingProof {
    /// Compares the stamps before and after a listing.
    pub(crate) fn of(before: &FileStamps, after: &FileStamps) -> Self {
        match after.same_files(before) {
            false => Self::Disturbed,
            true if before.are_settled() => Self::Whole,
            true => Self::Racy(after.wait()),
        }
    }
}

impl From<FileStamps> for Stamp {
    fn from(stamps: FileStamps) -> Self {
        let mut content = [0; Self::CONTENT_LEN];
        for (file, out) in stamps.files.iter().zip(content.chunks_exact_mut(32)) {
            out[0..8].copy_from_slice(&file.inode.to_le_bytes());
            out[8..16].copy_from_slice(&file.size.to_le_bytes());
            out[16..24].copy_from_slice(&file.modified.unix_nanos.to_le_bytes());
            out[24..32].copy_from_slice(&file.changed.unix_nanos.to_le_bytes());
        }
        Self::new(content, stamps.taken.unix_nanos)
    }
}

/// Rules of the stamps of this crate.
#[derive(Debug)]
pub(crate) struct FileStampRules;

impl StampRules for FileStampRules {
    fn unsettled_nanos(&self, stamp: &Stamp) -> i64 {
        FileStamps::of(stamp).most_unsettled_nanos()
    }
    fn has_grown(&self, before: &Stamp, now: &Stamp) -> bool {
        FileStamps::of(now).is_growth_of(&FileStamps::of(before))
    }
    /// Returns the time of the last change of the first file, in nanoseconds.
    fn change_number(&self, stamp: &Stamp) -> u64 {
        u64::try_from(FileStamps::of(stamp).files[0].changed.unix_nanos).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(changed: i64, taken: i64, expected: bool) {
        let changed = Timestamp { unix_nanos: changed };
        let file = FileStamp { inode: 1, size: 1, modified: changed, changed };
        let mut stamp =
            FileStamps { taken: Timestamp { unix_nanos: taken }, ..FileStamps::default() };
        stamp.files[0] = file;
        assert_eq!(stamp.are_settled(), expected);
        let stored = Stamp::from_bytes(&Stamp::from(stamp).to_bytes());
        assert_eq!(FileStamps::of(&stored), stamp);
        assert_eq!(FileStampRules.unsettled_nanos(&stored) <= 0, expected);
    }

    #[test]
    fn a_stamp_is_unsettled_as_long_as_the_clock_may_stand_still() {
        const SECOND: i64 = 1_000_000_000;
        check(100 * SECOND, 101 * SECOND, false);
        check(100 * SECOND, 102 * SECOND, true);
        check(100 * SECOND + 1, 100 * SECOND + 19_000_000, false);
        check(100 * SECOND + 1, 100 * SECOND + 20_000_001, true);
        // A clock that was set back proves nothing.
        check(100 * SECOND + 1, 99 * SECOND, false);
    }

    #[test]
    fn a_file_dated_ahead_of_the_clock_does_not_settle() {
        const SECOND: i64 = 1_000_000_000;
        let is_settling = |seconds: i64| {
            let changed = Timestamp { unix_nanos: 100 * SECOND };
            let file = FileStamp { inode: 1, size: 1, modified: changed, changed };
            let taken = Timestamp { unix_nanos: seconds * SECOND };
            let mut stamp = FileStamps { taken, ..FileStamps::default() };
            stamp.files[0] = file;
            (1..=FileStamps::RACY_INTERVAL_NANOS)
                .contains(&FileStampRules.unsettled_nanos(&stamp.into()))
        };
        assert_eq!([99, 100, 101, 102, 200].map(is_settling), [false, true, true, false, false]);
    }
}
