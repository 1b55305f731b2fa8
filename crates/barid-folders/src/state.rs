//! The file `names` of a tree: special uses, metadata, deleted mailboxes, and the UIDVALIDITYs that
//! names have had (`docs/formats/folders.md`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use barid_types::UidValidity;
use barid_vfs::Timestamp;

use crate::bytes::{ByteReader, ByteWriter, Unreadable};
use crate::limits::{PAST_MAX, PAST_NAMES_MAX};
use crate::names::{Levels, NamedPlace};

/// First bytes of the file.
const MAGIC: [u8; 8] = *b"barid-fn";
/// Version of its layout.
const VERSION: u32 = 1;

/// State of a tree that must survive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreeState {
    /// Number of changes that were made.
    pub(crate) changes: u64,
    /// The highest UIDVALIDITY that was given to a mailbox or left behind by one; 0 for none.
    pub(crate) uidvalidity_max: u32,
    /// The number of the last deleted mailbox.
    pub(crate) deleted_last: u64,
    /// State of names, by key.
    pub(crate) names: BTreeMap<String, NameState>,
    /// Metadata of the server.
    pub(crate) server_metadata: Metadata,
    /// Deleted mailboxes, the oldest first.
    pub(crate) deleted: Vec<DeletedState>,
}

/// Metadata entries by their names in lower case (RFC 5464).
pub(crate) type Metadata = BTreeMap<String, Vec<u8>>;

/// State of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NameState {
    /// Special uses that were set; `None` if none were set, so that the name itself may have one.
    pub(crate) uses: Option<Vec<String>>,
    pub(crate) metadata: Metadata,
    /// UIDVALIDITYs of the mailboxes that had this name before.
    pub(crate) past: Vec<PastValidity>,
}

/// UIDVALIDITY of a mailbox that had a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PastValidity {
    pub(crate) uidvalidity: UidValidity,
    /// Identity of the mailbox.
    pub(crate) id: u128,
}

/// A deleted mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeletedState {
    /// Number, by which its folder is named.
    pub(crate) number: u64,
    /// Key of the name that it had.
    pub(crate) key: String,
    /// Time of the deletion.
    pub(crate) time: Timestamp,
    /// The place where it is.
    pub(crate) kept: Spot,
    pub(crate) uses: Option<Vec<String>>,
    pub(crate) metadata: Metadata,
}

/// A place of files, which stays right if the root or the state folder is moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) base: SpotBase,
    /// The path below.
    pub(crate) path: PathBuf,
}

/// The folder below which a [`Spot`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpotBase {
    /// The root of the tree.
    Root,
    /// The folder of the tree's state.
    State,
}

/// Returns the key of a place: its levels with slashes between them, and nothing for INBOX.
pub(crate) fn key_of(place: &NamedPlace) -> String {
    match place {
        NamedPlace::Inbox => String::new(),
        NamedPlace::Below(levels) => levels.join("/"),
    }
}

/// Returns the place of a key.
pub(crate) fn place_of_key(key: &str) -> NamedPlace {
    match key.is_empty() {
        true => NamedPlace::Inbox,
        false => NamedPlace::Below(key.split('/').map(str::to_owned).collect::<Levels>()),
    }
}

impl TreeState {
    /// Remembers that the mailbox `id`, which had a name, had a UIDVALIDITY.
    pub(crate) fn note_past(&mut self, key: &str, past: PastValidity) {
        self.uidvalidity_max = self.uidvalidity_max.max(past.uidvalidity.get());
        let all = &mut self.names.entry(key.to_owned()).or_default().past;
        if !all.contains(&past) {
            all.push(past);
        }
        if all.len() > PAST_MAX {
            all.sort_by_key(|past| past.uidvalidity);
            all.remove(0);
        }
        if self.names.len() > PAST_NAMES_MAX {
            self.forget_one_past();
        }
    }

    /// Forgets the past of the name whose UIDVALIDITYs are the lowest.
    fn forget_one_past(&mut self) {
        let highest = |state: &NameState| state.past.iter().map(|past| past.uidvalidity).max();
        let has_past = self.names.iter().filter(|(_, state)| !state.past.is_empty());
        let Some((key, _)) = has_past.min_by_key(|(_, state)| highest(state)) else { return };
        let key = key.clone();
        if let Some(state) = self.names.get_mut(&key) {
            state.past.clear();
        }
        self.drop_empty(&key);
    }

    /// Returns `true` if another mailbox had a UIDVALIDITY under a name.
    pub(crate) fn had(&self, key: &str, validity: PastValidity) -> bool {
        let past = self.names.get(key).map_or(&[][..], |state| &state.past);
        let is_other = |past: &PastValidity| {
            past.uidvalidity == validity.uidvalidity && past.id != validity.id
        };
        past.iter().any(is_other)
    }

