//! Comparison of an archive with what is known of it.
//!
//! Normally only the commits since the last scan are read, and then the headers of the messages
//! that they added, and of those that could not be read before. All commits, but still no known
//! message, are read if a history was rewritten or cut, if a tree could not be read, if the ledger
//! knows more than the cache, and for a full check. Known messages are dropped only where the
//! ledger contradicts them.

use std::collections::HashMap;

use barid_mailbox::{
    DefectKind, Error, Known, MailboxDefect, Result, ScanContext, ScanReport, ScanStats, Sinks,
    sink_error,
};
use barid_state::{Ledger, LedgerEntry, MessageKey};
use barid_types::{KeywordTable, Uid, UidValidity};

use super::epochs;
use super::git::{self, Oid, Tip};
use super::history::UnreadTrees;
use super::layout::{EPOCHS, LEDGER_LOCK_TIMEOUT, UIDNEXT_MAX};
use super::plan::{self, ArchiveDifference, LiveMessage};
use super::read::{self, ReadJob, ReadTotals, key};
use super::state::{ArchiveState, ReadEpoch};
use super::{OpenEpoch, PublicInbox};

const BRANCH_MISSING: &str = "names a branch that is missing; if it was removed on purpose, \
                              `barid cache clear` gives up its messages";
const EPOCH_MISSING: &str = "is missing; if it was removed on purpose, `barid cache clear` gives up \
                             its messages";

/// Scans an archive.
pub(super) fn scan(
    inbox: &PublicInbox,
    known: &dyn Known,
    sinks: &dyn Sinks,
    context: &mut ScanContext<'_>,
) -> Result<ScanReport> {
    let stamp = inbox.file_stamps()?;
    let epochs = inbox.epochs(true)?;
    let tip = |open: &OpenEpoch| git::tip(&*inbox.vfs, &open.epoch.git_dir);
    let tips = epochs.iter().map(tip).collect::<Result<Vec<_>>>()?;
    let archive = (&*epochs, &*tips);
    let before = known.stamp().and_then(|_| ArchiveState::from_bytes(known.state()));
    if let Some(before) = &before {
        check_epochs(inbox, archive, before)?;
        let pass = ArchiveScan::new(inbox, archive, known, context.ledger);
        if pass.is_under_known_uids()
            && let Some(plan) = pass.since(before, context)?
        {
            return pass.finish(plan, stamp.into(), sinks, context);
        }
    }
    // A damaged ledger is lost: all its UIDs are void.
    if let Err(barid_state::Error::Damaged { .. }) = context.ledger.entries() {
        context.ledger.replace(context.ledger.next_uidvalidity(inbox.vfs.now()), Vec::new());
    }
    let pass = ArchiveScan::new(inbox, archive, known, context.ledger);
    let mut plan = None;
    if before.is_some() && pass.is_under_known_uids() {
        plan = pass.against_known(context)?;
    }
    let plan = match plan {
        Some(plan) => plan,
        None => {
            sinks.expect_whole();
            pass.whole(context)?
        }
    };
    pass.finish(plan, stamp.into(), sinks, context)
}

/// Checks that every epoch that had commits is still there with commits. Otherwise all its messages
/// would count as deleted, although a copy or a mount may only be unfinished.
///
/// # Errors
/// [`Error::Object`] with the name of the epoch or of its branch.
fn check_epochs(
    inbox: &PublicInbox,
    (epochs, tips): (&[OpenEpoch], &[Tip]),
    before: &ArchiveState,
) -> Result<()> {
    let folder = inbox.path.join(EPOCHS);
    for was in before.epochs.iter().filter(|was| was.commit.is_some()) {
        let found = match (epochs, &*before.epochs) {
            // A single repository gets another number when it is renamed.
            ([open], [_]) if open.epoch.git_dir.parent() != Some(&*folder) => Ok(0),
            _ => epochs.binary_search_by_key(&was.number, |open| open.epoch.number),
        };
        let (path, object, problem) = match found {
            Ok(at) if tips[at].commit.is_some() => continue,
            Ok(at) => (epochs[at].epoch.git_dir.join("HEAD"), "HEAD".to_owned(), BRANCH_MISSING),
            Err(_) => (folder, format!("{}.git", was.number), EPOCH_MISSING),
        };
        return Err(Error::Object { path, object, problem });
    }
    Ok(())
}

