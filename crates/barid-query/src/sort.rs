//! SORT (RFC 5256 §3): rows ordered by a program of keys, whole, by window, or by merging.
//!
//! One key at a time: all rows are ordered by the first key, then only the runs that are equal in
//! it by the next. The keys of a run are requested in one call. Rows equal in every key stay in
//! ascending order, also under a reversed key.

use std::cmp::Ordering;
use std::ops::Range;

use crate::radix;
use crate::sort_key::{SortKey, SortProgram};

/// The source of sort keys.
///
/// Answers must not depend on the time or number of requests.
pub trait SortView {
    /// Appends to `out` one number for each of `rows`, in their order: seconds since 1970 for
    /// [`SortKey::Arrival`] and [`SortKey::Date`], octets for [`SortKey::Size`].
    fn numbers(&self, key: SortKey, rows: &[u32], out: &mut Vec<i64>);

    /// Calls `visit` once for each of `rows`, in their order, with the text of `key`, already in
    /// the form whose octets are compared (RFC 5051); an absent one is empty.
    fn strings(&self, key: SortKey, rows: &[u32], visit: &mut dyn FnMut(&[u8]));
}

/// One end of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// This many from the beginning.
    First(usize),
    /// This many from the end.
    Last(usize),
}

/// Orders `rows` by `program` (RFC 5256 §3).
///
/// `O(n)` in digits for a number key, `O(n log n)` comparisons for a text key.
#[must_use]
pub fn sort(rows: &[u32], program: &SortProgram, view: &dyn SortView) -> Vec<u32> {
    let mut order = rows.to_vec();
    if !order.is_sorted() {
        order.sort_unstable();
    }
    let mut ties = Vec::new();
    if order.len() > 1 {
        ties.push(0..order.len());
    }
    for &key in &program.0 {
        if ties.is_empty() {
            break;
        }
        ties = refine(&mut order, &ties, key, view);
    }
    order
}

/// Returns one end of the order that [`sort`] returns, without ordering the rest.
///
/// The rows that can belong to it are selected by the first key, in linear time; only those are
/// sorted.
#[must_use]
pub fn sort_window(
    rows: &[u32],
    program: &SortProgram,
    view: &dyn SortView,
    window: Window,
) -> Vec<u32> {
    let (Window::First(wanted) | Window::Last(wanted)) = window;
    let mut order = if wanted == 0 {
        Vec::new()
    } else if wanted >= rows.len() {
        sort(rows, program, view)
    } else {
        sort(&candidates(rows, program, view, window), program, view)
    };
    match window {
        Window::First(wanted) => order.truncate(wanted),
        Window::Last(wanted) => drop(order.drain(..order.len().saturating_sub(wanted))),
    }
    order
}

/// Inserts `added` rows into `order`, which was sorted by the same program.
///
/// The keys of the old rows are requested only if a new row is compared with them: `O(a log n)`
/// comparisons and one copy. A row of `added` must not be in `order`.
#[must_use]
pub fn merge(order: &[u32], added: &[u32], program: &SortProgram, view: &dyn SortView) -> Vec<u32> {
    let mut merged = Vec::with_capacity(order.len() + added.len());
    // With this many new rows, single look-ups cost more than requesting all keys at once.
    if added.len() > order.len() / 8 {
        merged.extend(order.iter().chain(added));
        return sort(&merged, program, view);
    }
    let mut pair = PairKeys::default();
    let mut rest = order;
    for row in sort(added, program, view) {
        let before = rest.partition_point(|&old| pair.compare(old, row, program, view).is_lt());
        merged.extend_from_slice(&rest[..before]);
        merged.push(row);
        rest = &rest[before..];
    }
    merged.extend_from_slice(rest);
    merged
}

/// Orders each run by one key and returns the runs that are equal in it.
fn refine(
    order: &mut [u32],
    runs: &[Range<usize>],
    key: (SortKey, bool),
    view: &dyn SortView,
) -> Vec<Range<usize>> {
    let rows: Vec<u32> = runs.iter().flat_map(|run| &order[run.clone()]).copied().collect();
    let keys = Keys::of(&rows, key, view);
    let mut ties = Vec::new();
    let mut first = 0;
    let (mut sorted, mut pairs) = (Vec::new(), Vec::new());
    for run in runs {
        keys.sort(first..first + run.len(), &mut sorted, &mut pairs);
        for (slot, &at) in order[run.clone()].iter_mut().zip(&sorted) {
            *slot = rows[at as usize];
        }
        let mut start = run.start;
        for same in sorted.chunk_by(|&left, &right| keys.compare(left, right).is_eq()) {
            if same.len() > 1 {
                ties.push(start..start + same.len());
            }
            start += same.len();
        }
        first += run.len();
    }
    ties
}

