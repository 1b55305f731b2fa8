//! Fault injection: making a chosen call fail.
//!
//! Wraps any [`Vfs`]. Tests repeat an operation with the first call failing, then the second, and
//! so on, until the operation makes no more calls:
//!
//! ```
//! use std::path::Path;
//! use barid_vfs::{Fault, FaultVfs, MemVfs, OpenOptions, Vfs, atomic_replace};
//!
//! let mut faults = 0;
//! loop {
//!     let disk = MemVfs::new();
//!     atomic_replace(&disk, Path::new("/f"), 0o600, true, |f| f.write_all_at(b"old", 0))?;
//!     let vfs = FaultVfs::new(disk.clone(), Fault::nth(faults));
//!     let result =
//!         atomic_replace(&vfs, Path::new("/f"), 0o600, true, |f| f.write_all_at(b"new", 0));
//!     let content = disk.read(Path::new("/f"), 9)?;
//!     assert!(content == b"old" || content == b"new");
//!     if !vfs.fired() {
//!         break;
//!     }
//!     assert!(result.is_err());
//!     faults += 1;
//! }
//! assert!(faults >= 5);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Interrupted calls (`EINTR`) are repeated inside every [`Vfs`] and never reach callers, so there
//! is no fault of that kind; a test of this crate injects them below [`crate::OsVfs`]. Closing
//! never fails.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::api::Vfs;
use crate::layer::{CallKind, Hook, Layer, Verdict};

/// A fault: which call fails, and how.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Number of matching calls that succeed before the fault.
    pub after: u64,
    /// Only calls of this kind match.
    pub kind: Option<CallKind>,
    /// Only calls on this path, or below it, match.
    pub under: Option<PathBuf>,
    /// Only calls on exactly this path match.
    pub at: Option<PathBuf>,
    /// Effect of the fault.
    pub effect: FaultEffect,
    /// `true` if every matching call after that fails, too.
    pub forever: bool,
}

/// Effect of a fault on the chosen call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEffect {
    /// The call fails with this error and does nothing.
    Error(io::ErrorKind),
    /// A read or write transfers half of the bytes, at least one; other calls succeed.
    Short,
    /// A sync succeeds without doing anything, as if the caller had left it out; other calls
    /// succeed. On a [`crate::CrashVfs`] this shows whether tests detect a missing sync.
    Skip,
}

impl Fault {
    /// Returns a fault with which the n-th call of any kind, counted from 0, fails once with
    /// `StorageFull`.
    pub fn nth(n: u64) -> Self {
        Self {
            after: n,
            kind: None,
            under: None,
            at: None,
            effect: FaultEffect::Error(io::ErrorKind::StorageFull),
            forever: false,
        }
    }

    /// Restricts the fault to one kind of call.
    #[must_use]
    pub fn of(self, kind: CallKind) -> Self {
        Self { kind: Some(kind), ..self }
    }

    /// Restricts the fault to a path and everything below it.
    #[must_use]
    pub fn under(self, path: impl Into<PathBuf>) -> Self {
        Self { under: Some(path.into()), ..self }
    }

    /// Restricts the fault to one path, without anything below it.
    #[must_use]
    pub fn at(self, path: impl Into<PathBuf>) -> Self {
        Self { at: Some(path.into()), ..self }
    }

    /// Sets the effect of the fault.
    #[must_use]
    pub fn with(self, effect: FaultEffect) -> Self {
        Self { effect, ..self }
    }

    /// Makes every matching call after the first fail, too.
    #[must_use]
    pub fn forever(self) -> Self {
        Self { forever: true, ..self }
    }
}

/// A [`Vfs`] with one fault; clones share the count of calls.
pub type FaultVfs<V> = Layer<V, Faults>;

/// The state of a [`FaultVfs`].
#[derive(Clone, Debug)]
pub struct Faults(Arc<State>);

#[derive(Debug)]
struct State {
    fault: Fault,
    seen: AtomicU64,
    fired: AtomicBool,
}

impl<V: Vfs> FaultVfs<V> {
    /// Wraps a file system.
    pub fn new(inner: V, fault: Fault) -> Self {
        let state = State { fault, seen: AtomicU64::new(0), fired: AtomicBool::new(false) };
        Self::with_hook(inner, Faults(Arc::new(state)))
    }

