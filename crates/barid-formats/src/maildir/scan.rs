//! Comparison of a Maildir with what is known of it.
//!
//! Steps: take the stamp; list the directories that changed; find or give UIDs; read the new
//! messages while the UIDs are written; report. Known messages are dropped and all are read again
//! only where UIDs contradict them.

use barid_mailbox::{
    ChangedMessage, DefectKind, Error, Known, MailboxDefect, Result, ScanContext, ScanReport,
    ScanStats, Sinks,
};
use barid_state::Ledger;
use barid_types::{FlagSet, KeywordMask, Uid, UidValidity};
use barid_vfs::{FileStamp, Timestamp};
use std::cell::Cell;
use std::time::Duration;

use super::before::KnownMaildir;
use super::keywords::{Keywords, LetterSlots};
use super::layout::DEFECTS_MAX;
use super::list::{self, MaildirListing, MaildirMatch};
use super::read::{MaildirReadTotals, Reading};
use super::state::MaildirState;
use super::uids::{MaildirLedger, UidInputs};
use super::written::{LedgerChange, UidAssignment};
use super::{Dirs, Maildir, arriving, name, unread};
use crate::file_stamps::FileStamps;
use crate::files::{arriving_defect, unsure_defect};

/// Timeout of the lock of the ledger, held by another process that gives out UIDs.
const LEDGER_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Scans a Maildir.
pub(super) fn scan(
    maildir: &Maildir,
    known: &dyn Known,
    sinks: &dyn Sinks,
    context: &mut ScanContext<'_>,
) -> Result<ScanReport> {
    let dirs = maildir.open_dirs()?;
    let announced = known.uidvalidity().zip(known.uidnext());
    let is_ledger_lost = Cell::new(false);
    let mut first_stamp = Some(maildir.file_stamps()?);
    let of_new = match first_stamp.filter(|_| !context.full_check) {
        Some(stamp) => KnownMaildir::load_new(known, &stamp)?,
        None => None,
    };
    let mut compare = |before: &KnownMaildir| {
        let is_ledger_lost = &is_ledger_lost;
        let pass = MaildirScan { maildir, dirs: &dirs, before, announced, is_ledger_lost };
        let stamp = first_stamp.take().map_or_else(|| maildir.file_stamps(), Ok)?;
        pass.run(stamp, sinks, context)
    };
    if let Some(before) = of_new
        && let Some(report) = compare(&before)?
    {
        return Ok(report);
    }
    if let Some(before) = KnownMaildir::load(known)?
        && let Some(report) = compare(&before)?
    {
        return Ok(report);
    }
    let report = compare(&KnownMaildir::default())?;
    Ok(report.expect("because without known messages nothing can contradict them"))
}

/// One comparison.
struct MaildirScan<'a> {
    maildir: &'a Maildir,
    dirs: &'a Dirs,
    before: &'a KnownMaildir,
    announced: Option<(UidValidity, Uid)>,
    /// `true` if an attempt found that UIDs may be lost which only the ledger had: it has replaced
    /// the ledger, in which the next attempt does not see that any more.
    is_ledger_lost: &'a Cell<bool>,
}

