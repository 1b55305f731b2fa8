//! The steps of opening a mailbox before there is a snapshot; `mailbox.rs` describes the order.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use barid_cache::{CacheOptions, Opened, Snapshot};
use barid_formats::MailboxSpec;
use barid_mailbox::{DefectKind, EmptyKnown, Known, ScanContext, ScanReport, Stamp, Storage};
use barid_state::{Identity, Ledger, Pending};
use barid_vfs::{MemVfs, Timestamp, Vfs};

use crate::announcing::{Announced, Scanned};
use crate::damaged_state::note_missing;
use crate::error::{is_out_of_reach, is_refused, is_unavailable};
use crate::intake::Intake;
use crate::limits::OUTPACED_MAX;
use crate::options::in_words;
use crate::recovery::unfinished;
use crate::{CacheState, Error, LongOperation, Note, NoteKind, OpenOptions, Progress, Result};

/// Number of scans while the mailbox or the cache keeps changing.
const SCANS_MAX: u32 = 5;
/// Timeout of waiting for another process that assigns UIDs or a mod-sequence.
pub(crate) const LEDGER_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Location of the cache: a file and its file system.
#[derive(Clone, Debug)]
pub(crate) struct CachePlace {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) path: PathBuf,
    pub(crate) on_disk: bool,
}

impl CachePlace {
    pub(crate) fn of(vfs: &Arc<dyn Vfs>, options: &OpenOptions, identity: &Identity) -> Self {
        match &options.cache_dir {
            Some(dir) => Self {
                vfs: Arc::clone(vfs),
                path: dir.join(barid_cache::file_name(identity.id)),
                on_disk: true,
            },
            None => Self::in_memory(identity),
        }
    }

    pub(crate) fn in_memory(identity: &Identity) -> Self {
        let path = Path::new("/").join(barid_cache::file_name(identity.id));
        Self { vfs: Arc::new(MemVfs::new()), path, on_disk: false }
    }
}

/// Finds the storage and the identity of a mailbox.
pub(crate) fn storage_of(
    vfs: &Arc<dyn Vfs>,
    spec: &MailboxSpec,
    options: &OpenOptions,
) -> Result<(Arc<dyn Storage>, Identity)> {
    let storage = barid_formats::open_with(Arc::clone(vfs), spec, options.mbox_options())?;
    let identity = storage.identity(!options.read_only)?;
    Ok((Arc::from(storage), identity))
}

/// State of an opening before there is a snapshot.
pub(crate) struct Opening<'a> {
    pub(crate) format: &'a dyn Storage,
    vfs: &'a Arc<dyn Vfs>,
    pub(crate) options: &'a OpenOptions,
    pub(crate) identity: &'a Identity,
    pub(crate) place: CachePlace,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) pending: &'a mut Pending,
    pub(crate) notes: Vec<Note>,
    pub(crate) messages_read: u64,
    /// Options of a cache that is rebuilt: the requested ones, else those that it had.
    cache_options: CacheOptions,
    /// The stamp after a change of our own: a scan that finds this stamp has found no other change,
    /// and needs no further verification.
    pub(crate) own: Option<Stamp>,
    /// `true` if the mailbox is in the middle of a change; nothing that is found may be stored.
    pub(crate) in_a_change: bool,
    /// `true` if a mailbox of which nothing is known may be opened from the names of its messages.
    pub(crate) may_list: bool,
    /// `true` if it was.
    pub(crate) is_listed: bool,
    /// The names that were announced before, if nothing else is known.
    pub(crate) listed: Option<Snapshot>,
}

/// Returns `true` if a stamp proves that nothing changed (docs/protocol.md, "Open", step 3).
/// Messages that could not be read are tried again all the same, since no stamp shows whether they
/// can be read now.
pub(crate) fn is_current(
    format: &dyn Storage,
    snapshot: &Snapshot,
    stamp: &Stamp,
    full_check: bool,
) -> bool {
    let stored = &snapshot.meta().stamp;
    let is_settled = || format.stamp_rules().unsettled_nanos(stored) <= 0;
    let is_same = !full_check && stored.is_same(stamp) && is_settled();
    is_same && !format.has_unread(snapshot.state())
}

/// Returns `true` if the snapshot's file was replaced by another or removed.
pub(crate) fn is_superseded(snapshot: &Snapshot, place: &CachePlace, id: u128) -> bool {
    let generation = snapshot.meta().generation;
    let opened = Snapshot::open(Arc::clone(&place.vfs), &place.path, id);
    match opened {
        Ok(Opened::Fresh(now)) => now.meta().generation != generation,
        // Removed; the next process that finds no cache makes it anew.
        Ok(Opened::Absent) => true,
        _ => false,
    }
}

