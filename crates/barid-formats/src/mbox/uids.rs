//! Assigns UIDs to the messages of a scan.
//!
//! A message keeps the UID of its `X-UID` if that is credible: above that of the message before,
//! and not above the last UID assigned according to `X-IMAPbase`. Any other message is looked up in
//! the ledger by its key, and by its order among messages of the same key. UIDs ascend in file
//! order, so a message inserted before an older one gets a new UID above all others, and so does
//! everything after it, as in Dovecot. UIDVALIDITY is the mailbox's own; it rises if a UID that
//! the ledger assigned would come to mean another message.

use std::ops::Range;

use barid_mailbox::Result;
use barid_state::{Ledger, LedgerEntry, MessageKey};
use barid_types::{Uid, UidValidity};
use barid_vfs::Timestamp;

use super::status::MailboxFields;

/// Properties of a message that decide its UID.
#[derive(Clone, Copy, Debug)]
pub(super) struct UidFields {
    /// Its message key.
    pub(super) key: MessageKey,
    /// Its X-UID; 0 if it has none.
    pub(super) uid: u32,
}

/// Items in file order, in the pieces in which they were found: joining them would hold all twice
/// for a moment. There is one for every message of a mailbox that is scanned as a whole.
#[derive(Debug, Default)]
pub(super) struct Items(Vec<UidRun>);

#[derive(Debug, Default)]
struct UidRun {
    keys: Vec<MessageKey>,
    /// Empty as long as no item has an X-UID.
    uids: Vec<u32>,
}

impl Items {
    pub(super) fn push(&mut self, item: UidFields) {
        if self.0.is_empty() {
            self.0.push(UidRun::default());
        }
        if let Some(piece) = self.0.last_mut() {
            piece.push(item);
        }
    }

    /// Adds the items that follow.
    pub(super) fn append(&mut self, mut next: Self) {
        self.0.append(&mut next.0);
    }

    /// Frees unused capacity.
    pub(super) fn shrink(&mut self) {
        self.0.iter_mut().for_each(UidRun::shrink);
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|piece| piece.keys.len()).sum()
    }

    fn iter(&self) -> impl Iterator<Item = UidFields> + '_ {
        self.0.iter().flat_map(UidRun::iter)
    }
}

impl UidRun {
    fn push(&mut self, item: UidFields) {
        if item.uid != 0 && self.uids.is_empty() {
            self.uids.resize(self.keys.len(), 0);
        }
        if item.uid != 0 || !self.uids.is_empty() {
            self.uids.push(item.uid);
        }
        self.keys.push(item.key);
    }

    /// Copies the items to a new allocation: shrinking in place would leave a gap behind it that is
    /// too small for the next piece to grow in.
    fn shrink(&mut self) {
        self.keys = self.keys.as_slice().to_vec();
        self.uids = self.uids.as_slice().to_vec();
    }

    fn iter(&self) -> impl Iterator<Item = UidFields> + '_ {
        let uids = self.uids.iter().copied().chain(std::iter::repeat(0));
        self.keys.iter().zip(uids).map(|(key, uid)| UidFields { key: *key, uid })
    }
}

/// State before the first item.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UidsBefore {
    /// The UIDVALIDITY of the cache.
    pub(super) validity: Option<UidValidity>,
    /// The lowest UID that the cache knows to be unused.
    pub(super) uidnext: Option<Uid>,
    /// The UID of the message before the first item; 0 if the items are the whole mailbox.
    pub(super) last: u32,
}

/// Result of [`assign`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AssignedUids {
    /// The UID of each item.
    pub(super) uids: Vec<Uid>,
    /// Their UIDVALIDITY.
    pub(super) validity: UidValidity,
    /// The lowest unused one.
    pub(super) uidnext: Uid,
}