impl MaildirScan<'_> {
    /// Compares; returns `None` if nothing known is valid any more, or if more must be known.
    fn run(
        &self,
        stamp: FileStamps,
        sinks: &dyn Sinks,
        context: &mut ScanContext<'_>,
    ) -> Result<Option<ScanReport>> {
        let wanted = self.wanted(&stamp, context.full_check);
        let vfs = self.maildir.vfs.as_ref();
        let mut listing =
            list::list(vfs, self.dirs, self.before, &stamp, wanted, context.will_rescan)?;
        if listing.needs_all {
            return Ok(None);
        }
        let held = arriving::hold_back(self.dirs, &mut listing, &stamp);
        let Some(unread) = unread::try_again(self.dirs, self.before, &listing)? else {
            return Ok(None);
        };
        let mut words = KeywordLetters::load(self.maildir, self.before, &stamp)?;
        words.add_lost(self.before, &listing);
        if words.changed && self.before.is_partial() {
            return Ok(None);
        }
        let mut ledger = MaildirLedger::load(context.ledger, self.maildir.vfs.as_ref())?;
        ledger.is_lost |= self.is_ledger_lost.get();
        self.is_ledger_lost.set(ledger.is_lost);
        let uids = UidInputs {
            vfs: &self.maildir.vfs,
            uidlist: &self.maildir.paths.uidlist,
            before: self.before,
            listing: &listing,
            stamp: &stamp,
            announced: self.announced,
            writable: !context.read_only,
            full_check: context.full_check,
            stop: context.ledger.stop().cloned(),
        };
        let Some(mut assigned) = uids.assign(&ledger)? else {
            return Ok(None);
        };
        let is_whole = self.before.state.is_none();
        let names_only = is_whole && sinks.takes_names(assigned.jobs.len());
        if is_whole {
            sinks.expect_whole();
        }
        let stop = context.ledger.stop().cloned();
        let reading = Reading {
            names_only,
            stop: stop.as_deref(),
            dirs: self.dirs,
            listing: &listing,
            jobs: &assigned.jobs,
            slots: &words.slots,
            sinks,
            progress: context.progress,
            threads: context.thread_count(),
            now: stamp.taken,
        };
        let maildir = self.maildir;
        // The lock is released as soon as the UIDs are written.
        let beside = assigned.write.take().map(|write| {
            move || Ok(write.run(maildir.vfs.as_ref(), &maildir.path, &maildir.paths.uidlist))
        });
        let (mut totals, written) = reading.run(beside)?;
        totals.unread.append(unread);
        totals.arriving += held.len() as u64;
        totals.lost.extend(held);
        let file_stamp = self.settle(&mut assigned, written, &ledger, context.ledger)?;
        Ok(Some(self.report(stamp, file_stamp, &listing, words, assigned, totals)))
    }

    /// Returns which of `new` and `cur` must be listed.
    fn wanted(&self, stamp: &FileStamps, full_check: bool) -> [bool; 2] {
        let all = full_check || self.before.state.is_none();
        [0, 1].map(|at| all || !super::settled(&self.before.stamp, stamp, at))
    }

    /// Writes the UIDs to the ledger that the file does not store; returns the stamp of the file.
    fn settle(
        &self,
        assigned: &mut UidAssignment,
        written: Option<Result<FileStamp>>,
        seen: &MaildirLedger,
        ledger: &mut Ledger,
    ) -> Result<FileStamp> {
        let mut change = assigned.ledger.take();
        let mut file_stamp = assigned.file_stamp;
        match written {
            Some(Ok(stamp)) => {
                file_stamp = stamp;
                if let Some(list) = &mut assigned.list {
                    list.inode = stamp.inode;
                }
            }
            Some(Err(error)) => {
                // Nothing is lost: the ledger stores the UIDs until the file can be written.
                assigned.defects.push(format!("UIDs are stored in the ledger instead: {error}"));
                change = assigned.fallback.take();
                assigned.list = None;
            }
            None => {}
        }
        if let Some(change) = change {
            ledger.lock(LEDGER_LOCK_TIMEOUT)?;
            if !seen.is_current(ledger) {
                ledger.unlock();
                return Err(Error::Changed { path: self.maildir.path.clone() });
            }
            apply(&change, ledger);
        }
        Ok(file_stamp)
    }

    fn report(
        &self,
        mut stamp: FileStamps,
        file_stamp: FileStamp,
        listing: &MaildirListing,
        words: KeywordLetters,
        assigned: UidAssignment,
        totals: MaildirReadTotals,
    ) -> ScanReport {
        if totals.arriving + totals.unsure > 0 {
            // An equal stamp proves nothing: a file being written alters only its own stamp.
            stamp.taken = Timestamp::default();
        }
        // The file is as we left it under its lock, or as we read it.
        stamp.files[2] = file_stamp;
        let (expunged, kept_bytes) = self.expunged(listing);
        let size_bytes = kept_bytes.saturating_add(totals.size_bytes);
        let mut orphans = assigned.orphans;
        if let Some(orphans) = &mut orphans {
            orphans.extend(&totals.lost);
            orphans.sort_unstable();
        }
        let defect = |what: String| MailboxDefect {
            kind: DefectKind::Structure,
            offset: 0,
            uid: None,
            what,
        };
        let (unread, mut defects) = totals.unread.into_parts();
        defects.extend(words.keywords.defects.iter().map(|what| defect((*what).to_owned())));
        defects.extend(assigned.defects.into_iter().map(defect));
        defects.extend(listing.defects.iter().cloned().map(defect));
        defects.extend(arriving_defect(totals.arriving));
        defects.extend(unsure_defect(totals.unsure));
        defects.extend(totals.defects);
        defects.truncate(DEFECTS_MAX);
        let slots = words.slots;
        let state = MaildirState { list: assigned.list, slots, orphans, unread };
        ScanReport {
            stamp: stamp.into(),
            state: state.to_bytes(),
            uidvalidity: assigned.uidvalidity,
            uidnext: assigned.uidnext,
            changed: self.changed(listing, &words),
            keywords: words.table,
            reset: self.before.state.is_none(),
            expunged,
            new_uids: Vec::new(),
            tail_verified: false,
            size_bytes,
            defects,
            stats: ScanStats {
                messages_read: totals.messages,
                bytes_read: totals.bytes,
                dirs_listed: listing.dirs_listed,
            },
        }
    }

    /// Returns the known messages that are gone, and the bytes of those that are still there.
    fn expunged(&self, listing: &MaildirListing) -> (Vec<Uid>, u64) {
        let (mut gone, mut kept_bytes) = (Vec::new(), self.before.other_bytes);
        for (row, seen) in self.before.rows.iter().zip(&listing.seen) {
            match seen {
                MaildirMatch::Gone => gone.push(row.uid),
                MaildirMatch::Same | MaildirMatch::Changed(_) => {
                    kept_bytes = kept_bytes.saturating_add(row.size)
                }
            }
        }
        (gone, kept_bytes)
    }

    /// Returns the known messages whose name or keywords changed.
    fn changed(&self, listing: &MaildirListing, words: &KeywordLetters) -> Vec<ChangedMessage> {
        let mut changed = Vec::new();
        for (row, seen) in self.before.rows.iter().zip(&listing.seen) {
            match seen {
                MaildirMatch::Gone => {}
                MaildirMatch::Same if !words.changed => {}
                MaildirMatch::Same => {
                    let (flags, keywords) = words.of(self.before.names.get(row.name), row.in_new);
                    if (flags, keywords) != (row.flags, row.keywords) {
                        changed.push(ChangedMessage { uid: row.uid, flags, keywords, file: None });
                    }
                }
                MaildirMatch::Changed(at) => {
                    let sighting = &listing.sightings[*at as usize];
                    let name = listing.names.get(sighting.name);
                    let (flags, keywords) = words.of(name, sighting.in_new);
                    let file = Some((name.to_vec(), sighting.in_new));
                    changed.push(ChangedMessage { uid: row.uid, flags, keywords, file });
                }
            }
        }
        changed
    }
}

