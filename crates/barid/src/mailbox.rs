//! Opening and refreshing a mailbox: the stamp, the scan, the cache (docs/protocol.md, "Open").
//!
//! 0. Complete a change that another process left unfinished; read the pending changes.
//! 1. Take the stamp. If it equals the cache's and is not racy, the cache is the answer.
//! 2. Otherwise scan against what is known. New messages go to the cache's sinks: to a new cache if
//!    there is none, else into a log record of the one there is.
//! 3. Assign the mod-sequence and make the ledger durable before anyone sees the number.
//! 4. Write the cache. It is never fsynced; if it cannot be written, the work goes on in memory.
//! 5. Overlay the pending changes.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use barid_cache::{CacheDir, Snapshot};
use barid_formats::{Format, MailboxSpec, Unfinished};
use barid_state::{Access, Identity, Ledger, Pending};
use barid_types::{KeywordTable, Uid};
use barid_vfs::{OsVfs, Vfs};

use crate::caches::CacheFigures;
use crate::damaged_state::{ACKNOWLEDGE, note_missing, state_news};
use crate::error::{damaged_file, is_refused};
use crate::limits::{ARRIVAL_PAUSE, ARRIVAL_PAUSES_MAX, PENDING_LOCK_TIMEOUT, RECOVERIES_MAX};
use crate::opening::{CachePlace, Opening, is_current, is_superseded};
use crate::recovery::{Recovery, unfinished};
use crate::shown::Shown;
use crate::{CacheStatus, Error, Note, NoteKind, OpenOptions, Result, Status};

/// An open mailbox.
///
/// Rows count from 0 in mailbox order, which is ascending by UID; the sequence number of a row is
/// the row plus one. Rows are valid until [`Mailbox::refresh`] or [`Mailbox::read`].
#[derive(Debug)]
pub struct Mailbox {
    pub(crate) format: Box<dyn barid_formats::Mailbox>,
    pub(crate) snapshot: Snapshot,
    pub(crate) place: CachePlace,
    pub(crate) ledger: Ledger,
    pub(crate) options: OpenOptions,
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) identity: Identity,
    pub(crate) spec: MailboxSpec,
    cache: CacheStatus,
    pub(crate) notes: Vec<Note>,
    /// `true` once the cache was found damaged.
    healed: bool,
    /// Changes that were accepted and are not written yet.
    pub(crate) pending: Pending,
    /// The pending changes as an overlay on the snapshot.
    pub(crate) shown: Shown,
    /// A change that was begun and not finished.
    pub(crate) unfinished: Option<Unfinished>,
    /// `true` if it was opened in the middle of a change: nothing known of it may be stored.
    is_provisional: bool,
    /// Set once the kept restart points of a compressed mailbox were passed to the format.
    pub(crate) has_restart_points: OnceLock<()>,
}

impl Mailbox {
    /// Opens a mailbox of the operating system's file system and brings its cache up to date.
    ///
    /// `spec` is a path, or a path with its format before it (`mbox:PATH`).
    ///
    /// # Errors
    /// The path is not a mailbox; the file system refuses; the ledger cannot be used.
    pub fn open(spec: &str, options: &OpenOptions) -> Result<Self> {
        Self::open_in(Arc::new(OsVfs), &MailboxSpec::parse(spec), options)
    }

    /// Opens a mailbox of any file system.
    ///
    /// If nothing changed since the cache was written, this costs a fixed number of system calls,
    /// whatever the size of the mailbox (`docs/design/opening.md`).
    ///
    /// # Errors
    /// As [`Mailbox::open`].
    pub fn open_in(vfs: Arc<dyn Vfs>, spec: &MailboxSpec, options: &OpenOptions) -> Result<Self> {
        let mut format = barid_formats::open_with(Arc::clone(&vfs), spec, options.mbox_options())?;
        let identity = Identity::of(&*vfs, format.path(), !options.read_only)?;
        let dir = &options.state_dir;
        let mut pending = Pending::open(Arc::clone(&vfs), dir, &identity)?;
        let mut ledger = Ledger::open(Arc::clone(&vfs), dir, &identity, Access::ReadWrite)?;
        pending.set_stop(options.stop.clone());
        ledger.set_stop(options.stop.clone());
        if let Some(record) = pending.records().last() {
            note_missing(&*format, &mut ledger, record.change.uidvalidity);
        }
        let mut notes = Vec::new();
        for _ in 0..RECOVERIES_MAX {
            let unfinished = Recovery {
                format: &mut *format,
                pending: &mut pending,
                ledger: &mut ledger,
                options,
                notes: &mut notes,
                now: vfs.now(),
            }
            .at_opening()?;
            let is_provisional = unfinished.is_some();
            let mut place = CachePlace::of(&vfs, options, &identity);
            if is_provisional {
                place = CachePlace::in_memory(&identity);
                ledger = Ledger::open(Arc::clone(&vfs), dir, &identity, Access::ReadOnly)?;
            }
            let mut opening = Opening::new(&*format, &vfs, options, &identity, place, &mut ledger);
            opening.in_a_change = is_provisional;
            let (snapshot, state) = match opening.bring_up_to_date() {
                // Another process began a change just now, and did not end it.
                Err(error) if is_unfinished(&error) => continue,
                result => result?,
            };
            let Opening { place, notes: more, messages_read, .. } = opening;
            notes.extend(more);
            snapshot.release();
            let mut mailbox = Self {
                format,
                snapshot,
                place,
                ledger,
                options: options.clone(),
                vfs,
                identity,
                spec: spec.clone(),
                cache: CacheStatus { state, messages_read },
                notes,
                healed: false,
                pending,
                shown: Shown::default(),
                unfinished,
                is_provisional,
                has_restart_points: OnceLock::new(),
            };
            mailbox.keep_restart_points();
            mailbox.show_pending_or_heal()?;
            return Ok(mailbox);
        }
        Err(Error::KeepsChanging { path: format.path().to_owned() })
    }

