//! Announcing the result of a scan (docs/design/modseq.md).
//!
//! The mod-sequence and the vanished UIDs are durable in the ledger before the cache has the
//! result. The ledger stays locked until then: whoever has the lock finds a cache that contains
//! every change that was announced, unless it is another cache, or a process died in between.

use std::collections::BTreeSet;

use barid_cache::{Finish, Snapshot};
use barid_mailbox::ScanReport;
use barid_state::{Ledger, PendingRecord};
use barid_types::{ModSeq, Uid};

use crate::intake::{Intake, Taken};
use crate::opening::{LEDGER_LOCK_TIMEOUT, Opening};
use crate::{CacheState, Note, NoteKind, Result};

/// Result of announcing a scan and of storing it in the cache.
#[expect(clippy::large_enum_variant, reason = "it is taken apart where it is returned")]
pub(crate) enum Announced {
    /// The cache is up to date.
    Stored(Snapshot, CacheState),
    /// Others have announced changes since the cache was read: read it again, and scan.
    Outpaced,
    /// Another process has changed messages: scan without trusting the stamp.
    Outdated,
    /// The format detected too late to fill a new file that nothing known is valid: scan
    /// everything.
    Invalid,
    /// The cache failed.
    Failed(barid_cache::Error),
}

/// The parts of [`Opening::announce`] that only its caller knows.
pub(crate) struct Scanned<'a> {
    pub(crate) report: &'a ScanReport,
    pub(crate) known: Option<&'a Snapshot>,
    pub(crate) full_check: bool,
    /// The highest mod-sequence when the scan began; `None` if it does not matter any more.
    pub(crate) began: Option<ModSeq>,
}

