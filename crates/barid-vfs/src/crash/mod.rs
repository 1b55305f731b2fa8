//! A world that crashes.
//!
//! [`CrashVfs`] is a file system in memory that remembers every change and every barrier. An
//! operation runs on it once, whole; afterwards [`CrashVfs::crash_at`] tells what the disk would
//! hold had the power failed at any moment of it, as a new [`MemVfs`] in which recovery can run.
//!
//! What is allowed to happen to everything that no barrier covers:
//! - Written bytes reach the disk or not, in any order, torn at 512 bytes. A sector holds what the
//!   page cache held at some moment since.
//! - Size and times of a file reach the disk together, before its bytes or after them; bytes that
//!   never came are zeros.
//! - Names (creating, linking, renaming, unlinking) reach the disk or not, in any order, but for
//!   those of the same file or the same name, whose order journals keep. A rename is both its sides
//!   or neither, and knows nothing of the data of its file.
//! - Attributes reach the disk in order, up to some moment.
//! - A collapse reaches the disk with its size, or not at all, or halfway: the hole stands at any
//!   block from its beginning to the end of the file, what is before it has moved down, and the
//!   size is the old one. What is written afterwards lands in the blocks where they are by then.
//!
//! What barriers promise, which is less than any one file system does:
//! - `sync_data` of a file: its bytes and size; its times only if the size changed.
//! - `sync_all` of a file: times and attributes, too. Not its name, unless
//!   [`MemVfs::set_syncs_names`](crate::MemVfs::set_syncs_names) says so: then the first it had.
//! - `sync_dir`: the names created or removed in it, those renamed into it, and its attributes.
//!   Not its own name in its parent: a new directory whose parent was not synced may vanish whole.
//! - `sync_file_system`: everything.
//!
//! Not modelled: blocks that rot, reads that fail (see [`crate::FaultVfs`]).
//!
//! A test runs its operation, noting with [`CrashVfs::points`] when what was acknowledged, then
//! visits every crash point with a few seeds. Seeds 0 to 4 are the extremes: nothing is kept;
//! everything is; names and sizes without bytes; bytes and sizes without names; bytes and names
//! without sizes. Others choose at random, always the same for one point and seed.
//!
//! ```
//! use std::path::Path;
//! use barid_vfs::{CrashVfs, MemVfs, Vfs, atomic_replace};
//!
//! let path = Path::new("/f");
//! let disk = MemVfs::new();
//! atomic_replace(&disk, path, 0o600, true, |file| file.write_all_at(b"old", 0))?;
//!
//! let world = CrashVfs::new(&disk);
//! atomic_replace(&world.vfs(), path, 0o600, true, |file| file.write_all_at(b"new", 0))?;
//! let acknowledged = world.points();
//!
//! assert!(world.points() >= 5);
//! for point in 0..=world.points() {
//!     for seed in 0..50 {
//!         let found = world.crash_at(point, seed).read(path, 9)?;
//!         assert!(found == b"new" || found == b"old" && point < acknowledged);
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The disk found can be handed to `CrashVfs::new` again, to crash the recovery.

mod choices;
mod content;
mod log;
mod names;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(crate) use self::log::Op;

use self::choices::Choices;
use self::content::Inode;
use self::names::Names;
use crate::api::{FileType, Vfs};
use crate::mem::MemVfs;
use crate::mem::tree::{Directory, Node, NodeState, ROOT, Tree};

/// How long the machine was down: long enough for lock files left behind to be stale, for one whose
/// content was lost does not name a dead process.
const REBOOT: Duration = Duration::from_secs(300);

/// A world that crashes; see the module's text for what can happen in it.
#[derive(Debug)]
pub struct CrashVfs {
    durable: MemVfs,
    live: MemVfs,
    /// Barriers do nothing.
    lying: bool,
    /// The log up to the point asked for last: neighbours are asked for after each other.
    replay: Mutex<Replay>,
}

impl CrashVfs {
    /// A world that begins as a copy of `durable`, all of which is on the disk.
    pub fn new(durable: &MemVfs) -> Self {
        let durable = durable.snapshot();
        let live = durable.recording_copy();
        Self { durable, live, lying: false, replay: Mutex::default() }
    }

