//! Sort orders, stored beside the cache.
//!
//! The first time an order is requested, all messages are sorted and the order is stored as
//! physical rows, which keep their numbers when others are expunged. Later only the wanted end is
//! read, and newer messages are merged into it.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::sync::Arc;

use barid_cache::{Core, Snapshot};
use barid_message::{HeaderFields, Profile, SubjectScratch};
use barid_query::{SortKey, SortProgram, SortView};
use barid_types::Uid;

use crate::kept::{DerivedSnapshot, worth_storing};
use crate::{Error, Mailbox, Result, View};

/// The wanted part of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// All of it.
    All,
    /// This number from the beginning.
    First(u32),
    /// This number from the end.
    Last(u32),
}

/// A sort order, or one end of it.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Sorted {
    /// Rows of the view that was sorted.
    pub rows: Vec<u32>,
    /// Messages that could not be read for their sizes, and the errors. They count as empty.
    pub unreadable: Vec<(Uid, Error)>,
}

impl View {
    /// Returns the rows in the order of `program`, or one end of it (RFC 5256 §3, RFC 5957).
    ///
    /// The first call for a program sorts the mailbox; later ones read the wanted part and merge
    /// the new messages: O(window + new). Orders by `SIZE`, and those of a mailbox without a cache
    /// on disk, are computed each time. `SIZE` sorts by RFC822.SIZE, and reads the messages whose
    /// size is not known yet; [`Mailbox::sorted`] stores it.
    ///
    /// # Errors
    /// A damaged cache; as [`View::fetch`] if sorting by size.
    pub fn sorted(&self, program: &SortProgram, window: Window) -> Result<Sorted> {
        self.check_read()?;
        if !asks_sizes(program) {
            return Ok(Sorted { rows: self.order(program, window)?, unreadable: Vec::new() });
        }
        let (sized, unreadable) = self.with_sizes()?;
        Ok(Sorted { rows: sized.order(program, window)?, unreadable })
    }

    /// Returns the rows `among`, ascending, in the order of `program` (RFC 5256 §3).
    ///
    /// Reads the keys of these rows; nothing is stored. `SIZE` reads the messages of the mailbox
    /// whose size is not known yet.
    ///
    /// # Errors
    /// As [`View::sorted`].
    pub fn sorted_among(&self, program: &SortProgram, among: &[u32]) -> Result<Sorted> {
        self.check_read()?;
        let sorted = |view: &Self| -> Result<Vec<u32>> {
            let keys = SortKeys::new(&view.snapshot);
            let rows = barid_query::sort(among, program, &keys);
            view.done(keys.into_result())?;
            Ok(rows)
        };
        if !asks_sizes(program) {
            return Ok(Sorted { rows: sorted(self)?, unreadable: Vec::new() });
        }
        let (sized, unreadable) = self.with_sizes()?;
        Ok(Sorted { rows: sorted(&sized)?, unreadable })
    }

    /// Returns a copy with all sizes, and the messages that could not be read for theirs.
    fn with_sizes(&self) -> Result<(Self, Vec<(Uid, Error)>)> {
        let (sizes, unreadable) = self.missing_sizes()?;
        let mut sized = self.clone();
        // Only the mailbox itself may write the cache.
        Arc::make_mut(&mut sized.snapshot).detach();
        sized.add_sizes(&sizes)?;
        Ok((sized, unreadable))
    }

    fn order(&self, program: &SortProgram, window: Window) -> Result<Vec<u32>> {
        let keys = SortKeys::new(&self.snapshot);
        let rows = self.sorted_by(program, window, &keys);
        self.done(keys.into_result())?;
        Ok(rows)
    }

