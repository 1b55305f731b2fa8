//! The bounds of this crate.

use std::time::Duration;

/// Bytes of directory entries asked from the kernel at once: some 1,500 names of a Maildir.
pub(crate) const LIST_BUFFER_LEN: usize = 64 * 1024;

/// The largest extended attribute read; the kernel's own limit.
pub(crate) const XATTR_LEN_MAX: usize = 64 * 1024;

/// The length first tried for an extended attribute; ours are shorter.
pub(crate) const XATTR_LEN_GUESS: usize = 256;

/// The longest name of a file, as Linux has it.
pub(crate) const NAME_LEN_MAX: usize = 255;

/// How many symbolic links one path may lead through in memory, as Linux has it.
pub(crate) const SYMLINK_HOPS_MAX: u32 = 40;

/// How much of a lock file is read for its holder's name.
pub(crate) const HOLDER_LEN_MAX: usize = 256;

/// How much older than the machine's start a lock file must be to be of before it: file systems
/// keep times in ticks, and the clock is steered while it runs.
pub(crate) const BOOT_MARGIN: Duration = Duration::from_secs(5);

/// The first pause between two tries of a lock; doubled each time.
pub(crate) const LOCK_RETRY_MIN: Duration = Duration::from_millis(2);

/// The longest pause between two tries of a lock.
pub(crate) const LOCK_RETRY_MAX: Duration = Duration::from_millis(250);

/// Bytes of events asked from the kernel at once; the longest is 272.
pub(crate) const WATCH_BUFFER_LEN: usize = 4096;

/// Events that are taken before what they lead to is done.
pub(crate) const WATCH_EVENTS_MAX: usize = 65_536;

/// What a disk writes at once: what a torn write is torn at.
pub(crate) const SECTOR_LEN: usize = 512;

/// A block of the file system in memory.
pub(crate) const BLOCK_LEN: usize = 4096;

/// How often a file is made that others make and remove meanwhile.
pub(crate) const CREATE_TRIES_MAX: u32 = 16;

/// Files that are removed one by one before the time that they took tells how to go on.
pub(crate) const REMOVALS_TIMED: usize = 16;

/// A removal that takes longer than this on average waits for the disk; on file systems that only
/// note what is to be removed it takes some microseconds.
pub(crate) const REMOVAL_WAITS: Duration = Duration::from_micros(200);

/// Threads that remove files at the same time where removing waits for the disk.
pub(crate) const REMOVAL_THREADS: usize = 16;
