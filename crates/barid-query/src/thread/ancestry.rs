//! A forest whose trees are linked and cut, and which finds the root of a node in logarithmic time.
//!
//! Sleator and Tarjan's link-cut trees without evert: each tree is divided into paths, and each
//! path is a splay tree keyed by depth. Used only for mailboxes whose references make plain walks
//! to the root too long, which ordinary mail does not.

const NONE: u32 = u32::MAX;

/// The forest of containers, for detecting ancestors.
#[derive(Debug)]
pub(super) struct Ancestry {
    left: Vec<u32>,
    right: Vec<u32>,
    /// The parent in the splay tree, or for its topmost node the parent of the path.
    up: Vec<u32>,
}

impl Ancestry {
    /// Creates trees from each node's parent; every node is a path of its own at first.
    pub(super) fn new(parents: &[u32]) -> Self {
        let alone = vec![NONE; parents.len()];
        Self { left: alone.clone(), right: alone, up: parents.to_vec() }
    }

    /// Makes room for nodes below `count`.
    pub(super) fn grow(&mut self, count: usize) {
        for links in [&mut self.left, &mut self.right, &mut self.up] {
            links.resize(count, NONE);
        }
    }

    /// Finds the root of a node's tree.
    pub(super) fn root(&mut self, node: u32) -> u32 {
        self.access(node);
        let mut root = node;
        while self.left[root as usize] != NONE {
            root = self.left[root as usize];
        }
        self.splay(root);
        root
    }

    /// Makes the root `child` a child of `parent`, which is in another tree.
    pub(super) fn link(&mut self, child: u32, parent: u32) {
        self.access(child);
        self.up[child as usize] = parent;
    }

    /// Separates a node that is not a root from its parent.
    pub(super) fn cut(&mut self, child: u32) {
        self.access(child);
        let above = std::mem::replace(&mut self.left[child as usize], NONE);
        if above != NONE {
            self.up[above as usize] = NONE;
        }
    }

    /// Joins the nodes from the root to `node` into one path, with `node` on top of its splay tree.
    fn access(&mut self, node: u32) {
        self.splay(node);
        self.right[node as usize] = NONE;
        while self.up[node as usize] != NONE {
            let above = self.up[node as usize];
            self.splay(above);
            self.right[above as usize] = node;
            self.splay(node);
        }
    }

    fn is_top(&self, node: u32) -> bool {
        let up = self.up[node as usize];
        up == NONE || (self.left[up as usize] != node && self.right[up as usize] != node)
    }

    fn splay(&mut self, node: u32) {
        while !self.is_top(node) {
            let up = self.up[node as usize];
            if !self.is_top(up) {
                let top = self.up[up as usize];
                let zigzig = (self.left[top as usize] == up) == (self.left[up as usize] == node);
                self.rotate(if zigzig { up } else { node });
            }
            self.rotate(node);
        }
    }

    /// Rotates `node` over its parent in the splay tree.
    fn rotate(&mut self, node: u32) {
        let up = self.up[node as usize];
        let top = self.up[up as usize];
        let up_is_top = self.is_top(up);
        let was_left = self.left[up as usize] == node;
        let inner = if was_left { &mut self.right } else { &mut self.left };
        let moved = std::mem::replace(&mut inner[node as usize], up);
        let outer = if was_left { &mut self.left } else { &mut self.right };
        outer[up as usize] = moved;
        if moved != NONE {
            self.up[moved as usize] = up;
        }
        self.up[up as usize] = node;
        self.up[node as usize] = top;
        if !up_is_top {
            let side = if self.left[top as usize] == up { &mut self.left } else { &mut self.right };
            side[top as usize] = node;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root_by_walking(parents: &[u32], mut node: u32) -> u32 {
        while parents[node as usize] != NONE {
            node = parents[node as usize];
        }
        node
    }

    #[test]
    fn like_walking_up() {
        let mut random = fastrand::Rng::with_seed(3);
        for count in [1u32, 2, 5, 40, 300] {
            let mut parents = vec![NONE; count as usize];
            for node in 1..count {
                parents[node as usize] = if random.bool() { random.u32(..node) } else { NONE };
            }
            let mut ancestry = Ancestry::new(&parents);
            for _ in 0..4000 {
                let (child, parent) = (random.u32(..count), random.u32(..count));
                let root = root_by_walking(&parents, parent);
                assert_eq!(ancestry.root(parent), root);
                if parents[child as usize] != NONE {
                    ancestry.cut(child);
                    parents[child as usize] = NONE;
                } else if root != child {
                    ancestry.link(child, parent);
                    parents[child as usize] = parent;
                }
            }
        }
    }
}
