//! The steps after the format has made a change.
//!
//! From here on nothing is repeated and nothing fails: what was written stays written, and is
//! reported. An error of the cache is healed; other errors are reported in the notes, and the next
//! refresh of the mailbox finds the changes again.

use std::collections::HashSet;
use std::sync::Arc;

use barid_cache::{Follow, Follower, Snapshot};
use barid_mailbox::{ScanReport, Stamp, StampRules, SyncReport};
use barid_state::{Ledger, MessageKey};
use barid_types::{ModSeq, Uid, UidValidity};

use super::kept::Keeping;
use super::pass::hand_out_modseq;
use super::resolve::Resolved;
use super::{ChangeRequest, Changed};
use crate::limits::HEALINGS_MAX;
use crate::{Error, Mailbox, Note, NoteKind, Result};

/// A change that the format has made, or in a dry run would make.
pub(super) struct MadeChange {
    pub(super) resolved: Resolved,
    /// Number of messages whose flags the request changes.
    pub(super) asked: u32,
    pub(super) appends: u32,
    pub(super) report: SyncReport,
    pub(super) next: Next,
    /// Expunged messages that are kept.
    pub(super) kept: Keeping,
    /// The last of the pending changes that were written.
    pub(super) through: Option<u64>,
    /// UIDVALIDITY and UIDNEXT before the change.
    pub(super) numbering: (UidValidity, Uid),
    /// The highest mod-sequence up to which the view contained everything before the change.
    pub(super) covered: ModSeq,
}

/// The way in which the cache is updated after a change.
pub(super) enum Next {
    /// There is no change.
    Nothing,
    /// It is up to date.
    Followed {
        /// The snapshot without the appended messages.
        snapshot: Box<Snapshot>,
        /// The stamp after the change.
        after: Stamp,
        /// `true` if there is something after the known messages.
        is_grown: bool,
    },
    /// It is brought up to date with what a scan is expected to find.
    Expected(Box<ScanReport>),
    /// Only messages were appended, and nothing was looked at; the UIDVALIDITY of their UIDs.
    Unseen(UidValidity),
    /// The mailbox must be scanned.
    Scan {
        /// `true` if messages were changed in place.
        is_touched: bool,
        /// The error because of which the ledger does not have the change.
        trouble: Option<Error>,
    },
}

impl MadeChange {
    /// Returns the report of the change, without the values that only the cache knows.
    pub(super) fn into_report(self, request: &ChangeRequest<'_>) -> Changed {
        let Self { mut resolved, report, .. } = self;
        let asked: HashSet<Uid> = match report.gone.is_empty() && report.unwritable.is_empty() {
            true => HashSet::new(),
            false => request.flags.uids().chain(request.expunge.iter().copied()).collect(),
        };
        for uid in &report.gone {
            match asked.contains(uid) {
                true => resolved.gone.push(*uid),
                false => resolved.pending_gone.push(*uid),
            }
        }
        for gone in [&mut resolved.gone, &mut resolved.pending_gone] {
            gone.sort_unstable();
            gone.dedup();
        }
        let unwritable_asked = match request.write_uids || request.drop_recent {
            true => report.unwritable_count,
            false => report.unwritable.iter().filter(|uid| asked.contains(*uid)).count() as u64,
        };
        let is_unwritable = |uid: &Uid| report.unwritable.binary_search(uid).is_ok();
        let refused = resolved.changes.flags.uids().filter(is_unwritable).count();
        let flagged = resolved.flagged.saturating_sub(refused as u32);
        let gone = |uid: &&Uid| report.gone.binary_search(uid).is_ok();
        let expunge = &resolved.changes.expunge;
        let ambiguous = resolved.ambiguous.len() as u32;
        Changed {
            flagged,
            asked: self.asked.min(flagged),
            expunged: (expunge.len() - expunge.iter().filter(gone).count()) as u32,
            appends: self.appends,
            gone: resolved.gone,
            pending_gone: resolved.pending_gone,
            unwritable: report.unwritable,
            unwritable_count: report.unwritable_count,
            unwritable_asked,
            ambiguous,
            kept: self.kept.bytes,
            kept_until: self.kept.until,
            too_large: self.kept.too_large,
            pending: ambiguous,
            figures: report.figures,
            ..Changed::default()
        }
    }
}