impl<'a> Opening<'a> {
    pub(crate) fn new(
        format: &'a dyn Storage,
        vfs: &'a Arc<dyn Vfs>,
        options: &'a OpenOptions,
        identity: &'a Identity,
        place: CachePlace,
        (ledger, pending): (&'a mut Ledger, &'a mut Pending),
    ) -> Self {
        let cache_options = options.cache_options(CacheOptions::default());
        Self {
            format,
            vfs,
            options,
            identity,
            place,
            ledger,
            pending,
            notes: Vec::new(),
            messages_read: 0,
            cache_options,
            own: None,
            in_a_change: false,
            may_list: false,
            is_listed: false,
            listed: None,
        }
    }

    /// Uses the options of this snapshot for a cache that is rebuilt, unless others were
    /// requested.
    pub(crate) fn keep_options_of(&mut self, snapshot: &Snapshot) {
        if self.place.on_disk {
            self.cache_options = self.options.cache_options(snapshot.options());
        }
    }

    pub(crate) fn bring_up_to_date(&mut self) -> Result<(Snapshot, CacheState)> {
        let known = match self.stored()? {
            Some(snapshot) => self.settled(snapshot)?,
            None => None,
        };
        let stamp = self.format.stamp()?;
        match known {
            Some(snapshot)
                if is_current(self.format, &snapshot, &stamp, self.options.full_check) =>
            {
                Ok((snapshot, CacheState::Fresh))
            }
            known => {
                // A mailbox that only grew is cheap to scan once more.
                let rules = self.format.stamp_rules();
                let grew = known.as_ref().is_some_and(|k| rules.has_grown(&k.meta().stamp, &stamp));
                if !grew {
                    self.settle(&stamp);
                }
                self.scan(known)
            }
        }
    }

    /// Waits until a change from now on cannot hide behind an equal stamp, if that takes only a few
    /// clock ticks: otherwise the next opening would have to read everything again. Setting the
    /// mailbox's attribute is such a change.
    fn settle(&self, stamp: &Stamp) {
        let nanos = self.format.stamp_rules().unsettled_nanos(stamp);
        if (1..=Stamp::WAIT_NANOS_MAX).contains(&nanos) {
            self.vfs.sleep(Duration::from_nanos(nanos.unsigned_abs()));
        }
    }

    /// Returns the cache on disk, if it is usable.
    pub(crate) fn stored(&mut self) -> Result<Option<Snapshot>> {
        let CachePlace { vfs, path, .. } = &self.place;
        match Snapshot::open(Arc::clone(vfs), path, self.identity.id) {
            Ok(Opened::Fresh(snapshot)) => {
                self.keep_options_of(&snapshot);
                note_missing(self.format, self.ledger, snapshot.meta().uidvalidity);
                if self.belongs(&snapshot) { self.converted(snapshot) } else { Ok(None) }
            }
            Ok(Opened::Absent) => Ok(None),
            Ok(Opened::Discarded { reason, options }) => {
                let path = path.display().to_string();
                self.cache_options = self.options.cache_options(options.unwrap_or_default());
                let anew = in_words(self.cache_options);
                self.note_cache(format!("{path}: {reason}; the cache is rebuilt in {anew}"));
                Ok(None)
            }
            Err(error) => {
                self.do_without(&error);
                Ok(None)
            }
        }
    }

    /// Returns the cache in the requested store; moves it there if it is in another.
    fn converted(&mut self, snapshot: Snapshot) -> Result<Option<Snapshot>> {
        let (now, wanted) = (snapshot.options(), self.cache_options);
        if !self.place.on_disk || now == wanted {
            return Ok(Some(snapshot));
        }
        let result = snapshot.convert(&wanted);
        let (now, wanted) = (in_words(now), in_words(wanted));
        let path = self.format.name().display();
        match result {
            Ok(Some(converted)) => {
                let text = format!("{path}: the cache was moved from {now} to {wanted}");
                self.notes.push(Note { kind: NoteKind::Converted, text });
                Ok(Some(converted))
            }
            Ok(None) => {
                let text = format!("{path}: the cache stays in {now}: another process writes it");
                self.notes.push(Note { kind: NoteKind::Converted, text });
                Ok(Some(snapshot))
            }
            Err(error) if is_refused(&error, self.options) => Err(error.into()),
            Err(error) if is_unavailable(&error).is_some() => {
                self.note_cache(format!("{path}: the cache is rebuilt in {wanted}: {error}"));
                Ok(None)
            }
            Err(error) if error.is_damage() => {
                if is_superseded(&snapshot, &self.place, self.identity.id) {
                    return Ok(Some(snapshot));
                }
                self.do_over(&mut Some(snapshot), &error);
                Ok(None)
            }
            Err(error) => {
                self.note_cache(format!("{path}: the cache stays in {now}: {error}"));
                Ok(Some(snapshot))
            }
        }
    }