    /// Returns `true` if the fault has happened.
    pub fn fired(&self) -> bool {
        self.hook().0.fired.load(Ordering::Relaxed)
    }

    /// Returns the number of matching calls so far.
    pub fn calls(&self) -> u64 {
        self.hook().0.seen.load(Ordering::Relaxed)
    }
}

impl Hook for Faults {
    fn before(&self, kind: CallKind, path: &Path) -> io::Result<Verdict> {
        let State { fault, seen, fired } = &*self.0;
        let matches = kind != CallKind::Close
            && fault.kind.is_none_or(|wanted| wanted == kind)
            && fault.under.as_ref().is_none_or(|under| path.starts_with(under))
            && fault.at.as_ref().is_none_or(|at| path == at);
        if !matches {
            return Ok(Verdict::Make);
        }
        let at = seen.fetch_add(1, Ordering::Relaxed);
        if at != fault.after && !(fault.forever && at > fault.after) {
            return Ok(Verdict::Make);
        }
        fired.store(true, Ordering::Relaxed);
        match fault.effect {
            FaultEffect::Error(error) => Err(error.into()),
            FaultEffect::Short => Ok(Verdict::Halve),
            FaultEffect::Skip => Ok(Verdict::Skip),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::OpenOptions;
    use crate::crash::CrashVfs;
    use crate::mem::MemVfs;

    fn run(fault: Fault) -> (io::Result<()>, Vec<u8>, bool) {
        let disk = MemVfs::new();
        let vfs = FaultVfs::new(disk.clone(), fault);
        let result = vfs.open(Path::new("/f"), OpenOptions::create(0o600)).and_then(|file| {
            file.write_all_at(b"one", 0)?;
            file.write_all_at(b"two", 3)?;
            file.sync_data()
        });
        (result, disk.read(Path::new("/f"), 9).unwrap_or_default(), vfs.fired())
    }

    #[test]
    fn the_chosen_call_fails() {
        let check = |fault: Fault, ok: bool, content: &[u8], fired: bool| {
            let (result, found, has_fired) = run(fault);
            assert_eq!((result.is_ok(), &*found, has_fired), (ok, content, fired));
        };
        check(Fault::nth(0), false, b"", true);
        check(Fault::nth(2), false, b"one", true);
        check(Fault::nth(3), false, b"onetwo", true);
        check(Fault::nth(4), true, b"onetwo", false);
        check(Fault::nth(1).of(CallKind::Write), false, b"one", true);
        check(Fault::nth(0).under("/g"), true, b"onetwo", false);
        check(Fault::nth(0).of(CallKind::Sync).forever(), false, b"onetwo", true);
        check(Fault::nth(0).of(CallKind::Write).with(FaultEffect::Short), true, b"onetwo", true);
        check(Fault::nth(0).with(FaultEffect::Short), true, b"onetwo", true);
        check(Fault::nth(0).at("/"), true, b"onetwo", false);
        check(Fault::nth(1).at("/f").under("/"), false, b"", true);
    }

    #[test]
    fn a_skipped_sync_is_none() {
        let disk = MemVfs::new();
        let kept = |fault: Fault| {
            let world = CrashVfs::new(&disk);
            let vfs = FaultVfs::new(world.vfs(), fault.with(FaultEffect::Skip).forever());
            let file = vfs.open(Path::new("/f"), OpenOptions::create(0o600)).unwrap();
            file.write_all_at(b"one", 0).unwrap();
            file.sync_data().unwrap();
            vfs.sync_dir(Path::new("/")).unwrap();
            world.crash_at(world.points(), 0).read(Path::new("/f"), 9).unwrap_or_default()
        };
        assert_eq!(kept(Fault::nth(9)), b"one");
        assert_eq!(kept(Fault::nth(0)), b"");
        assert_eq!(kept(Fault::nth(0).of(CallKind::Sync).at("/")), b"");
        assert_eq!(kept(Fault::nth(0).of(CallKind::Sync).at("/f")), b"");
    }
}