/// Applies a change to the cache. The ledger, with the mod-sequence that the snapshot covers, stays
/// locked.
pub(super) fn follow(
    rules: &dyn StampRules,
    follower: Follower<'_>,
    report: &mut SyncReport,
    (ledger, covered): (&mut Ledger, ModSeq),
    snapshot: &Snapshot,
    appends: bool,
) -> Next {
    let is_touched = report.figures.messages_written + report.figures.messages_expunged > 0;
    let scan = |trouble| Next::Scan { is_touched, trouble };
    let Some(state) = report.cache.take() else { return scan(None) };
    let mut modseq = snapshot.meta().highest_modseq;
    if is_touched {
        ledger.set_fingerprint(rules.change_number(&state.stamp_after));
        modseq = match hand_out_modseq(ledger, covered, &report.expunged) {
            Ok(Some(modseq)) => modseq,
            // The cache is read again.
            Ok(None) => return scan(None),
            Err(error) => return scan(Some(error)),
        };
    }
    let followed = follower.finish(&Follow {
        expunged: &report.expunged,
        shifts: &report.shifts,
        stamp: state.stamp,
        state: &state.state,
        keywords: &state.keywords,
        uidnext: snapshot.meta().uidnext,
        modseq,
        size_bytes: report.figures.size_after.saturating_sub(report.figures.bytes_appended),
        tail_verified: false,
    });
    let (after, is_grown) =
        (state.stamp_after, appends || !state.stamp.is_same(&state.stamp_after));
    match followed {
        Ok(snapshot) => Next::Followed { snapshot: Box::new(snapshot), after, is_grown },
        // The cache is that of the mailbox before the change, and its stamp shows that.
        Err(_) => scan(None),
    }
}

impl Mailbox {
    /// Brings everything else up to date with a change, and returns the report. Messages that
    /// nobody looks at are left to the next refresh.
    pub(super) fn conclude(
        &mut self,
        mut made: MadeChange,
        request: &ChangeRequest<'_>,
    ) -> Changed {
        if let Next::Unseen(uidvalidity) = made.next {
            let appended = made.report.appended.iter().flatten().copied().collect();
            let appended_under = Some(uidvalidity);
            self.has_unseen = !self.storage.format().has_message_files();
            return Changed { appended, appended_under, ..made.into_report(request) };
        }
        let mut troubles = Vec::new();
        let shown = Arc::clone(&self.view.shown);
        let scan = match std::mem::replace(&mut made.next, Next::Nothing) {
            Next::Nothing | Next::Unseen(_) => None,
            Next::Expected(report) => match self.take_expected(*report) {
                Ok(is_taken) => (!is_taken).then_some(true),
                Err(error) => {
                    troubles.push(error);
                    Some(true)
                }
            },
            Next::Followed { snapshot, after, is_grown } => {
                self.take_followed(*snapshot, after, is_grown).is_err().then_some(true)
            }
            Next::Scan { is_touched, trouble } => {
                troubles.extend(trouble);
                Some(is_touched)
            }
        };
        if let Some(is_touched) = scan {
            // A scan of only the bytes that the file grew by would miss changes in place.
            let full_check = is_touched && !self.storage.format().has_message_files();
            self.healed(&mut troubles, |mailbox| mailbox.rescan(full_check));
        }
        if let Some(through) = made.through
            && let Err(error) = self.pending.drop_through(through)
        {
            troubles.push(error.into());
        }
        self.healed(&mut troubles, |mailbox| mailbox.show_pending());
        if made.through.is_some() {
            let covered = made.covered;
            self.healed(&mut troubles, |mailbox| mailbox.touch_dropped(&shown, covered));
        }
        let appended = self.healed(&mut troubles, |mailbox| {
            mailbox.uids_of(request, &made.report, made.numbering)
        });
        let unsettled = self.note_troubles(&troubles);
        self.prune_kept(&made.kept);
        let pending = self.pending();
        let uidvalidity = self.snapshot.meta().uidvalidity;
        let appended_under = (!appended.is_empty()).then_some(uidvalidity);
        Changed { appended, appended_under, pending, unsettled, ..made.into_report(request) }
    }

