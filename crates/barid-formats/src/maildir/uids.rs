//! Finding the UIDs of messages, and giving UIDs to new ones.
//!
//! `dovecot-uidlist` stores the UIDs. Where it cannot be written, new ones go to the ledger under
//! the same UIDVALIDITY; they move to the file as soon as it can be written. If another program
//! gave such a UID to another message meanwhile, UIDVALIDITY rises. Without a file, the ledger
//! alone decides.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use barid_mailbox::{ChangeProgress, Error, Result};
use barid_state::Ledger;
use barid_types::{Uid, UidValidity};
use barid_vfs::{DotLock, DotLockOptions, LockError, Vfs};

use super::before::{KnownMaildir, KnownName};
use super::layout::{LOCK_SLICE, LOCK_TIMEOUT, UIDNEXT_MAX};
use super::list::{MaildirListing, MaildirMatch};
use super::name;
use super::uidlist::{UidLine, UidList, UidListRead};
use super::written::UidAssignment;
use crate::file_stamps::FileStamps;

/// Inputs for giving out UIDs.
pub(super) struct UidInputs<'a> {
    pub(super) vfs: &'a Arc<dyn Vfs>,
    pub(super) uidlist: &'a Path,
    pub(super) before: &'a KnownMaildir,
    pub(super) listing: &'a MaildirListing,
    pub(super) stamp: &'a FileStamps,
    /// UIDVALIDITY and next UID that were announced once, even if nothing else known is valid.
    pub(super) announced: Option<(UidValidity, Uid)>,
    pub(super) writable: bool,
    /// `true` if all of the file must be read, whatever is known of it.
    pub(super) full_check: bool,
    /// Once `true`, waiting for the lock ends.
    pub(super) stop: Option<Arc<AtomicBool>>,
}

/// Content of the ledger.
#[derive(Debug, Default)]
pub(super) struct MaildirLedger {
    pub(super) uidvalidity: Option<UidValidity>,
    uidnext: u32,
    next_uidvalidity: u32,
    /// `true` if UIDs may be lost that only the ledger had.
    pub(super) is_lost: bool,
    pub(super) by_key: HashMap<u64, Uid>,
}

impl MaildirLedger {
    /// Reads the ledger.
    pub(super) fn load(ledger: &mut Ledger, vfs: &dyn Vfs) -> Result<Self> {
        // A damaged ledger is lost: all its UIDs are void.
        let is_damaged = matches!(ledger.entries(), Err(barid_state::Error::Damaged { .. }));
        let is_lost = is_damaged || ledger.is_lost();
        if is_damaged {
            ledger.replace(ledger.next_uidvalidity(vfs.now()), Vec::new());
        }
        let uidvalidity = ledger.uidvalidity();
        let mut view = Self {
            uidvalidity,
            uidnext: ledger.uidnext().map_or(1, Uid::get),
            next_uidvalidity: ledger.next_uidvalidity(vfs.now()).get(),
            is_lost,
            by_key: HashMap::new(),
        };
        if uidvalidity.is_some() {
            view.by_key = ledger.entries()?.iter().map(|entry| (entry.key.0, entry.uid)).collect();
        }
        Ok(view)
    }

    /// Returns `true` if the ledger is unchanged; otherwise another process gave out UIDs.
    pub(super) fn is_current(&self, ledger: &Ledger) -> bool {
        ledger.uidvalidity() == self.uidvalidity
            && ledger.uidnext().map_or(1, Uid::get) == self.uidnext
    }
}

/// Result of an attempt.
enum UidAttempt {
    /// The whole file must be read.
    Whole,
    /// The lock must be held.
    Lock,
    /// Nothing known is valid any more.
    Reset,
    /// All messages have UIDs.
    Done(Box<MaildirUidPlan>),
}

/// All UIDs, before anything is written.
pub(super) struct MaildirUidPlan {
    pub(super) uidvalidity: UidValidity,
    pub(super) uidnext: Uid,
    /// UID, sighting, and `true` if the file already has this UID.
    pub(super) uids: Vec<(Uid, u32, bool)>,
    pub(super) rewrite: bool,
    /// `true` if the file is not authoritative: UIDs are those of the ledger, or new.
    pub(super) void: bool,
    pub(super) conflict: bool,
}

/// The part of the file that has been read.
pub(super) struct LoadedUidList {
    pub(super) list: Option<UidList>,
    pub(super) whole: bool,
    pub(super) corrupt: Option<&'static str>,
}

