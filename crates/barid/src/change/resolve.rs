//! Combining the request and the pending changes into the changes for a format.

use std::collections::BTreeMap;

use barid_cache::{Core, Snapshot};
use barid_mailbox::{ChangeSet, FlagChange, FlagChanges};
use barid_state::{FlagDelta, PendingKind, PendingRecord};
use barid_types::{FlagSet, Keyword, KeywordTable, Uid};

use super::ChangeRequest;
use super::matching::{BodyHash, Match, find_all};
use crate::{KeywordLimit, Result};

/// The changes of one pass.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// Changes for the format.
    pub(crate) changes: ChangeSet,
    /// Number of messages that get other flags or keywords.
    pub(crate) flagged: u32,
    /// Messages that the request names and that do not exist, in ascending order.
    pub(crate) gone: Vec<Uid>,
    /// Messages of pending changes that do not exist, in ascending order.
    pub(crate) pending_gone: Vec<Uid>,
    /// Sequence numbers of the pending changes that stay pending.
    pub(crate) ambiguous: Vec<u64>,
}

/// Sum of the pending changes.
#[derive(Debug, Default)]
struct FromPending {
    flags: BTreeMap<Uid, FlagChange>,
    expunge: Vec<Uid>,
}

/// Combines the request and the earlier pending changes, without the pending keywords that are
/// `refused`.
pub(crate) fn resolve(
    snapshot: &Snapshot,
    pending: &[PendingRecord],
    refused: &[(Keyword, KeywordLimit)],
    request: &ChangeRequest<'_>,
    body_hash: &mut BodyHash<'_>,
) -> Result<Resolved> {
    let mut resolved = Resolved::default();
    let mut before = FromPending::default();
    before.take(snapshot, pending, &mut resolved, body_hash)?;
    for change in before.flags.values_mut() {
        let is_refused = |name: &Keyword| refused.iter().any(|(refused, _)| refused == name);
        change.add_keywords.retain(|name| !is_refused(name));
    }
    let mut expunge = request.expunge.clone();
    expunge.extend(before.expunge);
    expunge.sort_unstable();
    expunge.dedup();
    let mut flags = in_order(before.flags, &request.flags);
    if !expunge.is_empty() {
        flags.retain(|uid| expunge.binary_search(&uid).is_err());
    }
    let names = &snapshot.meta().keywords;
    let mut changes = flags.iter();
    let there = there(snapshot, flags.uids(), &mut |core| {
        let change = changes.find(|(uid, _)| *uid == core.uid);
        let is_change = change.is_some_and(|(_, change)| !is_noop(change, core, names));
        resolved.flagged += u32::from(is_change);
    })?;
    drop(changes);
    if there.contains(&false) {
        let mut there = there.into_iter();
        flags.retain(|uid| keep(uid, &mut there, &mut resolved.gone));
    }
    let mut there = self::there(snapshot, expunge.iter().copied(), &mut |_| {})?.into_iter();
    expunge.retain(|uid| keep(*uid, &mut there, &mut resolved.gone));
    let (drop_recent, write_uids) = (request.drop_recent, request.write_uids);
    resolved.changes =
        ChangeSet { flags, expunge, keywords: request.keywords.clone(), drop_recent, write_uids };
    for gone in [&mut resolved.gone, &mut resolved.pending_gone] {
        gone.sort_unstable();
        gone.dedup();
    }
    Ok(resolved)
}

impl FromPending {
    fn take(
        &mut self,
        snapshot: &Snapshot,
        records: &[PendingRecord],
        resolved: &mut Resolved,
        body_hash: &mut BodyHash<'_>,
    ) -> Result<()> {
        let changes = records.iter().map(|record| &record.change);
        let found = find_all(snapshot, changes, body_hash)?;
        for (record, found) in records.iter().zip(found) {
            match (found, &record.change.kind) {
                (Match::Message(uid), PendingKind::Flags(delta)) => {
                    then(self.flags.entry(uid).or_default(), &change_of(delta));
                }
                (Match::Message(uid), PendingKind::Expunge) => self.expunge.push(uid),
                (Match::Gone, _) => resolved.pending_gone.push(record.change.uid),
                (Match::Ambiguous, _) => resolved.ambiguous.push(record.sequence),
            }
        }
        Ok(())
    }
}

/// Returns one change for each message, ascending: first the pending ones, then the requested ones.
fn in_order(before: BTreeMap<Uid, FlagChange>, flags: &FlagChanges) -> FlagChanges {
    match flags.is_ascending() {
        true if before.is_empty() => flags.clone(),
        true => merged(before, flags),
        false => {
            let mut all = before;
            for (uid, change) in flags.iter() {
                then(all.entry(uid).or_default(), change);
            }
            all.into_iter().collect()
        }
    }
}

/// Does the same for ascending changes; only those that differ from their neighbours take memory.
fn merged(mut before: BTreeMap<Uid, FlagChange>, flags: &FlagChanges) -> FlagChanges {
    let mut all = FlagChanges::default();
    for (uid, change) in flags.iter() {
        while let Some(earlier) = before.first_entry().filter(|earlier| *earlier.key() < uid) {
            all.push(earlier.remove_entry());
        }
        match before.remove(&uid) {
            Some(mut both) => {
                then(&mut both, change);
                all.push((uid, both));
            }
            None => all.push_all([uid], change),
        }
    }
    all.extend(before);
    all
}

