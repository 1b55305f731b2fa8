//! The state that a scan leaves for the next one: the commits up to which epochs were read, and the
//! messages that could not be read.

use barid_types::InternalDate;

use super::git::{Oid, Tip};
use super::plan::LiveMessage;

const VERSION: u8 = 2;
/// Bytes of an epoch: number, `true` if it has commits, tip, hash of shallow commits.
const EPOCH_LEN: usize = 4 + 1 + Oid::LEN + 8;
/// Bytes of a message that could not be read: blob, epoch, date (seconds and zone).
const UNREAD_LEN: usize = Oid::LEN + 4 + 8 + 2;
/// Bytes before these: version, number of unread objects that are not listed, size of all messages,
/// number of messages that are listed.
const HEAD_LEN: usize = 1 + 8 + 8 + 4;

/// An epoch that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadEpoch {
    pub(super) number: u32,
    pub(super) commit: Option<Oid>,
    /// Hash of the commits at which a shallow clone ends.
    pub(super) shallow: u64,
}

impl ReadEpoch {
    pub(super) fn new(number: u32, tip: &Tip) -> Self {
        Self { number, commit: tip.commit, shallow: tip.shallow_hash() }
    }
}

/// State that a scan leaves for the next one ([`barid_mailbox::ScanReport::state`]), as versioned
/// bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ArchiveState {
    /// Number of trees that could not be read, and of messages beyond the bound of `unread`.
    pub(super) unlisted: u64,
    /// Messages that could not be read, in the order of the archive.
    pub(super) unread: Vec<LiveMessage>,
    /// Size of all messages, in bytes.
    pub(super) size_bytes: u64,
    /// The epochs, ascending by number.
    pub(super) epochs: Vec<ReadEpoch>,
}

impl ArchiveState {
    /// Returns `true` if something could not be read that is worth another scan.
    pub(super) fn has_unread(&self) -> bool {
        self.unlisted > 0 || !self.unread.is_empty()
    }

    /// Writes the state.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let len = self.unread.len() * UNREAD_LEN + self.epochs.len() * EPOCH_LEN;
        let mut bytes = Vec::with_capacity(HEAD_LEN + len);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.unlisted.to_le_bytes());
        bytes.extend_from_slice(&self.size_bytes.to_le_bytes());
        bytes.extend_from_slice(&(self.unread.len() as u32).to_le_bytes());
        for LiveMessage { blob, epoch, committed } in &self.unread {
            bytes.extend_from_slice(&blob.0);
            bytes.extend_from_slice(&epoch.to_le_bytes());
            bytes.extend_from_slice(&committed.unix_seconds.to_le_bytes());
            bytes.extend_from_slice(&committed.zone_minutes.to_le_bytes());
        }
        for epoch in &self.epochs {
            bytes.extend_from_slice(&epoch.number.to_le_bytes());
            bytes.push(u8::from(epoch.commit.is_some()));
            bytes.extend_from_slice(&epoch.commit.map_or([0; Oid::LEN], |oid| oid.0));
            bytes.extend_from_slice(&epoch.shallow.to_le_bytes());
        }
        bytes
    }

    /// Reads [`ArchiveState::to_bytes`] back; `None` if they are of another version.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(HEAD_LEN)?;
        let unread_count = u32::from_le_bytes(*head[17..].first_chunk()?) as usize;
        let (unread, rest) = rest.split_at_checked(unread_count.checked_mul(UNREAD_LEN)?)?;
        if head[0] != VERSION || rest.len() % EPOCH_LEN != 0 {
            return None;
        }
        let number = |at: &[u8]| at.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let epoch = |bytes: &[u8]| {
            let commit = Oid::of_bytes(&bytes[5..])?;
            Some(ReadEpoch {
                number: u32::from_le_bytes(*bytes.first_chunk()?),
                commit: (bytes[4] != 0).then_some(commit),
                shallow: number(&bytes[5 + Oid::LEN..]),
            })
        };
        let message = |bytes: &[u8]| {
            let (blob, rest) = bytes.split_at(Oid::LEN);
            Some(LiveMessage {
                blob: Oid::of_bytes(blob)?,
                epoch: u32::from_le_bytes(*rest.first_chunk()?),
                committed: InternalDate {
                    unix_seconds: i64::from_le_bytes(*rest[4..].first_chunk()?),
                    zone_minutes: i16::from_le_bytes(*rest[12..].first_chunk()?),
                },
            })
        };
        let unread = unread.chunks_exact(UNREAD_LEN).map(message).collect::<Option<_>>()?;
        let epochs = rest.chunks_exact(EPOCH_LEN).map(epoch).collect::<Option<_>>()?;
        let (unlisted, size_bytes) = (number(&head[1..]), number(&head[9..]));
        Some(Self { unlisted, unread, size_bytes, epochs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_read_back() {
        let some = ReadEpoch { number: 0, commit: Some(Oid::EMPTY_BLOB), shallow: u64::MAX };
        let none = ReadEpoch { number: 7, commit: None, shallow: 0 };
        for epochs in [vec![], vec![some], vec![some, none]] {
            let committed = InternalDate { unix_seconds: -5, zone_minutes: -90 };
            let message = LiveMessage { blob: Oid::EMPTY_BLOB, epoch: 7, committed };
            let unread = vec![message; epochs.len()];
            let state = ArchiveState { unlisted: 3, unread, size_bytes: u64::MAX, epochs };
            let bytes = state.to_bytes();
            assert_eq!(ArchiveState::from_bytes(&bytes), Some(state));
            assert_eq!(ArchiveState::from_bytes(&bytes[1..]), None);
        }
        assert_eq!(ArchiveState::from_bytes(&[]), None);
    }
}