    fn show_pending_or_heal(&mut self) -> Result<()> {
        let news = state_news(&self.pending, &self.ledger);
        self.notes.extend(news.into_iter().map(|news| Note {
            kind: NoteKind::State,
            text: format!("{}: {}; {ACKNOWLEDGE}", news.path.display(), news.what),
        }));
        match self.show_pending() {
            Err(error @ Error::Cache(_)) => self.heal(error),
            result => result,
        }
    }

    /// Overlays the pending changes on the snapshot.
    pub(crate) fn show_pending(&mut self) -> Result<()> {
        self.shown = Shown::of(&self.snapshot, &self.pending)?;
        Ok(())
    }

    /// Opens the state files anew after a failed write: only reading again shows what is on the
    /// disk.
    pub(crate) fn open_poisoned_again(&mut self) -> Result<()> {
        let (vfs, dir) = (&self.vfs, &self.options.state_dir);
        if self.pending.is_poisoned() {
            self.pending = Pending::open(Arc::clone(vfs), dir, &self.identity)?;
            self.pending.set_stop(self.options.stop.clone());
        }
        if self.ledger.is_poisoned() {
            let access = Access::ReadWrite;
            self.ledger = Ledger::open(Arc::clone(vfs), dir, &self.identity, access)?;
            self.ledger.set_stop(self.options.stop.clone());
        }
        Ok(())
    }

    /// Completes an unfinished change, before another change; the error gives the reason if that
    /// fails.
    pub(crate) fn finish_unfinished(&mut self) -> Result<()> {
        if self.format.unfinished(Some(&self.options.state_dir))?.is_some() {
            self.complete()?;
            self.unfinished = None;
            if !self.is_provisional {
                self.rescan(false)?;
            }
        }
        if self.is_provisional { self.open_again() } else { Ok(()) }
    }

    fn complete(&mut self) -> Result<()> {
        let Self { format, pending, ledger, options, notes, vfs, .. } = self;
        if options.read_only {
            let found = format.abandoned(Some(&options.state_dir))?;
            return found.map_or(Ok(()), |found| Err(unfinished(&**format, found).into()));
        }
        let now = vfs.now();
        Recovery { format: &mut **format, pending, ledger, options, notes, now }.complete()
    }

    /// Opens the mailbox anew, now that no change is unfinished.
    fn open_again(&mut self) -> Result<()> {
        let is_locked = self.pending.is_locked();
        self.pending.unlock();
        let mut notes = std::mem::take(&mut self.notes);
        notes.retain(|note| note.kind == NoteKind::Recovered);
        *self = Self::open_in(Arc::clone(&self.vfs), &self.spec, &self.options)?;
        self.notes.splice(0..0, notes);
        if is_locked {
            self.pending.lock(PENDING_LOCK_TIMEOUT)?;
        }
        match self.unfinished.take() {
            Some(found) => Err(unfinished(&*self.format, found).into()),
            None => Ok(()),
        }
    }

    /// Detects what others changed meanwhile. Rows are renumbered.
    ///
    /// # Errors
    /// As [`Mailbox::open`].
    pub fn refresh(&mut self) -> Result<()> {
        if self.is_provisional && self.format.unfinished(Some(&self.options.state_dir))?.is_none() {
            return self.open_again();
        }
        let is_pending_new = self.pending.refresh()?;
        let stamp = self.format.stamp()?;
        if !is_current(&*self.format, &self.snapshot, &stamp, self.options.full_check) {
            return self.rescan(self.options.full_check);
        }
        if is_pending_new { self.show_pending() } else { Ok(()) }
    }

    /// Waits up to 3 s for messages that another program is writing, and refreshes until they are
    /// listed. Returns `true` if no message is missing from the list.
    ///
    /// # Errors
    /// As [`Mailbox::refresh`].
    pub fn wait_for_arrivals(&mut self) -> Result<bool> {
        let is_arriving = |note: &Note| note.kind == NoteKind::Arriving;
        for _ in 0..ARRIVAL_PAUSES_MAX {
            if !self.notes.iter().any(is_arriving) {
                return Ok(true);
            }
            self.vfs.sleep(ARRIVAL_PAUSE);
            self.refresh()?;
        }
        Ok(!self.notes.iter().any(is_arriving))
    }