/// Combines `change` with `later` into one change.
pub(super) fn then(change: &mut FlagChange, later: &FlagChange) {
    let set = |bits: u8| FlagSet::from_bits(bits);
    change.add = set(change.add.bits() & !later.remove.bits() | later.add.bits());
    change.remove = set(change.remove.bits() & !later.add.bits() | later.remove.bits());
    let merge = |names: &mut Vec<Keyword>, without: &[Keyword], with: &[Keyword]| {
        names.retain(|name| !without.contains(name));
        for name in with {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    };
    merge(&mut change.add_keywords, &later.remove_keywords, &later.add_keywords);
    merge(&mut change.remove_keywords, &later.add_keywords, &later.remove_keywords);
}

/// Returns `true` if the change has no effect on a message.
pub(crate) fn is_noop(change: &FlagChange, core: &Core, names: &KeywordTable) -> bool {
    let flags = (core.flags.bits() | change.add.bits()) & !change.remove.bits();
    let has =
        |name: &Keyword| names.slot(name).is_some_and(|slot| core.keywords.0 >> slot & 1 == 1);
    let removes = |name: &Keyword| change.remove_keywords.contains(name);
    flags == core.flags.bits()
        && change.add_keywords.iter().all(|name| has(name) || removes(name))
        && !change.remove_keywords.iter().any(has)
}

/// Returns one value for each of some ascending UIDs: `true` if it exists; calls `visit` for those
/// that do, in order.
///
/// Looks each one up, or walks through all rows if that reads less.
pub(crate) fn there(
    snapshot: &Snapshot,
    uids: impl Iterator<Item = Uid>,
    visit: &mut dyn FnMut(&Core),
) -> Result<Vec<bool>> {
    let uids: Vec<Uid> = uids.collect();
    let mut there = vec![false; uids.len()];
    if uids.len() as u64 * 32 < u64::from(snapshot.len()) {
        for (uid, there) in uids.iter().zip(&mut there) {
            let Some(row) = snapshot.row_of_uid(*uid)? else { continue };
            visit(&snapshot.core(row)?);
            *there = true;
        }
        return Ok(there);
    }
    let mut at = 0;
    snapshot.cores(0..snapshot.len(), &mut |_, core| {
        while uids.get(at).is_some_and(|uid| *uid < core.uid) {
            at += 1;
        }
        if uids.get(at) == Some(&core.uid) {
            visit(core);
            there[at] = true;
        }
    })?;
    Ok(there)
}

/// Returns `true` if the next message exists; puts its UID into `gone` if it does not.
fn keep(uid: Uid, there: &mut impl Iterator<Item = bool>, gone: &mut Vec<Uid>) -> bool {
    let is_there = there.next().unwrap_or(false);
    if !is_there {
        gone.push(uid);
    }
    is_there
}

/// Converts a change from the form of the journal of pending changes.
pub(super) fn change_of(delta: &FlagDelta) -> FlagChange {
    FlagChange {
        add: delta.add,
        remove: delta.remove,
        add_keywords: delta.add_keywords.clone(),
        remove_keywords: delta.remove_keywords.clone(),
    }
}

/// Converts a change to the form of the journal of pending changes.
pub(crate) fn delta_of(change: &FlagChange) -> FlagDelta {
    FlagDelta {
        add: change.add,
        remove: change.remove,
        add_keywords: change.add_keywords.clone(),
        remove_keywords: change.remove_keywords.clone(),
    }
}

#[cfg(test)]
mod tests {
    use barid_types::Flag;

    use super::*;

    #[test]
    fn later_changes_come_after_earlier_ones() {
        let uid = |number| Uid::new(number).expect("because it is not 0");
        let adds = |flag| FlagChange { add: FlagSet::EMPTY.with(flag), ..FlagChange::default() };
        let removes =
            |flag| FlagChange { remove: FlagSet::EMPTY.with(flag), ..FlagChange::default() };
        let before: BTreeMap<_, _> =
            [1, 4, 6, 9].map(|number| (uid(number), removes(Flag::Seen))).into();
        let mut flags = FlagChanges::default();
        flags.push_all([2, 3, 4, 5, 6].map(uid), &adds(Flag::Seen));
        let mut backwards: Vec<_> = flags.iter().map(|(uid, own)| (uid, own.clone())).collect();
        backwards.reverse();
        let expected = [
            (1, removes(Flag::Seen)),
            (2, adds(Flag::Seen)),
            (3, adds(Flag::Seen)),
            (4, adds(Flag::Seen)),
            (5, adds(Flag::Seen)),
            (6, adds(Flag::Seen)),
            (9, removes(Flag::Seen)),
        ];
        let expected: FlagChanges =
            expected.into_iter().map(|(number, change)| (uid(number), change)).collect();
        assert_eq!(in_order(before.clone(), &flags), expected);
        assert_eq!(in_order(before, &backwards.into()), expected);
    }
}