    /// Takes uses and metadata from a name, and leaves what must be remembered of it.
    pub(crate) fn take_properties(&mut self, key: &str) -> (Option<Vec<String>>, Metadata) {
        let Some(state) = self.names.get_mut(key) else { return Default::default() };
        let taken = (state.uses.take(), std::mem::take(&mut state.metadata));
        self.drop_empty(key);
        taken
    }

    /// Gives uses and metadata to a name, in place of those that it has.
    pub(crate) fn give_properties(
        &mut self,
        key: &str,
        (uses, metadata): (Option<Vec<String>>, Metadata),
    ) {
        let state = self.names.entry(key.to_owned()).or_default();
        (state.uses, state.metadata) = (uses, metadata);
        self.drop_empty(key);
    }

    /// Forgets a name of which nothing is to be remembered.
    fn drop_empty(&mut self, key: &str) {
        if self.names.get(key) == Some(&NameState::default()) {
            self.names.remove(key);
        }
    }

    /// Returns the bytes of all metadata, that of deleted mailboxes included.
    pub(crate) fn metadata_len(&self) -> usize {
        let len = |metadata: &Metadata| {
            metadata.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
        };
        let names = self.names.values().map(|name| len(&name.metadata)).sum::<usize>();
        let deleted = self.deleted.iter().map(|deleted| len(&deleted.metadata)).sum::<usize>();
        names + deleted + len(&self.server_metadata)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = ByteWriter::begin(MAGIC, VERSION);
        out.put_u64(self.changes);
        out.put_u32(self.uidvalidity_max);
        out.put_u64(self.deleted_last);
        out.put_count(self.names.len());
        for (key, name) in &self.names {
            out.put_bytes(key.as_bytes());
            put_uses(&mut out, name.uses.as_deref());
            put_metadata(&mut out, &name.metadata);
            out.put_count(name.past.len());
            for past in &name.past {
                out.put_u32(past.uidvalidity.get());
                out.put_u128(past.id);
            }
        }
        put_metadata(&mut out, &self.server_metadata);
        out.put_count(self.deleted.len());
        for deleted in &self.deleted {
            out.put_u64(deleted.number);
            out.put_bytes(deleted.key.as_bytes());
            out.put_u64(deleted.time.unix_nanos.cast_unsigned());
            put_spot(&mut out, &deleted.kept);
            put_uses(&mut out, deleted.uses.as_deref());
            put_metadata(&mut out, &deleted.metadata);
        }
        out.end()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = ByteReader::begin(bytes, MAGIC, VERSION)?;
        let state = Self::read(&mut reader).filter(|_| reader.is_at_end());
        state.ok_or(Unreadable::Damaged)
    }

    fn read(from: &mut ByteReader<'_>) -> Option<Self> {
        let changes = from.u64()?;
        let (uidvalidity_max, deleted_last) = (from.u32()?, from.u64()?);
        let names = from.many(|from| {
            let key = from.text()?;
            let (uses, metadata) = (uses(from)?, metadata(from)?);
            let past = from.many(|from| {
                let uidvalidity = UidValidity::new(from.u32()?)?;
                Some(PastValidity { uidvalidity, id: from.u128()? })
            })?;
            Some((key, NameState { uses, metadata, past }))
        })?;
        let server_metadata = metadata(from)?;
        let deleted = from.many(|from| {
            Some(DeletedState {
                number: from.u64()?,
                key: from.text()?,
                time: Timestamp { unix_nanos: from.u64()?.cast_signed() },
                kept: spot(from)?,
                uses: uses(from)?,
                metadata: metadata(from)?,
            })
        })?;
        let names = names.into_iter().collect();
        Some(Self { changes, uidvalidity_max, deleted_last, names, server_metadata, deleted })
    }
}

fn put_uses(out: &mut ByteWriter, uses: Option<&[String]>) {
    out.put_u32(u32::from(uses.is_some()));
    out.put_count(uses.map_or(0, <[String]>::len));
    for special_use in uses.unwrap_or_default() {
        out.put_bytes(special_use.as_bytes());
    }
}

#[expect(clippy::option_option, reason = "unreadable; or, of the uses, none set")]
fn uses(from: &mut ByteReader<'_>) -> Option<Option<Vec<String>>> {
    let is_set = from.u32()? != 0;
    let uses = from.many(ByteReader::text)?;
    Some(is_set.then_some(uses))
}

fn put_metadata(out: &mut ByteWriter, metadata: &Metadata) {
    out.put_count(metadata.len());
    for (name, value) in metadata {
        out.put_bytes(name.as_bytes());
        out.put_bytes(value);
    }
}

