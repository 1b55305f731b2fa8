//! The known state of a folder, loaded for comparison.

use barid_mailbox::{Known, Result, sink_error};
use barid_state::MessageKey;
use barid_types::{FlagSet, KeywordMask, KeywordTable, Uid, UidValidity};

use super::name::{Number, parse_place};
use crate::file_stamps::FileStamps;

const VERSION: u8 = 1;

/// State that a scan leaves for the next one ([`barid_mailbox::ScanReport::state`]), as versioned
/// bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MhState {
    /// `true` if files could not be read, and are worth another attempt.
    pub(super) has_unread: bool,
    /// Size of all messages, in bytes.
    pub(super) size_bytes: u64,
}

impl MhState {
    /// Writes the state.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![VERSION, u8::from(self.has_unread)];
        bytes.extend_from_slice(&self.size_bytes.to_le_bytes());
        bytes
    }

    /// Reads [`MhState::to_bytes`] back; `None` if they are of another version.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let [VERSION, has_unread, size @ ..] = bytes else { return None };
        let size_bytes = u64::from_le_bytes(size.try_into().ok()?);
        Some(Self { has_unread: *has_unread != 0, size_bytes })
    }
}

/// One known message.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownFile {
    /// Its UID.
    pub(super) uid: Uid,
    /// Its flags.
    pub(super) flags: FlagSet,
    /// Its keywords.
    pub(super) keywords: KeywordMask,
    /// Its number.
    pub(super) number: Number,
    /// The mark of its file.
    pub(super) mark: u64,
    /// Its message key.
    pub(super) key: MessageKey,
}

/// All that was known.
#[derive(Debug, Default)]
pub(super) struct KnownMh {
    /// The stamp for which this state is valid.
    pub(super) stamp: FileStamps,
    /// The state that the last scan left; if it is `None`, nothing known is valid.
    pub(super) state: Option<MhState>,
    /// The UIDVALIDITY.
    pub(super) uidvalidity: Option<UidValidity>,
    /// The keywords.
    pub(super) keywords: KeywordTable,
    /// The messages, ascending by UID.
    pub(super) rows: Vec<KnownFile>,
}

impl KnownMh {
    /// Loads the known messages; `None` if there are none, or if an MH folder cannot have left
    /// them.
    pub(super) fn load(known: &dyn Known) -> Result<Option<Self>> {
        let (Some(stamp), Some(state)) =
            (FileStamps::of_known(known), MhState::from_bytes(known.state()))
        else {
            return Ok(None);
        };
        let mut before = Self {
            stamp,
            state: Some(state),
            uidvalidity: known.uidvalidity(),
            keywords: known.keywords().clone(),
            rows: Vec::with_capacity(known.len() as usize),
        };
        let mut is_sound = before.uidvalidity.is_some();
        sink_error(known.visit(0, &mut |message| {
            let place = message.location.message_name().and_then(|name| parse_place(name.name));
            let Some((number, mark)) = place else {
                is_sound = false;
                return false;
            };
            before.rows.push(KnownFile {
                uid: message.uid,
                flags: message.flags,
                keywords: message.keywords,
                number,
                mark,
                key: message.key,
            });
            true
        }))?;
        Ok(is_sound.then_some(before))
    }

    /// Returns the highest UID of a row, 0 if there are no rows.
    pub(super) fn last_uid(&self) -> u32 {
        self.rows.last().map_or(0, |row| row.uid.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_read_back() {
        for state in [MhState::default(), MhState { has_unread: true, size_bytes: u64::MAX }] {
            let bytes = state.to_bytes();
            assert_eq!(MhState::from_bytes(&bytes), Some(state));
            assert_eq!(MhState::from_bytes(&bytes[1..]), None);
            assert_eq!(MhState::from_bytes(&bytes[..5]), None);
        }
    }
}