impl Opening<'_> {
    /// Returns a snapshot that contains everything that was announced. If others have announced
    /// changes that it lacks, it is read again; if it still lacks some, it counts as lost: all its
    /// mod-sequences rise above the announced ones, and the vanished UIDs are forgotten. `None` if
    /// the mailbox must be scanned as if nothing were known.
    ///
    /// Costs nothing if it lacks nothing; a rise costs a commit of the ledger and new columns.
    pub(crate) fn settled(&mut self, known: Snapshot) -> Result<Option<Snapshot>> {
        if self.in_a_change || self.covers(&known)? {
            return Ok(Some(known));
        }
        self.ledger.lock(LEDGER_LOCK_TIMEOUT)?;
        let settled = self.settle_locked(known);
        self.ledger.unlock();
        settled
    }

    fn settle_locked(&mut self, known: Snapshot) -> Result<Option<Snapshot>> {
        // Numbers that cannot be durable must not get into the cache of others.
        if !self.ledger.is_persistent() || self.covers(&known)? {
            return Ok(Some(known));
        }
        if self.ledger.is_new() {
            return Ok(None);
        }
        let Some(known) = self.stored()? else { return Ok(None) };
        if self.covers(&known)? {
            return Ok(Some(known));
        }
        let modseq = known.meta().highest_modseq.max(self.ledger.highest_modseq()).next();
        self.ledger.raise_modseq(modseq);
        self.ledger.forget_vanished();
        self.ledger.commit()?;
        match known.raised(modseq) {
            Ok(raised) => Ok(raised),
            Err(error) => {
                self.do_over_unless_refused(&mut Some(known), error)?;
                Ok(None)
            }
        }
    }

    /// Returns `true` if a snapshot, with the pending changes, contains everything that was
    /// announced.
    fn covers(&mut self, known: &Snapshot) -> Result<bool> {
        let announced = self.ledger.highest_modseq();
        if covered(known, self.pending.records()) >= announced {
            return Ok(true);
        }
        Ok(self.pending.refresh()? && covered(known, self.pending.records()) >= announced)
    }

    /// Makes UIDs, mod-sequence and vanished UIDs durable, and then stores the result of a scan.
    pub(crate) fn announce(
        &mut self,
        intake: Intake<'_>,
        scanned: &Scanned<'_>,
    ) -> Result<Announced> {
        let announced = self.announce_locked(intake, scanned);
        self.ledger.unlock();
        announced
    }

    fn announce_locked(&mut self, intake: Intake<'_>, scanned: &Scanned<'_>) -> Result<Announced> {
        let Scanned { report, known, .. } = *scanned;
        let highest = self.before(known).map_or(ModSeq::default(), |k| k.meta().highest_modseq);
        if known.is_some() && !changed_anything(report) {
            // UIDs may have moved from the ledger to the mailbox, and the scan left the commit to
            // the caller.
            self.ledger.commit()?;
            self.ledger.unlock();
            return match intake.taken() {
                _ if self.is_stale(scanned) => Ok(Announced::Outdated),
                Ok(taken) => self.store(taken, scanned, highest),
                Err(error) => Ok(Announced::Failed(error)),
            };
        }
        // Others assign mod-sequences, too: theirs are read again under the lock.
        self.ledger.lock(LEDGER_LOCK_TIMEOUT)?;
        let refused = match intake.taken() {
            _ if self.is_stale(scanned) => Announced::Outdated,
            _ if self.is_outpaced(scanned)? => Announced::Outpaced,
            Ok(Taken::New(_)) if report.reset => Announced::Invalid,
            Ok(taken) => {
                let modseq = highest.max(self.ledger.highest_modseq()).next();
                return self.store(taken, scanned, modseq);
            }
            Err(error) => Announced::Failed(error),
        };
        // The UIDs that the scan gave out are known to the next one.
        self.ledger.commit()?;
        Ok(refused)
    }

    /// Returns what was announced of the mailbox before a scan: what is known of it, or only the
    /// names.
    fn before<'s>(&'s self, known: Option<&'s Snapshot>) -> Option<&'s Snapshot> {
        known.or(self.listed.as_ref())
    }

    fn is_stale(&self, scanned: &Scanned<'_>) -> bool {
        !scanned.full_check && self.is_outdated(scanned.known)
    }

    /// Returns `true` if others have announced something that the result of the scan may lack.
    fn is_outpaced(&mut self, scanned: &Scanned<'_>) -> Result<bool> {
        let Some(began) =
            scanned.began.filter(|_| self.ledger.is_persistent() && !self.in_a_change)
        else {
            return Ok(false);
        };
        match scanned.known {
            Some(known) => Ok(!self.covers(known)?),
            // A scan of everything lacks only what changed after it.
            None if self.ledger.highest_modseq() <= began => Ok(false),
            None => Ok(!self.format.stamp()?.is_same(&scanned.report.stamp)),
        }
    }

    /// Makes everything durable, and stores the result of the scan.
    fn store(
        &mut self,
        taken: Taken<'_>,
        scanned: &Scanned<'_>,
        modseq: ModSeq,
    ) -> Result<Announced> {
        let Scanned { report, known, .. } = *scanned;
        // If others have announced more, they have given these messages other mod-sequences.
        let announced = self.ledger.highest_modseq();
        let listed = self.listed.clone().filter(|names| names.meta().highest_modseq >= announced);
        let before = known.or(listed.as_ref());
        let same = before.filter(|before| report.reset && same_terms(before, report));
        let keep = same.map(Snapshot::modseq_keeper);
        let keep = keep.as_ref().map(|keep| keep as barid_cache::KeepModSeq<'_>);
        // Reading messages whose names were announced changes none of them.
        let unchanged = listed.as_ref().filter(|_| known.is_none());
        let unchanged = unchanged.map(|names| names.meta().highest_modseq);
        let (identity, format) = (self.identity, self.format.format().name());
        let finish = Finish { identity, format, modseq, keep, unchanged };
        let state = |state| if self.place.on_disk { state } else { CacheState::None };
        let (stored, state) = match taken {
            Taken::Whole(builder) => {
                let how = if known.is_some() { CacheState::Updated } else { CacheState::Populated };
                let state = state(how);
                let earlier = before.and_then(|before| uids_of(before, report));
                let uids = earlier.as_deref().unwrap_or_default();
                let prepared = match builder.prepare(report, &finish, uids) {
                    Ok(prepared) => prepared,
                    Err(error) => {
                        self.ledger.commit()?;
                        return Ok(Announced::Failed(error));
                    }
                };
                let vanished = earlier.is_some().then(|| prepared.vanished());
                self.commit(prepared.highest_modseq(), vanished, before)?;
                (prepared.rename(), state)
            }
            Taken::New(delta) => {
                let state = state(CacheState::Updated);
                if changed_anything(report) {
                    self.commit(modseq, Some(&report.expunged), known)?;
                }
                (delta.apply(report, &finish), state)
            }
        };
        Ok(match stored {
            Ok(snapshot) => Announced::Stored(snapshot, state),
            Err(error) => Announced::Failed(error),
        })
    }

    /// Makes a mod-sequence durable, with the UIDs that vanished with it; `None` if nobody knows
    /// those.
    fn commit(
        &mut self,
        modseq: ModSeq,
        vanished: Option<&[Uid]>,
        known: Option<&Snapshot>,
    ) -> Result<()> {
        if let Some(known) = known {
            forget_unless_recorded(self.ledger, known.meta().highest_modseq);
        }
        self.ledger.raise_modseq(modseq);
        match vanished {
            Some(uids) => self.ledger.record_vanished(modseq, uids),
            None => self.ledger.forget_vanished(),
        }
        self.ledger.commit()?;
        // In the middle of a change nothing is written, even if it could be.
        if !self.ledger.is_persistent() && known.is_none() && !self.in_a_change {
            let dir = self.options.state_dir.display();
            let text = format!("{dir}: cannot be written: UIDs may change");
            self.notes.push(Note { kind: NoteKind::State, text });
        }
        Ok(())
    }
}

