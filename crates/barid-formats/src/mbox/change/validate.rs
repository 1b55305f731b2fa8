//! Checks that the numbers of a journal are possible: a checksum proves that they are as written,
//! but not who wrote them.

use super::header::JournalHeader;
use super::limits::{OFFSET_MAX, SCRIPT_RAW_MAX, STEP_LEN_MAX, TAIL_LEN_MAX};
use super::script::{Op, ops};
use super::unit::{Collapse, Unit};

/// Description of the invalid part of a plan.
pub(super) type Flaw = &'static str;

/// Checks all numbers of a plan against each other, except its scripts.
pub(super) fn plan(
    header: &JournalHeader,
    units: &[Unit],
    collapses: &[Collapse],
) -> Result<(), Flaw> {
    let JournalHeader { old_size, base_size, new_size, tail, cut, params, .. } = *header;
    let ensure = |is_so: bool, flaw: Flaw| if is_so { Ok(()) } else { Err(flaw) };
    ensure(old_size.max(new_size) <= OFFSET_MAX && base_size <= old_size, "its sizes")?;
    ensure(tail.len <= TAIL_LEN_MAX.min(old_size), "the end of the old file")?;
    ensure(
        cut.len <= TAIL_LEN_MAX.min(base_size.saturating_sub(new_size)),
        "the length that is cut",
    )?;
    let longest = params.window_len.max(params.direct_len_min).max(params.direct_len_max);
    ensure(longest <= STEP_LEN_MAX, "the lengths of its steps")?;
    ensure(are_within(collapses, old_size) == Some(base_size), "the ranges that are collapsed")?;
    let (mut old, mut new, mut script, mut window) = (0, 0, 0, 0u64);
    for unit in units {
        let ends = end(unit.old, unit.old_len).zip(end(unit.new, unit.new_len));
        let is_after = unit.old >= old && unit.new >= new;
        let (old_end, new_end) = ends.filter(|_| is_after).ok_or("the order of its units")?;
        ensure(old_end <= base_size && new_end <= new_size, "the places of its units")?;
        ensure(
            unit.write_len <= unit.new_len && unit.pieces <= unit.write_len,
            "the written bytes",
        )?;
        ensure(unit.script_at == script, "the places of its scripts")?;
        ensure(unit.script_raw_len as usize <= SCRIPT_RAW_MAX, "the length of a script")?;
        (old, new, script) = (old_end, new_end, script + u64::from(unit.script_len));
        window += unit.write_len + unit.pieces * super::apply::PIECE_LEN;
    }
    ensure(script == header.scripts_len, "the length of its scripts")?;
    ensure(header.window_cap <= window, "the length of its window")
}

/// Returns the size of a file after its collapses; `None` if they overlap or are out of range.
fn are_within(collapses: &[Collapse], size: u64) -> Option<u64> {
    let (mut size, mut from) = (size, 0);
    for collapse in collapses {
        let end = end(collapse.offset, collapse.len)?;
        if collapse.offset < from || end > size {
            return None;
        }
        (size, from) = (size - collapse.len, collapse.offset);
    }
    Some(size)
}

fn end(from: u64, len: u64) -> Option<u64> {
    from.checked_add(len).filter(|end| *end <= OFFSET_MAX)
}

