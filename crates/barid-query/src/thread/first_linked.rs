//! c-client's deviation in step 4: the date of a dummy.
//!
//! In RFC 5256 the children of a dummy are sorted before the first of them determines its date.
//! c-client uses the child that is first in its own lists: links from References insert a child at
//! the front, a message's own link appends it, and a dummy's children replace it.

use super::link::{NONE, ThreadState};
use super::prune::Forest;

/// A child of a dummy in c-client's lists: an id, or after the ids a nameless message.
type DummyChild = (u32, i64, u32);

/// Returns for each dummy of the forest the first row below it.
pub(super) fn first_linked(state: &ThreadState, forest: &Forest) -> Vec<u32> {
    let ids = state.parents.len() as u32;
    let entries = children_of_dummies(state);
    let mut stack: Vec<u32> = Vec::new();
    let mut first = Vec::with_capacity(forest.dummies.len());
    for &dummy in &forest.dummies {
        stack.clear();
        stack.push(dummy);
        let mut found = NONE;
        while let Some(node) = stack.pop() {
            let row = match node.checked_sub(ids) {
                Some(nameless) => state.nameless[nameless as usize].row,
                None => state.row_of[node as usize],
            };
            if row != NONE {
                found = row;
                break;
            }
            let start = entries.partition_point(|entry| entry.0 < node);
            let same = entries[start..].iter().take_while(|entry| entry.0 == node);
            let kept = stack.len();
            stack.extend(same.map(|entry| entry.2));
            stack[kept..].reverse();
        }
        first.push(found);
    }
    first
}

/// Returns the children of all dummies, by dummy and stamp.
fn children_of_dummies(state: &ThreadState) -> Vec<DummyChild> {
    let is_dummy = |parent: u32| parent != NONE && state.row_of[parent as usize] == NONE;
    let mut entries: Vec<DummyChild> = Vec::new();
    for (id, (&parent, &stamp)) in (0..).zip(state.parents.iter().zip(&state.stamps)) {
        if is_dummy(parent) {
            entries.push((parent, stamp, id));
        }
    }
    for (node, nameless) in (state.parents.len() as u32..).zip(&state.nameless) {
        if is_dummy(nameless.parent) {
            entries.push((nameless.parent, nameless.stamp, node));
        }
    }
    entries.sort_unstable();
    entries
}

#[cfg(test)]
mod tests {
    use crate::{KeyColumns, LinkColumns, NO_ID, Profile, ThreadAlgorithm, ThreadColumns, threads};

    /// Messages 2 and 3 answer an absent one; 2 has the subject of 1, but 3 is older.
    fn check(profile: Profile, expected: &str) {
        let columns = ThreadColumns {
            links: LinkColumns {
                ids: &[0, NO_ID, NO_ID],
                ref_ends: &[0, 1, 2],
                refs: &[1, 1],
                id_count: 2,
            },
            keys: KeyColumns {
                subjects: &[1, 1, 0],
                subject_count: 2,
                replies: &[true; 3],
                dates: &[5, 9, 5],
            },
        };
        let threads = threads(ThreadAlgorithm::References, &columns, profile);
        let mut out = Vec::new();
        threads.unwrap().write_imap(|row| row + 1, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected, "{profile:?}");
    }

    #[test]
    fn profile_difference_c_client_represents_a_dummy_by_its_first_linked_child() {
        check(Profile::Rfc, "(1)((3)(2))");
        check(Profile::Dovecot, "(1)((3)(2))");
        check(Profile::CClient, "((1)(3)(2))");
    }
}
