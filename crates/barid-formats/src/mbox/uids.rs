//! Which UID each message has.
//!
//! A message keeps the UID of its `X-UID` if that is credible: above the one before and not above
//! the last one that `X-IMAPbase` says was given out. Any other message is looked for in the ledger
//! by its key, and by its order among messages of the same key. UIDs ascend in file order, so what
//! was put before an older message, and everything behind it, gets new UIDs above all others, as in
//! Dovecot. UIDVALIDITY is the mailbox's own; it rises above that if a UID that the ledger gave out
//! would come to mean another message.

use barid_state::{Ledger, LedgerEntry, MessageKey};
use barid_types::{Uid, UidValidity};
use barid_vfs::Timestamp;

use super::status::Base;
use crate::Result;

/// What is needed to know of a message to find its UID.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// What it is.
    pub(super) key: MessageKey,
    /// Its X-UID; 0 if it has none.
    pub(super) uid: u32,
}

/// What is known before the first item.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    /// The UIDVALIDITY of the cache.
    pub(super) validity: Option<UidValidity>,
    /// The lowest UID that the cache knows to be unused.
    pub(super) uidnext: Option<Uid>,
    /// The UID of the message before the first item; 0 if the items are the whole mailbox.
    pub(super) last: u32,
}

/// The UIDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assigned {
    /// One for each item.
    pub(super) uids: Vec<Uid>,
    /// Their UIDVALIDITY.
    pub(super) validity: UidValidity,
    /// The lowest unused one.
    pub(super) uidnext: Uid,
}

/// Gives every item its UID; what is new is in the ledger, for the caller to commit. It must be
/// locked. `is_settled` says whether the items are still all there is in the mailbox: only then may
/// what the ledger has beside them be dropped. The answer is `None`, and nothing was changed, if
/// the items are just the tail and the whole mailbox must be seen to number them.
///
/// Costs O(items + entries) where the order did not change, else O(n log n).
pub(super) fn assign(
    ledger: &mut Ledger,
    base: Option<&Base>,
    items: &[Item],
    before: Before,
    now: Timestamp,
    is_settled: &dyn Fn() -> bool,
) -> Result<Option<Assigned>> {
    let is_tail = before.last != 0;
    if !is_tail {
        replace_if_damaged(ledger, now)?;
    }
    let old_validity = ledger.uidvalidity();
    let base_validity = base.map(|base| base.validity);
    let validity = match (base_validity, old_validity) {
        (Some(base), Some(old)) => base.max(old),
        (Some(base), None) => base,
        (None, Some(old)) => old,
        (None, None) => above(ledger.next_uidvalidity(now), before.validity),
    };
    if is_tail && (old_validity != Some(validity) || before.validity != Some(validity)) {
        return Ok(None);
    }
    if old_validity != Some(validity) {
        ledger.replace(validity, Vec::new());
    }
    let ledger_next = ledger.uidnext().map_or(1, Uid::get);
    let nothing_newer = is_tail && before.uidnext.is_some_and(|known| ledger_next <= known.get());
    let entries = if nothing_newer { Vec::new() } else { ledger.entries()?.to_vec() };
    let mut matching = Matching::new(&entries, before.last);
    let uid_last = base.map_or(0, |base| base.uid_last);
    let same_as_cache = before.validity.is_none_or(|known| known == validity);
    let known_next = before.uidnext.filter(|_| same_as_cache).map_or(1, Uid::get);
    let start = uid_last.saturating_add(1).max(known_next).max(ledger_next).max(before.last);
    let numbered = number(items, &mut matching, before.last, uid_last, start);
    let numbered = match numbered {
        Some(numbered) => numbered,
        None if is_tail => return Ok(None),
        None => {
            let validity = above(ledger.next_uidvalidity(now), Some(validity));
            return renumber(ledger, items, validity).map(Some);
        }
    };
    let uidnext = numbered.next;
    if is_conflict(&entries, items, &numbered.uids) && is_tail {
        return Ok(None);
    }
    if is_conflict(&entries, items, &numbered.uids) {
        let validity = above(ledger.next_uidvalidity(now), Some(validity));
        let own = own_entries(items, &numbered);
        ledger.replace(validity, own);
        ledger.raise_uidnext(uidnext);
        return Ok(Some(Assigned { uids: numbered.uids, validity, uidnext }));
    }
    let mut dirty = old_validity != Some(validity);
    for index in &numbered.new {
        let entry = LedgerEntry { uid: numbered.uids[*index], key: items[*index].key };
        ledger.push(entry);
        dirty = true;
    }
    let gone = if !is_tail { gone(&entries, &numbered.uids) } else { Vec::new() };
    if !gone.is_empty() && is_settled() {
        ledger.expunge(&gone);
        dirty = true;
    }
    if dirty {
        ledger.raise_uidnext(uidnext);
    }
    Ok(Some(Assigned { uids: numbered.uids, validity, uidnext }))
}

