//! THREAD=REFS (draft-ietf-morg-inthread, as in Dovecot): steps 1 to 3 of REFERENCES, siblings by
//! sent date, threads by the latest date of any message in them.
//!
//! Among threads with equal dates, those whose first message is absent come first, in the order in
//! which their ids appeared, then the others by row. Dates before 1970 count as 1970 for the order
//! of threads.

use super::link::NONE;
use super::order::{Children, write_thread};
use super::output::{Threads, ThreadsBuilder};
use super::prune::Forest;

/// Orders by latest date, absent first messages first, then by id or row.
type RootKey = (i64, bool, u32, u32);

/// Returns the threads of a forest in the order of THREAD=REFS.
pub(super) fn order(forest: &Forest, by_date: &[u32], dates: &[i64]) -> Threads {
    let children = Children::of(forest, by_date);
    let latest = latest_dates(forest, by_date, dates);
    let mut keys: Vec<RootKey> = Vec::new();
    for (row, &up) in (0..).zip(&forest.up) {
        if up == NONE {
            keys.push((latest[row as usize].max(0), true, row, row));
        }
    }
    for (vertex, &id) in (forest.rows()..).zip(&forest.dummies) {
        keys.push((latest[vertex as usize].max(0), false, id, vertex));
    }
    keys.sort_unstable();
    let mut threads = ThreadsBuilder::with_capacity(forest.up.len());
    for (.., vertex) in keys {
        write_thread(forest, &children, vertex, &mut threads);
    }
    threads.finish(forest.rows())
}

/// Returns for each root the latest date in its thread. Linear: each row is visited a second time
/// only on the path from an unknown row.
fn latest_dates(forest: &Forest, by_date: &[u32], dates: &[i64]) -> Vec<i64> {
    let mut latest = vec![i64::MIN; forest.vertices()];
    let mut root_of = vec![NONE; forest.up.len()];
    let mut path = Vec::new();
    for &row in by_date {
        let mut vertex = row;
        path.clear();
        let root = loop {
            if forest.dummy(vertex).is_some() {
                break vertex;
            }
            if root_of[vertex as usize] != NONE {
                break root_of[vertex as usize];
            }
            path.push(vertex);
            match forest.up[vertex as usize] {
                NONE => break vertex,
                up => vertex = up,
            }
        };
        for &passed in &path {
            root_of[passed as usize] = root;
        }
        latest[root as usize] = latest[root as usize].max(dates[row as usize]);
    }
    latest
}