/// The numbers of the ledger before the scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LedgerNumbers {
    /// The UIDVALIDITY under which its entries are valid.
    uidvalidity: Option<UidValidity>,
    seen: (Option<UidValidity>, u32),
}

impl LedgerNumbers {
    fn of(ledger: &Ledger) -> Self {
        let seen = (ledger.uidvalidity(), ledger.uidnext().map_or(1, Uid::get));
        Self { uidvalidity: seen.0.filter(|_| seen.1 <= UIDNEXT_MAX), seen }
    }
}

/// One comparison.
struct ArchiveScan<'a> {
    inbox: &'a PublicInbox,
    epochs: &'a [OpenEpoch],
    tips: &'a [Tip],
    known: &'a dyn Known,
    ledger: LedgerNumbers,
    /// The UIDNEXT that was announced under the present UIDVALIDITY.
    announced: Option<Uid>,
    uidvalidity: UidValidity,
}

/// The outcome of a scan before messages are read.
#[derive(Default)]
struct ScanPlan {
    /// `true` if nothing known is valid any more.
    is_reset: bool,
    /// Messages to be read, ascending by UID.
    jobs: Vec<ReadJob>,
    /// Known messages that are gone, ascending.
    gone: Vec<Uid>,
    /// UIDs in the ledger that belong to no message any more.
    unclaimed: Vec<Uid>,
    /// Bytes of the known messages that stay.
    size_bytes: u64,
    /// Trees that cannot be read.
    unread: UnreadTrees,
}

impl<'a> ArchiveScan<'a> {
    fn new(
        inbox: &'a PublicInbox,
        (epochs, tips): (&'a [OpenEpoch], &'a [Tip]),
        known: &'a dyn Known,
        ledger: &Ledger,
    ) -> Self {
        let numbers = LedgerNumbers::of(ledger);
        let announced = known.uidvalidity().zip(known.uidnext());
        let uidvalidity = numbers.uidvalidity.unwrap_or_else(|| {
            let above = announced.map_or(1, |(known, _)| known.get().saturating_add(1));
            let next = ledger.next_uidvalidity(inbox.vfs.now()).get();
            UidValidity::new(next.max(above)).unwrap_or(UidValidity::MAX)
        });
        let announced = announced.filter(|(known, _)| *known == uidvalidity);
        let announced = announced.map(|(_, next)| next);
        Self { inbox, epochs, tips, known, ledger: numbers, announced, uidvalidity }
    }

    /// Returns `true` if the known messages have their UIDs under the UIDVALIDITY of the ledger.
    fn is_under_known_uids(&self) -> bool {
        self.ledger.uidvalidity.is_some() && self.known.uidvalidity() == self.ledger.uidvalidity
    }

    /// Returns the next UID that is free.
    fn next_uid(&self) -> u32 {
        let announced = self.announced.map_or(1, Uid::get);
        match self.ledger.uidvalidity {
            Some(_) => announced.max(self.ledger.seen.1),
            None => announced,
        }
    }

    /// Plans from the commits since the last scan; `None` if these are not enough.
    fn since(&self, before: &ArchiveState, context: &ScanContext<'_>) -> Result<Option<ScanPlan>> {
        let is_in_step = self.known.uidnext().map_or(1, Uid::get) == self.ledger.seen.1;
        if context.full_check || before.unlisted > 0 || !is_in_step {
            return Ok(None);
        }
        let archive = (self.epochs, self.tips);
        let found = plan::new_messages(self.inbox, archive, before, self.known)?;
        let Some(ArchiveDifference { new, gone, gone_bytes, unread }) = found else {
            return Ok(None);
        };
        let mut jobs = Vec::with_capacity(new.len());
        give_uids(new, self.next_uid(), &mut jobs);
        let size_bytes = before.size_bytes.saturating_sub(gone_bytes);
        Ok(Some(ScanPlan { jobs, gone, size_bytes, unread, ..ScanPlan::default() }))
    }

    fn all_messages(&self, context: &ScanContext<'_>) -> Result<(Vec<LiveMessage>, UnreadTrees)> {
        let threads = if self.epochs.len() == 1 { 1 } else { context.thread_count() };
        plan::all_messages(self.inbox, self.epochs, self.tips, threads)
    }