    /// Scans regardless of the stamp; with `full_check` nothing known so far is trusted.
    pub(crate) fn rescan(&mut self, full_check: bool) -> Result<()> {
        for _ in 0..RECOVERIES_MAX {
            if !self.is_provisional
                && self.format.unfinished(Some(&self.options.state_dir))?.is_some()
            {
                self.complete()?;
                self.unfinished = None;
            }
            // What is open may be older than the file, which another process may have written
            // since.
            match self.scan_against(full_check, |opening| opening.stored()) {
                Err(error) if is_unfinished(&error) => {}
                result => return result,
            }
        }
        Err(Error::KeepsChanging { path: self.path().to_owned() })
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

    /// Recovers from an error of the cache: reports it in [`Mailbox::notes`] and reads the mailbox
    /// anew. A damaged cache is discarded and made again as it was; the second time, or if the
    /// cache is sound but its store cannot be used now, the answers come from memory. Any other
    /// error is returned.
    ///
    /// The cache is checked block by block as it is read, so any answer may reveal damage. Rows are
    /// renumbered, and the caller must repeat its request from the beginning.
    ///
    /// # Errors
    /// `error` itself, if it is not the cache's, or if it concerns the library of the very store
    /// that [`OpenOptions::store`] names; else as [`Mailbox::open`].
    pub fn heal(&mut self, error: Error) -> Result<()> {
        use barid_cache::Error as Cache;
        if let Error::Superseded { .. } = error {
            return self.rescan(false);
        }
        let Error::Cache(cause @ (Cache::Damaged { .. } | Cache::Io { .. } | Cache::Store(_))) =
            error
        else {
            return Err(error);
        };
        if is_refused(&cause, &self.options) {
            return Err(Error::Cache(cause));
        }
        let mut damaged = (!self.healed).then(|| self.snapshot.clone());
        self.healed = true;
        self.scan_against(self.options.full_check, |opening| {
            opening.do_over(&mut damaged, &cause);
            Ok(None)
        })
    }

    pub(crate) fn scan_against(
        &mut self,
        full_check: bool,
        known: impl FnOnce(&mut Opening<'_>) -> Result<Option<Snapshot>>,
    ) -> Result<()> {
        let options = OpenOptions { full_check, ..self.options.clone() };
        let Self { format, vfs, identity, ledger, .. } = self;
        ledger.refresh()?;
        let place = self.place.clone();
        let mut opening = Opening::new(&**format, vfs, &options, identity, place, ledger);
        opening.keep_options_of(&self.snapshot);
        opening.in_a_change = self.is_provisional;
        let known = known(&mut opening)?;
        let (snapshot, state) = opening.scan(known)?;
        snapshot.release();
        let Opening { place, notes, messages_read, .. } = opening;
        self.cache = CacheStatus { state, messages_read };
        (self.snapshot, self.place, self.notes) = (snapshot, place, notes);
        self.keep_restart_points();
        self.show_pending()
    }

    /// Returns the counts and numbers of the mailbox; costs nothing.
    pub fn status(&self) -> Status {
        let meta = self.snapshot.meta();
        Status {
            format: self.format(),
            messages: self.snapshot.len(),
            recent: meta.recent,
            unseen: self.shown.unseen(meta.unseen),
            uidvalidity: meta.uidvalidity,
            uidnext: meta.uidnext,
            highestmodseq: meta.highest_modseq.max(self.ledger.highest_modseq()),
            size_bytes: meta.size_bytes,
            pending: self.pending.records().len() as u64,
            cache: self.cache,
        }
    }

    /// Returns `true` if the messages got other UIDs because the file with the UIDs was damaged,
    /// and nobody has acknowledged that: UIDs noted earlier mean other messages now.
    pub fn is_renumbered(&self) -> bool {
        self.ledger.notice().is_some_and(|notice| notice.renumbered)
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

    /// Returns the format.
    pub fn format(&self) -> Format {
        self.format.format()
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        self.format.path()
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

    /// Returns notes for the user about this opening.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Returns the row of a message; reads at most two blocks of the cache.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn row_of(&self, uid: Uid) -> Result<Option<u32>> {
        Ok(self.snapshot.row_of_uid(uid)?)
    }

    /// Returns the first row whose UID is not below `uid`; [`Mailbox::len`] if there is none.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn row_from(&self, uid: Uid) -> Result<u32> {
        Ok(self.snapshot.row_from_uid(uid)?)
    }

    /// Returns the UID of a row.
    ///
    /// # Errors
    /// A damaged cache, or a row that is not there.
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
}

fn is_unfinished(error: &Error) -> bool {
    use barid_formats::Error as Formats;
    matches!(error, Error::Mailbox(Formats::Unfinished { .. } | Formats::Unrecoverable { .. }))
}