    fn sorted_by(&self, program: &SortProgram, window: Window, keys: &SortKeys<'_>) -> Vec<u32> {
        let all = || (0..self.snapshot.len()).collect::<Vec<u32>>();
        // A message that is unreadable now may have a size later.
        if !self.place.on_disk || asks_sizes(program) {
            return match window {
                Window::All => barid_query::sort(&all(), program, keys),
                Window::First(count) => {
                    let window = barid_query::Window::First(count as usize);
                    barid_query::sort_window(&all(), program, keys, window)
                }
                Window::Last(count) => {
                    let window = barid_query::Window::Last(count as usize);
                    barid_query::sort_window(&all(), program, keys, window)
                }
            };
        }
        let kept = DerivedSnapshot::new(&self.place, &self.snapshot, kind_of(program));
        if let Some(rows) = self.merged_with_kept(&kept, program, window, keys) {
            return rows;
        }
        let rows = barid_query::sort(&all(), program, keys);
        if keys.is_sound() {
            let physical = rows.iter().map(|row| self.snapshot.physical_row(*row));
            kept.store(physical.flat_map(u32::to_le_bytes).collect());
        }
        cut(rows, window)
    }

    /// Returns the window of a stored order, with newer messages merged in.
    fn merged_with_kept(
        &self,
        kept: &DerivedSnapshot<'_>,
        program: &SortProgram,
        window: Window,
        keys: &SortKeys<'_>,
    ) -> Option<Vec<u32>> {
        let order = kept.order()?;
        let new = order.new_rows();
        if worth_storing(new.len(), order.covered()) {
            return None;
        }
        let old = order.rows(window)?;
        let new: Vec<u32> = new.collect();
        Some(cut(barid_query::merge(&old, &new, program, keys), window))
    }
}

impl Mailbox {
    /// Sorts as [`View::sorted`] does, and stores the sizes that were computed.
    ///
    /// # Errors
    /// As [`View::sorted`]; a cache that cannot store the sizes.
    pub fn sorted(&mut self, program: &SortProgram, window: Window) -> Result<Sorted> {
        let unreadable = match asks_sizes(program) {
            true => self.fill_rfc822_sizes()?,
            false => Vec::new(),
        };
        Ok(Sorted { rows: self.view.order(program, window)?, unreadable })
    }
}

/// Orders rows of several mailboxes together by `program`. Returns the index of the mailbox and the
/// row of each message; equal ones stay in the order given.
///
/// All keys are in memory: O(rows). Sizes that are not known count as 0.
///
/// # Errors
/// A damaged cache.
pub fn sorted_together(
    parts: &[(&View, &[u32])],
    program: &SortProgram,
) -> Result<Vec<(usize, u32)>> {
    let mut keyed: Vec<(Vec<KeyValue>, (usize, u32))> = Vec::new();
    for (at, (view, rows)) in parts.iter().enumerate() {
        let keys = SortKeys::new(&view.snapshot);
        let first = keyed.len();
        keyed.extend(rows.iter().map(|row| (Vec::with_capacity(program.0.len()), (at, *row))));
        for (key, _) in &program.0 {
            let mut part = keyed[first..].iter_mut();
            if key.is_number() {
                let mut numbers = Vec::new();
                keys.numbers(*key, rows, &mut numbers);
                part.zip(numbers).for_each(|((of, _), number)| of.push(KeyValue::Number(number)));
            } else {
                keys.strings(*key, rows, &mut |text| {
                    if let Some((of, _)) = part.next() {
                        of.push(KeyValue::Text(text.into()));
                    }
                });
            }
        }
        view.done(keys.into_result())?;
    }
    keyed.sort_by(|(left, _), (right, _)| {
        let pairs = left.iter().zip(right).zip(&program.0);
        let orders = pairs.map(|((left, right), (_, reverse))| match reverse {
            true => right.cmp(left),
            false => left.cmp(right),
        });
        orders.fold(Ordering::Equal, Ordering::then)
    });
    Ok(keyed.into_iter().map(|(_, message)| message).collect())
}

/// A value that is compared with others of the same key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum KeyValue {
    Number(i64),
    Text(Box<[u8]>),
}

/// Returns `true` if the order depends on RFC822.SIZE.
fn asks_sizes(program: &SortProgram) -> bool {
    program.0.iter().any(|(key, _)| *key == SortKey::Size)
}

