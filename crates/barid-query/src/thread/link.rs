//! REFERENCES step 1 (RFC 5256 §3): containers and their links, row by row.
//!
//! A container is a message id; a message without a valid id, or with that of an earlier message,
//! has a container of its own that nothing can refer to, and so never has children. Only parents
//! are stored: children are listed when the threads are built.
//!
//! A link that would close a loop is not made. Links are made only for containers without a parent,
//! so a loop would be closed exactly if the child is the root of the parent's tree.

use super::ancestry::Ancestry;
use super::columns::{LinkColumns, NO_ID};
use crate::limits::{LOOP_STEPS_FREE, LOOP_STEPS_PER_LINK, MESSAGES_MAX};
use crate::{Profile, QueryError};

/// No parent, or no row.
pub(super) const NONE: u32 = u32::MAX;

/// A message whose container has no id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nameless {
    pub(super) row: u32,
    pub(super) parent: u32,
    /// As in [`ThreadState::stamps`]; 0 where those are not stored.
    pub(super) stamp: i64,
}

/// The links between messages, which new messages extend (RFC 5256 §3, step 1).
///
/// Extending by rows in several calls gives the same result as in one. An expunged message cannot
/// be removed, since it may have hidden links of others: create a new state in that case.
#[derive(Debug)]
pub struct ThreadState {
    pub(super) profile: Profile,
    /// Number of rows linked.
    pub(super) rows: u32,
    /// For each id its parent's id.
    pub(super) parents: Vec<u32>,
    /// For each id the row of its message; without one it is a dummy.
    pub(super) row_of: Vec<u32>,
    pub(super) nameless: Vec<Nameless>,
    /// For each id its position among the children of its parent, in c-client's lists; empty for
    /// other profiles.
    pub(super) stamps: Vec<i64>,
    /// Number of links made.
    pub(super) links: u64,
    pub(super) loops: LoopCheck,
}

/// The data of loop detection; all of it can be derived from the parents.
#[derive(Debug, Default)]
pub(super) struct LoopCheck {
    /// For each id, `true` if it may have children.
    pub(super) has_child: Vec<bool>,
    steps: u64,
    ancestry: Option<Ancestry>,
}

/// The end of c-client's list of children at which a new one is inserted.
#[derive(Clone, Copy)]
enum ListEnd {
    First,
    Last,
}

impl ThreadState {
    /// Creates a state without messages.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            rows: 0,
            parents: Vec::new(),
            row_of: Vec::new(),
            nameless: Vec::new(),
            stamps: Vec::new(),
            links: 0,
            loops: LoopCheck::default(),
        }
    }

    /// Returns the number of rows linked so far, which is the number of the next row.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns the number of message ids known so far.
    #[must_use]
    pub fn id_count(&self) -> u32 {
        self.parents.len() as u32
    }

    /// Links the messages that follow those already linked; `columns` contains only the new ones.
    ///
    /// Near linear in the references; `O(n log n)` for references designed to be slow.
    ///
    /// # Errors
    /// Returns [`QueryError`] if the columns do not fit together; the state is unchanged in that
    /// case.
    pub fn extend(&mut self, columns: &LinkColumns<'_>) -> Result<(), QueryError> {
        columns.check()?;
        let rows = self.rows as usize + columns.ids.len();
        if rows > MESSAGES_MAX {
            let (what, found) = ("messages", rows);
            return Err(QueryError::TooMany { what, found, max: MESSAGES_MAX });
        }
        self.grow(columns.id_count as usize);
        for at in 0..columns.ids.len() {
            let last = self.link_references(columns.refs_of(at));
            self.link_message(columns.ids[at], last);
            self.rows += 1;
        }
        Ok(())
    }

    fn grow(&mut self, id_count: usize) {
        let id_count = id_count.max(self.parents.len());
        self.parents.resize(id_count, NONE);
        self.row_of.resize(id_count, NONE);
        self.loops.has_child.resize(id_count, false);
        if self.profile == Profile::CClient {
            self.stamps.resize(id_count, 0);
        }
        if let Some(ancestry) = &mut self.loops.ancestry {
            ancestry.grow(id_count);
        }
    }

    /// Step 1A: makes each reference the parent of the next, unless that has a parent. Returns the
    /// last.
    #[inline]
    fn link_references(&mut self, refs: &[u32]) -> u32 {
        let mut previous = NONE;
        for &id in refs {
            if previous != NONE && self.parents[id as usize] == NONE {
                self.attach(id, previous, ListEnd::First);
            }
            previous = id;
        }
        previous
    }

    /// Step 1B: makes the last reference the message's parent, replacing an earlier parent.
    #[inline]
    fn link_message(&mut self, id: u32, parent: u32) {
        let row = self.rows;
        if id == NO_ID || self.row_of[id as usize] != NONE {
            self.links += 1;
            let stamp = self.links as i64;
            self.nameless.push(Nameless { row, parent, stamp });
            return;
        }
        self.row_of[id as usize] = row;
        let presumed = self.parents[id as usize];
        if presumed == parent {
            return;
        }
        if presumed != NONE {
            self.parents[id as usize] = NONE;
            if let Some(ancestry) = &mut self.loops.ancestry {
                ancestry.cut(id);
            }
        }
        if parent != NONE {
            self.attach(id, parent, ListEnd::Last);
        }
    }

    /// Makes `parent` the parent of `child`, which has none, unless that would close a loop.
    #[inline]
    fn attach(&mut self, child: u32, parent: u32, place: ListEnd) {
        if child == parent || self.is_root_of(child, parent) {
            return;
        }
        self.parents[child as usize] = parent;
        self.loops.has_child[parent as usize] = true;
        self.links += 1;
        if self.profile == Profile::CClient {
            let stamp = self.links as i64;
            self.stamps[child as usize] = match place {
                ListEnd::First => -stamp,
                ListEnd::Last => stamp,
            };
        }
        if let Some(ancestry) = &mut self.loops.ancestry {
            ancestry.link(child, parent);
        }
    }

    /// Returns `true` if `root`, which has no parent, is the root of the tree of `node`.
    #[inline]
    fn is_root_of(&mut self, root: u32, node: u32) -> bool {
        if !self.loops.has_child[root as usize] {
            return false;
        }
        if let Some(ancestry) = &mut self.loops.ancestry {
            return ancestry.root(node) == root;
        }
        let limit = LOOP_STEPS_FREE + LOOP_STEPS_PER_LINK * self.links;
        let mut top = node;
        while self.parents[top as usize] != NONE {
            top = self.parents[top as usize];
            self.loops.steps += 1;
            if self.loops.steps > limit {
                let ancestry = self.loops.ancestry.insert(Ancestry::new(&self.parents));
                return ancestry.root(node) == root;
            }
        }
        top == root
    }
}
