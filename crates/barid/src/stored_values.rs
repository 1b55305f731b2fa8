//! Values of messages that were computed once, stored beside the cache.
//!
//! They are found by UID and UIDVALIDITY, so they outlive the rows of the cache; the hash of the
//! header and the length of the body prove that a message is the one that was read. New values are
//! appended to the file, which is written anew when there are many. The file may vanish at any
//! moment and contains only requested values (`docs/formats/derived.md`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use barid_cache::{ColumnLens, Core};
use barid_types::Uid;
use barid_vfs::le::{LeReader, PutLe};

use crate::kept::DerivedSnapshot;
use crate::limits::{VALUES_ADDED_LEN_MIN, VALUES_ADDED_MIN, VALUES_ADDED_PART, VALUES_MERGES_MAX};
use crate::view::{View, check_of};

/// Bytes of UIDVALIDITY and count.
const HEAD_LEN: usize = 8;
/// Bytes of an entry: UID, check, end of its value.
const ENTRY_LEN: usize = 12;

/// A kind of stored values.
#[derive(Debug)]
pub(crate) struct ValueKind {
    /// The name of the file.
    pub(crate) name: &'static str,
    /// Maximum bytes of one value; a message with a longer one is read again.
    pub(crate) value_len_max: usize,
    /// Maximum bytes of all values.
    pub(crate) len_max: usize,
}

impl ValueKind {
    /// Maximum bytes of a file that are read: twice the bytes of values, to include entries.
    fn file_len_max(&self) -> u64 {
        2 * self.len_max as u64
    }
}

/// New values, to be stored.
#[derive(Debug, Default)]
pub(crate) struct NewValues {
    entries: Vec<(Uid, u32, Range<usize>)>,
    bytes: Vec<u8>,
}

impl NewValues {
    /// Adds the value of a message, which `encode` appends; values beyond the limits are left out.
    pub(crate) fn add(&mut self, kind: &ValueKind, core: &Core, encode: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        encode(&mut self.bytes);
        let end = self.bytes.len();
        if end - start > kind.value_len_max || end > kind.len_max {
            return self.bytes.truncate(start);
        }
        self.entries.push((core.uid, check_of(core), start..end));
    }

    /// Adds the values of another thread.
    pub(crate) fn append(&mut self, kind: &ValueKind, other: Self) {
        let start = self.bytes.len();
        if start + other.bytes.len() <= kind.len_max {
            self.bytes.extend_from_slice(&other.bytes);
            let moved = |(uid, check, range): (Uid, u32, Range<usize>)| {
                (uid, check, range.start + start..range.end + start)
            };
            self.entries.extend(other.entries.into_iter().map(moved));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn values(&self) -> impl Iterator<Item = Value<'_>> {
        self.entries.iter().map(|(uid, check, range)| Value {
            uid: uid.get(),
            check: *check,
            bytes: &self.bytes[range.clone()],
        })
    }
}

/// A stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value<'b> {
    uid: u32,
    check: u32,
    bytes: &'b [u8],
}

/// Values that were written at once, ascending by UID.
#[derive(Debug, Default)]
struct ValueTable {
    bytes: Vec<u8>,
    count: usize,
}

impl ValueTable {
    fn from_bytes(bytes: Vec<u8>, uidvalidity: u32) -> Option<Self> {
        let mut take = LeReader(&bytes);
        let (same, count) = (take.u32()? == uidvalidity, take.u32()? as usize);
        let has_all = count.checked_mul(ENTRY_LEN)? <= take.0.len();
        let table = (same && has_all).then_some(Self { bytes, count })?;
        let end = table
            .count
            .checked_sub(1)
            .map_or(Some(HEAD_LEN), |last| Some(table.entry(last)?.2.end))?;
        (end == table.bytes.len()).then_some(table)
    }

