//! Comparison of a folder with what is known of it.
//!
//! Steps: take the stamp; list; find known messages by number and mark; where some are missing and
//! others are new, or the ledger has more, find them by message key; read the new ones; update the
//! ledger. Known messages are dropped and all are read again only where the ledger contradicts
//! them.

use barid_mailbox::{
    ChangedMessage, DefectKind, Error, Known, MailboxDefect, Result, ScanContext, ScanReport,
    ScanStats, Sinks,
};
use barid_state::{Ledger, LedgerEntry};
use barid_types::{Uid, UidValidity};
use barid_vfs::{Dir, Timestamp};

use super::MhFolder;
use super::before::{KnownMh, MhState};
use super::layout::{DEFECTS_MAX, UIDNEXT_MAX};
use super::list::{Lister, MhListing, MhMatch};
use super::name;
use super::read::{MhRead, MhReadTotals};
use super::sequences::{Sequences, View};
use super::uids::{Candidates, Lost, MhLedger};
use crate::file_stamps::FileStamps;
use crate::files::arriving_defect;

/// Scans a folder.
pub(super) fn scan(
    folder: &MhFolder,
    known: &dyn Known,
    sinks: &dyn Sinks,
    context: &mut ScanContext<'_>,
) -> Result<ScanReport> {
    let dir = folder.open_dir().map_err(Error::at(&folder.path))?;
    let announced = known.uidvalidity().zip(known.uidnext());
    let threads = context.thread_count();
    let before = KnownMh::load(known)?;
    if let Some(before) = &before {
        let pass = MhScan { folder, dir: dir.as_ref(), before, announced, threads };
        if let Some(report) = pass.run(sinks, context)? {
            return Ok(report);
        }
    }
    let nothing = KnownMh::default();
    let pass = MhScan { folder, dir: dir.as_ref(), before: &nothing, announced, threads };
    sinks.expect_whole();
    let report = pass.run(sinks, context)?;
    Ok(report.expect("because without known messages nothing can contradict them"))
}

/// One comparison.
pub(super) struct MhScan<'a> {
    pub(super) folder: &'a MhFolder,
    pub(super) dir: &'a dyn Dir,
    before: &'a KnownMh,
    announced: Option<(UidValidity, Uid)>,
    pub(super) threads: usize,
}

/// All UIDs, before anything is read.
#[derive(Default)]
struct MhUidPlan {
    /// The messages that are new, ascending by UID.
    jobs: Vec<MhRead>,
    /// UIDs in the ledger that belong to no message any more.
    void: Vec<Uid>,
    /// UIDs in the ledger, of messages that were not seen.
    unclaimed: Vec<Uid>,
    /// The messages that cannot be read, and so cannot be recognised.
    unread: MhReadTotals,
    /// The stamp of the folder before it was listed.
    stamp: FileStamps,
}

