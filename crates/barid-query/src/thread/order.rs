//! REFERENCES steps 4 and 6 (RFC 5256 §3): siblings and threads by sent date.
//!
//! All rows are ordered once by sent date and row; everything else is then visited in that order,
//! so that nothing else is sorted. A dummy has the date of its first child.

use super::link::NONE;
use super::output::{Threads, ThreadsBuilder};
use super::prune::Forest;
use crate::radix;

/// Orders all rows by sent date, then by row.
pub(super) fn rows_by_date(dates: &[i64]) -> Vec<u32> {
    let mut pairs: Vec<_> = dates.iter().map(|&date| radix::ordered(date)).zip(0..).collect();
    radix::sort_pairs(&mut pairs);
    pairs.into_iter().map(|pair| pair.1).collect()
}

/// The threads of a forest before subjects merge them.
#[derive(Debug)]
pub(super) struct Roots {
    /// Rows and dummies without a parent, by the date that represents them.
    pub(super) vertices: Vec<u32>,
    /// For each dummy the row that represents it.
    pub(super) representatives: Vec<u32>,
}

/// Step 4. `represent` contains for each dummy a row other than its earliest child.
///
/// Replaces dummies that have one child by that child, which completes step 3.
pub(super) fn roots(forest: &mut Forest, by_date: &[u32], represent: Option<Vec<u32>>) -> Roots {
    let mut children = vec![0u32; forest.dummies.len()];
    let mut earliest = vec![NONE; forest.dummies.len()];
    for &row in by_date {
        if let Some(dummy) = forest.dummy(forest.up[row as usize]) {
            children[dummy] += 1;
            if children[dummy] == 1 {
                earliest[dummy] = row;
            }
        }
    }
    for (&row, _) in earliest.iter().zip(&children).filter(|(_, children)| **children == 1) {
        forest.up[row as usize] = NONE;
    }
    let representatives = represent.unwrap_or(earliest);
    let mut vertices = Vec::new();
    for &row in by_date {
        let up = forest.up[row as usize];
        match forest.dummy(up) {
            None if up == NONE => vertices.push(row),
            Some(dummy) if representatives[dummy] == row => vertices.push(up),
            _ => {}
        }
    }
    Roots { vertices, representatives }
}

/// Lists of children, each ordered by date.
#[derive(Debug)]
pub(super) struct Children {
    first: Vec<u32>,
    next: Vec<u32>,
}

impl Children {
    pub(super) fn of(forest: &Forest, by_date: &[u32]) -> Self {
        let mut first = vec![NONE; forest.vertices()];
        let mut next = vec![NONE; forest.up.len()];
        for &row in by_date.iter().rev() {
            let up = forest.up[row as usize];
            if up != NONE {
                next[row as usize] = std::mem::replace(&mut first[up as usize], row);
            }
        }
        Self { first, next }
    }

    fn is_alone(&self, row: u32) -> bool {
        self.next[row as usize] == NONE
    }
}

/// Step 6: returns the threads in the order of their dates, with their messages.
pub(super) fn order(forest: &Forest, by_date: &[u32]) -> Threads {
    let children = Children::of(forest, by_date);
    let mut threads = ThreadsBuilder::with_capacity(forest.up.len());
    for &row in by_date {
        let up = forest.up[row as usize];
        if up == NONE {
            write_thread(forest, &children, row, &mut threads);
        } else if forest.dummy(up).is_some() && children.first[up as usize] == row {
            write_thread(forest, &children, up, &mut threads);
        }
    }
    threads.finish(forest.rows())
}

/// Writes one thread from its root on; a dummy with one child is replaced by that child.
pub(super) fn write_thread(
    forest: &Forest,
    children: &Children,
    root: u32,
    threads: &mut ThreadsBuilder,
) {
    let mut root = root;
    if forest.dummy(root).is_some() {
        let only = children.first[root as usize];
        if only == NONE {
            return;
        }
        if children.is_alone(only) {
            root = only;
        }
    }
    threads.root((forest.dummy(root).is_none()).then_some(root));
    let (mut vertex, mut depth) = (root, 0);
    loop {
        let mut next = children.first[vertex as usize];
        if next != NONE {
            depth += 1;
            threads.child(next, depth, !children.is_alone(next));
        } else {
            // Up to the nearest ancestor with a younger sibling; every step is taken once.
            while vertex != root && children.next[vertex as usize] == NONE {
                vertex = forest.up[vertex as usize];
                depth -= 1;
            }
            if vertex == root {
                return;
            }
            next = children.next[vertex as usize];
            threads.child(next, depth, true);
        }
        vertex = next;
    }
}
