//! The open mailboxes of a process.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use barid_formats::MailboxSpec;
use barid_vfs::Vfs;

use super::reader::ReaderThread;
use super::watcher::WatcherThread;
use super::{Cancel, Shared, SharedMailbox, locked};
use crate::opening::storage_of;
use crate::{Mailbox, OpenOptions, Result, WatchOptions};

/// The open mailboxes of a process: one [`SharedMailbox`] for each mailbox, however many sessions
/// open it and by whatever path, and one thread that watches them all.
///
/// A mailbox is closed when its last handle is dropped. Copies of this value share the mailboxes.
#[derive(Clone)]
pub struct Mailboxes(Arc<Registry>);

/// The identity of a mailbox and the name of its format: a file can be read as two formats.
type Key = (u128, &'static str);

/// A slot of the registry, locked while its mailbox is opened.
type Slot = Arc<Mutex<Weak<Shared>>>;

struct Registry {
    vfs: Arc<dyn Vfs>,
    options: OpenOptions,
    slots: Mutex<HashMap<Key, Slot>>,
    watcher: Option<WatcherThread>,
    reader: ReaderThread,
}

/// The place of a mailbox in a registry, which it leaves when it is closed.
pub(super) struct Registered {
    registry: Weak<Registry>,
    key: Key,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let Some(registry) = self.registry.upgrade() else { return };
        let mut slots = locked(&registry.slots);
        // A slot that somebody is opening again is in use.
        if let Some(slot) = slots.get(&self.key)
            && Arc::strong_count(slot) == 1
            && locked(slot).strong_count() == 0
        {
            slots.remove(&self.key);
        }
    }
}

impl Mailboxes {
    /// Creates a registry in which all mailboxes are opened with `options`
    /// ([`OpenOptions::stop`] has no effect). With `watch`, changes of other programs are noticed
    /// as they happen, as long as somebody waits for them ([`SharedMailbox::subscribe`],
    /// [`SharedMailbox::wait_for_newer`]); without, only by [`SharedMailbox::refresh`].
    pub fn new(vfs: Arc<dyn Vfs>, options: OpenOptions, watch: Option<WatchOptions>) -> Self {
        let watcher = watch.map(|watch| WatcherThread::new(Arc::clone(&vfs), watch));
        Self(Arc::new(Registry {
            vfs,
            options,
            slots: Mutex::default(),
            watcher,
            reader: ReaderThread::default(),
        }))
    }

    /// Returns the handle of a mailbox; opens it if it is not open. `spec` is as in
    /// [`crate::Mailbox::open`].
    ///
    /// # Errors
    /// As [`crate::Mailbox::open`].
    pub fn open(&self, spec: &str) -> Result<SharedMailbox> {
        self.open_spec(&MailboxSpec::parse(spec))
    }

    /// Returns the handle of a mailbox; opens it if it is not open. For an open mailbox the cost is
    /// that of finding its format and its identity. A mailbox that was renamed gets a new handle;
    /// the earlier ones fail at their next refresh.
    ///
    /// # Errors
    /// As [`crate::Mailbox::open_in`].
    pub fn open_spec(&self, spec: &MailboxSpec) -> Result<SharedMailbox> {
        let shared = self.open_as(spec, false)?;
        if shared.view().is_listed {
            shared.0.with_mailbox(&Cancel::new(), |_| Ok(()))?;
        }
        Ok(shared)
    }

    /// Returns the handle of a mailbox as [`Mailboxes::open_spec`] does, but does not wait for the
    /// headers of a large mailbox that is not open and has no cache, where the format knows flags
    /// and UIDs without them: the view of the handle may then be only listed
    /// ([`View::is_listed`](crate::View::is_listed)). A thread reads the headers meanwhile;
    /// [`SharedMailbox::refresh`] and [`SharedMailbox::update`] wait for it.
    ///
    /// # Errors
    /// As [`crate::Mailbox::open_in`].
    pub fn open_listed(&self, spec: &MailboxSpec) -> Result<SharedMailbox> {
        self.open_as(spec, true)
    }

    /// Returns `true` while headers of mailboxes are read that were only listed.
    pub fn is_reading(&self) -> bool {
        self.0.reader.is_running()
    }

    /// Waits until the headers of all mailboxes are read that were only listed. Otherwise reading
    /// ends with the last copy of this value, and the next process lists them again.
    pub fn wait_until_read(&self) {
        self.0.reader.wait();
    }

    fn open_as(&self, spec: &MailboxSpec, may_list: bool) -> Result<SharedMailbox> {
        let Registry { vfs, options, slots, watcher, reader } = &*self.0;
        let (storage, identity) = storage_of(vfs, spec, options)?;
        let key = (identity.id, storage.format().name());
        let slot = Arc::clone(locked(slots).entry(key).or_default());
        let mut opened = locked(&slot);
        if let Some(shared) = opened.upgrade()
            && self.leads_to(&shared, spec, key)
        {
            return Ok(SharedMailbox(shared));
        }
        let registered = Registered { registry: Arc::downgrade(&self.0), key };
        let open =
            if may_list && reader.has_room() { Mailbox::open_listed } else { Mailbox::open_in };
        let mailbox = SharedMailbox::open(Arc::clone(vfs), spec, options, registered, open)?;
        *opened = Arc::downgrade(&mailbox.0);
        drop(opened);
        if mailbox.view().is_listed {
            reader.add(&mailbox);
        }
        if let Some(watcher) = watcher {
            watcher.add(&mailbox);
        }
        Ok(mailbox)
    }

    /// Returns `true` if the path under which a mailbox is open still leads to it: it was not
    /// renamed. Costs nothing if that is the path of `spec`, which does.
    fn leads_to(&self, shared: &Shared, spec: &MailboxSpec, key: Key) -> bool {
        let Registry { vfs, options, .. } = &*self.0;
        shared.spec == *spec
            || storage_of(vfs, &shared.spec, options)
                .is_ok_and(|(storage, identity)| (identity.id, storage.format().name()) == key)
    }

    /// Returns the number of open mailboxes.
    pub fn len(&self) -> usize {
        locked(&self.0.slots).len()
    }

    /// Returns `true` if no mailbox is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Mailboxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailboxes").field("open", &self.len()).finish_non_exhaustive()
    }
}
