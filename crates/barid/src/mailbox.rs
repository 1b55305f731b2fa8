//! Opening a mailbox and keeping up with it: the stamp, the scan, the cache (PROTOCOL, "Open").
//!
//! 1. Take the stamp. If it equals the cache's and is not racy, the cache is the answer.
//! 2. Otherwise scan against what is known. New messages go to the cache's sinks: to a new cache if
//!    there is none, else into a log record of the one there is.
//! 3. Hand out the mod-sequence and make the ledger durable before anybody hears of it.
//! 4. Write the cache. It is never fsynced, and if it cannot be written the work goes on in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use barid_cache::{Finish, Opened, Snapshot};
use barid_formats::{
    DefectKind, EmptyKnown, Format, Known, MailboxSpec, Racy, ScanContext, ScanReport, Stamp,
};
use barid_state::{Access, Identity, Ledger};
use barid_types::{KeywordTable, ModSeq, Uid};
use barid_vfs::{MemVfs, OsVfs, Vfs};

use crate::intake::{Intake, Taken};
use crate::modseqs::ModSeqs;
use crate::{
    CacheState, CacheStatus, Error, Note, NoteKind, OpenOptions, Progress, Result, Status,
};

/// How often a scan is begun anew when the mailbox or the cache changes under it.
const SCANS_MAX: u32 = 5;
/// How long to wait for another process that hands out UIDs or a mod-sequence.
const LEDGER_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// An open mailbox.
///
/// Rows count from 0 in mailbox order, which is ascending by UID; the sequence number of a row is
/// the row plus one. Rows are valid until [`Mailbox::refresh`] or [`Mailbox::read`].
#[derive(Debug)]
pub struct Mailbox {
    pub(crate) format: Box<dyn barid_formats::Mailbox>,
    pub(crate) snapshot: Snapshot,
    pub(crate) place: CachePlace,
    ledger: Ledger,
    options: OpenOptions,
    vfs: Arc<dyn Vfs>,
    identity: Identity,
    cache: CacheStatus,
    notes: Vec<Note>,
    /// Whether the cache was found damaged once.
    healed: bool,
}

/// Where the cache is: a file, and the file system that it is on.
#[derive(Clone, Debug)]
pub(crate) struct CachePlace {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) path: PathBuf,
    pub(crate) on_disk: bool,
}

impl CachePlace {
    fn of(vfs: &Arc<dyn Vfs>, options: &OpenOptions, identity: &Identity) -> Self {
        match &options.cache_dir {
            Some(dir) => Self {
                vfs: Arc::clone(vfs),
                path: dir.join(barid_cache::file_name(identity.id)),
                on_disk: true,
            },
            None => Self::in_memory(identity),
        }
    }

    fn in_memory(identity: &Identity) -> Self {
        let path = Path::new("/").join(barid_cache::file_name(identity.id));
        Self { vfs: Arc::new(MemVfs::new()), path, on_disk: false }
    }
}

/// What an opening has found before there is a snapshot.
struct Opening<'a> {
    format: &'a dyn barid_formats::Mailbox,
    vfs: &'a Arc<dyn Vfs>,
    options: &'a OpenOptions,
    identity: &'a Identity,
    place: CachePlace,
    ledger: &'a mut Ledger,
    notes: Vec<Note>,
    messages_read: u64,
}

impl Mailbox {
    /// Opens a mailbox of the operating system's file system and brings its cache up to date.
    ///
    /// `spec` is a path, or a path with its format before it (`mbox:PATH`).
    ///
    /// # Errors
    /// The path holds no mailbox; the file system refuses; the ledger cannot be used.
    pub fn open(spec: &str, options: &OpenOptions) -> Result<Self> {
        Self::open_in(Arc::new(OsVfs), &MailboxSpec::parse(spec), options)
    }

