//! Simulated power failures.
//!
//! [`CrashVfs`] is a file system in memory that records every change and every barrier. An
//! operation runs on it once, to its end; afterwards [`CrashVfs::crash_at`] returns the disk as it
//! would be if the power had failed at a chosen moment, as a new [`MemVfs`] on which recovery can
//! run.
//!
//! Possible states of changes that no barrier covers:
//! - Written bytes reach the disk or not, in any order, torn at 512 bytes. A sector holds what the
//!   page cache held at some moment since.
//! - Size and times of a file reach the disk together, before its bytes or after them; bytes that
//!   did not reach the disk are zeros.
//! - Names (creating, linking, renaming, unlinking) reach the disk or not, in any order, except
//!   that journals keep the order of changes of the same file or the same name. A rename is atomic,
//!   and independent of the data of its file.
//! - Changes of attributes reach the disk in order, up to some moment.
//! - A collapse reaches the disk with its size, or not at all, or halfway: then the hole is at any
//!   block from its beginning to the end of the file, the blocks before it have moved down, and the
//!   size is the old one. Later writes go to the blocks where they are then.
//!
//! Guarantees of barriers, which are weaker than those of any real file system:
//! - `sync_data` of a file: its bytes and size; its times only if the size changed.
//! - `sync_all` of a file: times and attributes, too. Not its name, except, with
//!   [`MemVfs::set_syncs_names`](crate::MemVfs::set_syncs_names), the first name that it had.
//! - `sync_dir`: the names created or removed in it, those renamed into it, and its attributes. Not
//!   its own name in its parent: a new directory whose parent was not synced may be lost with
//!   everything in it.
//! - `sync_file_system`: everything.
//!
//! Not modelled: corrupted blocks, and read errors (see [`crate::FaultVfs`]).
//!
//! A test runs its operation, recording with [`CrashVfs::points`] when changes were acknowledged,
//! and then visits every crash point with several seeds. Seeds 0 to 4 are the extremes: nothing is
//! kept; everything is kept; names and sizes without bytes; bytes and sizes without names; bytes
//! and names without sizes. Other seeds choose at random, always the same for one point and seed.
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
//! The returned disk can be passed to `CrashVfs::new` again, to crash the recovery.

mod choices;
mod content;
mod names;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use self::choices::Choices;
use self::content::Inode;
use self::names::Names;
use crate::api::FileType;
use crate::host::Host as _;
use crate::mem::MemVfs;
use crate::mem::log::Op;
use crate::mem::tree::{Directory, Node, NodeState, ROOT, Tree};

/// Time for which the machine is down: long enough for lock files left behind to be stale, because
/// a lock file whose content was lost names no process.
const REBOOT: Duration = Duration::from_secs(300);

/// A file system that simulates power failures; see the [module](self) for its model.
#[derive(Debug)]
pub struct CrashVfs {
    durable: MemVfs,
    live: MemVfs,
    /// `true` if barriers have no effect.
    lying: bool,
    /// The state at the last requested point, because tests usually request points in order.
    replay: Mutex<Replay>,
}

impl CrashVfs {
    /// Creates a file system that starts as a copy of `durable`, which is entirely on the disk.
    pub fn new(durable: &MemVfs) -> Self {
        let durable = durable.snapshot();
        let live = durable.recording_copy();
        Self { durable, live, lying: false, replay: Mutex::default() }
    }

    /// Creates a file system on which barriers succeed without any effect. A crash test that does
    /// not fail on it tests nothing.
    pub fn lying(durable: &MemVfs) -> Self {
        Self { lying: true, ..Self::new(durable) }
    }

    /// Returns the file system on which operations run.
    pub fn vfs(&self) -> MemVfs {
        self.live.clone()
    }

    /// Returns the number of changes and barriers so far. Crash point `n` is right after the n-th;
    /// all points are `0..=points()`.
    pub fn points(&self) -> usize {
        self.live.with_log(|log| log.iter().filter(|op| op.is_point()).count())
    }

    /// Returns the disk after a power failure at `point`, in one of the possible states, chosen by
    /// `seed`. The clock is five minutes later, and the former process is dead. Costs replaying the
    /// log since the last requested point, or all of it if that was a later one, and a copy of each
    /// file with pending writes.
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

/// The state at some crash point: durable and pending changes.
#[derive(Debug, Default)]
struct Replay {
    /// Number of replayed log entries, and below of crash points among them.
    log_len: usize,
    points: usize,
    names: Names,
    inodes: BTreeMap<u64, Inode>,
    created: BTreeMap<u64, FileType>,
}

impl Replay {
    /// Replays the log from the current point to a later one.
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

    /// Returns the state of `tree` after a crash at this point.
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
