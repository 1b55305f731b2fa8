//! The moves of messages in their file since their positions were stored.
//!
//! Messages are in the order of the file, so a part of it that moves is a range of rows. Moves are
//! stored as steps: each contains the distance by which all rows from its row to the next step
//! moved.

use std::sync::Arc;

/// Rows that moved by the same distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowShift {
    /// The first physical row, and the first after them.
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// The number to add to their offsets, modulo 2^64.
    pub(crate) by: u64,
}

/// The sum of all moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shifts(Arc<Vec<Step>>);

/// The change of offsets from this row to that of the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    row: u32,
    by: u64,
}

impl Shifts {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number to add to the offset of a row, modulo 2^64; O(log shifts).
    #[inline]
    pub(crate) fn by(&self, row: u32) -> u64 {
        match self.0.partition_point(|step| step.row <= row) {
            0 => 0,
            after => self.0[after - 1].by,
        }
    }

    /// Returns `true` if the ranges are not empty, ascend without overlap, and end at or before
    /// `end`.
    pub(crate) fn are_sound(shifts: &[RowShift], end: u32) -> bool {
        shifts.iter().all(|shift| shift.first < shift.end && shift.end <= end)
            && shifts.is_sorted_by(|a, b| a.end <= b.first)
    }

    /// Adds moves for which [`Shifts::are_sound`] is `true`; O(shifts).
    pub(crate) fn add(&mut self, shifts: &[RowShift]) {
        if shifts.is_empty() {
            return;
        }
        let new = steps_of(shifts);
        let mut merged = Vec::with_capacity(self.0.len() + new.len());
        let (mut old, mut new) = (&self.0[..], &new[..]);
        let (mut old_by, mut new_by) = (0, 0);
        while let Some(row) = old.first().into_iter().chain(new.first()).map(|step| step.row).min()
        {
            take(&mut old, row, &mut old_by);
            take(&mut new, row, &mut new_by);
            push(&mut merged, Step { row, by: u64::wrapping_add(old_by, new_by) });
        }
        self.0 = Arc::new(merged);
    }
}

fn steps_of(shifts: &[RowShift]) -> Vec<Step> {
    let mut steps = Vec::with_capacity(shifts.len() * 2);
    for (index, shift) in shifts.iter().enumerate() {
        push(&mut steps, Step { row: shift.first, by: shift.by });
        if shifts.get(index + 1).is_none_or(|next| next.first > shift.end) {
            push(&mut steps, Step { row: shift.end, by: 0 });
        }
    }
    steps
}

fn push(steps: &mut Vec<Step>, step: Step) {
    if steps.last().map_or(0, |last| last.by) != step.by {
        steps.push(step);
    }
}

/// Consumes the step of `row`, if it exists.
fn take(steps: &mut &[Step], row: u32, by: &mut u64) {
    if let Some((step, rest)) = steps.split_first()
        && step.row == row
    {
        (*by, *steps) = (step.by, rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_a_list() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            const ROWS: u32 = 40;
            let (mut shifts, mut offsets) = (Shifts::default(), [0u64; ROWS as usize]);
            for _ in 0..rng.usize(..12) {
                let mut ends: Vec<u32> = (0..rng.usize(..4) * 2).map(|_| rng.u32(..ROWS)).collect();
                ends.sort_unstable();
                let ranges = ends.chunks_exact(2).filter(|range| range[0] < range[1]);
                let by = |rng: &mut fastrand::Rng| rng.i64(-3..4).cast_unsigned();
                let added: Vec<RowShift> = ranges
                    .map(|range| RowShift { first: range[0], end: range[1], by: by(&mut rng) })
                    .collect();
                assert!(Shifts::are_sound(&added, ROWS));
                shifts.add(&added);
                for shift in &added {
                    for offset in &mut offsets[shift.first as usize..shift.end as usize] {
                        *offset = offset.wrapping_add(shift.by);
                    }
                }
                let sums: Vec<u64> = (0..ROWS).map(|row| shifts.by(row)).collect();
                assert_eq!(sums, offsets);
                let steps = &shifts.0;
                assert!(steps.is_sorted_by(|a, b| a.row < b.row && a.by != b.by));
            }
        }
    }

    #[test]
    fn ranges_that_cannot_be_are_not_sound() {
        let shift = |first, end| RowShift { first, end, by: 1 };
        assert!(Shifts::are_sound(&[shift(0, 2), shift(2, 5)], 5));
        assert!(!Shifts::are_sound(&[shift(0, 3), shift(2, 5)], 5));
        assert!(!Shifts::are_sound(&[shift(1, 1)], 5));
        assert!(!Shifts::are_sound(&[shift(1, 6)], 5));
    }
}
