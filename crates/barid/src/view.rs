//! A mailbox as it was at one moment, for any number of readers.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use barid_cache::{CacheDir, Core, Snapshot};
use barid_formats::MailboxSpec;
use barid_mailbox::{Caps, Error as FormatError, Format, Stamp, Storage};
use barid_state::Identity;
use barid_types::{KeywordTable, Uid};
use barid_vfs::Vfs;
use xxhash_rust::xxh3::xxh3_64;

use crate::caches::CacheFigures;
use crate::error::damaged_file;
use crate::limits::{FOLLOWED_GROWTH_MAX, FOLLOWS_MAX};
use crate::opening::{CachePlace, is_current, is_superseded};
use crate::shown::Shown;
use crate::stored_values::ValueCache;
use crate::{Error, Mailbox, MailboxFigures, OpenOptions, Result};

/// A mailbox as it was at one moment: its messages, flags and texts.
///
/// Rows count from 0 in mailbox order, which is ascending by UID; the sequence number of a row is
/// the row plus one. A row never changes its message. A copy is cheap: it shares the snapshot and
/// the storage. Any thread may use it.
///
/// A message that has moved since, as an mbox is rewritten in place, is followed: it is looked up
/// by its UID and the hash of its header in the mailbox as it is now. One that is gone is
/// [`Error::NoSuchMessage`].
#[derive(Clone, Debug)]
pub struct View {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) snapshot: Arc<Snapshot>,
    /// The pending changes as an overlay on the snapshot.
    pub(crate) shown: Arc<Shown>,
    pub(crate) place: CachePlace,
    pub(crate) options: Arc<OpenOptions>,
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) identity: Arc<Identity>,
    /// Set once the kept restart points of a compressed mailbox were passed to the storage.
    pub(crate) has_restart_points: Arc<OnceLock<()>>,
    /// Known identifiers of content.
    pub(crate) email_ids_in_memory: Arc<ValueCache>,
    pub(crate) spec: Arc<MailboxSpec>,
    pub(crate) newest: Newest,
    pub(crate) is_listed: bool,
}

/// The mailbox in which messages that have moved are looked up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Newest {
    /// The shared mailbox that the view is of, if any.
    shared: Option<Weak<dyn NewerViews>>,
    /// Number of the changes that the shared mailbox had published before this view.
    version: u64,
    /// Otherwise the mailbox, opened again when a message was first found to have moved.
    own: Arc<Mutex<Option<Mailbox>>>,
}

/// A mailbox of this process from which newer views come.
pub(crate) trait NewerViews: Send + Sync {
    /// Returns the mailbox as it is now, in another state than the one that was `tried`.
    ///
    /// # Errors
    /// [`Error::Nested`] if this thread is changing the mailbox; as [`Mailbox::refresh`].
    fn newer(self: Arc<Self>, tried: &View) -> Result<View>;

    /// Reads the mailbox again, and runs `work` on the view while nobody of this process changes
    /// the mailbox.
    ///
    /// # Errors
    /// As [`NewerViews::newer`]; that of `work`.
    fn with_newest(self: Arc<Self>, work: &mut dyn FnMut(&View) -> Result<()>) -> Result<()>;
}

impl View {
    /// Returns `true` if the view is that of a large mailbox whose messages have been listed and
    /// not yet read ([`crate::Mailboxes::open_listed`]). It has the UIDs, flags, keywords,
    /// mod-sequences and numbers, and nothing else: methods that need more return
    /// [`Error::NotRead`], and [`View::figures`] counts no bytes.
    pub fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Fails if the messages have been listed and not yet read.
    pub(crate) fn check_read(&self) -> Result<()> {
        match self.is_listed {
            true => Err(Error::NotRead { path: self.path().to_owned() }),
            false => Ok(()),
        }
    }

    /// Returns `true` if the mailbox has a cache on disk now.
    pub fn is_cached(&self) -> bool {
        self.place.on_disk && self.snapshot.store_error().is_none()
    }

