//! The bounds of this crate.

use std::time::Duration;

/// Buffer for directory entries, in bytes: about 1,500 names of a Maildir per call.
pub(crate) const LIST_BUFFER_LEN: usize = 64 * 1024;

/// The largest extended attribute that is read, in bytes: the limit of the kernel.
pub(crate) const XATTR_LEN_MAX: usize = 64 * 1024;

/// The first buffer tried for an extended attribute, in bytes; our own attributes usually fit.
pub(crate) const XATTR_LEN_GUESS: usize = 256;

/// The longest name of a file, in bytes: `NAME_MAX` of Linux.
pub(crate) const NAME_LEN_MAX: usize = 255;

/// The most symbolic links that resolving a path of [`crate::MemVfs`] may follow, as in Linux.
pub(crate) const SYMLINK_HOPS_MAX: u32 = 40;

/// Bytes of a lock file that are read to find its holder.
pub(crate) const HOLDER_LEN_MAX: usize = 256;

/// A lock file is from before the boot only if it is older than the boot time by more than this:
/// file systems round times to ticks, and the clock is adjusted while it runs.
pub(crate) const BOOT_MARGIN: Duration = Duration::from_secs(5);

/// The first pause between two tries of a lock; doubled each time.
pub(crate) const LOCK_RETRY_MIN: Duration = Duration::from_millis(2);

/// The longest pause between two tries of a lock.
pub(crate) const LOCK_RETRY_MAX: Duration = Duration::from_millis(250);

/// Buffer for inotify events, in bytes; the longest event has 272.
pub(crate) const WATCH_BUFFER_LEN: usize = 32 * 1024;

/// The most events that one wait reads.
pub(crate) const WATCH_EVENTS_MAX: usize = 65_536;

/// Bytes of a sector, which a disk writes as a unit: torn writes are torn at multiples of it.
pub(crate) const SECTOR_LEN: usize = 512;

/// Bytes of a block of the file system in memory.
pub(crate) const BLOCK_LEN: usize = 4096;

/// The most tries to create a file that others create and remove at the same time.
pub(crate) const CREATE_TRIES_MAX: u32 = 16;

/// Files that are removed one by one to measure whether removals wait for the disk.
pub(crate) const REMOVALS_TIMED: usize = 16;

/// Removals that take longer than this on average wait for the disk; on file systems that only log
/// a removal it takes some microseconds.
pub(crate) const REMOVAL_WAITS: Duration = Duration::from_micros(200);

/// Threads that remove files in parallel if removals wait for the disk.
pub(crate) const REMOVAL_THREADS: usize = 16;

/// The largest file of the local time zone, in bytes.
pub(crate) const LOCALTIME_LEN_MAX: usize = 64 << 10;

/// Most worker threads of a process for each core.
pub(crate) const WORKERS_PER_CORE: usize = 2;

/// Most worker threads of a process with few cores.
pub(crate) const WORKERS_MIN: usize = 16;