/// Returns the rows whose first key is no further from the end of the order than that of the
/// window's last row.
fn candidates(
    rows: &[u32],
    program: &SortProgram,
    view: &dyn SortView,
    window: Window,
) -> Vec<u32> {
    let mut rows = rows.to_vec();
    rows.sort_unstable();
    let Some(&key) = program.0.first() else {
        return match window {
            Window::First(wanted) => rows[..wanted].to_vec(),
            Window::Last(wanted) => rows[rows.len() - wanted..].to_vec(),
        };
    };
    let keys = Keys::of(&rows, key, view);
    let mut all: Vec<u32> = (0..rows.len() as u32).collect();
    let (at, outside) = match window {
        Window::First(wanted) => (wanted - 1, Ordering::Greater),
        Window::Last(wanted) => (rows.len() - wanted, Ordering::Less),
    };
    let edge = *all.select_nth_unstable_by(at, |&left, &right| keys.compare(left, right)).1;
    let inside = |at: &u32| keys.compare(*at, edge) != outside;
    (0..rows.len() as u32).filter(inside).map(|at| rows[at as usize]).collect()
}

/// The keys of some rows, in a form that compares fast.
enum Keys {
    Numbers(Vec<u64>),
    Texts { texts: SortTexts, reverse: bool },
}

impl Keys {
    fn of(rows: &[u32], (key, reverse): (SortKey, bool), view: &dyn SortView) -> Self {
        if key.is_number() {
            let mut numbers = Vec::with_capacity(rows.len());
            view.numbers(key, rows, &mut numbers);
            assert_eq!(numbers.len(), rows.len(), "a view gives one number for each row");
            let flip = if reverse { u64::MAX } else { 0 };
            Keys::Numbers(numbers.iter().map(|&number| radix::ordered(number) ^ flip).collect())
        } else {
            let mut texts = SortTexts::default();
            view.strings(key, rows, &mut |text| texts.push(text));
            assert_eq!(texts.ends.len(), rows.len(), "a view gives one text for each row");
            Keys::Texts { texts, reverse }
        }
    }

    fn compare(&self, left: u32, right: u32) -> Ordering {
        match self {
            Keys::Numbers(numbers) => numbers[left as usize].cmp(&numbers[right as usize]),
            Keys::Texts { texts, reverse: false } => texts.compare(left, right),
            Keys::Texts { texts, reverse: true } => texts.compare(right, left),
        }
    }

    /// Fills `sorted` with the numbers of `run` in the order of their keys; `pairs` is a buffer.
    fn sort(&self, run: Range<usize>, sorted: &mut Vec<u32>, pairs: &mut Vec<(u64, u32)>) {
        sorted.clear();
        let (start, end) = (run.start as u32, run.end as u32);
        match self {
            Keys::Numbers(numbers) => {
                pairs.clear();
                pairs.extend(numbers[run].iter().copied().zip(start..));
                radix::sort_pairs(pairs);
                sorted.extend(pairs.iter().map(|pair| pair.1));
            }
            Keys::Texts { .. } => {
                sorted.extend(start..end);
                sorted.sort_unstable_by(|&left, &right| {
                    self.compare(left, right).then(left.cmp(&right))
                });
            }
        }
    }
}

/// Concatenated texts, each with its first eight octets as a number.
#[derive(Default)]
struct SortTexts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    prefixes: Vec<u64>,
}

