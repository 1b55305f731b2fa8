//! THREAD=ORDEREDSUBJECT (RFC 5256 §3): one thread for each base subject, the empty one included.

use super::columns::KeyColumns;
use super::link::NONE;
use super::order;
use super::output::Threads;
use super::prune::Forest;

/// Returns the earliest message of each subject with the others as its children, all by sent date.
pub(super) fn ordered_subject(keys: &KeyColumns<'_>, by_date: &[u32]) -> Threads {
    let mut table = vec![NONE; keys.subject_count as usize];
    let mut forest = Forest { up: vec![NONE; by_date.len()], dummies: Vec::new() };
    for &row in by_date {
        let root = &mut table[keys.subjects[row as usize] as usize];
        if *root == NONE {
            *root = row;
        } else {
            forest.up[row as usize] = *root;
        }
    }
    order::order(&forest, by_date)
}
