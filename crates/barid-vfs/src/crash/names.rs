//! State of names after a crash.

use std::collections::{HashMap, HashSet};

use super::choices::Choices;
use crate::api::Timestamp;
use crate::mem::log::Op;
use crate::mem::tree::{Directory, Tree};

/// An inode or name that a change affects. Changes with a common key keep their order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key<'a> {
    Inode(u64),
    Name(u64, &'a [u8]),
}

/// The changes of names, in order, and a flag for each that a barrier covers.
#[derive(Debug, Default)]
pub(super) struct Names {
    ops: Vec<Op>,
    durable: Vec<bool>,
}

impl Names {
    /// Records the next operation.
    pub(super) fn take(&mut self, op: &Op) {
        match op {
            Op::Link { .. } | Op::Unlink { .. } | Op::Rename { .. } => {
                self.ops.push(op.clone());
                self.durable.push(false);
            }
            Op::SyncDir { inode } => {
                for (op, durable) in self.ops.iter().zip(&mut self.durable) {
                    *durable |= target_dir(op) == Some(*inode);
                }
            }
            Op::SyncName { inode: synced } => {
                let is_name = |op: &Op| matches!(op, Op::Link { inode, .. } if inode == synced);
                if let Some(first) = self.ops.iter().position(is_name) {
                    self.durable[first] = true;
                }
            }
            Op::SyncFileSystem => self.durable.fill(true),
            _ => {}
        }
    }

    /// Crashes: applies to `tree` the changes that are on the disk. Changes on which a durable one
    /// depends are on the disk, too; changes that depend on a lost one are lost.
    pub(super) fn crash(&self, choices: &mut Choices, tree: &mut Tree) {
        let mut lost: HashSet<Key<'_>> = HashSet::new();
        for (op, durable) in self.ops.iter().zip(&self.with_what_durable_ones_need()) {
            let keys = keys_of(op);
            let possible = *durable || !keys.iter().any(|key| lost.contains(key));
            if possible && (*durable || choices.name()) {
                apply(op, tree);
            } else {
                lost.extend(keys);
            }
        }
    }

    fn with_what_durable_ones_need(&self) -> Vec<bool> {
        let mut needed: HashSet<Key<'_>> = HashSet::new();
        let mut durables = self.durable.clone();
        for (op, durable) in self.ops.iter().zip(&mut durables).rev() {
            let keys = keys_of(op);
            *durable |= keys.iter().any(|key| needed.contains(key));
            if *durable {
                needed.extend(keys);
            }
        }
        durables
    }
}

/// Returns the directory whose fsync makes the operation durable.
fn target_dir(op: &Op) -> Option<u64> {
    match op {
        Op::Link { dir, .. } | Op::Unlink { dir, .. } => Some(*dir),
        Op::Rename { to, .. } => Some(to.0),
        _ => None,
    }
}

fn keys_of(op: &Op) -> Vec<Key<'_>> {
    match op {
        Op::Link { dir, name, inode, .. } | Op::Unlink { dir, name, inode, .. } => {
            vec![Key::Inode(*inode), Key::Name(*dir, name)]
        }
        Op::Rename { from, to, inode, replaced, .. } => {
            let names = [from, to].map(|(dir, name)| Key::Name(*dir, name));
            let inodes = [Some(*inode), *replaced].into_iter().flatten().map(Key::Inode);
            names.into_iter().chain(inodes).collect()
        }
        _ => Vec::new(),
    }
}

fn apply(op: &Op, tree: &mut Tree) {
    match op {
        Op::Link { dir, name, inode, at } => set(tree, *dir, name, Some(*inode), *at),
        Op::Unlink { dir, name, at, .. } => set(tree, *dir, name, None, *at),
        Op::Rename { from, to, inode, at, .. } => {
            set(tree, from.0, &from.1, None, *at);
            set(tree, to.0, &to.1, Some(*inode), *at);
        }
        _ => {}
    }
}

fn set(tree: &mut Tree, dir: u64, name: &[u8], inode: Option<u64>, at: Timestamp) {
    if let Some(directory) = tree.dirs.get_mut(&dir) {
        match inode {
            Some(inode) => directory.entries.insert(name.to_vec(), inode),
            None => directory.entries.remove(name),
        };
    }
    if let Some(directory) = inode.and_then(|inode| tree.dirs.get_mut(&inode)) {
        directory.parent = dir;
    }
    if let Some(node) = tree.nodes.get(&dir) {
        let mut state = node.write();
        state.meta.modified = at;
        state.meta.changed = at;
    }
    if let Some(node) = inode.and_then(|inode| tree.nodes.get(&inode)) {
        let mut state = node.write();
        state.meta.changed = state.meta.changed.max(at);
    }
}

/// Removes inodes that have no name, and sets the link counts of the rest.
pub(super) fn forget_nameless(tree: &mut Tree, root: u64) {
    let mut links: HashMap<u64, u64> = HashMap::from([(root, 2)]);
    let mut ahead = vec![root];
    while let Some(dir) = ahead.pop() {
        let Some(Directory { entries, .. }) = tree.dirs.get(&dir) else { continue };
        for inode in entries.values() {
            let is_dir = tree.dirs.contains_key(inode);
            let count = links.entry(*inode).or_insert(0);
            *count += if is_dir { 2 } else { 1 };
            if is_dir {
                ahead.push(*inode);
            }
        }
    }
    tree.nodes.retain(|inode, _| links.contains_key(inode));
    tree.dirs.retain(|inode, _| links.contains_key(inode));
    for (inode, node) in &tree.nodes {
        node.write().links = links.get(inode).copied().unwrap_or(0);
    }
}