impl SortTexts {
    fn push(&mut self, text: &[u8]) {
        let mut prefix = [0; 8];
        let shared = text.len().min(8);
        prefix[..shared].copy_from_slice(&text[..shared]);
        self.prefixes.push(u64::from_be_bytes(prefix));
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    fn text(&self, at: u32) -> &[u8] {
        let at = at as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }

    fn compare(&self, left: u32, right: u32) -> Ordering {
        self.prefixes[left as usize]
            .cmp(&self.prefixes[right as usize])
            .then_with(|| self.text(left).cmp(self.text(right)))
    }
}

/// Buffers for comparing two rows through a view.
#[derive(Default)]
struct PairKeys {
    numbers: Vec<i64>,
    texts: [Vec<u8>; 2],
}

impl PairKeys {
    fn compare(
        &mut self,
        left: u32,
        right: u32,
        program: &SortProgram,
        view: &dyn SortView,
    ) -> Ordering {
        for &(key, reverse) in &program.0 {
            let order = if key.is_number() {
                self.numbers.clear();
                view.numbers(key, &[left, right], &mut self.numbers);
                self.numbers.first().cmp(&self.numbers.get(1))
            } else {
                for (room, row) in self.texts.iter_mut().zip([left, right]) {
                    room.clear();
                    view.strings(key, &[row], &mut |text| room.extend_from_slice(text));
                }
                self.texts[0].cmp(&self.texts[1])
            };
            match order {
                Ordering::Equal => {}
                order if reverse => return order.reverse(),
                order => return order,
            }
        }
        left.cmp(&right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows with few different keys, so that many are equal.
    struct Rows(Vec<(i64, i64, String)>);

    impl SortView for Rows {
        fn numbers(&self, key: SortKey, rows: &[u32], out: &mut Vec<i64>) {
            out.extend(rows.iter().map(|&row| match key {
                SortKey::Size => self.0[row as usize].1,
                _ => self.0[row as usize].0,
            }));
        }

        fn strings(&self, _: SortKey, rows: &[u32], visit: &mut dyn FnMut(&[u8])) {
            rows.iter().for_each(|&row| visit(self.0[row as usize].2.as_bytes()));
        }
    }

    fn sample(random: &mut fastrand::Rng, len: usize) -> Rows {
        let texts = ["", "A", "A\0", "AB", "ABCDEFGHI", "ABCDEFGHJ", "ABCDEFGH", "\u{e9}"];
        let mut row = || {
            let text = texts[random.usize(..texts.len())].to_owned();
            (random.i64(-3..3) << random.u32(0..40), random.i64(0..4), text)
        };
        Rows((0..len).map(|_| row()).collect())
    }

    /// Sorts by the simple comparator with which all results must agree.
    fn expected(view: &Rows, rows: &[u32], program: &SortProgram) -> Vec<u32> {
        let mut order = rows.to_vec();
        order.sort_by(|&left, &right| PairKeys::default().compare(left, right, program, view));
        order
    }

    const PROGRAMS: [&str; 8] = [
        "",
        "date",
        "reverse:date",
        "subject",
        "reverse:subject,size",
        "size,reverse:subject,date",
        "size,size,reverse:date,from",
        "reverse:size",
    ];

    #[test]
    fn equals_the_plain_comparator() {
        let mut random = fastrand::Rng::with_seed(1);
        for len in [0, 1, 2, 17, 300, 5000] {
            let view = sample(&mut random, len);
            let mut rows: Vec<u32> = (0..len as u32).filter(|_| random.u8(..4) != 0).collect();
            random.shuffle(&mut rows);
            for text in PROGRAMS {
                let program: SortProgram = text.parse().unwrap();
                let order = expected(&view, &rows, &program);
                assert_eq!(sort(&rows, &program, &view), order, "{text}");
                for wanted in [0, 1, 2, 50, 299, len, len + 1] {
                    let first = sort_window(&rows, &program, &view, Window::First(wanted));
                    assert_eq!(first, order[..wanted.min(rows.len())], "{text} {wanted}");
                    let last = sort_window(&rows, &program, &view, Window::Last(wanted));
                    assert_eq!(last, order[rows.len().saturating_sub(wanted)..], "{text} {wanted}");
                }
            }
        }
    }

    #[test]
    fn merging_equals_sorting_all() {
        let mut random = fastrand::Rng::with_seed(2);
        for round in 0..200 {
            let view = sample(&mut random, 400);
            let old = random.u32(..=400);
            let added: Vec<u32> = (old..400.min(old + random.u32(..60))).collect();
            let before: Vec<u32> = (0..old).collect();
            let after: Vec<u32> = (0..old + added.len() as u32).collect();
            for text in PROGRAMS {
                let program: SortProgram = text.parse().unwrap();
                let order = sort(&before, &program, &view);
                let merged = merge(&order, &added, &program, &view);
                assert_eq!(merged, sort(&after, &program, &view), "round {round}: {text}");
            }
        }
    }
}
