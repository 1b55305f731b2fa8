//! The stamp of a mailbox: a few stats that show whether anything changed.

use std::time::Duration;

use barid_vfs::{FileStamp, Timestamp};

/// Result of a few `stat` calls on a mailbox (docs/protocol.md, "Open", step 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// An mbox: the file. A Maildir: `new`, `cur`, `dovecot-uidlist`, `dovecot-keywords`. An MH
    /// folder: the folder, `.mh_sequences`. Unused or missing ones are zero.
    pub files: [FileStamp; 4],
    /// Time at which the stamp was taken; not part of the comparison of [`Stamp::same_files`].
    pub taken: Timestamp,
}

/// Age of a stamp: old enough or not for an equal one to prove that nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Racy {
    /// A change within the same clock tick cannot be ruled out.
    Possible,
    /// Such a change can be ruled out.
    No,
}

impl Stamp {
    /// Length of [`Stamp::to_bytes`].
    pub const LEN: usize = 4 * 32 + 8;
    /// Time after its last change for which a file is racy, in nanoseconds, where the file system
    /// may count in whole or two seconds.
    pub const RACY_INTERVAL_NANOS: i64 = 2_000_000_000;
    /// The same where times have a fraction: two ticks of the slowest clock of a kernel.
    pub const RACY_INTERVAL_FINE_NANOS: i64 = 20_000_000;
    /// Number of files whose content may change without a change of size and inode: the mbox; `new`
    /// and `cur`. `dovecot-uidlist` and `dovecot-keywords` only grow or are replaced.
    const RACY_FILES: usize = 2;

    /// Compares the files, but not the time at which the stamps were taken.
    pub fn same_files(&self, other: &Self) -> bool {
        self.files == other.files
    }

    /// Returns whether a change could have followed this stamp without altering any of its values.
    pub fn racy(&self) -> Racy {
        match (0..Self::RACY_FILES).all(|at| self.is_settled(at)) {
            true => Racy::No,
            false => Racy::Possible,
        }
    }

    /// Returns `true` if the only change since `earlier` is that the one file of the mailbox grew.
    pub fn is_growth_of(&self, earlier: &Self) -> bool {
        let (now, before) = (&self.files[0], &earlier.files[0]);
        let one_file = self.files[1..].iter().all(|file| file.inode == 0);
        one_file && now.inode == before.inode && now.size > before.size
    }

    /// Returns `true` if file `at` was so old when the stamp was taken that an equal one proves
    /// that it did not change.
    pub fn is_settled(&self, at: usize) -> bool {
        self.unsettled_nanos(at) <= 0
    }

    /// Returns how much later the stamp would have to be taken for no file to be racy; `None` where
    /// that is longer than a program should wait.
    pub fn wait(&self) -> Option<Duration> {
        let nanos = (0..Self::RACY_FILES).map(|at| self.unsettled_nanos(at)).max().unwrap_or(0);
        let nanos = nanos.max(0);
        let short = nanos <= Self::RACY_INTERVAL_FINE_NANOS;
        short.then(|| Duration::from_nanos(nanos.unsigned_abs()))
    }

    /// Returns `true` if an equal stamp proves nothing yet, but will as soon as the files are old
    /// enough; `false` also if a file is dated ahead of the clock.
    pub fn is_settling(&self) -> bool {
        let nanos = (0..Self::RACY_FILES).map(|at| self.unsettled_nanos(at)).max();
        (1..=Self::RACY_INTERVAL_NANOS).contains(&nanos.unwrap_or(0))
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

    /// Returns the stamp as little-endian bytes.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        for (file, out) in self.files.iter().zip(bytes.chunks_exact_mut(32)) {
            out[0..8].copy_from_slice(&file.inode.to_le_bytes());
            out[8..16].copy_from_slice(&file.size.to_le_bytes());
            out[16..24].copy_from_slice(&file.modified.unix_nanos.to_le_bytes());
            out[24..32].copy_from_slice(&file.changed.unix_nanos.to_le_bytes());
        }
        bytes[128..].copy_from_slice(&self.taken.unix_nanos.to_le_bytes());
        bytes
    }

    /// Reads [`Stamp::to_bytes`] back.
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let number = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let time = |at| Timestamp { unix_nanos: number(at).cast_signed() };
        let file = |index: usize| FileStamp {
            inode: number(index * 32),
            size: number(index * 32 + 8),
            modified: time(index * 32 + 16),
            changed: time(index * 32 + 24),
        };
        Self { files: std::array::from_fn(file), taken: time(128) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(changed: i64, taken: i64, expected: Racy) {
        let changed = Timestamp { unix_nanos: changed };
        let file = FileStamp { inode: 1, size: 1, modified: changed, changed };
        let mut stamp = Stamp { taken: Timestamp { unix_nanos: taken }, ..Stamp::default() };
        stamp.files[0] = file;
        assert_eq!(stamp.racy(), expected);
        assert_eq!(Stamp::from_bytes(&stamp.to_bytes()), stamp);
    }

    #[test]
    fn a_stamp_is_racy_as_long_as_the_clock_may_stand_still() {
        const SECOND: i64 = 1_000_000_000;
        check(100 * SECOND, 101 * SECOND, Racy::Possible);
        check(100 * SECOND, 102 * SECOND, Racy::No);
        check(100 * SECOND + 1, 100 * SECOND + 19_000_000, Racy::Possible);
        check(100 * SECOND + 1, 100 * SECOND + 20_000_001, Racy::No);
        // A clock that was set back proves nothing.
        check(100 * SECOND + 1, 99 * SECOND, Racy::Possible);
    }

    #[test]
    fn a_file_dated_ahead_of_the_clock_does_not_settle() {
        const SECOND: i64 = 1_000_000_000;
        let is_settling = |seconds: i64| {
            let changed = Timestamp { unix_nanos: 100 * SECOND };
            let file = FileStamp { inode: 1, size: 1, modified: changed, changed };
            let taken = Timestamp { unix_nanos: seconds * SECOND };
            let mut stamp = Stamp { taken, ..Stamp::default() };
            stamp.files[0] = file;
            stamp.is_settling()
        };
        assert_eq!([99, 100, 101, 102, 200].map(is_settling), [false, true, true, false, false]);
    }
}