    /// Serializes values in the order of their UIDs.
    fn bytes_of(values: &[Value<'_>], uidvalidity: u32) -> Vec<u8> {
        let len: usize = values.iter().map(|value| ENTRY_LEN + value.bytes.len()).sum();
        let mut out = Vec::with_capacity(HEAD_LEN + len);
        out.put_u32(uidvalidity);
        out.put_u32(values.len() as u32);
        let mut end = 0;
        for value in values {
            end += value.bytes.len() as u32;
            out.put_u32(value.uid);
            out.put_u32(value.check);
            out.put_u32(end);
        }
        values.iter().for_each(|value| out.extend_from_slice(value.bytes));
        out
    }

    /// Returns UID, check, and range of the value of an entry.
    fn entry(&self, at: usize) -> Option<(u32, u32, Range<usize>)> {
        let words = |at: usize| self.bytes.get(HEAD_LEN + at * ENTRY_LEN..).map(LeReader);
        let first = HEAD_LEN + self.count * ENTRY_LEN;
        let start = match at.checked_sub(1) {
            Some(before) => {
                let mut entry = words(before)?;
                (entry.u64()?, entry.u32()?).1 as usize
            }
            None => 0,
        };
        let mut entry = words(at)?;
        let (uid, check, end) = (entry.u32()?, entry.u32()?, entry.u32()? as usize);
        Some((uid, check, first + start..first + end))
    }

    fn value(&self, at: usize) -> Option<Value<'_>> {
        let (uid, check, range) = self.entry(at)?;
        Some(Value { uid, check, bytes: self.bytes.get(range)? })
    }

    fn values(&self) -> impl Iterator<Item = Value<'_>> {
        (0..self.count).filter_map(|at| self.value(at))
    }

    /// Returns the value of a UID. O(log values).
    fn of(&self, uid: u32) -> Option<Value<'_>> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            match self.entry(middle)?.0.cmp(&uid) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return self.value(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }
}

/// Known values, by UID. A clone shares the values that were written at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredValues {
    table: Arc<ValueTable>,
    /// Newer values, with their checks.
    added: BTreeMap<u32, (u32, Vec<u8>)>,
}

impl StoredValues {
    /// Returns the value of a message, if it is known. O(log values).
    pub(crate) fn of(&self, core: &Core) -> Option<&[u8]> {
        let uid = core.uid.get();
        let added = self.added.get(&uid).map(|(check, bytes)| (*check, bytes.as_slice()));
        let (check, bytes) =
            added.or_else(|| self.table.of(uid).map(|value| (value.check, value.bytes)))?;
        (check == check_of(core)).then_some(bytes)
    }

    fn of_table(table: ValueTable) -> Self {
        Self { table: Arc::new(table), added: BTreeMap::new() }
    }

    fn add<'v>(&mut self, values: impl Iterator<Item = Value<'v>>) {
        self.added.extend(values.map(|value| (value.uid, (value.check, value.bytes.to_vec()))));
    }

    /// Serializes the values of messages for which `is_there` is `true`; only the newest, within
    /// the limit of the kind.
    fn to_bytes(
        &self,
        kind: &ValueKind,
        uidvalidity: u32,
        is_there: &dyn Fn(u32) -> bool,
    ) -> Vec<u8> {
        let added = self.added.iter().map(|(uid, (check, bytes))| Value {
            uid: *uid,
            check: *check,
            bytes,
        });
        let mut all: Vec<Value<'_>> = added.chain(self.table.values()).collect();
        // The sort is stable: of two for one message the new one stays.
        all.sort_by_key(|value| value.uid);
        all.dedup_by_key(|value| value.uid);
        all.retain(|value| is_there(value.uid));
        let mut end = 0;
        let fits = |value: &&Value<'_>| {
            end += value.bytes.len();
            end <= kind.len_max
        };
        let kept = all.iter().rev().take_while(fits).count();
        ValueTable::bytes_of(&all[all.len() - kept..], uidvalidity)
    }
}

/// Values that are read from their file once, and kept as long as the mailbox is open.
#[derive(Debug, Default)]
pub(crate) struct ValueCache(Mutex<Option<(u32, Arc<StoredValues>)>>);

impl ValueCache {
    fn get(&self, uidvalidity: u32) -> Option<Arc<StoredValues>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.as_ref().filter(|(of, _)| *of == uidvalidity)?;
        Some(Arc::clone(&known.1))
    }

    /// Replaces the values `before`; returns `false` if other threads have replaced them.
    fn replace(
        &self,
        uidvalidity: u32,
        before: Option<&Arc<StoredValues>>,
        values: Arc<StoredValues>,
    ) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = known.as_ref().filter(|(of, _)| *of == uidvalidity).map(|(_, values)| values);
        if now.map(Arc::as_ptr) != before.map(Arc::as_ptr) {
            return false;
        }
        let old = known.replace((uidvalidity, values));
        drop(known);
        // Freed without the lock.
        drop(old);
        true
    }
}