    /// Plans from all commits, and keeps known messages; `None` if the ledger contradicts them.
    fn against_known(&self, context: &mut ScanContext<'_>) -> Result<Option<ScanPlan>> {
        let (live, unread) = self.all_messages(context)?;
        let entries = context.ledger.entries()?;
        let mut rows: HashMap<Oid, (Uid, u64)> = HashMap::with_capacity(self.known.len() as usize);
        let (mut is_sound, mut uids, mut at) = (true, Vec::new(), 0);
        sink_error(self.known.visit(0, &mut |message| {
            let blob = message.location.message_name().and_then(|name| Oid::parse(name.name));
            at += entries[at..].iter().take_while(|entry| entry.uid < message.uid).count();
            let entry = entries.get(at).filter(|entry| entry.uid == message.uid);
            let Some(blob) = blob.filter(|blob| entry.is_some_and(|e| { e.key } == key(*blob)))
            else {
                is_sound = false;
                return false;
            };
            uids.push(message.uid);
            is_sound = rows.insert(blob, (message.uid, message.size)).is_none();
            is_sound
        }))?;
        if !is_sound {
            return Ok(None);
        }
        let mut plan = ScanPlan { unread, ..ScanPlan::default() };
        let mut fresh = Vec::new();
        for message in live {
            match rows.remove(&message.blob) {
                Some((_, size)) => plan.size_bytes = plan.size_bytes.saturating_add(size),
                None => fresh.push(message),
            }
        }
        // While some commits cannot be read, what is missing may be theirs.
        match plan.unread.is_some() {
            true => rows.values().for_each(|(_, size)| {
                plan.size_bytes = plan.size_bytes.saturating_add(*size);
            }),
            false => plan.gone = rows.values().map(|(uid, _)| *uid).collect(),
        }
        plan.gone.sort_unstable();
        let is_inserted = self.recognise(&mut plan, fresh, entries, &uids);
        Ok(is_inserted.then_some(plan))
    }

    /// Plans from all commits without known messages.
    fn whole(&self, context: &mut ScanContext<'_>) -> Result<ScanPlan> {
        let (live, unread) = self.all_messages(context)?;
        let mut plan = ScanPlan { is_reset: true, unread, ..ScanPlan::default() };
        let entries = match self.ledger.uidvalidity {
            Some(_) => context.ledger.entries()?,
            None => &[],
        };
        self.recognise(&mut plan, live, entries, &[]);
        Ok(plan)
    }

    /// Gives UIDs to messages that are not known, of which `known` are the UIDs of the others,
    /// ascending: those that the ledger has for them, or new ones. Returns `false` if one of these
    /// is among the known ones, where it cannot be inserted.
    fn recognise(
        &self,
        plan: &mut ScanPlan,
        fresh: Vec<LiveMessage>,
        entries: &[LedgerEntry],
        known: &[Uid],
    ) -> bool {
        let last_uid = known.last().map_or(0, |uid| uid.get());
        let is_unknown = |entry: &&LedgerEntry| known.binary_search(&{ entry.uid }).is_err();
        // Of equal ones the lowest UID counts.
        let unclaimed = entries.iter().rev().filter(is_unknown);
        let mut unclaimed: HashMap<MessageKey, Uid> =
            unclaimed.map(|entry| (entry.key, entry.uid)).collect();
        let mut nameless = Vec::new();
        for message in fresh {
            match unclaimed.remove(&key(message.blob)) {
                Some(uid) if uid.get() <= last_uid => return false,
                Some(uid) => plan.jobs.push(ReadJob { uid, message }),
                None => nameless.push(message),
            }
        }
        give_uids(nameless, self.next_uid().max(last_uid.saturating_add(1)), &mut plan.jobs);
        plan.jobs.sort_unstable_by_key(|job| job.uid);
        // What commits cannot be read, or are not there, may claim them.
        if plan.unread.is_none() && !epochs::may_be_incomplete(self.epochs, self.tips) {
            plan.unclaimed = unclaimed.into_values().collect();
        }
        true
    }