    /// Updates the overlay with the pending changes that were just accepted.
    pub(super) fn show_accepted(&mut self) {
        let mut troubles = Vec::new();
        self.healed(&mut troubles, |mailbox| mailbox.show_pending());
        self.note_troubles(&troubles);
    }

    /// Queries the cache, and repeats that if it had to be healed.
    fn healed<T: Default>(
        &mut self,
        troubles: &mut Vec<Error>,
        ask: impl Fn(&mut Self) -> Result<T>,
    ) -> T {
        let mut error = match ask(self) {
            Ok(answer) => return answer,
            Err(error) => error,
        };
        for _ in 0..HEALINGS_MAX {
            match self.heal(error).and_then(|()| ask(self)) {
                Ok(answer) => return answer,
                Err(next) => error = next,
            }
        }
        troubles.push(error);
        T::default()
    }

    /// Adds errors to the notes; returns those of the state.
    fn note_troubles(&mut self, troubles: &[Error]) -> Vec<String> {
        let mut unsettled = Vec::new();
        let path = self.path().display().to_string();
        for error in troubles {
            let kind =
                if matches!(error, Error::State(_)) { NoteKind::State } else { NoteKind::Cache };
            let text = format!(
                "{path}: the change is written, but its records are not up to date: {error}"
            );
            unsettled.extend((kind == NoteKind::State).then(|| text.clone()));
            self.notes.push(Note { kind, text });
        }
        unsettled
    }

    /// Continues with the snapshot after a change; messages appended by us or by others are
    /// scanned.
    fn take_followed(&mut self, snapshot: Snapshot, after: Stamp, is_grown: bool) -> Result<()> {
        snapshot.release();
        if is_grown {
            return self.scan_against(false, |opening| {
                opening.own = Some(after);
                Ok(Some(snapshot))
            });
        }
        self.take_snapshot(snapshot);
        Ok(())
    }

    /// Continues with a snapshot that has a change.
    pub(super) fn take_snapshot(&mut self, snapshot: Snapshot) {
        if let Some(error) = snapshot.store_error() {
            let text = format!("the cache cannot be written: {error}");
            self.notes.push(Note { kind: NoteKind::Cache, text });
        }
        self.view.snapshot = Arc::new(snapshot);
    }

    /// Returns the UIDs of the appended messages. If the format did not report them, they are those
    /// of the last messages that were not there before, or under a new UIDVALIDITY of the last
    /// messages, found by their keys.
    fn uids_of(
        &self,
        request: &ChangeRequest<'_>,
        report: &SyncReport,
        (uidvalidity, uidnext): (UidValidity, Uid),
    ) -> Result<Vec<Uid>> {
        let told: Option<Vec<Uid>> = report.appended.iter().copied().collect();
        if let Some(told) = told.filter(|told| told.len() == request.appends.len()) {
            return Ok(told);
        }
        let mut new = Vec::new();
        let is_renumbered = self.snapshot.meta().uidvalidity != uidvalidity;
        let from = if is_renumbered { 0 } else { self.row_from(uidnext)? };
        self.snapshot.cores(from..self.len(), &mut |_, core| new.push((core.uid, core.key)))?;
        if new.len() == request.appends.len() {
            return Ok(new.into_iter().map(|(uid, _)| uid).collect());
        }
        let mut uids = Vec::with_capacity(request.appends.len());
        for (at, message) in request.appends.iter().enumerate().rev() {
            let key = match report.appended_keys.get(at) {
                Some(key) => *key,
                None => MessageKey(barid_message::header_key(&message.start()?)),
            };
            let Some(at) = new.iter().rposition(|(_, found)| *found == key) else { continue };
            uids.push(new[at].0);
            new.truncate(at);
        }
        uids.reverse();
        Ok(uids)
    }
}
