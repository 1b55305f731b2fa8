//! The object store: bodies by name, and a head that is swapped.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barid_types::{FlagSet, InternalDate, KeywordMask, KeywordTable, Uid, UidValidity};

/// Version, numbers and messages of a mailbox at one moment.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) version: u64,
    pub(super) uidvalidity: UidValidity,
    pub(super) uidnext: Uid,
    pub(super) keywords: KeywordTable,
    /// Ascending by UID.
    pub(super) messages: Vec<HeadMessage>,
}

/// A message of the head.
#[derive(Clone, Debug)]
pub(super) struct HeadMessage {
    pub(super) uid: Uid,
    pub(super) body: BodyName,
    pub(super) size: u64,
    pub(super) date: InternalDate,
    pub(super) flags: FlagSet,
    pub(super) keywords: KeywordMask,
}

/// Name of a body.
pub(super) type BodyName = Arc<[u8]>;

/// A stored message.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
}

/// An object store with the objects of one mailbox.
#[derive(Debug, Default)]
pub struct ObjectStore {
    objects: Mutex<Objects>,
    /// The objects after each operation, from the beginning on, if they are recorded.
    recorded: Option<Mutex<Vec<Objects>>>,
}

#[derive(Clone, Debug)]
struct Objects {
    head: Arc<Head>,
    bodies: BTreeMap<BodyName, Arc<Body>>,
    /// Number of bodies ever stored, from which names are made.
    named: u64,
    /// Identity of the mailbox, which copies have too.
    id: u128,
}

impl Default for Objects {
    fn default() -> Self {
        let head = Head {
            version: 1,
            uidvalidity: UidValidity::MIN,
            uidnext: Uid::MIN,
            keywords: KeywordTable::default(),
            messages: Vec::new(),
        };
        static STORES: AtomicU64 = AtomicU64::new(1);
        let id = STORES.fetch_add(1, Ordering::Relaxed).into();
        Self { head: Arc::new(head), bodies: BTreeMap::new(), named: 0, id }
    }
}

impl ObjectStore {
    /// Returns the identity of the mailbox.
    pub(super) fn id(&self) -> u128 {
        self.objects().id
    }

    /// Returns the current head.
    pub(super) fn head(&self) -> Arc<Head> {
        Arc::clone(&self.objects().head)
    }

    /// Replaces the head if it still has the version before that of `next`; returns `false` if
    /// another writer has replaced it.
    pub(super) fn swap_head(&self, next: Head) -> bool {
        self.change(|objects| {
            let is_current = objects.head.version + 1 == next.version;
            if is_current {
                objects.head = Arc::new(next);
            }
            is_current
        })
    }

    /// Stores a body under a new name.
    pub(super) fn put(&self, bytes: Vec<u8>) -> BodyName {
        self.change(|objects| {
            objects.named += 1;
            let name: BodyName = format!("body-{}", objects.named).into_bytes().into();
            objects.bodies.insert(Arc::clone(&name), Arc::new(Body { bytes }));
            name
        })
    }

    /// Returns the body of this name, if it exists.
    pub(super) fn body(&self, name: &[u8]) -> Option<Arc<Body>> {
        self.objects().bodies.get(name).cloned()
    }

    /// Removes a body, which no head names any more.
    pub(super) fn remove(&self, name: &[u8]) {
        self.change(|objects| objects.bodies.remove(name));
    }

    /// Returns an independent copy that records its state after each operation.
    pub(super) fn recording_copy(&self) -> Self {
        let objects = self.objects().clone();
        let recorded = Some(Mutex::new(vec![objects.clone()]));
        Self { objects: Mutex::new(objects), recorded }
    }

    /// Returns a store for each recorded state, in order; the last is the present one.
    pub(super) fn take_recorded(&self) -> Vec<Self> {
        let recorded = self.recorded.as_ref().map(|recorded| std::mem::take(&mut *lock(recorded)));
        let store = |objects| Self { objects: Mutex::new(objects), recorded: None };
        recorded.unwrap_or_default().into_iter().map(store).collect()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        let mut objects = self.objects();
        let result = change(&mut objects);
        if let Some(recorded) = &self.recorded {
            lock(recorded).push(objects.clone());
        }
        result
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        lock(&self.objects)
    }
}

/// Locks; every operation is complete, or has changed nothing, when a thread panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
