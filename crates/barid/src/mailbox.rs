//! Opening and refreshing a mailbox: the stamp, the scan, the cache (docs/protocol.md, "Open").
//!
//! 0. Complete a change that another process left unfinished; read the pending changes.
//! 1. Take the stamp. If it equals the cache's and is not racy, the cache is up to date.
//! 2. Otherwise scan against what is known. New messages go to the cache's sinks: to a new cache if
//!    there is none, else into a log record of the one there is.
//! 3. Assign the mod-sequence, and make it and the vanished UIDs durable in the ledger before
//!    anyone sees the number.
//! 4. Write the cache. It is never fsynced; if it cannot be written, the work continues in memory.
//! 5. Overlay the pending changes.

use std::ops::Deref;
use std::sync::Arc;

use barid_cache::Snapshot;
use barid_formats::MailboxSpec;
use barid_mailbox::{Stamp, Storage, Unfinished};
use barid_state::{Access, Identity, Ledger, Pending};
use barid_types::ModSeq;
use barid_vfs::{OsVfs, Vfs};

use crate::announcing::covered;
use crate::damaged_state::{ACKNOWLEDGE, note_missing, state_news};
use crate::error::is_refused;
use crate::limits::{
    ARRIVAL_PAUSE, ARRIVAL_PAUSES_MAX, PENDING_LOCK_TIMEOUT, RECOVERIES_MAX, VERIFY_FACTOR,
    VERIFY_NANOS_MAX,
};
use crate::opening::{CachePlace, Opening, is_current, storage_of};
use crate::recovery::{ChangeRecovery, unfinished};
use crate::shown::Shown;
use crate::view::Newest;
use crate::{CacheStatus, Error, Note, NoteKind, OpenOptions, Result, Status, View, ViewStatus};

/// An open mailbox: its newest [`View`], and the state needed to update the view and to change the
/// mailbox. It dereferences to the view. Rows from an earlier call are invalid after any method
/// that takes `&mut self`; a copy of the view ([`Mailbox::view`]) keeps them valid.
#[derive(Debug)]
pub struct Mailbox {
    pub(crate) view: View,
    pub(crate) ledger: Ledger,
    cache: CacheStatus,
    pub(crate) notes: Vec<Note>,
    /// `true` once the cache was found damaged.
    healed: bool,
    /// Changes that were accepted and are not written yet.
    pub(crate) pending: Pending,
    /// A change that was begun and not finished.
    pub(crate) unfinished: Option<Unfinished>,
    /// `true` if it was opened in the middle of a change: nothing known of it may be stored.
    is_provisional: bool,
    /// State of the journal of pending changes that the view shows.
    shown_journal: Option<(u64, u64)>,
    /// `true` if messages were appended to a file that nobody has looked at since.
    pub(crate) has_unseen: bool,
    /// Duration of the last scan since the mailbox was opened, in nanoseconds.
    scan_nanos: i64,
}