fn metadata(from: &mut ByteReader<'_>) -> Option<Metadata> {
    let entries = from.many(|from| Some((from.text()?, from.bytes()?.to_vec())))?;
    Some(entries.into_iter().collect())
}

pub(crate) fn put_spot(out: &mut ByteWriter, spot: &Spot) {
    out.put_u32(match spot.base {
        SpotBase::Root => 0,
        SpotBase::State => 1,
    });
    out.put_bytes(spot.path.as_os_str().as_encoded_bytes());
}

pub(crate) fn spot(from: &mut ByteReader<'_>) -> Option<Spot> {
    let base = match from.u32()? {
        0 => SpotBase::Root,
        1 => SpotBase::State,
        _ => return None,
    };
    Some(Spot { base, path: path(from)? })
}

/// Reads a path below a folder: one that does not lead out of it.
fn path(from: &mut ByteReader<'_>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(from.bytes()?));
    let is_below = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    is_below.then_some(path)
}

#[cfg(test)]
pub(crate) fn some_state() -> TreeState {
    let metadata: Metadata = [("/private/comment".to_owned(), b"a\0b".to_vec())].into();
    let uidvalidity = UidValidity::new(77).unwrap();
    let past = vec![PastValidity { uidvalidity, id: u128::MAX }];
    let uses = Some(vec!["\\Sent".to_owned()]);
    TreeState {
        changes: 12,
        uidvalidity_max: 99,
        deleted_last: 3,
        names: [
            (String::new(), NameState { metadata: metadata.clone(), ..NameState::default() }),
            ("a/b".to_owned(), NameState { uses: uses.clone(), past, ..NameState::default() }),
            ("c".to_owned(), NameState { uses: Some(Vec::new()), ..NameState::default() }),
        ]
        .into(),
        server_metadata: metadata.clone(),
        deleted: vec![DeletedState {
            number: 3,
            key: "x/ä".to_owned(),
            time: Timestamp { unix_nanos: -1 },
            kept: Spot { base: SpotBase::State, path: "trash/3/mailbox".into() },
            uses,
            metadata,
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        for state in [TreeState::default(), some_state()] {
            let bytes = state.to_bytes();
            assert_eq!(TreeState::from_bytes(&bytes), Ok(state));
            for len in 0..bytes.len() {
                assert_eq!(TreeState::from_bytes(&bytes[..len]), Err(Unreadable::Damaged));
            }
            for at in 0..bytes.len() {
                let mut other = bytes.clone();
                other[at] ^= 0x20;
                assert_eq!(TreeState::from_bytes(&other), Err(Unreadable::Damaged), "{at}");
            }
        }
    }

    #[test]
    fn other_versions_and_paths_that_lead_out_are_refused() {
        let mut later = ByteWriter::begin(MAGIC, VERSION + 1);
        later.put_u32(0);
        assert_eq!(TreeState::from_bytes(&later.end()), Err(Unreadable::Version));
        for path in ["/etc", "../x", "a/../../b"] {
            let mut state = some_state();
            state.deleted[0].kept.path = path.into();
            assert_eq!(TreeState::from_bytes(&state.to_bytes()), Err(Unreadable::Damaged));
        }
    }

    /// A file of version 1 stays readable; a change of the layout needs a new version.
    #[test]
    fn the_layout_has_not_changed() {
        let old = include_bytes!("../tests/fixtures/names-v1.bin");
        assert_eq!(TreeState::from_bytes(old), Ok(some_state()));
        assert_eq!(some_state().to_bytes(), old);
    }

    #[test]
    fn the_highest_past_uidvalidities_are_kept() {
        let mut state = TreeState::default();
        let past = |number| PastValidity {
            uidvalidity: UidValidity::new(number).unwrap(),
            id: u128::from(number),
        };
        for number in (1..=PAST_MAX as u32 + 5).rev() {
            state.note_past("a", past(number));
        }
        assert_eq!(state.names["a"].past.len(), PAST_MAX);
        assert_eq!(state.uidvalidity_max, PAST_MAX as u32 + 5);
        let other = PastValidity { id: 0, ..past(60) };
        assert!(state.had("a", other) && !state.had("a", past(60)) && !state.had("b", other));
        assert!(!state.had("a", PastValidity { id: 0, ..past(1) }));
    }

    #[test]
    fn keys_lead_back() {
        for place in [NamedPlace::Inbox, NamedPlace::Below(vec!["a".into(), "b.c".into()])] {
            assert_eq!(place_of_key(&key_of(&place)), place);
        }
    }
}