impl View {
    /// Loads the stored values; none if the file is missing or damaged.
    pub(crate) fn stored_values(&self, kind: &ValueKind) -> StoredValues {
        let (kept, uidvalidity) = (self.values_file(kind), self.uidvalidity());
        let Some((content, additions)) = kept.load_with_additions(kind.file_len_max()) else {
            return StoredValues::default();
        };
        let table = content.and_then(|content| ValueTable::from_bytes(content, uidvalidity));
        if table.is_none() {
            // Nothing more may be added to a file whose content is damaged.
            kept.remove();
        }
        let mut values = StoredValues::of_table(table.unwrap_or_default());
        for addition in additions {
            if let Some(table) = ValueTable::from_bytes(addition, uidvalidity) {
                values.add(table.values());
            }
        }
        values
    }

    /// Stores new values.
    pub(crate) fn store_values(&self, kind: &ValueKind, new: &NewValues) {
        if new.is_empty() || !self.place.on_disk {
            return;
        }
        let mut values: Vec<Value<'_>> = new.values().collect();
        values.sort_by_key(|value| value.uid);
        let addition = ValueTable::bytes_of(&values, self.uidvalidity());
        let kept = self.values_file(kind);
        let appended = kept.append(&addition);
        let is_short = |lens: ColumnLens| {
            lens.additions <= VALUES_ADDED_LEN_MIN.max(lens.content / VALUES_ADDED_PART as u64)
        };
        if appended.is_some_and(is_short) {
            return;
        }
        let mut all = self.stored_values(kind);
        if appended.is_none() {
            all.add(values.into_iter());
        }
        if let Some(bytes) = self.bytes_of_values(kind, &all) {
            kept.store(bytes);
        }
    }

    /// Returns values that stay in memory as long as the mailbox is open; loads them the first
    /// time.
    pub(crate) fn cached_values(&self, memory: &ValueCache, kind: &ValueKind) -> Arc<StoredValues> {
        let uidvalidity = self.uidvalidity();
        if let Some(known) = memory.get(uidvalidity) {
            return known;
        }
        let loaded = Arc::new(self.stored_values(kind));
        memory.replace(uidvalidity, None, Arc::clone(&loaded));
        memory.get(uidvalidity).unwrap_or(loaded)
    }

    /// Adds new values to those in memory, and stores them.
    pub(crate) fn add_stored_values(&self, memory: &ValueCache, kind: &ValueKind, new: &NewValues) {
        if new.is_empty() {
            return;
        }
        for _ in 0..VALUES_MERGES_MAX {
            let before = self.cached_values(memory, kind);
            let after = self.with_new_values(kind, &before, new);
            if memory.replace(self.uidvalidity(), Some(&before), Arc::new(after)) {
                break;
            }
        }
        self.store_values(kind, new);
    }

    fn with_new_values(
        &self,
        kind: &ValueKind,
        before: &StoredValues,
        new: &NewValues,
    ) -> StoredValues {
        let mut values = before.clone();
        values.add(new.values());
        // An added value needs more memory than one in the table.
        if values.added.len() > VALUES_ADDED_MIN.max(values.table.count / VALUES_ADDED_PART)
            && let Some(bytes) = self.bytes_of_values(kind, &values)
            && let Some(table) = ValueTable::from_bytes(bytes, self.uidvalidity())
        {
            return StoredValues::of_table(table);
        }
        values
    }

    /// Serializes values without those of messages that are gone.
    fn bytes_of_values(&self, kind: &ValueKind, values: &StoredValues) -> Option<Vec<u8>> {
        let uids = self.uids().ok()?;
        let is_there = |uid: u32| uids.binary_search(&uid).is_ok();
        Some(values.to_bytes(kind, self.uidvalidity(), &is_there))
    }

    pub(crate) fn uidvalidity(&self) -> u32 {
        self.snapshot.meta().uidvalidity.get()
    }

