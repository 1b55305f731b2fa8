//! The steps of opening a mailbox, told in `mailbox.rs`, before there is a snapshot.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use barid_cache::{CacheOptions, Finish, Opened, Snapshot};
use barid_formats::{DefectKind, EmptyKnown, Known, Racy, ScanContext, ScanReport, Stamp};
use barid_state::{Identity, Ledger};
use barid_types::ModSeq;
use barid_vfs::{MemVfs, Timestamp, Vfs};

use crate::damaged_state::note_missing;
use crate::error::{is_out_of_reach, is_refused, is_unavailable};
use crate::intake::{Intake, Taken};
use crate::options::in_words;
use crate::recovery::unfinished;
use crate::{CacheState, Error, Note, NoteKind, OpenOptions, Progress, Result, Work};

/// How often a scan is begun anew when the mailbox or the cache changes under it.
const SCANS_MAX: u32 = 5;
/// How long to wait for another process that hands out UIDs or a mod-sequence.
pub(crate) const LEDGER_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Where the cache is: a file, and the file system that it is on.
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

/// What an opening has found before there is a snapshot.
pub(crate) struct Opening<'a> {
    format: &'a dyn barid_formats::Mailbox,
    vfs: &'a Arc<dyn Vfs>,
    options: &'a OpenOptions,
    identity: &'a Identity,
    pub(crate) place: CachePlace,
    ledger: &'a mut Ledger,
    pub(crate) notes: Vec<Note>,
    pub(crate) messages_read: u64,
    /// What the cache is made in if it is made anew: what was asked for, else what it was in.
    cache_options: CacheOptions,
    /// The stamp after a change of our own: a scan that finds it has found nothing else, and no
    /// more need be verified.
    pub(crate) own: Option<Stamp>,
    /// The mailbox is known to be in the middle of a change; nothing of what is found may last.
    pub(crate) in_a_change: bool,
}

/// Returns `true` if a stamp proves that nothing changed (docs/protocol.md, "Open", step 3). What
/// could not be read is tried again all the same, since no stamp tells whether it can be read now.
pub(crate) fn is_current(
    format: &dyn barid_formats::Mailbox,
    snapshot: &Snapshot,
    stamp: &Stamp,
    full_check: bool,
) -> bool {
    let stored = &snapshot.meta().stamp;
    let is_same = !full_check && stored.same_files(stamp) && stored.racy() == Racy::No;
    is_same && !format.has_unread(snapshot.state())
}

/// Whether another file than that of the snapshot is in its place, or none.
pub(crate) fn is_superseded(snapshot: &Snapshot, place: &CachePlace, id: u128) -> bool {
    let generation = snapshot.meta().generation;
    let opened = Snapshot::open(Arc::clone(&place.vfs), &place.path, id);
    match opened {
        Ok(Opened::Fresh(now)) => now.meta().generation != generation,
        // Removed; whoever finds none makes it anew.
        Ok(Opened::Absent) => true,
        _ => false,
    }
}

impl<'a> Opening<'a> {
    pub(crate) fn new(
        format: &'a dyn barid_formats::Mailbox,
        vfs: &'a Arc<dyn Vfs>,
        options: &'a OpenOptions,
        identity: &'a Identity,
        place: CachePlace,
        ledger: &'a mut Ledger,
    ) -> Self {
        let cache_options = options.cache_options(CacheOptions::default());
        Self {
            format,
            vfs,
            options,
            identity,
            place,
            ledger,
            notes: Vec::new(),
            messages_read: 0,
            cache_options,
            own: None,
            in_a_change: false,
        }
    }

    /// A cache that is made anew is to be as this one, as far as nothing else was asked for.
    pub(crate) fn keep_options_of(&mut self, snapshot: &Snapshot) {
        if self.place.on_disk {
            self.cache_options = self.options.cache_options(snapshot.options());
        }
    }

