//! All access to the disk and the clock: files, directories, locks and extended attributes.
//!
//! Everything in barid that touches a disk takes a [`Vfs`], so that the same code runs on the real
//! file system ([`OsVfs`]) and on test doubles. These are public because `--no-cache` and the tests
//! of every crate use them:
//!
//! - [`MemVfs`]: files in memory, with a clock and processes that tests control.
//! - [`CountingVfs`]: counts calls and bytes.
//! - [`FaultVfs`]: makes the n-th call fail.
//! - [`MeanwhileVfs`]: lets other programs act between the calls.
//! - [`CrashVfs`]: simulates a power failure after any change; see [`crash`].
//!
//! Writers use [`atomic_replace`], [`create_dir_durable`], [`DotLock`] and [`lock_file`];
//! [`create_unlinked`] makes temporary files, and [`OneFileVfs`] gives one a path. [`Watch`] waits
//! for changes by other processes. [`StopVfs`] ends work that only reads. [`Stream`] is for input
//! and output that users name, which may be a FIFO or a device.

mod api;
mod counting;
pub mod crash;
mod dotlock;
mod fault;
mod host;
mod layer;
pub mod le;
mod limits;
mod many;
mod meanwhile;
mod mem;
mod one_file;
mod os;
mod owner;
mod replace;
mod stop;
mod stream;
mod unlinked;
mod watch;
mod workers;
mod zone;

pub use api::{
    Dir, File, FileStamp, FileType, LockKind, LockMode, Metadata, OpenOptions, Timestamp, Vfs,
};
pub use counting::{Bytes, Counter, CountingVfs, Counts};
pub use crash::CrashVfs;
pub use dotlock::{DotLock, DotLockOptions, LockError, lock_file};
pub use fault::{Fault, FaultEffect, FaultVfs, Faults};
pub use host::{Host, Process};
pub use layer::{CallKind, Inner, Layer};
pub use meanwhile::{MeanwhileVfs, Others};
pub use mem::MemVfs;
pub use one_file::{OneFile, OneFileVfs};
pub use os::OsVfs;
pub use owner::{Ownership, create_for_owner_of};
pub use replace::{atomic_replace, create_dir_durable, is_temporary, replace_as};
pub use stop::{StopVfs, Stopper};
pub use stream::Stream;
pub use unlinked::create_unlinked;
pub use watch::{WATCHED_EVENTS, Watch, WatchId};
pub use workers::{Workers, cores, on_threads};
pub use zone::{local_zone, local_zone_minutes};