impl<'a> UidInputs<'a> {
    /// Finds or gives all UIDs; `None` if nothing known is valid any more.
    pub(super) fn assign(mut self, ledger: &MaildirLedger) -> Result<Option<UidAssignment>> {
        let mut lock = None;
        let mut whole = self.before.state.is_none() || self.full_check;
        loop {
            let loaded = self.load(whole, lock.is_some())?;
            match self.attempt(&loaded, ledger, lock.is_some()) {
                UidAttempt::Whole if self.before.is_partial() => return Ok(None),
                UidAttempt::Whole => whole = true,
                UidAttempt::Reset => return Ok(None),
                UidAttempt::Lock => match take_lock_unless(
                    self.vfs,
                    self.uidlist,
                    &ChangeProgress::stopped_by(self.stop.as_deref()),
                )? {
                    Some(taken) => lock = Some(taken),
                    None => self.writable = false,
                },
                UidAttempt::Done(plan) => {
                    return Ok(Some(self.finish(loaded, *plan, ledger, lock)));
                }
            }
        }
    }

    fn load(&self, whole: bool, locked: bool) -> Result<LoadedUidList> {
        let known = self.before.state.as_ref().and_then(|state| state.list.as_ref());
        if let Some(known) = known.filter(|_| !whole) {
            let file = &self.stamp.files[2];
            let unchanged = super::settled(&self.before.stamp, self.stamp, 2)
                && (file.inode, file.size) == (known.inode, known.offset);
            let list = if unchanged && !locked {
                Some(UidList::unread(known, *file))
            } else {
                UidList::read_tail(self.vfs.as_ref(), self.uidlist, known)?
            };
            if list.as_ref().is_some_and(|list| list.uidnext().get() <= UIDNEXT_MAX) {
                return Ok(LoadedUidList { list, whole: false, corrupt: None });
            }
        }
        Ok(match UidList::read(self.vfs.as_ref(), self.uidlist)? {
            UidListRead::Missing => LoadedUidList { list: None, whole: true, corrupt: None },
            UidListRead::Corrupt(why) => {
                LoadedUidList { list: None, whole: true, corrupt: Some(why.0) }
            }
            UidListRead::Read(list) if list.uidnext().get() > UIDNEXT_MAX => {
                LoadedUidList { list: None, whole: true, corrupt: Some("its UIDs are used up") }
            }
            UidListRead::Read(list) => {
                LoadedUidList { list: Some(*list), whole: true, corrupt: None }
            }
        })
    }

    fn attempt(&self, loaded: &LoadedUidList, ledger: &MaildirLedger, locked: bool) -> UidAttempt {
        if loaded.whole && self.before.is_partial() {
            return UidAttempt::Reset;
        }
        let used = !ledger.by_key.is_empty();
        let overruled =
            |list: &&UidList| used && ledger.uidvalidity > Some(list.header.uidvalidity);
        match loaded.list.as_ref().filter(|list| !overruled(list)) {
            Some(list) => {
                // A name in the middle of the file is changed only by rewriting it; and UIDs that
                // only a lost ledger had are found only in the whole file.
                let needs_whole = used || ledger.is_lost || !self.listing.renamed.is_empty();
                if !loaded.whole && needs_whole {
                    return UidAttempt::Whole;
                }
                self.attempt_list(list, loaded.whole, ledger, locked)
            }
            None => {
                let of_ledger =
                    self.before.state.as_ref().is_some_and(|state| state.list.is_none());
                let valid = (used || of_ledger) && loaded.corrupt.is_none();
                let valid = ledger.uidvalidity.filter(|_| valid);
                self.attempt_ledger(valid, ledger, locked)
            }
        }
    }