    pub(crate) fn bring_up_to_date(&mut self) -> Result<(Snapshot, CacheState)> {
        let known = self.stored()?;
        let stamp = self.format.stamp()?;
        match known {
            Some(snapshot)
                if is_current(self.format, &snapshot, &stamp, self.options.full_check) =>
            {
                Ok((snapshot, CacheState::Fresh))
            }
            known => {
                // What only grew is cheap to look at once more.
                let grew = known.as_ref().is_some_and(|k| stamp.is_growth_of(&k.meta().stamp));
                if !grew {
                    self.settle(&stamp);
                }
                self.scan(known)
            }
        }
    }

    /// Waits until a change from now on cannot hide behind an equal stamp, if that takes only a few
    /// clock ticks: otherwise the next opening would have to look at everything again. Setting the
    /// mailbox's attribute is such a change.
    fn settle(&self, stamp: &Stamp) {
        if let Some(wait) = stamp.wait().filter(|wait| !wait.is_zero()) {
            self.vfs.sleep(wait);
        }
    }

    /// The cache as it is on disk, if it is of use.
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
                self.note_cache(format!("{path}: {reason}; the cache is made anew in {anew}"));
                Ok(None)
            }
            Err(error) => {
                self.do_without(&error);
                Ok(None)
            }
        }
    }

    /// The cache in the store that was asked for; it is moved there if it is in another.
    fn converted(&mut self, snapshot: Snapshot) -> Result<Option<Snapshot>> {
        let (now, wanted) = (snapshot.options(), self.cache_options);
        if !self.place.on_disk || now == wanted {
            return Ok(Some(snapshot));
        }
        let result = snapshot.convert(&wanted);
        let (now, wanted) = (in_words(now), in_words(wanted));
        let path = self.format.path().display();
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
                self.note_cache(format!("{path}: the cache is made anew in {wanted}: {error}"));
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

    /// Whether the UIDs of a cache still are those of the mailbox: not if they came from a ledger
    /// that is lost or that another process began anew.
    fn belongs(&self, snapshot: &Snapshot) -> bool {
        let told = self.ledger.uidvalidity();
        let is_same = told.is_none_or(|told| told == snapshot.meta().uidvalidity);
        self.format.caps().uids || (!self.ledger.is_new() && is_same)
    }

    fn note_cache(&mut self, text: String) {
        self.notes.push(Note { kind: NoteKind::Cache, text });
    }

    /// Goes on with a cache in memory.
    fn do_without(&mut self, error: &barid_cache::Error) {
        self.note_cache(format!("the cache cannot be used: {error}"));
        self.place = CachePlace::in_memory(self.identity);
    }

    /// Scans until what was found is stored, on disk if possible.
    pub(crate) fn scan(&mut self, known: Option<Snapshot>) -> Result<(Snapshot, CacheState)> {
        let scanned = self.scan_until_steady(known);
        // An error may leave it locked.
        self.ledger.unlock();
        scanned
    }

    fn scan_until_steady(&mut self, known: Option<Snapshot>) -> Result<(Snapshot, CacheState)> {
        let mut known = known;
        for _ in 0..SCANS_MAX {
            let place = self.place.clone();
            let previous = known.as_ref();
            let options = if place.on_disk { self.cache_options } else { CacheOptions::default() };
            let intake = Intake::new(&place, options, previous);
            let full_check = self.options.full_check || self.is_outdated(previous);
            let mut report = match self.scan_into(&intake, previous, full_check) {
                Ok(report) => self.checked(report)?,
                Err(Error::Mailbox(barid_formats::Error::Changed { .. })) => {
                    // Who holds the lock of the mailbox may wait for this one.
                    self.ledger.unlock();
                    continue;
                }
                Err(error) => {
                    self.ledger.unlock();
                    // The cache is no reason to fail: start from nothing, or without it.
                    let cause = cache_error(error, intake)?;
                    self.do_over_unless_refused(&mut known, cause)?;
                    continue;
                }
            };
            self.messages_read += report.stats.messages_read;
            let modseq = self.announce(&report, previous)?;
            if !full_check && self.is_outdated(previous) {
                continue;
            }
            let defects = std::mem::take(&mut report.defects);
            match self.store(intake, report, previous, modseq) {
                Ok(Some((snapshot, state))) => {
                    if let Some(error) = snapshot.store_error() {
                        self.note_cache(format!("the cache cannot be written: {error}"));
                    }
                    self.note_defects(&defects);
                    return Ok((snapshot, state));
                }
                // Nothing known holds, which the format found out too late for a new file.
                Ok(None) => known = None,
                Err(error) => self.do_over_unless_refused(&mut known, error)?,
            }
        }
        Err(Error::KeepsChanging { path: self.format.path().to_owned() })
    }

    /// What a scan found, unless the mailbox was in the middle of a change: what is there then is
    /// no message, and gets no UID.
    fn checked(&self, mut report: ScanReport) -> Result<ScanReport> {
        if !self.in_a_change
            && let Some(found) = self.format.unfinished(Some(&self.options.state_dir))?
        {
            return Err(unfinished(self.format, found).into());
        }
        if let Some(own) = self.own.filter(|own| own.same_files(&report.stamp)) {
            report.tail_verified = false;
            // Of its own stamps the format knows that no later change leaves them equal.
            report.stamp.taken = own.taken;
        }
        Ok(report)
    }

    /// As [`Opening::do_over`]; the error itself is given back if it is about the library of the
    /// store that was asked for: who names a store is to know that it cannot be had.
    fn do_over_unless_refused(
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

    /// After an error of the cache: first without what it knew, then without the file. What is
    /// sound, though it cannot be used now, stays for others.
    pub(crate) fn do_over(&mut self, known: &mut Option<Snapshot>, error: &barid_cache::Error) {
        match known.take() {
            Some(snapshot) if !is_out_of_reach(error) => {
                let anew = in_words(self.cache_options);
                self.note_cache(format!("{error}; the cache is made anew in {anew}"));
                let _ = snapshot.discard();
            }
            _ => self.do_without(error),
        }
    }

    /// Whether one of us has changed messages since, as the ledger tells: then it is not enough to
    /// look at what a file has grown by.
    fn is_outdated(&self, known: Option<&Snapshot>) -> bool {
        let changed = |known: &Snapshot| written_at(&known.meta().stamp);
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
        let progress =
            progress.map(|tell| Progress::teller(tell, Work::Scan, self.format.format()));
        let mut context = ScanContext {
            ledger: self.ledger,
            read_only: self.options.read_only || self.in_a_change,
            full_check,
            threads: self.options.threads,
            progress: progress.as_ref().map(|progress| progress as &(dyn Fn(u64, u64) + Sync)),
        };
        let nothing = EmptyKnown::default();
        let known: &dyn Known = match known {
            Some(snapshot) => snapshot,
            None => &nothing,
        };
        Ok(self.format.scan(known, intake, &mut context)?)
    }

    /// Makes UIDs and mod-sequence durable; what changed gets the mod-sequence returned.
    fn announce(&mut self, report: &ScanReport, known: Option<&Snapshot>) -> Result<ModSeq> {
        let highest = known.map_or(ModSeq::default(), |known| known.meta().highest_modseq);
        if known.is_some() && !changed_anything(report) {
            // UIDs may have moved from the ledger to the mailbox, and the scan left that to us.
            let committed = self.ledger.commit();
            self.ledger.unlock();
            committed?;
            return Ok(highest.max(self.ledger.highest_modseq()));
        }
        // Others hand out mod-sequences, too: what they gave is read again under the lock.
        self.ledger.lock(LEDGER_LOCK_TIMEOUT)?;
        let modseq = highest.max(self.ledger.highest_modseq()).next();
        self.ledger.raise_modseq(modseq);
        let committed = self.ledger.commit();
        self.ledger.unlock();
        committed?;
        // In the middle of a change nothing is written, whatever could be.
        if !self.ledger.is_persistent() && known.is_none() && !self.in_a_change {
            let dir = self.options.state_dir.display();
            let text = format!("{dir}: cannot be written: UIDs may change");
            self.notes.push(Note { kind: NoteKind::State, text });
        }
        Ok(modseq)
    }

    /// Writes what was found; `None` if it must be scanned again as a whole.
    fn store(
        &self,
        intake: Intake<'_>,
        report: ScanReport,
        known: Option<&Snapshot>,
        modseq: ModSeq,
    ) -> barid_cache::Result<Option<(Snapshot, CacheState)>> {
        let before = known.filter(|known| report.reset && same_terms(known, &report));
        let keep = before.map(Snapshot::modseq_keeper);
        let keep = keep.as_ref().map(|keep| keep as barid_cache::KeepModSeq<'_>);
        let format = self.format.format().name();
        let finish = Finish { identity: self.identity, format, modseq, keep };
        let state = |state| if self.place.on_disk { state } else { CacheState::None };
        match intake.taken()? {
            Taken::Whole(builder) => {
                let how = if known.is_some() { CacheState::Updated } else { CacheState::Populated };
                Ok(Some((builder.finish(&report, &finish)?, state(how))))
            }
            Taken::New(_) if report.reset => Ok(None),
            Taken::New(delta) => {
                let snapshot = delta.apply(&report, &finish)?;
                Ok(Some((snapshot, state(CacheState::Updated))))
            }
        }
    }

    fn note_defects(&mut self, defects: &[barid_formats::MailboxDefect]) {
        let is_one_file = !self.format.format().has_message_files();
        let note = |defect: &barid_formats::MailboxDefect| {
            let place = match defect.uid {
                Some(uid) => format!("UID {uid}: "),
                None if is_one_file => format!("at offset {}: ", defect.offset),
                None => String::new(),
            };
            let text = format!("{}: {place}{}", self.format.path().display(), defect.what);
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

/// What the ledger keeps of a change of ours: when the file was changed last, as its stamp tells.
pub(crate) fn written_at(stamp: &Stamp) -> u64 {
    u64::try_from(stamp.files[0].changed.unix_nanos).unwrap_or(0)
}

/// Lets everybody know that messages will be changed from now on, whatever comes of it: what was
/// seen before is outdated. For where the file may grow as well before that can be told by when it
/// was written.
pub(crate) fn expect_writing(
    format: &dyn barid_formats::Mailbox,
    now: Timestamp,
    ledger: &mut Ledger,
) -> Result<()> {
    if !format.format().has_message_files() {
        ledger.set_fingerprint(u64::try_from(now.unix_nanos).unwrap_or(0));
        ledger.commit()?;
    }
    Ok(())
}

fn changed_anything(report: &ScanReport) -> bool {
    report.reset
        || report.stats.messages_read > 0
        || !report.expunged.is_empty()
        || !report.changed.is_empty()
}

/// Whether UIDs and slots of keywords mean what they meant.
fn same_terms(known: &Snapshot, report: &ScanReport) -> bool {
    let meta = known.meta();
    meta.uidvalidity == report.uidvalidity
        && report.keywords.names().starts_with(meta.keywords.names())
}

/// The cache's error behind that of a scan, or else that of the scan.
fn cache_error(error: Error, intake: Intake<'_>) -> Result<barid_cache::Error> {
    match error {
        Error::Mailbox(barid_formats::Error::Sink(cause)) => match cause.downcast() {
            Ok(cause) => Ok(*cause),
            Err(cause) => match intake.taken() {
                Err(error) => Ok(error),
                Ok(_) => Err(barid_formats::Error::Sink(cause).into()),
            },
        },
        error => Err(error),
    }
}