impl Deref for Mailbox {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
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
        Self::open_as(vfs, spec, options, false)
    }

    /// Opens a mailbox as [`Mailbox::open_in`] does. If it has no cache, its view may be only
    /// listed ([`View::is_listed`]); until [`Mailbox::read_listed`] nothing else may use it.
    ///
    /// # Errors
    /// As [`Mailbox::open`].
    pub(crate) fn open_listed(
        vfs: Arc<dyn Vfs>,
        spec: &MailboxSpec,
        options: &OpenOptions,
    ) -> Result<Self> {
        Self::open_as(vfs, spec, options, !options.full_check)
    }

    fn open_as(
        vfs: Arc<dyn Vfs>,
        spec: &MailboxSpec,
        options: &OpenOptions,
        may_list: bool,
    ) -> Result<Self> {
        let (storage, identity) = storage_of(&vfs, spec, options)?;
        let (mut ledger, mut pending) = open_state(&vfs, &*storage, &identity, options)?;
        let mut notes = Vec::new();
        for _ in 0..RECOVERIES_MAX {
            let unfinished = ChangeRecovery {
                storage: &*storage,
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
                let dir = &options.state_dir;
                ledger = Ledger::open(Arc::clone(&vfs), dir, &identity, Access::ReadOnly)?;
            }
            let state = (&mut ledger, &mut pending);
            let mut opening = Opening::new(&*storage, &vfs, options, &identity, place, state);
            opening.in_a_change = is_provisional;
            opening.may_list = may_list && !is_provisional && opening.pending.records().is_empty();
            let (snapshot, state) = match opening.bring_up_to_date() {
                // Another process began a change just now, and did not end it.
                Err(error) if is_unfinished(&error) => continue,
                result => result?,
            };
            let Opening { place, notes: more, messages_read, is_listed, .. } = opening;
            notes.extend(more);
            snapshot.release();
            let view = View {
                storage,
                snapshot: Arc::new(snapshot),
                shown: Arc::default(),
                place,
                options: Arc::new(options.clone()),
                vfs,
                identity: Arc::new(identity),
                has_restart_points: Arc::default(),
                email_ids_in_memory: Arc::default(),
                spec: Arc::new(spec.clone()),
                newest: Newest::default(),
                is_listed,
            };
            let mut mailbox = Self {
                view,
                ledger,
                cache: CacheStatus { state, messages_read },
                notes,
                healed: false,
                pending,
                unfinished,
                is_provisional,
                shown_journal: None,
                has_unseen: false,
                scan_nanos: 0,
            };
            mailbox.complete_opening()?;
            return Ok(mailbox);
        }
        Err(Error::KeepsChanging { path: storage.name().to_owned() })
    }

    /// Keeps what the scan has learned, reports news of the state, and shows pending changes.
    fn complete_opening(&mut self) -> Result<()> {
        self.keep_restart_points();
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

    /// Returns the highest mod-sequence up to which the view contains everything that was
    /// announced.
    pub(crate) fn covered(&self) -> ModSeq {
        covered(&self.snapshot, self.pending.records())
    }

    /// Returns `true` if the view contains everything that was announced when the ledger was last
    /// read, or nothing that is announced is durable.
    pub(crate) fn covers_ledger(&self) -> bool {
        !self.ledger.is_persistent() || self.covered() >= self.ledger.highest_modseq()
    }

    /// Overlays the pending changes on the snapshot.
    pub(crate) fn show_pending(&mut self) -> Result<()> {
        self.view.shown = Arc::new(Shown::of(&self.snapshot, &self.pending)?);
        self.shown_journal = self.pending.read_state();
        Ok(())
    }

    /// Opens the state files anew after a failed write: only reading again shows what is on the
    /// disk.
    pub(crate) fn open_poisoned_again(&mut self) -> Result<()> {
        let View { vfs, options, identity, .. } = &self.view;
        let dir = &options.state_dir;
        if self.pending.is_poisoned() {
            self.pending = Pending::open(Arc::clone(vfs), dir, identity)?;
            self.pending.set_stop(options.stop.clone());
        }
        if self.ledger.is_poisoned() {
            let access = Access::ReadWrite;
            self.ledger = Ledger::open(Arc::clone(vfs), dir, identity, access)?;
            self.ledger.set_stop(options.stop.clone());
        }
        Ok(())
    }

    /// Completes an unfinished change, before another change; the error gives the reason if that
    /// fails.
    pub(crate) fn finish_unfinished(&mut self) -> Result<()> {
        if self.storage.unfinished(Some(&self.options.state_dir))?.is_some() {
            self.complete()?;
            self.unfinished = None;
            if !self.is_provisional {
                self.rescan(false)?;
            }
        }
        if self.is_provisional { self.open_again() } else { Ok(()) }
    }

    fn complete(&mut self) -> Result<()> {
        let Self { view: View { storage, options, vfs, .. }, pending, ledger, notes, .. } = self;
        if options.read_only {
            let found = storage.abandoned(Some(&options.state_dir))?;
            return found.map_or(Ok(()), |found| Err(unfinished(&**storage, found).into()));
        }
        let now = vfs.now();
        ChangeRecovery { storage: &**storage, pending, ledger, options, notes, now }.complete()
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
            Some(found) => Err(unfinished(&*self.storage, found).into()),
            None => Ok(()),
        }
    }

    /// Detects what others changed meanwhile. Rows are renumbered.
    ///
    /// # Errors
    /// As [`Mailbox::open`].
    pub fn refresh(&mut self) -> Result<()> {
        if self.is_provisional && self.storage.unfinished(Some(&self.options.state_dir))?.is_none()
        {
            return self.open_again();
        }
        self.pending.refresh()?;
        let is_pending_new = self.pending.read_state() != self.shown_journal;
        let stamp = self.storage.stamp()?;
        if !is_current(&*self.storage, &self.snapshot, &stamp, self.options.full_check)
            && !self.was_just_read(&stamp)
        {
            return self.rescan(self.options.full_check);
        }
        if !is_pending_new {
            return Ok(());
        }
        // Changes that are not pending any more may be in the cache.
        self.ledger.refresh()?;
        if self.covers_ledger() { self.show_pending() } else { self.rescan(false) }
    }

    /// Looks at messages that were appended unseen, before the mailbox is closed: their UIDs were
    /// told, and only the file has them, which other programs write anew.
    pub(crate) fn look_at_unseen(&mut self) {
        if self.has_unseen {
            // The next opening looks, too.
            let _ = self.refresh();
        }
    }

    /// Returns `true` if a mailbox that is kept open has the stamp with which it was read, but so
    /// recently that an equal stamp proves nothing yet. A later refresh reads it again: a scan that
    /// takes long is repeated after a multiple of its duration, so that it costs a small part of
    /// the time however many changes there are.
    fn was_just_read(&self, stamp: &Stamp) -> bool {
        let stored = &self.snapshot.meta().stamp;
        let unsettled = self.storage.stamp_rules().unsettled_nanos(stored);
        let age = stamp.taken_nanos().saturating_sub(stored.taken_nanos());
        let pause = self.scan_nanos.saturating_mul(VERIFY_FACTOR);
        let pause = pause.clamp(Stamp::WAIT_NANOS_MAX, VERIFY_NANOS_MAX);
        self.options.is_kept_open
            && !self.options.full_check
            && stored.is_same(stamp)
            && (1..=Stamp::SETTLE_NANOS_MAX).contains(&unsettled)
            && (0..pause).contains(&age)
    }

    /// Detects what others changed meanwhile, as [`Mailbox::refresh`] does. If something else has
    /// taken the place of the mailbox, which may be another mailbox, it is opened anew; a damaged
    /// cache is rebuilt.
    pub(crate) fn refresh_path(&mut self) -> Result<()> {
        if self.storage.is_replaced(&self.identity)? {
            *self = Self::open_in(Arc::clone(&self.vfs), &self.spec, &self.options)?;
            return Ok(());
        }
        match self.refresh() {
            Err(error) => self.heal(error),
            Ok(()) => Ok(()),
        }
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

    /// Reads the headers of a mailbox that was only listed, and stores them in the cache. Messages
    /// that are unchanged keep their UIDs and mod-sequences. Costs nothing for other mailboxes.
    ///
    /// # Errors
    /// As [`Mailbox::open`]; the mailbox is then listed as before.
    pub(crate) fn read_listed(&mut self) -> Result<()> {
        if !self.view.is_listed {
            return Ok(());
        }
        if let Err(error) = self.rescan(self.options.full_check) {
            self.heal(error)?;
        }
        // A message whose name was announced should not be missing only for a while.
        self.wait_for_arrivals()?;
        Ok(())
    }

    /// Scans regardless of the stamp; with `full_check` nothing known so far is trusted.
    pub(crate) fn rescan(&mut self, full_check: bool) -> Result<()> {
        for _ in 0..RECOVERIES_MAX {
            if !self.is_provisional
                && self.storage.unfinished(Some(&self.options.state_dir))?.is_some()
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
        let mut damaged = (!self.healed).then(|| Snapshot::clone(&self.snapshot));
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
        let options = OpenOptions { full_check, ..(*self.options).clone() };
        let Self { view: View { storage, vfs, identity, .. }, ledger, pending, .. } = self;
        ledger.refresh()?;
        let (mut place, mut listed) = (self.view.place.clone(), None);
        if self.view.is_listed {
            place = CachePlace::of(vfs, &options, identity);
            listed = Some(Snapshot::clone(&self.view.snapshot));
        }
        let state = (ledger, pending);
        let mut opening = Opening::new(&**storage, vfs, &options, identity, place, state);
        if listed.is_none() {
            opening.keep_options_of(&self.view.snapshot);
        }
        opening.listed = listed;
        opening.in_a_change = self.is_provisional;
        let known = known(&mut opening)?;
        let began = vfs.now();
        let (snapshot, state) = opening.scan(known)?;
        self.scan_nanos = vfs.now().unix_nanos - began.unix_nanos;
        self.has_unseen = false;
        snapshot.release();
        let Opening { place, notes, messages_read, .. } = opening;
        self.cache = CacheStatus { state, messages_read };
        (self.view.snapshot, self.view.place) = (Arc::new(snapshot), place);
        self.view.is_listed = false;
        self.view.newest = Newest::default();
        self.notes = notes;
        self.keep_restart_points();
        self.show_pending()
    }

    /// Returns the counts and numbers of the mailbox; costs nothing.
    pub fn status(&self) -> Status {
        let ViewStatus { messages, recent, unseen, uidvalidity, uidnext, highest_modseq } =
            self.view_status();
        Status {
            format: self.format(),
            messages,
            recent,
            unseen,
            uidvalidity,
            uidnext,
            highest_modseq,
            size_bytes: self.snapshot.meta().size_bytes,
            pending: self.pending.records().len() as u64,
            cache: self.cache,
        }
    }

    /// Returns `true` if the messages got other UIDs because the file with the UIDs was damaged,
    /// and nobody has acknowledged that: UIDs noted earlier mean other messages now.
    pub fn is_renumbered(&self) -> bool {
        self.ledger.notice().is_some_and(|notice| notice.renumbered)
    }

    /// Returns notes for the user about this opening.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Returns a copy of the newest view.
    pub fn view(&self) -> View {
        self.view.clone()
    }
}

/// Opens the state files of a mailbox.
fn open_state(
    vfs: &Arc<dyn Vfs>,
    storage: &dyn Storage,
    identity: &Identity,
    options: &OpenOptions,
) -> Result<(Ledger, Pending)> {
    let dir = &options.state_dir;
    let mut pending = Pending::open(Arc::clone(vfs), dir, identity)?;
    let mut ledger = Ledger::open(Arc::clone(vfs), dir, identity, Access::ReadWrite)?;
    pending.set_stop(options.stop.clone());
    ledger.set_stop(options.stop.clone());
    if let Some(record) = pending.records().last() {
        note_missing(storage, &mut ledger, record.change.uidvalidity);
    }
    Ok((ledger, pending))
}

fn is_unfinished(error: &Error) -> bool {
    use barid_mailbox::Error as Formats;
    matches!(error, Error::Mailbox(Formats::Unfinished { .. } | Formats::Unrecoverable { .. }))
}