    /// Returns the bytes allocated for the cache, its store and its derived snapshots; 0 if the
    /// cache is in memory. Lists the cache folder.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn cache_bytes(&self) -> Result<u64> {
        let Some(dir) = self.place.path.parent().filter(|_| self.place.on_disk) else {
            return Ok(0);
        };
        let entry = CacheDir::new(Arc::clone(&self.place.vfs), dir).entry(self.identity.id)?;
        Ok(entry.map_or(0, |entry| entry.bytes))
    }

    /// Returns the store, compression and sizes of the cache; `None` if it is in memory.
    ///
    /// # Errors
    /// Errors of the file system; a damaged store.
    pub fn cache_figures(&self) -> Result<Option<CacheFigures>> {
        if !self.place.on_disk {
            return Ok(None);
        }
        let figures = self.done(self.snapshot.figures())?;
        Ok(Some(CacheFigures::new(figures, self.cache_bytes()?)))
    }

    /// Returns the size of the mailbox. Costs nothing.
    pub fn figures(&self) -> MailboxFigures {
        let size_bytes = self.snapshot.meta().size_bytes;
        MailboxFigures { id: self.id(), messages: self.len(), size_bytes }
    }

    /// Returns the number that names the mailbox in the cache folder and the state folder, whatever
    /// its path.
    pub fn id(&self) -> u128 {
        self.identity.id
    }

    /// Returns the folder of everything about the mailbox that must survive.
    pub fn state_dir(&self) -> &Path {
        &self.options.state_dir
    }

    /// Returns the format.
    pub fn format(&self) -> Format {
        self.storage.format()
    }

    /// Returns the capabilities of the mailbox.
    pub fn caps(&self) -> Caps {
        self.storage.caps()
    }

    /// Returns the path, as it was given when the mailbox was opened.
    pub fn path(&self) -> &Path {
        self.storage.name()
    }

    /// Returns the number of messages.
    pub fn len(&self) -> u32 {
        self.snapshot.len()
    }

    /// Returns `true` if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the keywords in the order of their slots, those of pending changes last.
    pub fn keywords(&self) -> &KeywordTable {
        self.shown.keywords(&self.snapshot)
    }

    /// Returns the row of a message; reads at most two blocks of the cache.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn row_of(&self, uid: Uid) -> Result<Option<u32>> {
        Ok(self.snapshot.row_of_uid(uid)?)
    }

    /// Returns the first row whose UID is not below `uid`; [`View::len`] if there is none.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn row_from(&self, uid: Uid) -> Result<u32> {
        Ok(self.snapshot.row_from_uid(uid)?)
    }

    /// Returns the UID of a row.
    ///
    /// # Errors
    /// A damaged cache, or a row that does not exist.
    pub fn uid_of(&self, row: u32) -> Result<Uid> {
        Ok(self.snapshot.core(row)?.uid)
    }

    /// Returns the UIDs of all rows, in ascending order.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn uids(&self) -> Result<Vec<u32>> {
        Ok(self.snapshot.uids()?)
    }

    /// Returns the UIDs of all rows, in ascending order, each with a check value: data stored
    /// outside the mailbox under a UID belongs to the message only if the value is still the same.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn checked_uids(&self) -> Result<Vec<(Uid, u32)>> {
        self.check_read()?;
        let mut all = Vec::with_capacity(self.len() as usize);
        let read = self.snapshot.cores(0..self.len(), &mut |_, core| {
            all.push((core.uid, check_of(core)));
        });
        self.done(read)?;
        Ok(all)
    }

    /// Returns the check values of [`View::checked_uids`] for some messages, without those that do
    /// not exist. Reads at most two blocks of the cache for each.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn checks_of(&self, uids: &[Uid]) -> Result<HashMap<Uid, u32>> {
        self.check_read()?;
        let check = |uid: Uid| {
            let Some(row) = self.snapshot.row_of_uid(uid)? else { return Ok(None) };
            Ok(Some((uid, check_of(&self.snapshot.core(row)?))))
        };
        self.done(uids.iter().filter_map(|uid| check(*uid).transpose()).collect())
    }

    /// Runs `work` on the row of a message; if that has moved, on its row in a newer view. The
    /// inner error is that of the message, the outer one that of the mailbox.
    pub(crate) fn follow<T>(
        &self,
        row: u32,
        work: &mut dyn FnMut(&Self, u32) -> Result<T>,
    ) -> Result<Result<T>> {
        self.check_read()?;
        match work(self, row) {
            Err(error) if has_moved(&error) => {}
            result => return Ok(result),
        }
        let core = self.snapshot.core(row)?;
        let mut tried = self.clone();
        for _ in 1..FOLLOWS_MAX {
            let newer = self.newer(&tried)?;
            match self.in_newer(&newer, &core, work)? {
                Err(error) if has_moved(&error) => tried = newer,
                Err(error @ Error::Cache(_)) => {
                    *self.newest.own() = None;
                    return Ok(Err(error));
                }
                result => return Ok(result),
            }
        }
        // It moves faster than it can be read: nobody of this process may change it meanwhile.
        let keeps_changing = || Error::KeepsChanging { path: self.path().to_owned() };
        let Some(shared) = self.newest.shared() else { return Ok(Err(keeps_changing())) };
        let mut result = Err(keeps_changing());
        shared.with_newest(&mut |newest| {
            result = self.in_newer(newest, &core, work)?;
            Ok(())
        })?;
        Ok(result.map_err(|error| if has_moved(&error) { keeps_changing() } else { error }))
    }

    /// Runs `work` on the row that a message of this view has in a newer one.
    fn in_newer<T>(
        &self,
        newer: &Self,
        core: &Core,
        work: &mut dyn FnMut(&Self, u32) -> Result<T>,
    ) -> Result<Result<T>> {
        if newer.snapshot.meta().uidvalidity != self.snapshot.meta().uidvalidity {
            return Err(Error::Renumbered { path: self.path().to_owned() });
        }
        let gone = || Error::NoSuchMessage { path: self.path().to_owned(), uid: core.uid };
        let Some(row) = newer.row_of(core.uid)? else { return Ok(Err(gone())) };
        match is_same_message(core, &newer.snapshot.core(row)?) {
            true => Ok(work(newer, row)),
            false => Ok(Err(gone())),
        }
    }

    /// Returns the mailbox as it is now, in another state than the one that was `tried`.
    fn newer(&self, tried: &Self) -> Result<Self> {
        if let Some(shared) = self.newest.shared() {
            match shared.newer(tried) {
                // This thread is changing the mailbox, and cannot wait for itself.
                Err(Error::Nested { .. }) => {}
                newer => return newer,
            }
        }
        let mut own = self.newest.own();
        // One that cannot be brought up to date is opened again the next time.
        let mailbox = match own.take() {
            None => Mailbox::open_in(Arc::clone(&self.vfs), &self.spec, &self.options)?,
            Some(mut mailbox) => {
                if mailbox.has_snapshot_of(tried) {
                    mailbox.refresh()?;
                }
                // A mailbox that looks unchanged may have been read at its end only.
                if mailbox.has_snapshot_of(tried) {
                    mailbox.rescan(true)?;
                }
                mailbox
            }
        };
        Ok(own.insert(mailbox).view())
    }

    /// Returns the view as a version of a shared mailbox, in which messages that have moved are
    /// looked up.
    pub(crate) fn published(mut self, shared: Weak<dyn NewerViews>, version: u64) -> Self {
        self.newest = Newest { shared: Some(shared), version, own: Arc::default() };
        self
    }

    /// Returns the version of the shared mailbox; it rises with every change that is published.
    pub(crate) fn version(&self) -> u64 {
        self.newest.version
    }

    /// Returns `true` if both views are of the same state of the cache.
    pub(crate) fn has_snapshot_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.snapshot, &other.snapshot)
    }

    /// Returns `true` if an equal stamp proves nothing yet, but will soon; `false` also if a file
    /// is dated ahead of the clock.
    pub(crate) fn is_settling(&self) -> bool {
        let nanos = self.storage.stamp_rules().unsettled_nanos(&self.snapshot.meta().stamp);
        (1..=barid_mailbox::Stamp::SETTLE_NANOS_MAX).contains(&nanos)
    }

    /// Returns `true` if the stamp of the mailbox is that of this view, and either proves that
    /// nothing changed or will do so soon, so that a later check finds a change.
    pub(crate) fn is_unchanged(&self) -> Result<bool> {
        let stamp = self.storage.stamp()?;
        let nanos = self.storage.stamp_rules().unsettled_nanos(&stamp);
        let is_same = self.snapshot.meta().stamp.is_same(&stamp);
        let is_known = is_current(&*self.storage, &self.snapshot, &stamp, false)
            || is_same && (1..=Stamp::WAIT_NANOS_MAX).contains(&nanos);
        Ok(is_known && !self.storage.is_replaced(&self.identity)?)
    }

    /// Ends a reading of the cache: releases what it began in a store of records, and reports
    /// damage of a cache that was replaced meanwhile as [`Error::Superseded`].
    pub(crate) fn done<T>(&self, result: barid_cache::Result<T>) -> Result<T> {
        self.snapshot.release();
        let Self { snapshot, place, identity, .. } = self;
        match result {
            Err(error)
                if damaged_file(&error).is_some()
                    && is_superseded(snapshot, place, identity.id) =>
            {
                Err(Error::Superseded { path: self.snapshot.path().to_owned() })
            }
            result => Ok(result?),
        }
    }
}

impl Newest {
    fn shared(&self) -> Option<Arc<dyn NewerViews>> {
        self.shared.as_ref().and_then(Weak::upgrade)
    }

    fn own(&self) -> MutexGuard<'_, Option<Mailbox>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `true` if an error means that a message is no longer at its known location: it was moved
/// or removed.
pub(crate) fn has_moved(error: &Error) -> bool {
    matches!(error, Error::Mailbox(FormatError::MessageGone { .. }))
}

/// Returns a value by which data under a UID is known to belong to the message.
pub(crate) fn check_of(core: &Core) -> u32 {
    let body_len = core.size.saturating_sub(core.header_len.into());
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&core.key.0.to_le_bytes());
    bytes[8..].copy_from_slice(&body_len.to_le_bytes());
    xxh3_64(&bytes) as u32
}

/// Compares the message key. A message that has grown much is another one: readers have room for
/// the old one.
fn is_same_message(before: &Core, now: &Core) -> bool {
    before.key == now.key && now.size <= before.size + FOLLOWED_GROWTH_MAX
}