    /// Opens a mailbox of any file system.
    ///
    /// Where nothing changed since the cache was written this costs a fixed number of system calls,
    /// whatever the size of the mailbox (`docs/design/opening.md`).
    ///
    /// # Errors
    /// As [`Mailbox::open`].
    pub fn open_in(vfs: Arc<dyn Vfs>, spec: &MailboxSpec, options: &OpenOptions) -> Result<Self> {
        let format = barid_formats::open(Arc::clone(&vfs), spec)?;
        let identity = Identity::of(&*vfs, format.path(), !options.read_only)?;
        let dir = &options.state_dir;
        let mut ledger = Ledger::open(Arc::clone(&vfs), dir, &identity, Access::ReadWrite)?;
        let mut opening = Opening {
            format: &*format,
            vfs: &vfs,
            options,
            identity: &identity,
            place: CachePlace::of(&vfs, options, &identity),
            ledger: &mut ledger,
            notes: Vec::new(),
            messages_read: 0,
        };
        let (snapshot, state) = opening.bring_up_to_date()?;
        let Opening { place, notes, messages_read, .. } = opening;
        let cache = CacheStatus { state, messages_read, bytes: snapshot.file_len() };
        let options = options.clone();
        let healed = false;
        Ok(Self { format, snapshot, place, ledger, options, vfs, identity, cache, notes, healed })
    }

    /// Takes notice of what others changed since. Rows are counted anew.
    ///
    /// # Errors
    /// As [`Mailbox::open`].
    pub fn refresh(&mut self) -> Result<()> {
        let stamp = self.format.stamp()?;
        if is_current(&*self.format, &self.snapshot, &stamp, self.options.full_check) {
            return Ok(());
        }
        self.rescan(self.options.full_check)
    }

    /// Scans whatever the stamp says; with `full_check` whatever was believed so far.
    pub(crate) fn rescan(&mut self, full_check: bool) -> Result<()> {
        // What is open may be older than the file, which another process may have written since.
        self.scan_against(full_check, |opening| opening.stored())
    }

    /// Goes on after an error of the cache: discards it, says so in [`Mailbox::notes`], and reads
    /// the mailbox anew; the second time into memory. Any other error is given back.
    ///
    /// The cache is checked block by block as it is read, so damage may show itself in any answer.
    /// Rows are counted anew, and what was asked is to be asked again from its beginning.
    ///
    /// # Errors
    /// `error` itself, if it is not the cache's; else as [`Mailbox::open`].
    pub fn heal(&mut self, error: Error) -> Result<()> {
        use barid_cache::Error as Cache;
        let Error::Cache(cause @ (Cache::Damaged { .. } | Cache::Io { .. })) = error else {
            return Err(error);
        };
        let mut damaged = (!self.healed).then(|| self.snapshot.clone());
        self.healed = true;
        self.scan_against(self.options.full_check, |opening| {
            opening.do_over(&mut damaged, &cause);
            Ok(None)
        })
    }

    fn scan_against(
        &mut self,
        full_check: bool,
        known: impl FnOnce(&mut Opening<'_>) -> Result<Option<Snapshot>>,
    ) -> Result<()> {
        let options = OpenOptions { full_check, ..self.options.clone() };
        let mut opening = Opening {
            format: &*self.format,
            vfs: &self.vfs,
            options: &options,
            identity: &self.identity,
            place: self.place.clone(),
            ledger: &mut self.ledger,
            notes: Vec::new(),
            messages_read: 0,
        };
        let known = known(&mut opening)?;
        let (snapshot, state) = opening.scan(known)?;
        let Opening { place, notes, messages_read, .. } = opening;
        self.cache = CacheStatus { state, messages_read, bytes: snapshot.file_len() };
        (self.snapshot, self.place, self.notes) = (snapshot, place, notes);
        Ok(())
    }

    /// Its counts and numbers; costs nothing.
    pub fn status(&self) -> Status {
        let meta = self.snapshot.meta();
        Status {
            format: self.format(),
            messages: self.snapshot.len(),
            recent: meta.recent,
            unseen: meta.unseen,
            uidvalidity: meta.uidvalidity,
            uidnext: meta.uidnext,
            highestmodseq: meta.highest_modseq.max(self.ledger.highest_modseq()),
            size_bytes: meta.size_bytes,
            pending: 0,
            cache: self.cache,
        }
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format.format()
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.format.path()
    }

    /// How many messages there are.
    pub fn len(&self) -> u32 {
        self.snapshot.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its keywords in the order of their slots.
    pub fn keywords(&self) -> &KeywordTable {
        &self.snapshot.meta().keywords
    }

    /// What a user may want to know of this opening.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The row of a message; reads at most two blocks of the cache.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn row_of(&self, uid: Uid) -> Result<Option<u32>> {
        Ok(self.snapshot.row_of_uid(uid)?)
    }

    /// The first row whose UID is not below `uid`; [`Mailbox::len`] if there is none.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn row_from(&self, uid: Uid) -> Result<u32> {
        Ok(self.snapshot.row_from_uid(uid)?)
    }