/// Gives every item its UID and adds new ones to the ledger, which must be locked and which the
/// caller commits. `is_settled` returns `true` if the items are still all messages of the mailbox:
/// only then are other entries removed from the ledger. Returns `None`, with nothing changed, if
/// the items are only the tail and the whole mailbox is needed to number them.
///
/// Costs O(items + entries) if the order did not change, else O(n log n).
pub(super) fn assign(
    ledger: &mut Ledger,
    base: Option<&MailboxFields>,
    items: &Items,
    before: UidsBefore,
    now: Timestamp,
    is_settled: &dyn Fn() -> bool,
) -> Result<Option<AssignedUids>> {
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
    let entries = if nothing_newer { &[] } else { ledger.entries()? };
    let mut matching = Matching::new(entries, before.last);
    let uid_last = base.map_or(0, |base| base.uid_last);
    let same_as_cache = before.validity.is_none_or(|known| known == validity);
    let known_next = before.uidnext.filter(|_| same_as_cache).map_or(1, Uid::get);
    let start = uid_last.saturating_add(1).max(known_next).max(ledger_next).max(before.last);
    let numbered = number(items, &mut matching, before.last, uid_last, start);
    let is_conflict =
        numbered.as_ref().is_some_and(|numbered| is_conflict(entries, items, &numbered.uids));
    let numbered = match numbered {
        Some(numbered) if !is_conflict => numbered,
        _ if is_tail => return Ok(None),
        numbered => {
            let validity = above(ledger.next_uidvalidity(now), Some(validity));
            return begin_anew(ledger, items, numbered, validity).map(Some);
        }
    };
    let uidnext = numbered.next;
    let gone = if !is_tail { uids_without_message(entries, &numbered.uids) } else { Vec::new() };
    let mut dirty = old_validity != Some(validity);
    let count = numbered.new.iter().map(|stretch| stretch.len()).sum();
    // For a delivery, the ledger's own growth is enough.
    if !is_tail {
        ledger.reserve(count);
    }
    for entry in numbered.new_entries(items) {
        ledger.push(entry);
        dirty = true;
    }
    if !gone.is_empty() && is_settled() {
        ledger.expunge(&gone);
        dirty = true;
    }
    if dirty {
        ledger.raise_uidnext(uidnext);
    }
    Ok(Some(AssignedUids { uids: numbered.uids, validity, uidnext }))
}

/// Replaces a damaged or lost ledger: all its UIDs become void.
fn replace_if_damaged(ledger: &mut Ledger, now: Timestamp) -> Result<()> {
    match ledger.entries() {
        Err(barid_state::Error::Damaged { .. }) => {
            ledger.replace(ledger.next_uidvalidity(now), Vec::new());
            Ok(())
        }
        entries => {
            entries?;
            // A lost ledger's content is unknown: no UID that it may have assigned is used again.
            if ledger.is_lost() {
                ledger.replace(ledger.next_uidvalidity(now), Vec::new());
            }
            Ok(())
        }
    }
}

fn above(validity: UidValidity, known: Option<UidValidity>) -> UidValidity {
    match known {
        Some(known) if validity <= known => known.next().unwrap_or(UidValidity::MAX),
        _ => validity,
    }
}

struct UidOfItem {
    uids: Vec<Uid>,
    /// Ranges, ascending, of the items whose UID is neither in the mailbox nor in the ledger.
    new: Vec<Range<usize>>,
    next: Uid,
}

impl UidOfItem {
    /// Returns the ledger entries of the items in `new`.
    fn new_entries<'a>(&'a self, items: &'a Items) -> impl Iterator<Item = LedgerEntry> + 'a {
        let mut new = self.new.iter().peekable();
        let pairs = items.iter().zip(&self.uids).enumerate();
        pairs.filter_map(move |(index, (item, uid))| {
            new.next_if(|stretch| stretch.end <= index);
            let is_new = new.peek().is_some_and(|stretch| stretch.contains(&index));
            is_new.then_some(LedgerEntry { uid: *uid, key: item.key })
        })
    }
}

/// Numbers the items; `None` if the UIDs run out.
fn number(
    items: &Items,
    matching: &mut Matching<'_>,
    last: u32,
    uid_last: u32,
    start: u32,
) -> Option<UidOfItem> {
    let mut uids = Vec::with_capacity(items.len());
    let (mut new, mut previous, mut next) = (Vec::<Range<usize>>::new(), last, start);
    for (index, item) in items.iter().enumerate() {
        let uid = if item.uid > previous && item.uid <= uid_last {
            Uid::new(item.uid)?
        } else if let Some(uid) = matching.find(item.key, previous) {
            uid
        } else {
            match new.last_mut() {
                Some(stretch) if stretch.end == index => stretch.end += 1,
                _ => new.push(index..index + 1),
            }
            Uid::new(next.max(previous.checked_add(1)?))?
        };
        previous = uid.get();
        if previous >= next {
            next = previous.checked_add(1)?;
        }
        uids.push(uid);
    }
    Some(UidOfItem { uids, new, next: Uid::new(next)? })
}

