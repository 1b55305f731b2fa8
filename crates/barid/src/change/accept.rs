//! Accepting flag changes: they are durable and visible at once, and written later.

use barid_cache::Core;
use barid_mailbox::{FlagChange, FlagChanges};
use barid_state::{MessageKey, PendingChange, PendingKind};
use barid_types::{ModSeq, Uid};

use super::matching::ordinal;
use super::pass::hand_out_modseq;
use super::resolve::{delta_of, is_noop, then, there};
use super::{ChangeOptions, ChangeRequest, Changed, WriteWhen};
use crate::limits::{CHANGES_MAX, PENDING_MAX};
use crate::{Error, Mailbox, Result};

/// A message that gets other flags.
struct Target {
    uid: Uid,
    key: MessageKey,
    change: FlagChange,
}

/// Called with a message whose visible flags would change, and with all its changes.
type VisitChanging<'a> = dyn FnMut(&Core, &[(Uid, &FlagChange)]) + 'a;

impl Mailbox {
    /// Returns `true` if it is enough to accept a request.
    pub(super) fn may_wait(&self, request: &ChangeRequest<'_>, options: &ChangeOptions) -> bool {
        let only_flags = request.expunge.is_empty()
            && request.appends.is_empty()
            && request.keywords.is_empty()
            && !request.drop_recent
            && !request.write_uids;
        let caps = self.storage.caps();
        let is_pending = options.write == WriteWhen::Pending && caps.delays && caps.flags;
        let total = self.pending.records().len() + request.flags.len();
        // Changes that could not be kept pending are written.
        is_pending && only_flags && total <= PENDING_MAX && self.ledger.is_persistent()
    }

    /// Accepts flag changes. The cost depends on their number, plus two barriers: that of the
    /// mod-sequence and that of the journal.
    pub(super) fn accept(
        &mut self,
        request: &ChangeRequest<'_>,
        options: &ChangeOptions,
    ) -> Result<Changed> {
        self.check_writable(options)?;
        if options.dry_run {
            return Ok(self.accept_locked(request, options)?.unwrap_or_default());
        }
        self.under_pending_lock(options, |mailbox| {
            let uidvalidity = mailbox.snapshot.meta().uidvalidity;
            mailbox.finish_unfinished()?;
            mailbox.catch_up()?;
            mailbox.check_numbering(uidvalidity)?;
            mailbox.show_pending()?;
            for _ in 0..CHANGES_MAX {
                match mailbox.accept_locked(request, options) {
                    // Nothing has been accepted if there is an error.
                    Err(error @ Error::Cache(_)) => mailbox.heal(error)?,
                    Ok(None) => mailbox.rescan(false)?,
                    result => return Ok(result?.unwrap_or_default()),
                }
                mailbox.check_numbering(uidvalidity)?;
            }
            Err(Error::KeepsChanging { path: mailbox.path().to_owned() })
        })
    }

    /// Accepts the changes; `None` if others have announced changes that the view lacks.
    fn accept_locked(
        &mut self,
        request: &ChangeRequest<'_>,
        options: &ChangeOptions,
    ) -> Result<Option<Changed>> {
        let mut changed = Changed { figures: self.unchanged(), ..Changed::default() };
        // Changes that could not be written are not accepted.
        self.check_keywords(request)?;
        let targets = self.targets(&request.flags, &mut changed)?;
        let before = self.pending.records().len();
        if options.dry_run || targets.is_empty() {
            changed.pending = (before + targets.len()) as u32;
            return Ok(Some(changed));
        }
        let uidvalidity = self.snapshot.meta().uidvalidity;
        let mut accepted = Vec::with_capacity(targets.len());
        for Target { uid, key, change } in &targets {
            let row = self.row_from(*uid)?;
            accepted.push(PendingChange {
                uidvalidity,
                uid: *uid,
                key: *key,
                body_hash: 0,
                ordinal: ordinal(&self.snapshot, row, *key)?,
                modseq: ModSeq::default(),
                kind: PendingKind::Flags(delta_of(change)),
            });
        }
        let covered = self.covered();
        let Some(modseq) = hand_out_modseq(&mut self.ledger, covered, &[])? else {
            return Ok(None);
        };
        accepted.iter_mut().for_each(|change| change.modseq = modseq);
        // Whoever finds the number in the ledger finds the changes in the journal.
        let done = self.pending.accept(accepted);
        self.ledger.unlock();
        done?;
        self.show_accepted();
        changed.figures.barriers = 2;
        changed.pending = self.pending.records().len() as u32;
        Ok(Some(changed))
    }

    /// Returns the messages whose visible flags would change.
    fn targets(&self, flags: &FlagChanges, changed: &mut Changed) -> Result<Vec<Target>> {
        let mut targets = Vec::new();
        let gone = self.changing(flags, &mut |core, mine| {
            changed.flagged += 1;
            targets.extend(mine.iter().map(|(uid, change)| Target {
                uid: *uid,
                key: core.key,
                change: (*change).clone(),
            }));
        })?;
        changed.asked = changed.flagged;
        changed.gone.extend(gone);
        Ok(targets)
    }

    /// Returns the number of messages whose visible flags would change.
    pub(super) fn count_changing(&self, flags: &FlagChanges) -> Result<u32> {
        let mut count = 0;
        self.changing(flags, &mut |_, _| count += 1)?;
        Ok(count)
    }

    /// Visits the messages whose visible flags would change, with the changes of each; returns the
    /// UIDs that do not exist.
    fn changing(&self, flags: &FlagChanges, visit: &mut VisitChanging<'_>) -> Result<Vec<Uid>> {
        let mut flags: Vec<(Uid, &FlagChange)> = flags.iter().collect();
        flags.sort_by_key(|(uid, _)| *uid);
        let mut at = 0;
        let names = self.keywords();
        let mut uids: Vec<Uid> = flags.iter().map(|(uid, _)| *uid).collect();
        uids.dedup();
        let there = there(&self.snapshot, uids.iter().copied(), &mut |core| {
            at += flags[at..].iter().take_while(|(uid, _)| *uid < core.uid).count();
            let mut shown: Core = *core;
            (shown.flags, shown.keywords, _) = self.shown.of_message(core);
            let end = at + flags[at..].iter().take_while(|(uid, _)| *uid == core.uid).count();
            let is_noop = match &flags[at..end] {
                [(_, change)] => is_noop(change, &shown, names),
                mine => {
                    let mut sum = FlagChange::default();
                    mine.iter().for_each(|(_, change)| then(&mut sum, change));
                    is_noop(&sum, &shown, names)
                }
            };
            if !is_noop {
                visit(core, &flags[at..end]);
            }
        })?;
        Ok(uids.iter().zip(there).filter(|(_, there)| !there).map(|(uid, _)| *uid).collect())
    }
}
