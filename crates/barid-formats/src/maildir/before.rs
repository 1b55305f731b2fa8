//! The known state of a Maildir, loaded for comparison.

use barid_mailbox::{Known, MessageName, Result, sink_error};
use barid_types::{FlagSet, KeywordMask, KeywordTable, Uid, UidValidity};

use super::name;
use super::state::MaildirState;
use super::table::{Index, NameRange, Names};
use crate::file_stamps::FileStamps;

/// One known message.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownName {
    /// Its UID.
    pub(super) uid: Uid,
    /// Its flags.
    pub(super) flags: FlagSet,
    /// `true` if it was in `new`.
    pub(super) in_new: bool,
    /// The mark of its file ([`name::mark`]), 0 if it is not known.
    pub(super) mark: u32,
    /// Its keywords.
    pub(super) keywords: KeywordMask,
    /// Its file.
    pub(super) name: NameRange,
    /// Its key: the hash of the base name, except for a twin.
    pub(super) key: u64,
    /// Size of its file, in bytes.
    pub(super) size: u64,
}

impl KnownName {
    /// Returns `true` if another message had the base name first.
    pub(super) fn is_twin(&self) -> bool {
        self.key != self.name.hash && self.key != self.name.stem_hash
    }
}

/// All that was known.
#[derive(Debug, Default)]
pub(super) struct KnownMaildir {
    /// The stamp for which this state is valid.
    pub(super) stamp: FileStamps,
    /// State that the last scan left; if it is `None`, nothing known is valid.
    pub(super) state: Option<MaildirState>,
    /// The UIDVALIDITY.
    pub(super) uidvalidity: Option<UidValidity>,
    /// The keywords.
    pub(super) keywords: KeywordTable,
    /// The messages, ascending by UID.
    pub(super) rows: Vec<KnownName>,
    /// Their names.
    pub(super) names: Names,
    index: Index,
    /// The rows that are twins.
    pub(super) twins: Vec<u32>,
}

impl KnownMaildir {
    /// Loads the known messages; `None` if there are none, or if a Maildir cannot have left them.
    pub(super) fn load(known: &dyn Known) -> Result<Option<Self>> {
        let (Some(stamp), Some(state)) =
            (FileStamps::of_known(known), MaildirState::from_bytes(known.state()))
        else {
            return Ok(None);
        };
        let mut before = Self {
            stamp,
            state: Some(state),
            uidvalidity: known.uidvalidity(),
            keywords: known.keywords().clone(),
            index: Index::with_capacity(known.len() as usize),
            ..Self::default()
        };
        before.rows.reserve(known.len() as usize);
        let mut sound = before.uidvalidity.is_some();
        sink_error(known.visit(0, &mut |message| {
            let Some(MessageName { name, in_new, mark }) = message.location.message_name() else {
                sound = false;
                return false;
            };
            let Some(name) = before.names.add(name) else {
                sound = false;
                return false;
            };
            let row = KnownName {
                uid: message.uid,
                flags: message.flags,
                in_new,
                mark,
                keywords: message.keywords,
                name,
                key: message.key.0,
                size: message.size,
            };
            let at = before.rows.len() as u32;
            before.rows.push(row);
            if row.is_twin() {
                before.twins.push(at);
            } else {
                let rows = &before.rows;
                before.index.insert(name.hash, at, |at| rows[at as usize].name.hash);
            }
            true
        }))?;
        Ok(sound.then_some(before))
    }

    /// Returns the row of a base name; twins are not found.
    pub(super) fn find(&self, hash: u64, base: &[u8]) -> Option<u32> {
        self.index.find(hash, |at| {
            let name = self.rows[at as usize].name;
            name.hash == hash && self.names.base(name) == base
        })
    }

    /// Returns the highest UID of a row, 0 if there are no rows.
    pub(super) fn last_uid(&self) -> u32 {
        self.rows.last().map_or(0, |row| row.uid.get())
    }

    /// Returns the key that the file `inode` with this base would have as a twin.
    pub(super) fn twin_key(base: &[u8], inode: u64) -> u64 {
        name::twin_hash(base, inode)
    }
}