/// Finds ledger entries by key, each once, with ascending UIDs.
struct Matching<'a> {
    entries: &'a [LedgerEntry],
    /// The first entry that may still be found.
    at: usize,
    /// Entry indexes sorted by key and index; built when the order is first found to differ.
    by_key: Option<Vec<u32>>,
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
        if { next.key } == key {
            self.at += 1;
            return Some(next.uid);
        }
        let entries = self.entries;
        let by_key = self.by_key.get_or_insert_with(|| {
            let mut places: Vec<u32> = (0..entries.len() as u32).collect();
            places.sort_unstable_by_key(|place| (entries[*place as usize].key, *place));
            places
        });
        let key_at = |place: u32| entries[place as usize].key;
        let from = (key, self.at as u32);
        let found = by_key.partition_point(|place| (key_at(*place), *place) < from);
        let place = *by_key.get(found)?;
        if key_at(place) != key {
            return None;
        }
        self.at = place as usize + 1;
        Some(entries[place as usize].uid)
    }
}

/// Returns `true` if a UID of the ledger now means another message.
fn is_conflict(entries: &[LedgerEntry], items: &Items, uids: &[Uid]) -> bool {
    let mut messages = items.iter().zip(uids).peekable();
    entries.iter().any(|entry| {
        let LedgerEntry { uid, key } = *entry;
        while messages.next_if(|(_, other)| **other < uid).is_some() {}
        messages.peek().is_some_and(|(item, other)| **other == uid && { item.key } != key)
    })
}

/// Returns the UIDs of ledger entries whose message is no longer in the mailbox.
fn uids_without_message(entries: &[LedgerEntry], uids: &[Uid]) -> Vec<Uid> {
    let mut at = 0;
    let is_gone = |gone: &Uid| {
        while uids.get(at).is_some_and(|uid| uid < gone) {
            at += 1;
        }
        uids.get(at) != Some(gone)
    };
    entries.iter().map(|entry| entry.uid).filter(is_gone).collect()
}

/// Returns the entries of all items whose UID is not that of their X-UID.
fn own_entries(items: &Items, numbered: &UidOfItem) -> Vec<LedgerEntry> {
    let pairs = items.iter().zip(&numbered.uids);
    pairs
        .filter(|(item, uid)| { item.uid } != uid.get())
        .map(|(item, uid)| LedgerEntry { uid: *uid, key: item.key })
        .collect()
}

/// Replaces the whole ledger under a new UIDVALIDITY: with the UIDs as numbered, or, if the UIDs
/// ran out, with new ones from 1.
fn begin_anew(
    ledger: &mut Ledger,
    items: &Items,
    numbered: Option<UidOfItem>,
    validity: UidValidity,
) -> Result<AssignedUids> {
    let Some(numbered) = numbered else { return renumber(ledger, items, validity) };
    ledger.replace(validity, own_entries(items, &numbered));
    ledger.raise_uidnext(numbered.next);
    Ok(AssignedUids { uids: numbered.uids, validity, uidnext: numbered.next })
}

/// Numbers from 1 under a new UIDVALIDITY, with every UID in the ledger.
fn renumber(ledger: &mut Ledger, items: &Items, validity: UidValidity) -> Result<AssignedUids> {
    let uids: Vec<Uid> = (1..).map_while(Uid::new).take(items.len()).collect();
    let entries =
        items.iter().zip(&uids).map(|(item, uid)| LedgerEntry { uid: *uid, key: item.key });
    let uidnext = uids.last().map_or(Some(Uid::MIN), |last| last.next()).unwrap_or(Uid::MAX);
    ledger.replace(validity, entries.collect());
    ledger.raise_uidnext(uidnext);
    Ok(AssignedUids { uids, validity, uidnext })
}
