//! The order in which units are written, and their grouping into steps between two barriers.
//!
//! All of it follows from the table of units, so that a recovery computes the same steps.
//!
//! - *Order.* If new bytes of one unit go where old bytes of its neighbour are, the neighbour comes
//!   first. That can only be one way between two neighbours, so units that push each other towards
//!   the end are written backwards, and all others forwards.
//! - *Steps.* Units that follow each other in that order are written directly as long as none of
//!   their bytes go where old bytes are of a unit that is not yet done, those of the step included.
//!   Such a step can be repeated after any crash. If that gives too few bytes for a barrier, units
//!   are put into a *window*, which is written to the journal first.

use super::unit::Unit;

/// Parameters of the grouping into steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepParams {
    /// See [`WritingOptions::window_len`](super::limits::WritingOptions::window_len).
    pub(super) window_len: u64,
    /// See [`WritingOptions::direct_len_min`](super::limits::WritingOptions::direct_len_min).
    pub(super) direct_len_min: u64,
    /// See [`WritingOptions::direct_len_max`](super::limits::WritingOptions::direct_len_max).
    pub(super) direct_len_max: u64,
}

/// Way of writing the units of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    /// From the mailbox directly to the mailbox.
    Direct,
    /// Through the journal.
    Window,
}

/// Units that are written between two barriers of the mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WriteStep {
    /// Way of writing.
    pub(super) kind: StepKind,
    /// First unit, as an index into the order of writing.
    pub(super) from: usize,
    /// Index after its last unit.
    pub(super) to: usize,
}

/// All steps of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// Indexes of the units that are written, in the order of writing.
    order: Vec<u32>,
    steps: Vec<WriteStep>,
}

impl Steps {
    /// Groups `units`, which ascend, into steps. Costs O(n log n) time, and 8 bytes per unit.
    pub(super) fn of(units: &[Unit], params: StepParams) -> Self {
        Builder::new(units, params).steps()
    }

    /// Returns the number of steps.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns a step.
    pub(super) fn get(&self, index: usize) -> WriteStep {
        self.steps[index]
    }

    /// Iterates over all steps.
    pub(super) fn iter(&self) -> impl Iterator<Item = WriteStep> + '_ {
        self.steps.iter().copied()
    }

    /// Returns the indexes of the units of a step, ascending: within a step the order does not
    /// matter.
    pub(super) fn units(&self, step: WriteStep) -> Vec<u32> {
        let mut units = self.order[step.from..step.to].to_vec();
        units.sort_unstable();
        units
    }

    /// Returns the number of bytes that a step writes to the mailbox.
    pub(super) fn write_len(&self, step: WriteStep, units: &[Unit]) -> u64 {
        self.order[step.from..step.to].iter().map(|unit| units[*unit as usize].write_len).sum()
    }
}

struct Builder<'a> {
    units: &'a [Unit],
    params: StepParams,
    /// The units that are written, ascending.
    writers: Vec<u32>,
    order: Vec<u32>,
    /// Position of each of `writers` in `order`.
    turn: Vec<u32>,
}

impl<'a> Builder<'a> {
    fn new(units: &'a [Unit], params: StepParams) -> Self {
        let indices = 0..units.len() as u32;
        let writers: Vec<u32> =
            indices.filter(|index| units[*index as usize].write_len > 0).collect();
        let mut order = Vec::with_capacity(writers.len());
        let mut from = 0;
        for to in 1..=writers.len() {
            let unit = |at: usize| &units[writers[at] as usize];
            if to == writers.len() || unit(to - 1).new_end() <= unit(to).old {
                order.extend((from..to).rev().map(|at| at as u32));
                from = to;
            }
        }
        let mut turn = vec![0; writers.len()];
        for (at, writer) in order.iter().enumerate() {
            turn[*writer as usize] = at as u32;
        }
        Self { units, params, writers, order, turn }
    }

    fn steps(self) -> Steps {
        let mut steps = Vec::new();
        let mut from = 0;
        while from < self.order.len() {
            let (direct, direct_len) = self.direct(from, self.params.direct_len_max);
            let is_decent = direct_len >= self.params.direct_len_min;
            let window = if is_decent { from } else { self.window(from) };
            let step = match window <= direct {
                true => WriteStep { kind: StepKind::Direct, from, to: direct },
                false => WriteStep { kind: StepKind::Window, from, to: window },
            };
            from = step.to;
            steps.push(step);
        }
        let order = self.order.iter().map(|writer| self.writers[*writer as usize]).collect();
        Steps { order, steps }
    }