    /// Decides by the file.
    fn attempt_list(
        &self,
        list: &UidList,
        whole: bool,
        ledger: &MaildirLedger,
        locked: bool,
    ) -> UidAttempt {
        let mut uidvalidity = list.header.uidvalidity;
        let same_ledger = ledger.uidvalidity == Some(uidvalidity);
        let of_ledger = |key: u64| ledger.by_key.get(&key).copied().filter(|_| same_ledger);
        if self.before.state.is_some()
            && (self.before.uidvalidity != Some(uidvalidity)
                || !self.rows_agree(list, whole, &of_ledger))
        {
            return UidAttempt::Reset;
        }
        let mut conflict = same_ledger && contradicts(list, ledger);
        let mut next = list.uidnext().get().max(self.announced_next(uidvalidity));
        next = next.max(if same_ledger { ledger.uidnext } else { 0 });
        let (mut uids, mut nameless, mut unwritten) = (Vec::new(), Vec::new(), false);
        for &at in &self.listing.fresh {
            let sighting = &self.listing.sightings[at as usize];
            let twin = sighting.key != sighting.name.hash;
            let line = list.find(sighting.name.hash, self.listing.names.base(sighting.name));
            match (line.filter(|_| !twin), of_ledger(sighting.key)) {
                (Some(line), _) => uids.push((line.uid, at, true)),
                (None, _) if !whole && !twin && self.may_be_orphan(sighting.key) => {
                    return UidAttempt::Whole;
                }
                (None, Some(uid)) => {
                    // A twin's UID was reserved in the file; another's must be beyond it.
                    conflict |= !twin && uid < list.uidnext();
                    unwritten |= !twin;
                    uids.push((uid, at, twin));
                }
                (None, None) => nameless.push(at),
            }
        }
        // A message that is not listed may have had a UID that only the ledger knew.
        conflict |= ledger.is_lost && !nameless.is_empty();
        unwritten |= self.listing.renamed.iter().any(|(row, _)| !self.is_listed(list, *row));
        let complete = nameless.is_empty() && !conflict && !(unwritten && self.writable);
        if !complete && self.writable && !locked {
            return UidAttempt::Lock;
        }
        if conflict {
            if self.before.state.is_some() {
                return UidAttempt::Reset;
            }
            uidvalidity = self.new_uidvalidity(ledger, Some(uidvalidity));
            for (_, at, _) in uids.extract_if(.., |(_, _, written)| !*written) {
                nameless.push(at);
            }
        }
        let mut rewrite = conflict || (list.rewrite && !complete);
        rewrite |= self.listing.renamed.iter().any(|(row, _)| !self.is_listed(list, *row));
        next = self.number(&mut uids, nameless, next);
        // A twin's UID that no later line covers must be reserved by the header.
        let last_line = uids.iter().filter(|(_, at, _)| !self.is_twin(*at)).map(|u| u.0).max();
        rewrite |= locked
            && last_line < uids.iter().map(|u| u.0).max()
            && uids.iter().any(|(uid, _, _)| *uid >= list.uidnext());
        if (rewrite && !whole) || (locked && !whole && self.is_wasteful(list, uids.len())) {
            return UidAttempt::Whole;
        }
        rewrite |= locked && whole && self.is_wasteful(list, uids.len());
        let uidnext = uid(next);
        self.done(MaildirUidPlan { uidvalidity, uidnext, uids, rewrite, void: false, conflict })
    }

    /// Decides by the ledger (`valid` is its UIDVALIDITY), or without any UIDs.
    fn attempt_ledger(
        &self,
        valid: Option<UidValidity>,
        ledger: &MaildirLedger,
        locked: bool,
    ) -> UidAttempt {
        let before = self.before;
        if before.state.is_some() {
            let agrees =
                |row: &super::before::KnownName| ledger.by_key.get(&row.key) == Some(&row.uid);
            if valid.is_none() || before.uidvalidity != valid || !before.rows.iter().all(agrees) {
                return UidAttempt::Reset;
            }
        }
        if self.writable && !locked {
            return UidAttempt::Lock;
        }
        let uidvalidity = valid.unwrap_or_else(|| self.new_uidvalidity(ledger, None));
        let (mut uids, mut nameless) = (Vec::new(), Vec::new());
        for &at in &self.listing.fresh {
            let key = self.listing.sightings[at as usize].key;
            match ledger.by_key.get(&key).filter(|_| valid.is_some()) {
                Some(uid) => uids.push((*uid, at, false)),
                None => nameless.push(at),
            }
        }
        let mut next = self.announced_next(uidvalidity);
        if valid.is_some() {
            next = next.max(ledger.uidnext);
        }
        let next = self.number(&mut uids, nameless, next);
        self.done(MaildirUidPlan {
            uidvalidity,
            uidnext: uid(next),
            uids,
            rewrite: true,
            void: true,
            conflict: false,
        })
    }

    /// Accepts a plan if new messages come after the known ones; otherwise resets.
    fn done(&self, plan: MaildirUidPlan) -> UidAttempt {
        let known = self.before.last_uid;
        match plan.uids.first() {
            Some((first, _, _)) if first.get() <= known => UidAttempt::Reset,
            _ => UidAttempt::Done(Box::new(plan)),
        }
    }