    /// A world whose disk lies: barriers succeed and do nothing, as if the operation had none. A
    /// crash test that finds no fault here tests nothing.
    pub fn lying(durable: &MemVfs) -> Self {
        Self { lying: true, ..Self::new(durable) }
    }

    /// The file system to run operations on.
    pub fn vfs(&self) -> MemVfs {
        self.live.clone()
    }

    /// How many changes and barriers there were up to now. A crash point `n` lies after the n-th:
    /// `0..=points()` are all there are.
    pub fn points(&self) -> usize {
        self.live.with_log(|log| log.iter().filter(|op| op.is_point()).count())
    }

    /// The disk as it is found after the power failed at `point`: one of the allowed states, chosen
    /// by `seed`. The clock has moved on by five minutes, and the process that was is dead. Costs
    /// the log since the point asked for before, or all of it if that was a later one, and a copy
    /// of each file that was being written.
    ///
    /// # Panics
    /// If `point` is above [`CrashVfs::points`].
    pub fn crash_at(&self, point: usize, seed: u64) -> MemVfs {
        let mut replay = self.replay.lock().unwrap_or_else(PoisonError::into_inner);
        if replay.points > point {
            *replay = Replay::default();
        }
        let durable = self.durable.tree();
        self.live.with_log(|log| replay.advance(log, point, self.lying, &durable));
        let tree = replay.crash(durable.snapshot(), &mut Choices::new(point, seed));
        let disk = self.live.rebooted(tree);
        disk.sleep(REBOOT);
        disk.set_booted_now();
        disk
    }
}

/// The log up to some crash point: what is durable by then, and what is pending.
#[derive(Debug, Default)]
struct Replay {
    /// How much of the log was taken, and how many points that were.
    log_len: usize,
    points: usize,
    names: Names,
    inodes: BTreeMap<u64, Inode>,
    created: BTreeMap<u64, FileType>,
}

impl Replay {
    /// Takes what is between the point reached and a later one.
    fn advance(&mut self, log: &[Op], point: usize, lying: bool, durable: &Tree) {
        while let Some(op) = log.get(self.log_len) {
            if op.is_point() {
                if self.points == point {
                    break;
                }
                self.points += 1;
            }
            self.log_len += 1;
            if !(lying && op.is_barrier()) {
                self.take(op, durable);
            }
        }
        assert!(self.points == point, "crash point {point} of {}", self.points);
    }

    fn take(&mut self, op: &Op, durable: &Tree) {
        self.names.take(op);
        if let Op::Create { inode, file_type } = op {
            self.created.insert(*inode, *file_type);
        }
        if let Op::SyncFileSystem = op {
            self.inodes.values_mut().for_each(Inode::sync_all);
        }
        let Some(number) = op.inode() else { return };
        let inode = self.inodes.entry(number).or_insert_with(|| {
            Inode::new(durable.nodes.get(&number).map(|node| node.read().clone()).as_ref())
        });
        inode.take(op);
        if self.created.get(&number) == Some(&FileType::Symlink) {
            inode.sync_all();
        }
    }

    /// What is left of `tree` and the operations on it.
    fn crash(&self, mut tree: Tree, choices: &mut Choices) -> Tree {
        for (number, file_type) in &self.created {
            let state = NodeState::new(0, crate::api::Timestamp::default(), 0);
            tree.nodes.insert(*number, Arc::new(Node::new(*number, *file_type, state)));
            if *file_type == FileType::Dir {
                let directory = Directory { parent: ROOT, entries: BTreeMap::new() };
                tree.dirs.insert(*number, directory);
            }
            tree.next_number = tree.next_number.max(number + 1);
        }
        for (number, inode) in &self.inodes {
            if let Some(node) = tree.nodes.get(number) {
                inode.crash(choices, &mut node.write());
            }
        }
        self.names.crash(choices, &mut tree);
        names::forget_nameless(&mut tree, ROOT);
        tree
    }
}

#[cfg(test)]
mod tests;