    fn values_file(&self, kind: &ValueKind) -> DerivedSnapshot<'_> {
        DerivedSnapshot::new(&self.place, &self.snapshot, kind.name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_mailbox;

    const KIND: ValueKind = ValueKind { name: "test-values", value_len_max: 9, len_max: 1000 };

    fn new_values(view: &View, rows: Range<u32>, text: &str) -> NewValues {
        let mut new = NewValues::default();
        for row in rows {
            let core = view.snapshot.core(row).unwrap();
            new.add(&KIND, &core, |out| out.extend_from_slice(text.as_bytes()));
        }
        new
    }

    fn check(view: &View, values: &StoredValues, row: u32, expected: Option<&str>) {
        let found = values.of(&view.snapshot.core(row).unwrap());
        assert_eq!(found, expected.map(str::as_bytes), "{row}");
    }

    #[test]
    fn few_values_are_stored_beside_many() {
        let (mailbox, _) = test_mailbox::maildir(50);
        let view = mailbox.view();
        view.store_values(&KIND, &new_values(&view, 0..40, "a"));
        view.store_values(&KIND, &new_values(&view, 40..41, "b"));
        view.store_values(&KIND, &new_values(&view, 3..4, "c"));
        view.store_values(&KIND, &new_values(&view, 5..6, "0123456789"));
        let values = view.stored_values(&KIND);
        for (row, expected) in [(0, "a"), (3, "c"), (5, "a"), (39, "a"), (40, "b")] {
            check(&view, &values, row, Some(expected));
        }
        check(&view, &values, 41, None);
        assert_eq!(values.added.len(), 2);
    }

    #[test]
    fn values_in_memory_are_those_of_the_file() {
        let (mailbox, _) = test_mailbox::maildir(20);
        let (view, memory) = (mailbox.view(), ValueCache::default());
        for row in 0..20 {
            let new = new_values(&view, row..row + 1, "a");
            view.add_stored_values(&memory, &KIND, &new);
        }
        let (stored, known) = (view.stored_values(&KIND), view.cached_values(&memory, &KIND));
        for row in 0..20 {
            check(&view, &stored, row, Some("a"));
            check(&view, &known, row, Some("a"));
        }
    }

    #[test]
    fn many_added_values_are_stored_anew_without_those_of_messages_that_are_gone() {
        const LARGE: ValueKind =
            ValueKind { name: "large-values", value_len_max: 50_000, len_max: 90_000 };
        let (mut mailbox, uids) = test_mailbox::maildir(50);
        let view = mailbox.view();
        let add = |view: &View, row: u32, text: &str| {
            let (mut new, core) = (NewValues::default(), view.snapshot.core(row).unwrap());
            new.add(&LARGE, &core, |out| out.extend_from_slice(text.as_bytes()));
            view.store_values(&LARGE, &new);
        };
        let long = "l".repeat(40_000);
        for row in 0..40 {
            add(&view, row, if row == 3 { &long } else { "a" });
        }
        test_mailbox::change(&mut mailbox, &uids[..1], &[]);
        let view = mailbox.view();
        let assert_all_in_table = || {
            let kept = view.values_file(&LARGE).load_with_additions(u64::MAX).unwrap();
            assert_eq!(kept.1, Vec::<Vec<u8>>::new());
        };
        add(&view, 4, "b");
        add(&view, 45, &long);
        assert_all_in_table();
        let values = view.stored_values(&LARGE);
        assert!(values.table.of(uids[0].get()).is_none());
        for (row, expected) in [(1, "a"), (2, &*long), (3, "a"), (4, "b"), (38, "a"), (45, &long)] {
            check(&view, &values, row, Some(expected));
        }
        // Of more values than fit, the newest stay.
        add(&view, 46, &long);
        add(&view, 47, &long);
        assert_all_in_table();
        let values = view.stored_values(&LARGE);
        for (row, expected) in [(4, None), (45, None), (46, Some(&*long)), (47, Some(&*long))] {
            check(&view, &values, row, expected);
        }
    }

    #[test]
    fn damaged_tables_are_not_read() {
        let values =
            [Value { uid: 3, check: 9, bytes: b"abc" }, Value { uid: 5, check: 8, bytes: b"" }];
        let bytes = ValueTable::bytes_of(&values, 7);
        let read = ValueTable::from_bytes(bytes.clone(), 7).unwrap();
        assert_eq!(read.values().collect::<Vec<_>>(), values);
        assert_eq!((read.of(3), read.of(4)), (Some(values[0]), None));
        assert!(ValueTable::from_bytes(bytes.clone(), 8).is_none());
        for len in 0..bytes.len() {
            assert!(ValueTable::from_bytes(bytes[..len].to_vec(), 7).is_none(), "{len}");
        }
        // The values of an earlier version of `email-ids` have no ends.
        let mut earlier = Vec::new();
        for word in [7, 1, 3, 9, 0x0101_0101, 0x0101_0101, 0x0101_0101, 0x0101_0101, 0x0101_0101] {
            earlier.put_u32(word);
        }
        assert!(ValueTable::from_bytes(earlier, 7).is_none());
    }
}