fn kind_of(program: &SortProgram) -> String {
    let mut kind = "sort".to_owned();
    for (key, reverse) in &program.0 {
        kind.push_str(if *reverse { "-reverse-" } else { "-" });
        kind.push_str(key.name());
    }
    kind
}

fn cut(mut rows: Vec<u32>, window: Window) -> Vec<u32> {
    match window {
        Window::All => {}
        Window::First(count) => rows.truncate(count as usize),
        Window::Last(count) => drop(rows.drain(..rows.len().saturating_sub(count as usize))),
    }
    rows
}

/// The sort keys of a snapshot. The trait has no errors, so the first one is stored here.
pub(crate) struct SortKeys<'a> {
    snapshot: &'a Snapshot,
    profile: Profile,
    error: RefCell<Option<barid_cache::Error>>,
}

impl<'a> SortKeys<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, profile: Profile::Rfc, error: RefCell::default() }
    }

    fn into_result(self) -> barid_cache::Result<()> {
        self.error.into_inner().map_or(Ok(()), Err)
    }

    /// Returns `true` if all keys so far were those of the messages.
    fn is_sound(&self) -> bool {
        self.error.borrow().is_none()
    }

    fn keep_error(&self, result: barid_cache::Result<()>) {
        if let Err(error) = result {
            self.error.borrow_mut().get_or_insert(error);
        }
    }
}

impl SortView for SortKeys<'_> {
    fn numbers(&self, key: SortKey, rows: &[u32], out: &mut Vec<i64>) {
        let start = out.len();
        // All rows in order is the usual case, and then each block is read once.
        let result = if rows.len() == self.snapshot.len() as usize && rows.is_sorted() {
            self.snapshot.cores(0..self.snapshot.len(), &mut |_, core| out.push(number(key, core)))
        } else {
            rows.iter().try_for_each(|row| {
                out.push(number(key, &self.snapshot.core(*row)?));
                Ok(())
            })
        };
        self.keep_error(result);
        out.resize(start + rows.len(), 0);
    }

    fn strings(&self, key: SortKey, rows: &[u32], visit: &mut dyn FnMut(&[u8])) {
        let mut scratch = SubjectScratch::default();
        let mut visited = 0;
        let result = self.snapshot.records(rows, &mut |_, _, record| {
            visited += 1;
            string(key, &record.fields, self.profile, &mut scratch, visit);
        });
        self.keep_error(result);
        (visited..rows.len()).for_each(|_| visit(b""));
    }
}

fn number(key: SortKey, core: &Core) -> i64 {
    match key {
        SortKey::Arrival => core.internal_date.unix_seconds,
        SortKey::Size => core.rfc822_size.unwrap_or(0).cast_signed(),
        _ => core.sent_date.unix_seconds,
    }
}

fn string(
    key: SortKey,
    fields: &HeaderFields<'_>,
    profile: Profile,
    scratch: &mut SubjectScratch,
    visit: &mut dyn FnMut(&[u8]),
) {
    let mailbox = |field: Option<&[u8]>, visit: &mut dyn FnMut(&[u8])| {
        let mailbox = barid_message::first_mailbox(field.unwrap_or_default());
        visit(barid_message::casemap(&String::from_utf8_lossy(&mailbox)).as_bytes());
    };
    let display = |field: Option<&[u8]>, visit: &mut dyn FnMut(&[u8])| {
        let name = barid_message::display_name(field.unwrap_or_default());
        visit(barid_message::casemap(&name).as_bytes());
    };
    match key {
        SortKey::From => mailbox(fields.from, visit),
        SortKey::To => mailbox(fields.to, visit),
        SortKey::Cc => mailbox(fields.cc, visit),
        SortKey::DisplayFrom => display(fields.from, visit),
        SortKey::DisplayTo => display(fields.to, visit),
        _ => {
            let subject = fields.subject.unwrap_or_default();
            visit(barid_message::base_subject_into(subject, profile, scratch).0);
        }
    }
}