impl MhScan<'_> {
    /// Compares; returns `None` if nothing known is valid any more.
    fn run(&self, sinks: &dyn Sinks, context: &mut ScanContext<'_>) -> Result<Option<ScanReport>> {
        let mut stamp = self.folder.file_stamps()?;
        let vfs = self.folder.vfs.as_ref();
        let mut listing = match self.is_unchanged(&stamp, context.full_check) {
            true => MhListing::unchanged(self.before),
            false => {
                let (folder, dir) = (self.folder, self.dir);
                Lister { folder, dir, threads: self.threads }.list(self.before)?
            }
        };
        let ledger = MhLedger::load(context.ledger, vfs)?;
        if self.before.state.is_some() && !ledger.agrees(self.before, &listing) {
            return Ok(None);
        }
        let uidvalidity = ledger.uidvalidity.unwrap_or_else(|| self.new_uidvalidity(&ledger));
        let Some(plan) = self.plan(&mut listing, &ledger, uidvalidity)? else { return Ok(None) };
        let plan = MhUidPlan { stamp, ..plan };
        let mut sequences = match self.folder.naming.is_saved() {
            true => Sequences::default(),
            false => Sequences::read(vfs, &self.folder.sequences)?,
        };
        let mut table = self.before.keywords.clone();
        sequences.intern(&mut table);
        let view = sequences.view(&table);
        let mut totals = self.read(&listing, &plan.jobs, &view, sinks, context.progress)?;
        let uidnext = self.keep(&listing, &plan, &totals, &ledger, uidvalidity, context.ledger)?;
        let (expunged, changed) = self.differences(&listing, &view);
        totals.add(plan.unread);
        let mut defects = defects(&sequences, totals.defects);
        defects.extend(arriving_defect(totals.arriving));
        if totals.arriving > 0 {
            // An equal stamp proves nothing: a file being written alters only its own stamp.
            stamp.taken = Timestamp::default();
        }
        let state = MhState { has_unread: totals.unread, size_bytes: listing.size_bytes };
        Ok(Some(ScanReport {
            stamp: stamp.into(),
            state: state.to_bytes(),
            uidvalidity,
            uidnext,
            keywords: table,
            reset: self.before.state.is_none(),
            expunged,
            changed,
            new_uids: Vec::new(),
            tail_verified: false,
            size_bytes: listing.size_bytes,
            defects,
            stats: ScanStats {
                messages_read: totals.read.len() as u64,
                bytes_read: totals.bytes,
                dirs_listed: listing.dirs_listed,
            },
        }))
    }

    /// Returns `true` if the folder need not be listed. A file that is still being written alters
    /// only its own stamp; but its writer also writes the sequences, so their stamp counts.
    fn is_unchanged(&self, stamp: &FileStamps, full_check: bool) -> bool {
        let was = &self.before.stamp;
        let settled = |at: usize| was.files[at] == stamp.files[at] && was.is_settled(at);
        let read = self.before.state.is_some_and(|state| !state.has_unread);
        read && !full_check && settled(0) && settled(1)
    }

    /// Gives every new message its UID, and finds those that are not new. Returns `None` if a new
    /// message has a UID among those of known messages, where it cannot be inserted.
    fn plan(
        &self,
        listing: &mut MhListing,
        ledger: &MhLedger,
        uidvalidity: UidValidity,
    ) -> Result<Option<MhUidPlan>> {
        let mut next = match self.announced {
            Some((announced, next)) if announced == uidvalidity => next.get(),
            _ => 1,
        };
        if ledger.uidvalidity.is_some() {
            next = next.max(ledger.uidnext);
        }
        let last_uid = self.before.last_uid();
        next = next.max(last_uid.saturating_add(1));
        let mut candidates = Candidates::of(self.before, listing, ledger);
        let (mut keys, mut unread) = (None, MhReadTotals::default());
        if !candidates.is_empty() && !listing.fresh.is_empty() {
            let found = self.keys(listing)?;
            (keys, unread) = (Some(found.0), found.1);
        }
        let (mut jobs, mut nameless) = (Vec::new(), Vec::new());
        for (at, file) in std::mem::take(&mut listing.fresh).into_iter().enumerate() {
            let key = keys.as_ref().and_then(|keys| keys[at]);
            if keys.is_some() && key.is_none() {
                continue;
            }
            match key.and_then(|key| candidates.take(key)) {
                Some(Lost::Row(row)) => listing.seen[row as usize] = MhMatch::Changed(file),
                Some(Lost::Entry(uid)) if uid.get() <= last_uid => return Ok(None),
                Some(Lost::Entry(uid)) => jobs.push(MhRead { uid, file, key }),
                None => nameless.push((file, key)),
            }
        }
        for (file, key) in nameless {
            // There is always room: beyond this number there is a new UIDVALIDITY.
            let uid = Uid::new(next).unwrap_or(Uid::MAX);
            jobs.push(MhRead { uid, file, key });
            next = next.saturating_add(1);
        }
        jobs.sort_unstable_by_key(|job| job.uid);
        let is_listed = listing.dirs_listed > 0 && listing.is_complete && !unread.unread;
        let unclaimed = match is_listed {
            true => candidates.unclaimed().collect(),
            false => Vec::new(),
        };
        let gone = self.before.rows.iter().zip(&listing.seen);
        let void =
            gone.filter(|(_, seen)| **seen == MhMatch::Gone).map(|(row, _)| row.uid).collect();
        Ok(Some(MhUidPlan { jobs, void, unclaimed, unread, stamp: FileStamps::default() }))
    }

    /// Returns `true` if no message can have arrived since the folder was listed.
    fn is_settled(&self, stamp: &FileStamps) -> Result<bool> {
        Ok(stamp.is_settled(0) && self.folder.file_stamps()?.files[0] == stamp.files[0])
    }

    /// Returns a UIDVALIDITY above every known one.
    fn new_uidvalidity(&self, ledger: &MhLedger) -> UidValidity {
        let announced = self.announced.map_or(1, |(known, _)| known.get().saturating_add(1));
        UidValidity::new(ledger.next_uidvalidity.max(announced)).unwrap_or(UidValidity::MAX)
    }

    /// Writes all UIDs to the ledger; returns the next one.
    fn keep(
        &self,
        listing: &MhListing,
        plan: &MhUidPlan,
        totals: &MhReadTotals,
        seen: &MhLedger,
        uidvalidity: UidValidity,
        ledger: &mut Ledger,
    ) -> Result<Uid> {
        let entry = |&(uid, key): &(Uid, _)| LedgerEntry { uid, key };
        let is_known =
            |uid: Uid| seen.entries.binary_search_by_key(&uid, |entry| entry.uid).is_ok();
        let new = totals.read.iter().filter(|(uid, _)| !is_known(*uid));
        let new: Vec<LedgerEntry> = new.map(entry).collect();
        let announced = match self.announced {
            Some((known, next)) if known == uidvalidity => Some(next),
            _ => None,
        };
        let is_void = seen.uidvalidity.is_none();
        let raises = announced.is_some_and(|next| next.get() > seen.uidnext);
        debug_assert!(!is_void || listing.seen.iter().all(|seen| *seen != MhMatch::Same));
        let is_dropping = !plan.void.is_empty() || !plan.unclaimed.is_empty();
        if is_void || raises || !new.is_empty() || is_dropping {
            if !seen.lock(ledger)? {
                return Err(Error::Changed { path: self.folder.path.clone() });
            }
            if is_void {
                ledger.replace(uidvalidity, new);
            } else {
                ledger.expunge(&plan.void);
                // A UID without a message may be getting one just now: see `append.rs`.
                if self.is_settled(&plan.stamp)? {
                    ledger.expunge(&plan.unclaimed);
                }
                new.iter().for_each(|entry| ledger.push(*entry));
            }
            announced.into_iter().for_each(|next| ledger.raise_uidnext(next));
        }
        Ok(ledger.uidnext().filter(|next| next.get() <= UIDNEXT_MAX).unwrap_or(Uid::MIN))
    }

    /// Returns the known messages that are gone, and those that changed.
    fn differences(&self, listing: &MhListing, view: &View<'_>) -> (Vec<Uid>, Vec<ChangedMessage>) {
        let (mut gone, mut changed) = (Vec::new(), Vec::new());
        for (row, seen) in self.before.rows.iter().zip(&listing.seen) {
            let file = match seen {
                MhMatch::Gone => {
                    gone.push(row.uid);
                    continue;
                }
                MhMatch::Same => None,
                MhMatch::Changed(at) => Some(&listing.files[*at as usize]),
            };
            let (flags, keywords) = view.of(file.map_or(row.number, |file| file.number));
            if file.is_some() || (flags, keywords) != (row.flags, row.keywords) {
                let file = file.map(|file| (name::place(file.number, file.mark), false));
                changed.push(ChangedMessage { uid: row.uid, flags, keywords, file });
            }
        }
        (gone, changed)
    }
}

fn defects(sequences: &Sequences, of_messages: Vec<MailboxDefect>) -> Vec<MailboxDefect> {
    let defect = |what: &&str| MailboxDefect {
        kind: DefectKind::Structure,
        offset: 0,
        uid: None,
        what: (*what).to_owned(),
    };
    sequences.defects.iter().map(defect).chain(of_messages).take(DEFECTS_MAX).collect()
}