/// What is damaged is lost: all its UIDs are void.
fn replace_if_damaged(ledger: &mut Ledger, now: Timestamp) -> Result<()> {
    match ledger.entries() {
        Err(barid_state::Error::Damaged { .. }) => {
            ledger.replace(ledger.next_uidvalidity(now), Vec::new());
            Ok(())
        }
        entries => Ok(entries.map(drop)?),
    }
}

fn above(validity: UidValidity, known: Option<UidValidity>) -> UidValidity {
    match known {
        Some(known) if validity <= known => known.next().unwrap_or(UidValidity::MAX),
        _ => validity,
    }
}

struct Numbered {
    uids: Vec<Uid>,
    /// The items whose UID is in no place yet, ascending.
    new: Vec<usize>,
    next: Uid,
}

/// `None` if the UIDs do not suffice.
fn number(
    items: &[Item],
    matching: &mut Matching<'_>,
    last: u32,
    uid_last: u32,
    start: u32,
) -> Option<Numbered> {
    let mut uids = Vec::with_capacity(items.len());
    let (mut new, mut previous, mut next) = (Vec::new(), last, start);
    for (index, item) in items.iter().enumerate() {
        let uid = if item.uid > previous && item.uid <= uid_last {
            Uid::new(item.uid)?
        } else if let Some(uid) = matching.find(item.key, previous) {
            uid
        } else {
            new.push(index);
            Uid::new(next.max(previous.checked_add(1)?))?
        };
        previous = uid.get();
        if previous >= next {
            next = previous.checked_add(1)?;
        }
        uids.push(uid);
    }
    Some(Numbered { uids, new, next: Uid::new(next)? })
}

/// Finds ledger entries by key, each once, with ascending UIDs.
struct Matching<'a> {
    entries: &'a [LedgerEntry],
    /// The first entry that may still be found.
    at: usize,
    /// Entries by key and place; made when the order is first found to differ.
    by_key: Option<Vec<(MessageKey, u32)>>,
}

impl<'a> Matching<'a> {
    fn new(entries: &'a [LedgerEntry], last: u32) -> Self {
        let at = entries.partition_point(|entry| entry.uid.get() <= last);
        Self { entries, at, by_key: None }
    }

    fn find(&mut self, key: MessageKey, previous: u32) -> Option<Uid> {
        while self.entries.get(self.at).is_some_and(|entry| entry.uid.get() <= previous) {
            self.at += 1;
        }
        let next = self.entries.get(self.at)?;
        if next.key == key {
            self.at += 1;
            return Some(next.uid);
        }
        let entries = self.entries;
        let by_key = self.by_key.get_or_insert_with(|| {
            let mut places: Vec<_> =
                entries.iter().enumerate().map(|(place, e)| (e.key, place as u32)).collect();
            places.sort_unstable();
            places
        });
        let found = by_key.partition_point(|place| *place < (key, self.at as u32));
        let (found_key, place) = *by_key.get(found)?;
        if found_key != key {
            return None;
        }
        self.at = place as usize + 1;
        Some(self.entries[place as usize].uid)
    }
}

/// Whether a UID of the ledger now means another message.
fn is_conflict(entries: &[LedgerEntry], items: &[Item], uids: &[Uid]) -> bool {
    let mut at = 0;
    entries.iter().any(|entry| {
        while uids.get(at).is_some_and(|uid| *uid < entry.uid) {
            at += 1;
        }
        uids.get(at) == Some(&entry.uid) && items[at].key != entry.key
    })
}

/// Entries of the ledger whose message is in the mailbox no more.
fn gone(entries: &[LedgerEntry], uids: &[Uid]) -> Vec<Uid> {
    let mut at = 0;
    let is_gone = |entry: &&LedgerEntry| {
        while uids.get(at).is_some_and(|uid| *uid < entry.uid) {
            at += 1;
        }
        uids.get(at) != Some(&entry.uid)
    };
    entries.iter().filter(is_gone).map(|entry| entry.uid).collect()
}

/// The entries of all items whose UID is not that of their X-UID.
fn own_entries(items: &[Item], numbered: &Numbered) -> Vec<LedgerEntry> {
    let pairs = items.iter().zip(&numbered.uids);
    pairs
        .filter(|(item, uid)| item.uid != uid.get())
        .map(|(item, uid)| LedgerEntry { uid: *uid, key: item.key })
        .collect()
}

/// Starts again from 1 under a new UIDVALIDITY, with every UID in the ledger.
fn renumber(ledger: &mut Ledger, items: &[Item], validity: UidValidity) -> Result<Assigned> {
    let uids: Vec<Uid> = (1..).map_while(Uid::new).take(items.len()).collect();
    let entries =
        items.iter().zip(&uids).map(|(item, uid)| LedgerEntry { uid: *uid, key: item.key });
    let uidnext = uids.last().map_or(Some(Uid::MIN), |last| last.next()).unwrap_or(Uid::MAX);
    ledger.replace(validity, entries.collect());
    ledger.raise_uidnext(uidnext);
    Ok(Assigned { uids, validity, uidnext })
}
