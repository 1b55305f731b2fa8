//! REFERENCES steps 2 and 3 (RFC 5256 §3): from containers to rows and the dummies that remain.
//!
//! A dummy without children is removed; one with a parent passes its children to that parent; one
//! at the root stays until it is known whether it has several children. So each row's parent is the
//! nearest ancestor that is a message, or the topmost dummy.

use super::link::{NONE, ThreadState};

/// Each row's parent, as a vertex: a row, or after the rows a dummy.
#[derive(Debug)]
pub(super) struct Forest {
    /// For each row its parent.
    pub(super) up: Vec<u32>,
    /// For each dummy the id that it stands for.
    pub(super) dummies: Vec<u32>,
}

impl Forest {
    /// Returns the number of rows; vertices from here on are dummies.
    pub(super) fn rows(&self) -> u32 {
        self.up.len() as u32
    }

    /// Returns the number of rows and dummies.
    pub(super) fn vertices(&self) -> usize {
        self.up.len() + self.dummies.len()
    }

    /// Adds a dummy without an id.
    pub(super) fn add_dummy(&mut self) -> u32 {
        self.dummies.push(NONE);
        self.vertices() as u32 - 1
    }

    /// Returns the index of a dummy among the dummies; `None` for a row.
    #[inline]
    pub(super) fn dummy(&self, vertex: u32) -> Option<usize> {
        if vertex == NONE { None } else { (vertex as usize).checked_sub(self.up.len()) }
    }
}

/// Builds the forest of a state; linear in the containers.
pub(super) fn prune(state: &ThreadState) -> Forest {
    let rows = state.rows as usize;
    let mut forest = Forest { up: vec![NONE; rows], dummies: Vec::new() };
    let mut vertex_of = state.row_of.clone();
    let mut path = Vec::new();
    for (&row, &parent) in state.row_of.iter().zip(&state.parents) {
        if row != NONE && parent != NONE {
            forest.up[row as usize] = vertex(state, parent, &mut vertex_of, &mut forest, &mut path);
        }
    }
    for nameless in &state.nameless {
        if nameless.parent != NONE {
            forest.up[nameless.row as usize] =
                vertex(state, nameless.parent, &mut vertex_of, &mut forest, &mut path);
        }
    }
    forest
}

/// Returns the vertex that is the parent of the children of `id`, and stores it for all dummies on
/// the way.
#[inline]
fn vertex(
    state: &ThreadState,
    id: u32,
    vertex_of: &mut [u32],
    forest: &mut Forest,
    path: &mut Vec<u32>,
) -> u32 {
    let mut top = id;
    path.clear();
    while vertex_of[top as usize] == NONE {
        path.push(top);
        if state.parents[top as usize] == NONE {
            forest.dummies.push(top);
            vertex_of[top as usize] = forest.vertices() as u32 - 1;
            break;
        }
        top = state.parents[top as usize];
    }
    let found = vertex_of[top as usize];
    for &dummy in path.iter() {
        vertex_of[dummy as usize] = found;
    }
    found
}