    /// Gives UIDs to `nameless` in order of arrival; returns the next one. `uids` are then sorted.
    fn number(&self, uids: &mut Vec<(Uid, u32, bool)>, nameless: Vec<u32>, next: u32) -> u32 {
        let past = uids.iter().map(|(uid, _, _)| uid.get().saturating_add(1)).max().unwrap_or(1);
        let mut next = next.max(past);
        for at in self.by_arrival(nameless) {
            uids.push((uid(next), at, false));
            next = next.saturating_add(1);
        }
        uids.sort_unstable_by_key(|(uid, _, _)| *uid);
        next
    }

    /// Sorts sightings as Dovecot does before it gives UIDs: by seconds, then by microseconds if
    /// all of that second have them, then by bytes.
    fn by_arrival(&self, sightings: Vec<u32>) -> Vec<u32> {
        let name_of = |at: u32| self.listing.names.get(self.listing.sightings[at as usize].name);
        let mut keyed: Vec<(name::ArrivalKey, u32)> =
            sightings.into_iter().map(|at| (name::arrival_key(name_of(at)), at)).collect();
        keyed.sort_unstable_by_key(|(key, _)| key.seconds);
        for second in keyed.chunk_by_mut(|a, b| a.0.seconds == b.0.seconds) {
            let timed = second.iter().all(|(key, _)| key.micros.is_some());
            second.sort_unstable_by(|a, b| {
                let rest = |x: &(name::ArrivalKey, u32)| &name_of(x.1)[usize::from(x.0.rest)..];
                let micros =
                    if timed { a.0.micros.cmp(&b.0.micros) } else { std::cmp::Ordering::Equal };
                let twins = || {
                    let key =
                        |x: &(name::ArrivalKey, u32)| self.listing.sightings[x.1 as usize].key;
                    key(a).cmp(&key(b))
                };
                micros.then_with(|| name::compare_rest(rest(a), rest(b))).then_with(twins)
            });
        }
        keyed.into_iter().map(|(_, at)| at).collect()
    }

    /// Returns `true` if the file still agrees with the known messages.
    fn rows_agree(
        &self,
        list: &UidList,
        whole: bool,
        of_ledger: &dyn Fn(u64) -> Option<Uid>,
    ) -> bool {
        let before = self.before;
        if before.is_partial() {
            // Another program may have given a known message another UID.
            return list.lines().is_empty();
        }
        if !whole {
            return list.lines().iter().all(|line| {
                let row = before.find(line.hash, list.name(line));
                row.is_none_or(|at| before.rows[at as usize].uid == line.uid)
            });
        }
        before.rows.iter().zip(&self.listing.seen).all(|(row, seen)| {
            let line = list.find(row.name.hash, before.names.base(row.name));
            let line = match seen {
                // The program that renamed it may have listed the new name.
                MaildirMatch::Changed(at) => self.line_of(list, *at).or(line),
                _ => line,
            };
            *seen == MaildirMatch::Gone
                || match line.filter(|_| !row.is_twin()) {
                    Some(line) => line.uid == row.uid,
                    None => of_ledger(row.key) == Some(row.uid) || self.has_old_name(list, row),
                }
        })
    }

