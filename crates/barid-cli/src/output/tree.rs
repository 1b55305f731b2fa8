//! Trees drawn from a flat list of nodes in line order, each with its depth.
//!
//! Nothing recurses, and a line costs at most [`TREE_DEPTH_MAX`] branches, so a thread of a million
//! replies to replies costs a million lines.

use crate::limits::TREE_DEPTH_MAX;
use crate::output::number::write_decimal;

/// The branches of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glyphs {
    /// Before a node that has later siblings.
    pub(crate) branch: &'static str,
    /// Before a node without later siblings.
    pub(crate) last: &'static str,
    /// Past a node that has later siblings.
    pub(crate) pass: &'static str,
    /// Past a node without later siblings.
    pub(crate) blank: &'static str,
}

impl Glyphs {
    /// Box drawing.
    pub(crate) const UNICODE: Self =
        Self { branch: "├─ ", last: "└─ ", pass: "│  ", blank: "   " };
    /// For terminals without UTF-8.
    pub(crate) const ASCII: Self = Self { branch: "|- ", last: "`- ", pass: "|  ", blank: "   " };
}

/// Returns for each node whether it is the last child of its parent; O(nodes).
pub(crate) fn last_children(depths: &[u32]) -> Vec<bool> {
    let mut last = vec![false; depths.len()];
    // For each open depth, `true` if a sibling follows, seen from the end.
    let mut follows: Vec<bool> = Vec::new();
    for (node, depth) in depths.iter().enumerate().rev() {
        follows.resize(*depth as usize + 1, false);
        last[node] = !std::mem::replace(&mut follows[*depth as usize], true);
    }
    last
}

/// Draws the branches before each node of a tree, line after line.
#[derive(Debug)]
pub(crate) struct Branches {
    glyphs: Glyphs,
    /// For each depth on the path, `true` if the node was the last child of its parent.
    path: Vec<bool>,
}

impl Branches {
    /// Creates a drawer at the top of a tree.
    pub(crate) fn new(glyphs: Glyphs) -> Self {
        Self { glyphs, path: Vec::new() }
    }

    /// Appends the branches before the next node. Nodes of depth 0 have none.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, depth: u32, last: bool) {
        self.path.resize(depth as usize, true);
        self.path.push(last);
        if depth == 0 {
            return;
        }
        let hidden = (depth as usize).saturating_sub(TREE_DEPTH_MAX);
        if hidden > 0 {
            out.push(b'+');
            write_decimal(out, hidden as u64);
            out.push(b' ');
        }
        for passed in &self.path[1 + hidden..depth as usize] {
            let glyph = if *passed { self.glyphs.blank } else { self.glyphs.pass };
            out.extend_from_slice(glyph.as_bytes());
        }
        let glyph = if last { self.glyphs.last } else { self.glyphs.branch };
        out.extend_from_slice(glyph.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(depths: &[u32], expected: &[&str]) {
        let mut branches = Branches::new(Glyphs::UNICODE);
        let lines: Vec<_> = depths
            .iter()
            .zip(last_children(depths))
            .enumerate()
            .map(|(node, (depth, last))| {
                let mut out = Vec::new();
                branches.write(&mut out, *depth, last);
                format!("{}{node}", String::from_utf8(out).unwrap())
            })
            .collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn trees() {
        check(&[], &[]);
        check(&[0, 0], &["0", "1"]);
        check(&[0, 1, 1], &["0", "├─ 1", "└─ 2"]);
        check(
            &[0, 1, 2, 3, 2, 1, 2, 0, 1],
            &["0", "├─ 1", "│  ├─ 2", "│  │  └─ 3", "│  └─ 4", "└─ 5", "   └─ 6", "7", "└─ 8"],
        );
    }

    #[test]
    fn deep_trees_stay_narrow() {
        let depths: Vec<u32> = (0..100_000).collect();
        let last = last_children(&depths);
        assert!(last.iter().all(|last| *last));
        let mut branches = Branches::new(Glyphs::ASCII);
        let mut out = Vec::new();
        for (depth, last) in depths.into_iter().zip(last) {
            out.clear();
            branches.write(&mut out, depth, last);
            assert!(out.len() <= TREE_DEPTH_MAX * 3 + 8);
        }
        assert!(out.starts_with(b"+99967 "));
    }
}