    fn unit(&self, at: usize) -> &'a Unit {
        &self.units[self.writers[self.order[at] as usize] as usize]
    }

    /// Returns the end of the longest direct step from `from` on, and its bytes: not much more than
    /// `len_max`.
    fn direct(&self, from: usize, len_max: u64) -> (usize, u64) {
        let (mut to, mut len) = (from, 0);
        while to < self.order.len() && (to == from || len < len_max) && self.is_free(to, from) {
            len += self.unit(to).write_len;
            to += 1;
        }
        (to, len)
    }

    /// Returns the end of a window from `from` on: it is full, or a direct step is worth it there.
    fn window(&self, from: usize) -> usize {
        let (mut to, mut len) = (from, 0);
        while to < self.order.len() {
            let more = self.unit(to).write_len;
            if to > from {
                let min = self.params.direct_len_min;
                if len + more > self.params.window_len || self.direct(to, min).1 >= min {
                    break;
                }
            }
            len += more;
            to += 1;
        }
        to
    }

    /// Returns `true` if no byte of the unit at `at` goes where old bytes are of a unit that is
    /// written at `from` or later.
    fn is_free(&self, at: usize, from: usize) -> bool {
        let unit = self.unit(at);
        let old = |writer: u32| &self.units[writer as usize];
        let first = self.writers.partition_point(|writer| old(*writer).old_end() <= unit.new);
        let reached = self.writers[first..]
            .iter()
            .zip(&self.turn[first..])
            .take_while(|(writer, _)| old(**writer).old < unit.new_end());
        let mut needed = reached.filter(|(writer, _)| old(**writer).old_len > 0);
        needed.all(|(_, turn)| (*turn as usize) < from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns units from (old length, new length, gap after it that stays if nothing is shifted
    /// there).
    fn units(pieces: &[(u64, u64, u64)]) -> Vec<Unit> {
        let (mut old, mut new) = (0, 0);
        let mut units = Vec::new();
        for (old_len, new_len, gap) in pieces {
            let write_len = *new_len;
            units.push(Unit {
                old,
                old_len: *old_len,
                new,
                new_len: *new_len,
                write_len,
                ..Unit::default()
            });
            (old, new) = (old + old_len, new + new_len);
            if old == new {
                (old, new) = (old + gap, new + gap);
            }
        }
        units
    }

    fn params(window_len: u64, direct_len_min: u64, direct_len_max: u64) -> StepParams {
        StepParams { window_len, direct_len_min, direct_len_max }
    }

    /// Checks the rules for all steps byte by byte, independently of how they are computed.
    fn verify(units: &[Unit], params: StepParams) -> Steps {
        let steps = Steps::of(units, params);
        let size = units.iter().map(|unit| unit.old_end().max(unit.new_end())).max().unwrap_or(0);
        // Unit that is not done and needs the old byte at this place.
        let mut needed: Vec<Option<u32>> = vec![None; size as usize];
        for (index, unit) in units.iter().enumerate().filter(|(_, unit)| unit.write_len > 0) {
            needed[unit.old as usize..unit.old_end() as usize].fill(Some(index as u32));
        }
        let mut done = vec![false; units.len()];
        let mut at = 0;
        for step in steps.iter() {
            assert!(step.from == at && step.to > at, "steps follow each other");
            at = step.to;
            let members = steps.units(step);
            if step.kind == StepKind::Window {
                let len = steps.write_len(step, units);
                assert!(len <= params.window_len || members.len() == 1, "{units:?}");
                for member in &members {
                    needed
                        .iter_mut()
                        .filter(|unit| **unit == Some(*member))
                        .for_each(|u| *u = None);
                }
            }
            for member in &members {
                let unit = &units[*member as usize];
                assert!(!std::mem::replace(&mut done[*member as usize], true), "done once");
                for place in unit.new..unit.new_end() {
                    assert_eq!(needed[place as usize], None, "{step:?} of {units:?}");
                }
            }
            for member in &members {
                needed.iter_mut().filter(|unit| **unit == Some(*member)).for_each(|u| *u = None);
            }
        }
        assert!(done.iter().zip(units).all(|(done, unit)| *done == (unit.write_len > 0)));
        steps
    }

    fn check(pieces: &[(u64, u64, u64)], params: StepParams, expected: &[(StepKind, &[u32])]) {
        let units = units(pieces);
        let steps = verify(&units, params);
        let found: Vec<_> = steps.iter().map(|step| (step.kind, steps.units(step))).collect();
        let expected: Vec<_> =
            expected.iter().map(|(kind, units)| (*kind, units.to_vec())).collect();
        assert_eq!(found, expected);
    }

    use StepKind::{Direct, Window};

    #[test]
    fn what_grows_is_written_backwards() {
        let params = params(100, 10, 100);
        // The first unit shifts all others by 20: each goes after itself.
        check(
            &[(10, 30, 0), (20, 20, 0), (20, 20, 0)],
            params,
            &[(Direct, &[2]), (Direct, &[1]), (Window, &[0])],
        );
        check(
            &[(10, 60, 0), (20, 20, 0), (20, 20, 0)],
            params,
            &[(Direct, &[1, 2]), (Window, &[0])],
        );
    }

    #[test]
    fn what_shrinks_is_written_forwards() {
        let params = params(100, 10, 100);
        check(&[(30, 0, 0), (20, 20, 0), (20, 20, 0)], params, &[(Direct, &[1]), (Direct, &[2])]);
        check(&[(60, 0, 0), (20, 20, 0), (20, 20, 0)], params, &[(Direct, &[1, 2])]);
    }

    #[test]
    fn small_shifts_and_changes_in_place_go_through_windows() {
        let params = params(40, 10, 100);
        check(
            &[(10, 13, 0), (20, 20, 0), (20, 20, 0)],
            params,
            &[(Window, &[1, 2]), (Window, &[0])],
        );
        check(&[(5, 5, 100), (5, 5, 100), (5, 5, 100)], params, &[(Window, &[0, 1, 2])]);
        // Growth is undone by later shrinking: two runs that do not touch each other.
        check(&[(5, 7, 0), (5, 3, 9), (5, 3, 0), (5, 7, 0)], params, &[(Window, &[0, 1, 2, 3])]);
    }

    #[test]
    fn a_direct_step_is_bounded_and_evidence_is_not_written() {
        check(
            &[(100, 0, 0), (30, 30, 0), (30, 30, 0), (30, 30, 0)],
            params(100, 10, 50),
            &[(Direct, &[1, 2]), (Direct, &[3])],
        );
    }

    #[test]
    fn no_step_touches_old_bytes_that_are_still_needed() {
        let mut random = fastrand::Rng::with_seed(4);
        let (mut windows, mut directs) = (0, 0);
        for _ in 0..4000 {
            let lean = random.u64(0..9);
            let pieces: Vec<(u64, u64, u64)> = (0..random.usize(0..14))
                .map(|_| match random.u8(0..4) {
                    0 => (random.u64(0..30), random.u64(0..30), 0),
                    1 => (random.u64(0..20 + 4 * lean), random.u64(0..52 - 4 * lean), 0),
                    _ => {
                        let len = random.u64(0..40);
                        (len, len, random.u64(0..20))
                    }
                })
                .collect();
            let params = params(random.u64(1..120), random.u64(1..40), random.u64(1..80));
            for step in verify(&units(&pieces), params).iter() {
                match step.kind {
                    Direct => directs += 1,
                    Window => windows += 1,
                }
            }
        }
        assert!(windows > 1000 && directs > 1000, "{windows} windows, {directs} directly");
    }

    #[test]
    fn headers_that_grow_cost_some_hundred_barriers_and_little_more_than_the_file() {
        // 1.4 GB whose headers grow by 3 %, in units of 128 KB.
        let pieces: Vec<(u64, u64, u64)> = (0..11_000).map(|_| (127_000, 131_000, 0)).collect();
        let units = units(&pieces);
        let params = params(32 << 20, 512 << 10, 128 << 20);
        let steps = Steps::of(&units, params);
        let windows = steps.iter().filter(|step| step.kind == Window);
        let (mut count, mut len) = (0, 0);
        for window in windows {
            count += 1;
            len += steps.write_len(window, &units);
        }
        assert!(steps.len() + count < 200, "{} steps, {count} of them windows", steps.len());
        assert!(len < 25 << 20, "{len} bytes through the journal");
    }
}