    /// Returns `true` if the UIDs of a cache still are those of the mailbox. They are not if they
    /// came from a ledger that is lost or that another process began anew.
    fn belongs(&self, snapshot: &Snapshot) -> bool {
        let told = self.ledger.uidvalidity();
        let is_same = told.is_none_or(|told| told == snapshot.meta().uidvalidity);
        self.format.caps().uids || (!self.ledger.is_new() && is_same)
    }

    fn note_cache(&mut self, text: String) {
        self.notes.push(Note { kind: NoteKind::Cache, text });
    }

    /// Continues with a cache in memory.
    fn do_without(&mut self, error: &barid_cache::Error) {
        self.note_cache(format!("the cache cannot be used: {error}"));
        self.place = CachePlace::in_memory(self.identity);
    }

    /// Scans until the result is stored, on disk if possible.
    pub(crate) fn scan(&mut self, known: Option<Snapshot>) -> Result<(Snapshot, CacheState)> {
        let scanned = self.scan_until_steady(known);
        // An error may leave the ledger locked.
        self.ledger.unlock();
        scanned
    }

    fn scan_until_steady(&mut self, known: Option<Snapshot>) -> Result<(Snapshot, CacheState)> {
        let mut known = known;
        let (mut scans, mut outpaced) = (0, 0);
        while scans < SCANS_MAX {
            scans += 1;
            known = match known {
                Some(snapshot) => self.settled(snapshot)?,
                None => None,
            };
            let began = Some(self.ledger.highest_modseq()).filter(|_| outpaced < OUTPACED_MAX);
            let place = self.place.clone();
            let previous = known.as_ref();
            let options = if place.on_disk { self.cache_options } else { CacheOptions::default() };
            let names_place = self.may_list.then(|| CachePlace::in_memory(self.identity));
            let intake = Intake::new(&place, options, previous).with_names_in(names_place);
            let full_check = self.options.full_check || self.is_outdated(previous);
            let mut report = match self.scan_into(&intake, previous, full_check) {
                Ok(report) => self.checked(report, previous)?,
                Err(Error::Mailbox(barid_mailbox::Error::Changed { .. })) => {
                    // A process that holds the lock of the mailbox may wait for this lock.
                    self.ledger.unlock();
                    continue;
                }
                Err(error) => {
                    self.ledger.unlock();
                    // An error of the cache is not a reason to fail: start from nothing, or without
                    // the cache.
                    let cause = cache_error(error, intake)?;
                    self.do_over_unless_refused(&mut known, cause)?;
                    continue;
                }
            };
            self.messages_read += report.stats.messages_read;
            let defects = std::mem::take(&mut report.defects);
            let names_place = intake.place_of_names().cloned();
            let scanned = Scanned { report: &report, known: previous, full_check, began };
            match self.announce(intake, &scanned)? {
                Announced::Stored(snapshot, state) => {
                    if let Some(error) = snapshot.store_error() {
                        self.note_cache(format!("the cache cannot be written: {error}"));
                    }
                    self.note_defects(&defects);
                    if let Some(place) = names_place {
                        self.place = place;
                        self.is_listed = true;
                        return Ok((snapshot, CacheState::None));
                    }
                    return Ok((snapshot, state));
                }
                Announced::Outdated => {}
                Announced::Outpaced => {
                    // Each time another process made progress.
                    (outpaced, scans) = (outpaced + 1, scans - 1);
                    known = self.stored()?.filter(|_| outpaced < OUTPACED_MAX);
                }
                Announced::Invalid => known = None,
                Announced::Failed(error) => self.do_over_unless_refused(&mut known, error)?,
            }
        }
        Err(Error::KeepsChanging { path: self.format.name().to_owned() })
    }

    /// Returns the report of a scan, unless the mailbox was in the middle of a change: what is
    /// there then is not a message, and gets no UID.
    fn checked(&self, mut report: ScanReport, known: Option<&Snapshot>) -> Result<ScanReport> {
        if !self.in_a_change
            && let Some(found) = self.format.unfinished(Some(&self.options.state_dir))?
        {
            return Err(unfinished(self.format, found).into());
        }
        let unseen = || known.and_then(|known| self.format.left_unseen(&known.meta().stamp));
        if let Some(own) = self.own.or_else(unseen).filter(|own| own.is_same(&report.stamp)) {
            report.tail_verified = false;
            // The format knows that no later change leaves its own stamps equal.
            report.stamp = report.stamp.taken_with(&own);
        }
        Ok(report)
    }