/// Makes a change in the ledger, whose lock is held until the caller commits it.
fn apply(change: &LedgerChange, ledger: &mut Ledger) {
    if change.keep {
        ledger.keep(change.uidvalidity);
    } else if change.replace {
        ledger.replace(change.uidvalidity, change.entries.clone());
    } else {
        ledger.set_uidvalidity(change.uidvalidity);
        change.entries.iter().for_each(|entry| ledger.push(*entry));
    }
}

/// Keyword letters and their meaning.
struct KeywordLetters {
    keywords: Keywords,
    table: barid_types::KeywordTable,
    slots: LetterSlots,
    /// `true` if letters of known names may have another meaning than before.
    changed: bool,
}

impl KeywordLetters {
    fn load(maildir: &Maildir, before: &KnownMaildir, stamp: &FileStamps) -> Result<Self> {
        let keywords = if stamp.files[3] == FileStamp::default() {
            Keywords::default()
        } else {
            Keywords::read(maildir.vfs.as_ref(), &maildir.paths.keywords)?
        };
        let mut table = before.keywords.clone();
        let slots = LetterSlots::assign(&keywords, &mut table);
        let known = before.state.as_ref().map(|state| state.slots);
        Ok(Self { keywords, table, slots, changed: known.is_some_and(|known| known != slots) })
    }

    /// Gives slots to letters that are used but have no name.
    fn add_lost(&mut self, before: &KnownMaildir, listing: &MaildirListing) {
        let known =
            before.rows.iter().filter(|_| self.changed).map(|row| before.names.get(row.name));
        let seen = listing.sightings.iter().map(|sighting| listing.names.get(sighting.name));
        let used = known.chain(seen).fold(0, |used, name| used | name::letters(name).keywords);
        if self.slots.add_lost(used, &self.keywords, &mut self.table) {
            self.keywords.defects.push("a keyword letter has no name in dovecot-keywords");
        }
        let known = before.state.as_ref().map(|state| state.slots);
        self.changed = known.is_some_and(|known| known != self.slots);
    }

    fn of(&self, name: &[u8], in_new: bool) -> (FlagSet, KeywordMask) {
        let letters = name::letters(name);
        let flags = match in_new {
            true => letters.flags.with(barid_types::Flag::Recent),
            false => letters.flags,
        };
        (flags, self.slots.mask(letters))
    }
}