    /// The UID of a row.
    ///
    /// # Errors
    /// A damaged cache, or a row that is not there.
    pub fn uid_of(&self, row: u32) -> Result<Uid> {
        Ok(self.snapshot.core(row)?.uid)
    }

    /// The UIDs of all rows, ascending.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn uids(&self) -> Result<Vec<u32>> {
        Ok(self.snapshot.uids()?)
    }
}

/// Whether a stamp proves that nothing changed (PROTOCOL, "Open", step 3). What could not be read
/// is tried again all the same, since no stamp tells whether it can be read now.
fn is_current(
    format: &dyn barid_formats::Mailbox,
    snapshot: &Snapshot,
    stamp: &Stamp,
    full_check: bool,
) -> bool {
    let stored = &snapshot.meta().stamp;
    let is_same = !full_check && stored.same_files(stamp) && stored.racy() == Racy::No;
    is_same && !format.has_unread(snapshot.state())
}

impl Opening<'_> {
    fn bring_up_to_date(&mut self) -> Result<(Snapshot, CacheState)> {
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
    fn stored(&mut self) -> Result<Option<Snapshot>> {
        let CachePlace { vfs, path, .. } = &self.place;
        match Snapshot::open(Arc::clone(vfs), path, self.identity.id) {
            Ok(Opened::Fresh(snapshot)) => Ok(self.belongs(&snapshot).then_some(snapshot)),
            Ok(Opened::Absent) => Ok(None),
            Ok(Opened::Discarded { reason }) => {
                self.note_cache(format!("{}: rebuilt, it was {reason}", path.display()));
                Ok(None)
            }
            Err(error) => {
                self.do_without(&error);
                Ok(None)
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
    fn scan(&mut self, known: Option<Snapshot>) -> Result<(Snapshot, CacheState)> {
        let mut known = known;
        for _ in 0..SCANS_MAX {
            let place = self.place.clone();
            let previous = known.as_ref();
            let intake = Intake::new(&place, previous);
            let mut report = match self.scan_into(&intake, previous) {
                Ok(report) => report,
                Err(Error::Mailbox(barid_formats::Error::Changed { .. })) => continue,
                Err(error) => {
                    // The cache is no reason to fail: start from nothing, or without it.
                    let cause = cache_error(error, intake)?;
                    self.do_over(&mut known, &cause);
                    continue;
                }
            };
            self.messages_read += report.stats.messages_read;
            let modseq = self.announce(&report, previous)?;
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
                Err(error) => self.do_over(&mut known, &error),
            }
        }
        Err(Error::KeepsChanging { path: self.format.path().to_owned() })
    }

    /// After an error of the cache: first without what it knew, then without the file.
    fn do_over(&mut self, known: &mut Option<Snapshot>, error: &barid_cache::Error) {
        match known.take() {
            Some(snapshot) => {
                self.note_cache(format!("{}: rebuilt: {error}", snapshot.path().display()));
                let _ = snapshot.discard();
            }
            None => self.do_without(error),
        }
    }

    fn scan_into(&mut self, intake: &Intake<'_>, known: Option<&Snapshot>) -> Result<ScanReport> {
        let progress = self.options.progress.clone();
        let progress = progress
            .map(|progress| move |done: u64, total: u64| progress(Progress { done, total }));
        let mut context = ScanContext {
            ledger: self.ledger,
            read_only: self.options.read_only,
            full_check: self.options.full_check,
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
        if !self.ledger.is_persistent() && known.is_none() {
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
        let before = match known {
            Some(known) if report.reset && same_terms(known, &report) => ModSeqs::of(known)?,
            _ => ModSeqs::default(),
        };
        let keep = |uid, flags, keywords| before.unchanged(uid, flags, keywords);
        let keep: Option<barid_cache::KeepModSeq<'_>> = Some(&keep);
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
        let is_one_file = self.format.format() != Format::Maildir;
        let note = |defect: &barid_formats::MailboxDefect| {
            let place = match defect.uid {
                Some(uid) => format!("UID {uid}: "),
                None if is_one_file => format!("at offset {}: ", defect.offset),
                None => String::new(),
            };
            let text = format!("{}: {place}{}", self.format.path().display(), defect.what);
            let kind = match defect.kind {
                DefectKind::Structure => NoteKind::Mailbox,
                DefectKind::Unreadable => NoteKind::Unreadable,
            };
            Note { kind, text }
        };
        let notes: Vec<Note> = defects.iter().map(note).collect();
        self.notes.extend(notes);
    }
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