/// Returns the highest mod-sequence up to which a snapshot and the pending changes contain
/// everything that was announced: each pending change was announced with the next number.
pub(crate) fn covered(known: &Snapshot, pending: &[PendingRecord]) -> ModSeq {
    let mut covered = known.meta().highest_modseq;
    let later = pending.iter().map(|record| record.change.modseq).filter(|at| *at > covered);
    for modseq in later.collect::<BTreeSet<_>>() {
        if modseq != covered.next() {
            break;
        }
        covered = modseq;
    }
    covered
}

/// Forgets the vanished UIDs with the next commit if a view has mod-sequences that the ledger never
/// had: it could not be written, or is an older copy, and lacks the UIDs that vanished with them.
pub(crate) fn forget_unless_recorded(ledger: &mut Ledger, covered: ModSeq) {
    if ledger.is_persistent() && covered > ledger.highest_modseq() {
        ledger.raise_modseq(covered);
        ledger.forget_vanished();
    }
}

fn changed_anything(report: &ScanReport) -> bool {
    report.reset
        || report.stats.messages_read > 0
        || !report.expunged.is_empty()
        || !report.changed.is_empty()
}

/// Returns `true` if UIDs and keyword slots mean the same as before.
fn same_terms(known: &Snapshot, report: &ScanReport) -> bool {
    let meta = known.meta();
    meta.uidvalidity == report.uidvalidity
        && report.keywords.names().starts_with(meta.keywords.names())
}

/// Returns the UIDs that were known before a scan, if they still mean the same messages and can be
/// read.
fn uids_of(known: &Snapshot, report: &ScanReport) -> Option<Vec<Uid>> {
    let is_same = known.meta().uidvalidity == report.uidvalidity;
    let uids = known.uids().ok().filter(|_| is_same)?;
    uids.into_iter().map(Uid::new).collect()
}
