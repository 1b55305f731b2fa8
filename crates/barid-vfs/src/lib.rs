//! The only door to the disk: files, directories, locks, extended attributes and the clock.
//!
//! Everything in barid that touches a disk takes a [`Vfs`], so that the same code runs on the real
//! file system ([`OsVfs`]) and on its doubles, which are public since `--no-cache` and the tests of
//! every crate need them:
//!
//! - [`MemVfs`]: files in memory, with a clock, processes and attributes under control.
//! - [`CountingVfs`]: counts calls and bytes.
//! - [`FaultVfs`]: makes the n-th call fail.
//! - [`CrashVfs`]: loses power at every moment; see [`crash`].
//!
//! Beside them stand what every writer needs: [`atomic_replace`], [`create_dir_durable`],
//! [`DotLock`] and [`lock_file`]; for who waits for others, [`Watch`]; and for input and output
//! that users name and that may be a FIFO or a device, [`Stream`].

mod api;
mod counting;
pub mod crash;
mod dotlock;
mod fault;
mod layer;
mod limits;
mod many;
mod mem;
mod os;
mod owner;
mod replace;
mod stream;
mod watch;

pub use api::{
    Dir, File, FileStamp, FileType, LockKind, LockMode, Metadata, OpenOptions, Process, Timestamp,
    Vfs,
};
pub use counting::{Bytes, Counter, CountingVfs, Counts};
pub use crash::CrashVfs;
pub use dotlock::{DotLock, DotLockOptions, LockError, lock_file};
pub use fault::{Fault, FaultEffect, FaultVfs, Faults};
pub use layer::{CallKind, Layer};
pub use mem::MemVfs;
pub use os::OsVfs;
pub use owner::{Ownership, create_for_owner_of};
pub use replace::{atomic_replace, create_dir_durable, is_temporary, replace_as};
pub use stream::Stream;
pub use watch::{Watch, WatchId};
