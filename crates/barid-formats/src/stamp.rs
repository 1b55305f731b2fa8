//! The stamp of a mailbox: a few stats that tell whether anything changed.

use barid_vfs::{FileStamp, Timestamp};

/// What a few `stat` calls said of a mailbox (PROTOCOL, "Open", step 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// An mbox: the file. A Maildir: `new`, `cur`, `dovecot-uidlist`, `dovecot-keywords`. Unused or
    /// missing ones are zero.
    pub files: [FileStamp; 4],
    /// When the stamp was taken; not part of the comparison of [`Stamp::same_files`].
    pub taken: Timestamp,
}

/// Whether a stamp is old enough that an equal one proves that nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Racy {
    /// A change within the same clock tick cannot be ruled out.
    Possible,
    /// It can.
    No,
}

impl Stamp {
    /// Bytes of [`Stamp::to_bytes`].
    pub const LEN: usize = 4 * 32 + 8;
    /// How long after the last change a stamp is racy, in nanoseconds.
    pub const RACY_INTERVAL_NANOS: i64 = 2_000_000_000;

    /// Compares the files, not the time of taking.
    pub fn same_files(&self, other: &Self) -> bool {
        self.files == other.files
    }

    /// Whether a change could have followed this stamp without altering any of its values.
    pub fn racy(&self) -> Racy {
        let latest = self.files.iter().map(|file| file.modified.max(file.changed)).max();
        match latest {
            Some(latest)
                if self.taken.unix_nanos.saturating_sub(latest.unix_nanos)
                    < Self::RACY_INTERVAL_NANOS =>
            {
                Racy::Possible
            }
            _ => Racy::No,
        }
    }

    /// The stamp as little-endian bytes.
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
