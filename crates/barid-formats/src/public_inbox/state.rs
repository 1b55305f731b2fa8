//! The state that a scan leaves for the next one: the commits up to which epochs were read.

use super::git::{Oid, Tip};

const VERSION: u8 = 1;
/// Bytes of an epoch: number, `true` if it has commits, tip, hash of shallow commits.
const EPOCH_LEN: usize = 4 + 1 + Oid::LEN + 8;
/// Bytes before the epochs: version, number of unread messages, size of all messages.
const HEAD_LEN: usize = 1 + 8 + 8;

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
    /// Number of messages that could not be read.
    pub(super) unread: u64,
    /// Size of all messages, in bytes.
    pub(super) size_bytes: u64,
    /// The epochs, ascending by number.
    pub(super) epochs: Vec<ReadEpoch>,
}

impl ArchiveState {
    /// Writes the state.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_LEN + self.epochs.len() * EPOCH_LEN);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.unread.to_le_bytes());
        bytes.extend_from_slice(&self.size_bytes.to_le_bytes());
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
        let epochs = rest.chunks_exact(EPOCH_LEN).map(epoch).collect::<Option<_>>()?;
        Some(Self { unread: number(&head[1..]), size_bytes: number(&head[9..]), epochs })
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
            let state = ArchiveState { unread: 3, size_bytes: u64::MAX, epochs };
            let bytes = state.to_bytes();
            assert_eq!(ArchiveState::from_bytes(&bytes), Some(state));
            assert_eq!(ArchiveState::from_bytes(&bytes[1..]), None);
        }
        assert_eq!(ArchiveState::from_bytes(&[]), None);
    }
}