/// Checks that a script has the lengths that its unit states.
pub(super) fn script(unit: &Unit, script: &[u8]) -> Result<(), Flaw> {
    const FLAW: Flaw = "a script";
    let (mut old, mut new, mut written) = (0u64, 0u64, 0u64);
    for op in ops(script) {
        let (taken, put, writes) = match op.map_err(|_| FLAW)? {
            Op::Keep(len) | Op::Stay(len) => {
                if unit.old.checked_add(old) != unit.new.checked_add(new) {
                    return Err(FLAW);
                }
                (len, len, 0)
            }
            Op::Copy(len) => (len, len, len),
            Op::Skip(len) => (len, 0, 0),
            Op::Insert(bytes) => (0, bytes.len() as u64, bytes.len() as u64),
        };
        old = old.checked_add(taken).filter(|old| *old <= unit.old_len).ok_or(FLAW)?;
        new = new.checked_add(put).filter(|new| *new <= unit.new_len).ok_or(FLAW)?;
        written += writes;
    }
    match (old, new, written) == (unit.old_len, unit.new_len, unit.write_len) {
        true => Ok(()),
        false => Err(FLAW),
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::{Origin, TailHash};
    use super::super::steps::StepParams;
    use super::*;

    fn header() -> JournalHeader {
        JournalHeader {
            id: [7; 16],
            origin: Origin::of(1, b"/mail/box"),
            old_size: 10_000,
            base_size: 5904,
            new_size: 6000,
            pending_through: None,
            is_in_place: false,
            scripts_len: 30,
            units: 2,
            collapses: 1,
            plan_hash: 0,
            window_cap: 100,
            tail: TailHash { len: 10, hash: 1 },
            cut: TailHash::default(),
            params: StepParams { window_len: 5, direct_len_min: 6, direct_len_max: 7 },
        }
    }

    fn units() -> [Unit; 2] {
        let one = Unit {
            old: 10,
            old_len: 100,
            new: 10,
            new_len: 120,
            write_len: 90,
            pieces: 2,
            script_len: 10,
            script_raw_len: 10,
            ..Unit::default()
        };
        [one, Unit { old: 200, new: 220, script_at: 10, script_len: 20, ..one }]
    }

    fn check(spoil: impl FnOnce(&mut JournalHeader, &mut [Unit; 2], &mut Collapse), is_good: bool) {
        let (mut header, mut units) = (header(), units());
        let mut collapse = Collapse { offset: 4096, len: 4096 };
        spoil(&mut header, &mut units, &mut collapse);
        assert_eq!(plan(&header, &units, &[collapse]).is_ok(), is_good, "{units:?} {header:?}");
    }

    #[test]
    fn hostile_numbers_are_told() {
        check(|_, _, _| {}, true);
        check(|header, _, _| header.new_size = u64::MAX, false);
        check(|header, _, _| header.base_size = 20_000, false);
        check(|header, _, _| header.tail.len = 1 << 40, false);
        check(|header, _, _| header.cut.len = 1, false);
        check(|header, _, _| header.window_cap = 1 << 50, false);
        check(|header, _, _| header.params.direct_len_min = u64::MAX, false);
        check(|header, _, _| header.scripts_len = 31, false);
        check(|_, _, collapse| collapse.offset = u64::MAX, false);
        check(|_, _, collapse| collapse.len = 8192, false);
        check(|_, units, _| units[1].old = 100, false);
        check(|_, units, _| units[1].new = 100, false);
        check(|_, units, _| units[1].old_len = u64::MAX, false);
        check(|_, units, _| units[1].new_len = 5900, false);
        check(|_, units, _| units[0].write_len = 121, false);
        check(|_, units, _| units[0].pieces = 91, false);
        check(|_, units, _| units[0].script_at = 1, false);
        check(|_, units, _| units[0].script_raw_len = u32::MAX, false);
    }

    #[test]
    fn a_script_that_is_another_units_is_told() {
        let made = |ops: &[Op<'_>]| {
            let mut script = super::super::script::Script::default();
            ops.iter().for_each(|op| script.push(*op));
            script.take()
        };
        let unit = Unit { old: 5, old_len: 30, new: 5, new_len: 33, write_len: 23, ..units()[0] };
        let good = [Op::Keep(10), Op::Copy(15), Op::Skip(5), Op::Insert(b"12345678")];
        assert_eq!(script(&unit, &made(&good)), Ok(()));
        for bad in [
            &good[..3],
            &[Op::Keep(30), Op::Insert(b"123")],
            &[Op::Copy(1 << 60), Op::Copy(1 << 60)],
            &[Op::Skip(1 << 60); 40],
            &[Op::Skip(5), Op::Keep(10), Op::Copy(15), Op::Insert(b"12345678")],
        ] {
            assert!(script(&unit, &made(bad)).is_err(), "{bad:?}");
        }
        assert!(script(&unit, &[0xff; 30]).is_err());
    }
}
