//! A storage in memory that is not a file system: no path, no inode, no lock.
//!
//! An [`ObjectStore`] has message bodies under names that are never used again, and one head: a
//! version number, and for every message its UID, the name of its body, its flags and keywords. A
//! change stores the bodies of new messages, makes a new head from the current one, and swaps it in
//! if the head still has the version it was made from; otherwise it makes the change in the head
//! that another writer swapped in. The swap is the commit point. Bodies that no head names are
//! waste.
//!
//! A stamp is the version number, so equal ones always prove that nothing changed.

mod scan;
mod store;
mod sync;

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{
    Caps, ChangeSet, Error, Format, FormatProperties, Known, Location, MessageLayout, NewMessage,
    OpenMessage, ReadAs, Result, ScanContext, ScanReport, Sinks, Stamp, StampRules, Storage,
    SyncContext, SyncReport,
};
use barid_message::body_offset;
use barid_state::{Identity, Ledger};
use barid_types::{Keyword, KeywordTable};
use barid_vfs::{MemVfs, Vfs};

pub use self::store::ObjectStore;
use self::store::{Body, Head};
use crate::fixture::{Backend, Fixture, state_ledger};

static PROPERTIES: FormatProperties = FormatProperties {
    holds_uidvalidity: true,
    keeps_zone: true,
    ..FormatProperties::new("memory", MessageLayout::DataFiles)
};

/// The name that errors show instead of a path.
const NAME: &str = "memory";

/// A mailbox in an object store in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryStorage {
    store: Arc<ObjectStore>,
}

impl MemoryStorage {
    /// Opens the mailbox in a store.
    pub fn new(store: Arc<ObjectStore>) -> Self {
        Self { store }
    }

    /// Returns the body that a location names.
    fn body(&self, location: &Location<'_>) -> Result<Arc<Body>> {
        let body = location.message_name().and_then(|name| self.store.body(name.name));
        body.ok_or_else(|| Error::MessageGone { path: NAME.into(), offset: 0 })
    }
}

/// Returns the stamp of a version.
fn stamp_of(head: &Head) -> Stamp {
    let mut content = [0; Stamp::CONTENT_LEN];
    content[..8].copy_from_slice(&head.version.to_le_bytes());
    Stamp::new(content, 0)
}

/// Meaning of stamps that are version numbers.
#[derive(Debug)]
struct VersionRules;

impl StampRules for VersionRules {
    fn unsettled_nanos(&self, _stamp: &Stamp) -> i64 {
        0
    }
    fn has_grown(&self, _before: &Stamp, _now: &Stamp) -> bool {
        false
    }
    fn change_number(&self, stamp: &Stamp) -> u64 {
        let mut number = [0; 8];
        number.copy_from_slice(&stamp.content()[..8]);
        u64::from_le_bytes(number)
    }
}

impl Storage for MemoryStorage {
    fn format(&self) -> Format {
        Format::new(&PROPERTIES)
    }

    fn caps(&self) -> Caps {
        Caps {
            append: true,
            flags: true,
            expunge: true,
            keywords_max: KeywordTable::SLOTS_MAX as u32,
            keyword_len_max: Keyword::LEN_MAX as u32,
            keywords_beyond_ascii: true,
            uids: true,
            delays: false,
            appends_unseen: false,
            message_len_max: None,
            needs_header: false,
        }
    }

    fn name(&self) -> &Path {
        Path::new(NAME)
    }

    fn identity(&self, _may_write: bool) -> Result<Identity> {
        Ok(Identity { id: self.store.id(), path: NAME.into(), inode: 0 })
    }

    fn stamp(&self) -> Result<Stamp> {
        Ok(stamp_of(&self.store.head()))
    }

    fn stamp_rules(&self) -> &'static dyn StampRules {
        &VersionRules
    }

    fn scan(
        &self,
        known: &dyn Known,
        sinks: &dyn Sinks,
        context: &mut ScanContext<'_>,
    ) -> Result<ScanReport> {
        scan::scan(&self.store, known, sinks, context)
    }

    fn names_messages(&self) -> bool {
        true
    }

    fn read(
        &self,
        location: &Location<'_>,
        _read_as: ReadAs,
        buffer: &mut Vec<u8>,
    ) -> Result<usize> {
        let body = self.body(location)?;
        Error::check_size(Path::new(NAME), 0, body.bytes.len() as u64)?;
        buffer.extend_from_slice(&body.bytes);
        Ok(body_offset(&body.bytes))
    }

    fn open_message(&self, location: &Location<'_>, _stamp: &Stamp) -> Result<OpenMessage<'_>> {
        let body = self.body(location)?;
        let len = body.bytes.len() as u64;
        Ok(OpenMessage::new(0, len, move |buffer, offset| {
            let bytes = usize::try_from(offset).ok().and_then(|at| body.bytes.get(at..));
            let bytes = bytes.and_then(|bytes| bytes.get(..buffer.len()));
            buffer.copy_from_slice(bytes.expect("because a piece is within the message"));
            Ok(())
        }))
    }

    fn sync(
        &self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
        context: &mut SyncContext<'_>,
    ) -> Result<SyncReport> {
        sync::sync(&self.store, changes, appends, context)
    }
}

/// The backend in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryBackend;

struct MemoryFixture {
    store: Arc<ObjectStore>,
    /// Disk of the ledger, which every scan is given.
    state: Arc<dyn Vfs>,
}

impl MemoryFixture {
    fn new(store: ObjectStore) -> Self {
        let state: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        state.create_dir(Path::new(STATE_DIR), 0o700).unwrap();
        Self { store: Arc::new(store), state }
    }
}

const STATE_DIR: &str = "/state";

impl Backend for MemoryBackend {
    fn name(&self) -> &str {
        NAME
    }

    fn create(&self) -> Box<dyn Fixture> {
        Box::new(MemoryFixture::new(ObjectStore::default()))
    }
}

impl Fixture for MemoryFixture {
    fn open(&self) -> Box<dyn Storage> {
        Box::new(MemoryStorage::new(Arc::clone(&self.store)))
    }

    fn ledger(&self) -> Ledger {
        state_ledger(Arc::clone(&self.state), Path::new(STATE_DIR))
    }

    fn crash(
        &self,
        change: &dyn Fn(&dyn Fixture),
        visit: &mut dyn FnMut(&dyn Fixture, bool),
    ) -> bool {
        let copy = Self::new(self.store.recording_copy());
        change(&copy);
        let states = copy.store.take_recorded();
        let last = states.len() - 1;
        for (at, state) in states.into_iter().enumerate() {
            visit(&Self::new(state), at == last);
        }
        true
    }
}