    /// Prepares a new attempt as [`Opening::do_over`] does, but returns the error if it concerns
    /// the library of the requested store: a user who names a store must learn that it is not
    /// available.
    pub(crate) fn do_over_unless_refused(
        &mut self,
        known: &mut Option<Snapshot>,
        error: barid_cache::Error,
    ) -> Result<()> {
        if is_refused(&error, self.options) {
            return Err(error.into());
        }
        self.do_over(known, &error);
        Ok(())
    }

    /// Prepares a new attempt after an error of the cache: first without the known snapshot, then
    /// without the file. A cache that is sound but cannot be used now stays for others.
    pub(crate) fn do_over(&mut self, known: &mut Option<Snapshot>, error: &barid_cache::Error) {
        match known.take() {
            Some(snapshot) if !is_out_of_reach(error) => {
                let anew = in_words(self.cache_options);
                self.note_cache(format!("{error}; the cache is rebuilt in {anew}"));
                let _ = snapshot.discard();
            }
            _ => self.do_without(error),
        }
    }

    /// Returns `true` if another barid has changed messages since, by the ledger: then scanning
    /// only what the file has grown by is not enough.
    pub(crate) fn is_outdated(&self, known: Option<&Snapshot>) -> bool {
        let rules = self.format.stamp_rules();
        let changed = |known: &Snapshot| rules.change_number(&known.meta().stamp);
        !self.format.format().has_message_files()
            && known.is_some_and(|known| changed(known) < self.ledger.fingerprint())
    }

    fn scan_into(
        &mut self,
        intake: &Intake<'_>,
        known: Option<&Snapshot>,
        full_check: bool,
    ) -> Result<ScanReport> {
        let progress = self.options.progress.as_ref();
        let progress = progress
            .map(|tell| Progress::callback(tell, LongOperation::Scan, self.format.format()));
        let mut context = ScanContext {
            ledger: self.ledger,
            read_only: self.options.read_only || self.in_a_change,
            full_check,
            will_rescan: self.options.is_kept_open,
            threads: self.options.thread_count(),
            progress: progress.as_ref().map(|progress| progress as &(dyn Fn(u64, u64) + Sync)),
        };
        let meta = self.listed.as_ref().map(Snapshot::meta);
        let nothing = EmptyKnown::announced(meta.map(|meta| (meta.uidvalidity, meta.uidnext)));
        let known: &dyn Known = match known {
            Some(snapshot) => snapshot,
            None => &nothing,
        };
        Ok(self.format.scan(known, intake, &mut context)?)
    }

    fn note_defects(&mut self, defects: &[barid_mailbox::MailboxDefect]) {
        let is_one_file = !self.format.format().has_message_files();
        let note = |defect: &barid_mailbox::MailboxDefect| {
            let place = match defect.uid {
                Some(uid) => format!("UID {uid}: "),
                None if is_one_file => format!("at offset {}: ", defect.offset),
                None => String::new(),
            };
            let text = format!("{}: {place}{}", self.format.name().display(), defect.what);
            let kind = match defect.kind {
                DefectKind::Structure => NoteKind::Mailbox,
                DefectKind::Arriving => NoteKind::Arriving,
                DefectKind::Unreadable => NoteKind::Unreadable,
            };
            Note { kind, text }
        };
        let notes: Vec<Note> = defects.iter().map(note).collect();
        self.notes.extend(notes);
    }
}

/// Announces to all processes that messages will be changed from now on, whatever the result: what
/// was seen before is outdated. For formats whose file may also grow before the time of writing can
/// show that.
pub(crate) fn expect_writing(
    format: &dyn Storage,
    now: Timestamp,
    ledger: &mut Ledger,
) -> Result<()> {
    if !format.format().has_message_files() {
        ledger.set_fingerprint(u64::try_from(now.unix_nanos).unwrap_or(0));
        ledger.commit()?;
    }
    Ok(())
}

/// Returns the cache's error that caused the error of a scan, or else the error of the scan.
fn cache_error(error: Error, intake: Intake<'_>) -> Result<barid_cache::Error> {
    match error {
        Error::Mailbox(barid_mailbox::Error::Sink(cause)) => match cause.downcast() {
            Ok(cause) => Ok(*cause),
            Err(cause) => match intake.taken() {
                Err(error) => Ok(error),
                Ok(_) => Err(barid_mailbox::Error::Sink(cause).into()),
            },
        },
        error => Err(error),
    }
}
