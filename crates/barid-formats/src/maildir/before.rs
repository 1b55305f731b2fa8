//! The known state of a Maildir, loaded for comparison.

use barid_mailbox::{Known, KnownMessage, MessageName, Result, sink_error};
use barid_types::{FlagSet, KeywordMask, KeywordTable, Uid, UidValidity};

use super::layout::NEW_LOADED_MAX;
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
    /// The keys of all messages, if the rows are only those in `new`.
    all_keys: Option<Vec<u64>>,
    /// Bytes of the messages that are not among the rows.
    pub(super) other_bytes: u64,
    /// The highest UID, 0 without messages.
    pub(super) last_uid: u32,
}

impl KnownMaildir {
    /// Loads the known messages; `None` if there are none, or if a Maildir cannot have left them.
    pub(super) fn load(known: &dyn Known) -> Result<Option<Self>> {
        let Some(mut before) = Self::without_rows(known) else { return Ok(None) };
        let rows = known.len() as usize;
        before.index = Index::with_capacity(rows);
        before.rows.reserve(rows);
        let mut is_sound = true;
        sink_error(known.visit(0, &mut |message| {
            is_sound = before.add(message);
            is_sound
        }))?;
        Ok(is_sound.then_some(before))
    }

    /// Loads the messages in `new`, and only the keys of the others, if nothing but `new` has
    /// changed since. Returns `None` if more has, if messages are to be tried again, or if those in
    /// `new` are many.
    pub(super) fn load_new(known: &dyn Known, now: &FileStamps) -> Result<Option<Self>> {
        let is_of_new = |before: &Self| {
            super::settled(&before.stamp, now, 1)
                && before.stamp.files[2..] == now.files[2..]
                && before.state.as_ref().is_some_and(MaildirState::is_listed_and_read)
        };
        let Some(mut before) = Self::without_rows(known).filter(is_of_new) else {
            return Ok(None);
        };
        let mut keys = Vec::with_capacity(known.len() as usize);
        let mut in_new = Vec::new();
        sink_error(known.visit_keys(&mut |message| {
            match message.in_new {
                true => in_new.push(keys.len() as u32),
                false => before.other_bytes = before.other_bytes.saturating_add(message.size),
            }
            keys.push(message.key.0);
            before.last_uid = message.uid.get();
            in_new.len() <= NEW_LOADED_MAX
        }))?;
        if in_new.len() > NEW_LOADED_MAX {
            return Ok(None);
        }
        let (last_uid, mut is_sound) = (before.last_uid, true);
        for run in in_new.chunk_by(|one, next| one + 1 == *next) {
            let mut left = run.len();
            sink_error(known.visit(run[0], &mut |message| {
                is_sound &= before.add(message);
                left -= 1;
                is_sound && left > 0
            }))?;
        }
        (before.all_keys, before.last_uid) = (Some(keys), last_uid);
        Ok((is_sound && before.twins.is_empty()).then_some(before))
    }

    /// Returns what is known of the Maildir itself; `None` if it is not valid.
    fn without_rows(known: &dyn Known) -> Option<Self> {
        Some(Self {
            stamp: FileStamps::of_known(known)?,
            state: Some(MaildirState::from_bytes(known.state())?),
            uidvalidity: Some(known.uidvalidity()?),
            keywords: known.keywords().clone(),
            ..Self::default()
        })
    }

    /// Adds the next message; `false` if a Maildir cannot have left it.
    fn add(&mut self, message: &KnownMessage<'_>) -> bool {
        let Some(MessageName { name, in_new, mark }) = message.location.message_name() else {
            return false;
        };
        let Some(name) = self.names.add(name) else { return false };
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
        let at = self.rows.len() as u32;
        self.rows.push(row);
        self.last_uid = row.uid.get();
        if row.is_twin() {
            self.twins.push(at);
        } else {
            let rows = &self.rows;
            self.index.insert(name.hash, at, |at| rows[at as usize].name.hash);
        }
        true
    }

    /// Returns the number of messages, whether they are among the rows or not.
    pub(super) fn len(&self) -> usize {
        self.all_keys.as_ref().map_or(self.rows.len(), Vec::len)
    }

    /// Returns `true` if only the messages in `new` are among the rows.
    pub(super) fn is_partial(&self) -> bool {
        self.all_keys.is_some()
    }

    /// Returns `true` if one of these keys is that of a known message, whether it is among the rows
    /// or not. O(messages) if it is partial.
    pub(super) fn has_any(&self, mut keys: Vec<u64>) -> bool {
        keys.sort_unstable();
        let all = self.all_keys.iter().flatten();
        !keys.is_empty() && all.copied().any(|key| keys.binary_search(&key).is_ok())
    }

    /// Returns the row of a base name; twins are not found.
    pub(super) fn find(&self, hash: u64, base: &[u8]) -> Option<u32> {
        self.index.find(hash, |at| {
            let name = self.rows[at as usize].name;
            name.hash == hash && self.names.base(name) == base
        })
    }

    /// Returns the key that the file `inode` with this base would have as a twin.
    pub(super) fn twin_key(base: &[u8], inode: u64) -> u64 {
        name::twin_hash(base, inode)
    }
}