    /// Reads the new messages, and writes all UIDs to the ledger.
    fn finish(
        &self,
        plan: ScanPlan,
        stamp: barid_mailbox::Stamp,
        sinks: &dyn Sinks,
        context: &mut ScanContext<'_>,
    ) -> Result<ScanReport> {
        let threads = if plan.jobs.is_empty() { 1 } else { context.thread_count() };
        let (jobs, progress) = (&plan.jobs, context.progress);
        let mut totals = read::read(self.inbox, self.epochs, jobs, threads, sinks, progress)?;
        let uidnext = self.keep(&plan, &totals, context.ledger)?;
        let defects = self.defects(&plan, &mut totals);
        let size_bytes = plan.size_bytes.saturating_add(totals.size_bytes);
        let unread_trees = plan.unread.as_ref().map_or(0, |(count, _)| *count);
        let epochs = self.epochs.iter().zip(self.tips);
        let state = ArchiveState {
            unlisted: totals.unlisted.saturating_add(unread_trees),
            unread: totals.unread.iter().map(|job| job.message).collect(),
            size_bytes,
            epochs: epochs.map(|(open, tip)| ReadEpoch::new(open.epoch.number, tip)).collect(),
        };
        Ok(ScanReport {
            stamp,
            state: state.to_bytes(),
            uidvalidity: self.uidvalidity,
            uidnext,
            keywords: KeywordTable::default(),
            reset: plan.is_reset,
            expunged: plan.gone,
            changed: Vec::new(),
            new_uids: Vec::new(),
            tail_verified: false,
            size_bytes,
            defects,
            stats: ScanStats {
                messages_read: totals.read.len() as u64,
                bytes_read: totals.bytes_read,
                dirs_listed: 1,
            },
        })
    }

    /// Writes all UIDs to the ledger; returns the next one.
    fn keep(&self, plan: &ScanPlan, totals: &ReadTotals, ledger: &mut Ledger) -> Result<Uid> {
        let is_void = self.ledger.uidvalidity.is_none();
        let above = if is_void { 0 } else { ledger.uid_last().map_or(0, Uid::get) };
        let new = totals.read.iter().filter(|(uid, _)| uid.get() > above);
        let new: Vec<LedgerEntry> =
            new.map(|(uid, blob)| LedgerEntry { uid: *uid, key: key(*blob) }).collect();
        let raises = self.announced.is_some_and(|next| next.get() > self.ledger.seen.1);
        let is_dropping = !plan.gone.is_empty() || !plan.unclaimed.is_empty();
        if is_void || raises || !new.is_empty() || is_dropping {
            ledger.lock(LEDGER_LOCK_TIMEOUT)?;
            if LedgerNumbers::of(ledger) != self.ledger {
                // Another process gave out UIDs.
                ledger.unlock();
                return Err(Error::Changed { path: self.inbox.path.clone() });
            }
            if is_void {
                ledger.replace(self.uidvalidity, new);
            } else {
                ledger.expunge(&plan.gone);
                ledger.expunge(&plan.unclaimed);
                new.iter().for_each(|entry| ledger.push(*entry));
            }
            self.announced.into_iter().for_each(|next| ledger.raise_uidnext(next));
        }
        Ok(ledger.uidnext().filter(|next| next.get() <= UIDNEXT_MAX).unwrap_or(Uid::MIN))
    }

    /// Returns the defects of messages and of histories.
    fn defects(&self, plan: &ScanPlan, totals: &mut ReadTotals) -> Vec<MailboxDefect> {
        if let Some((count, first)) = &plan.unread {
            let what = format!("commits without a readable tree: {count}; the first: {first}");
            totals.defect(DefectKind::Unreadable, None, what);
        }
        for (open, tip) in self.epochs.iter().zip(self.tips) {
            if !tip.shallow.is_empty() {
                let path = open.epoch.git_dir.display();
                let what = format!("{path} is a shallow clone: older messages are missing");
                totals.defect(DefectKind::Structure, None, what);
            }
        }
        std::mem::take(&mut totals.defects)
    }
}

/// Gives ascending UIDs from `next` on.
fn give_uids(messages: Vec<LiveMessage>, mut next: u32, jobs: &mut Vec<ReadJob>) {
    for message in messages {
        // There is always room: beyond UIDNEXT_MAX there is a new UIDVALIDITY.
        let uid = Uid::new(next).unwrap_or(Uid::MAX);
        jobs.push(ReadJob { uid, message });
        next = next.saturating_add(1);
    }
}
