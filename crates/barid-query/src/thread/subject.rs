//! REFERENCES step 5 (RFC 5256 §3): merging of threads with the same base subject.

use super::columns::KeyColumns;
use super::link::NONE;
use super::order::Roots;
use super::prune::Forest;

/// Merges threads whose roots have the same base subject.
pub(super) fn merge(forest: &mut Forest, roots: &Roots, keys: &KeyColumns<'_>) {
    let mut merge = Merge {
        table: vec![NONE; keys.subject_count as usize],
        moved: Vec::new(),
        forest,
        roots,
        keys,
    };
    merge.gather();
    merge.merge();
}

struct Merge<'a> {
    /// For each base subject the vertex of its thread.
    table: Vec<u32>,
    /// Removed dummies, and the new parents of their children.
    moved: Vec<(u32, u32)>,
    forest: &'a mut Forest,
    roots: &'a Roots,
    keys: &'a KeyColumns<'a>,
}

impl Merge<'_> {
    fn subject(&self, root: u32) -> u32 {
        let row = match self.forest.dummy(root) {
            Some(dummy) => self.roots.representatives[dummy],
            None => root,
        };
        self.keys.subjects[row as usize]
    }

    fn is_dummy(&self, root: u32) -> bool {
        self.forest.dummy(root).is_some()
    }

    fn is_reply(&self, row: u32) -> bool {
        self.keys.replies[row as usize]
    }

    /// Step 5B: fills the subject table.
    fn gather(&mut self) {
        for &root in &self.roots.vertices {
            let subject = self.subject(root) as usize;
            let entry = self.table[subject];
            let replaces = subject != 0
                && (entry == NONE
                    || !self.is_dummy(entry)
                        && (self.is_dummy(root) || self.is_reply(entry) && !self.is_reply(root)));
            if replaces {
                self.table[subject] = root;
            }
        }
    }

    /// Step 5C: merges the threads.
    fn merge(&mut self) {
        for &root in &self.roots.vertices {
            let subject = self.subject(root) as usize;
            let entry = self.table[subject];
            let is_dummy = self.is_dummy(root);
            // A former root was put under a new dummy, together with a later root.
            if subject == 0 || entry == root || !is_dummy && self.forest.up[root as usize] != NONE {
                continue;
            }
            if is_dummy {
                // By 5B the entry is a dummy as well.
                self.moved.push((root, entry));
            } else if self.is_dummy(entry) || self.is_reply(root) && !self.is_reply(entry) {
                self.forest.up[root as usize] = entry;
            } else {
                let dummy = self.forest.add_dummy();
                self.forest.up[entry as usize] = dummy;
                self.forest.up[root as usize] = dummy;
                self.table[subject] = dummy;
            }
        }
        self.move_children();
    }

    /// Moves the children of the removed dummies to the remaining ones.
    fn move_children(&mut self) {
        if self.moved.is_empty() {
            return;
        }
        let rows = self.forest.rows();
        let mut stays: Vec<u32> = (rows..self.forest.vertices() as u32).collect();
        for &(gone, stay) in &self.moved {
            stays[(gone - rows) as usize] = stay;
        }
        for up in self.forest.up.iter_mut().filter(|up| **up != NONE && **up >= rows) {
            *up = stays[(*up - rows) as usize];
        }
    }
}