    /// Returns the line of the name under which a message was seen.
    fn line_of<'l>(&self, list: &'l UidList, sighting: u32) -> Option<&'l UidLine> {
        let name = self.listing.sightings[sighting as usize].name;
        list.find(name.hash, self.listing.names.base(name))
    }

    /// Returns `true` if the list has a known message under its current name.
    fn is_listed(&self, list: &UidList, row: u32) -> bool {
        match self.listing.seen[row as usize] {
            MaildirMatch::Changed(at) => self.line_of(list, at).is_some(),
            _ => true,
        }
    }

    /// Returns `true` if the list still has a message under the name before mbsync renamed it,
    /// since the list could not be written then.
    fn has_old_name(&self, list: &UidList, row: &KnownName) -> bool {
        row.key != row.name.hash && list.find_hash(row.key).is_some_and(|line| line.uid == row.uid)
    }

    /// Returns the name that the line of a known message should have, if the line has an older one.
    pub(super) fn new_name(&self, list: &UidList, line: &UidLine) -> Option<&[u8]> {
        let before = self.before;
        let at = before.rows.binary_search_by_key(&line.uid, |row| row.uid).ok()?;
        let row = &before.rows[at];
        if row.is_twin() || row.key != line.hash {
            return None;
        }
        let base = match self.listing.seen[at] {
            MaildirMatch::Gone => return None,
            MaildirMatch::Same => before.names.base(row.name),
            MaildirMatch::Changed(at) => self.base_of(at),
        };
        (base != list.name(line)).then_some(base)
    }

    /// Returns `true` if a name that is in no line read now may be in one read earlier.
    fn may_be_orphan(&self, hash: u64) -> bool {
        let orphans = self.before.state.as_ref().and_then(|state| state.orphans.as_ref());
        orphans.is_none_or(|orphans| orphans.binary_search(&hash).is_ok())
    }

    pub(super) fn is_twin(&self, sighting: u32) -> bool {
        let sighting = &self.listing.sightings[sighting as usize];
        sighting.key != sighting.name.hash
    }

    fn announced_next(&self, uidvalidity: UidValidity) -> u32 {
        match self.announced {
            Some((announced, next)) if announced == uidvalidity => next.get(),
            _ => 1,
        }
    }

    /// Returns a UIDVALIDITY above every known one.
    fn new_uidvalidity(&self, ledger: &MaildirLedger, old: Option<UidValidity>) -> UidValidity {
        let above = |known: Option<UidValidity>| known.map_or(1, |v| v.get().saturating_add(1));
        let known = above(old)
            .max(above(self.announced.map(|announced| announced.0)))
            .max(above(ledger.uidvalidity));
        UidValidity::new(ledger.next_uidvalidity.max(known)).unwrap_or(UidValidity::MAX)
    }

    /// Returns `true` if so many lines have no file that the list should be rewritten. Only names
    /// that were missing in an earlier scan as well may be dropped.
    fn is_wasteful(&self, list: &UidList, fresh: usize) -> bool {
        let Some(state) = &self.before.state else {
            return false;
        };
        let droppable = state.orphans.as_ref().map_or(0, Vec::len);
        let known = state.list.as_ref().map_or(0, |list| list.lines as usize);
        let lines = known.max(list.lines().len()) + fresh;
        let live = self.before.len() + fresh;
        droppable > 0 && lines / 4 * 3 >= live
    }

    /// Returns `true` if the file of a line exists, or may exist.
    pub(super) fn is_live(&self, hash: u64, base: &[u8]) -> bool {
        match self.before.find(hash, base) {
            Some(row) => self.listing.seen[row as usize] != MaildirMatch::Gone,
            None => self.listing.find_fresh(hash, base).is_some(),
        }
    }
}

/// Returns `true` if the file gives a UID of the ledger to another message, or another UID to a
/// message of the ledger.
fn contradicts(list: &UidList, ledger: &MaildirLedger) -> bool {
    if ledger.by_key.is_empty() {
        return false;
    }
    let by_uid: HashMap<Uid, u64> = ledger.by_key.iter().map(|(key, uid)| (*uid, *key)).collect();
    list.lines().iter().any(|line| {
        by_uid.get(&line.uid).is_some_and(|key| *key != line.hash)
            || ledger.by_key.get(&line.hash).is_some_and(|uid| *uid != line.uid)
    })
}

/// Takes the dotlock of the UIDs; `None` if it cannot be created.
pub(super) fn take_lock(vfs: &Arc<dyn Vfs>, uidlist: &Path) -> Result<Option<DotLock>> {
    take_lock_unless(vfs, uidlist, &ChangeProgress::default())
}

/// Takes the dotlock as [`take_lock`] does, but gives up as soon as the change is to stop.
///
/// # Errors
/// [`Error::Locked`]; [`Error::Stopped`].
pub(super) fn take_lock_unless(
    vfs: &Arc<dyn Vfs>,
    uidlist: &Path,
    steps: &ChangeProgress<'_>,
) -> Result<Option<DotLock>> {
    let options = DotLockOptions { timeout: LOCK_SLICE, ..DotLockOptions::default() };
    let mut waited = LOCK_SLICE;
    loop {
        match DotLock::acquire(vfs, uidlist, options) {
            Ok(lock) => return Ok(Some(lock)),
            Err(LockError::Held { .. }) if waited < LOCK_TIMEOUT => {
                steps.check(uidlist)?;
                waited += LOCK_SLICE;
            }
            Err(LockError::Held { path, holder }) => {
                return Err(Error::Locked {
                    path,
                    holder: holder.unwrap_or_else(|| "another program".to_owned()),
                    waited_ms: LOCK_TIMEOUT.as_millis() as u64,
                });
            }
            Err(_) => return Ok(None),
        }
    }
}

/// Makes a UID; 0 becomes 1.
fn uid(number: u32) -> Uid {
    Uid::new(number.max(1)).unwrap_or(Uid::MIN)
}
