//! Counting the calls and bytes of an operation.
//!
//! Wraps any [`Vfs`]; every call that would be a system call is counted by kind, and bytes read and
//! written by path. Tests then assert bounds:
//!
//! ```
//! use std::path::Path;
//! use barid_vfs::{CallKind, CountingVfs, MemVfs, OpenOptions, Vfs};
//!
//! let vfs = CountingVfs::new(MemVfs::new());
//! let file = vfs.open(Path::new("/f"), OpenOptions::create(0o600))?;
//! let before = vfs.counts();
//! file.write_all_at(b"hello", 0)?;
//! file.sync_data()?;
//! let cost = vfs.counts().since(&before);
//! assert_eq!(cost.calls(), 2);
//! assert_eq!(cost.of(CallKind::Sync), 1);
//! assert_eq!(cost.bytes_under(Path::new("/f")).written, 5);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::api::Vfs;
use crate::layer::{CallKind, Hook, Layer, Verdict};

/// Numbers of bytes read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

/// Counts of calls and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    calls: BTreeMap<CallKind, u64>,
    bytes: BTreeMap<PathBuf, Bytes>,
}

impl Counts {
    /// Returns the number of all calls.
    pub fn calls(&self) -> u64 {
        self.calls.values().sum()
    }

    /// Returns the number of calls of one kind.
    pub fn of(&self, kind: CallKind) -> u64 {
        self.calls.get(&kind).copied().unwrap_or(0)
    }

    /// Returns the bytes of a file, or of all files below a directory, by the paths with which they
    /// were opened.
    pub fn bytes_under(&self, path: &Path) -> Bytes {
        let under = self.bytes.iter().filter(|(file, _)| file.starts_with(path));
        under.fold(Bytes::default(), |sum, (_, bytes)| Bytes {
            read: sum.read + bytes.read,
            written: sum.written + bytes.written,
        })
    }

    /// Returns the bytes of all files.
    pub fn bytes(&self) -> Bytes {
        self.bytes_under(Path::new(""))
    }

    /// Returns the difference to `earlier` counts.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let calls = self.calls.iter().map(|(kind, count)| (*kind, count - earlier.of(*kind)));
        let bytes = self.bytes.iter().map(|(path, bytes)| {
            let before = earlier.bytes.get(path).copied().unwrap_or_default();
            let read = bytes.read - before.read;
            (path.clone(), Bytes { read, written: bytes.written - before.written })
        });
        Self {
            calls: calls.filter(|(_, count)| *count > 0).collect(),
            bytes: bytes.filter(|(_, bytes)| *bytes != Bytes::default()).collect(),
        }
    }
}

/// A [`Vfs`] that counts; clones share the counters.
pub type CountingVfs<V> = Layer<V, Counter>;

/// The counters of a [`CountingVfs`].
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<Mutex<Counts>>);

impl Counter {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hook for Counter {
    fn before(&self, kind: CallKind, _: &Path) -> io::Result<Verdict> {
        *self.lock().calls.entry(kind).or_insert(0) += 1;
        Ok(Verdict::Make)
    }

    fn moved(&self, path: &Path, read: usize, written: usize) {
        let mut counts = self.lock();
        if !counts.bytes.contains_key(path) {
            counts.bytes.insert(path.to_owned(), Bytes::default());
        }
        if let Some(bytes) = counts.bytes.get_mut(path) {
            bytes.read += read as u64;
            bytes.written += written as u64;
        }
    }
}

impl<V: Vfs> CountingVfs<V> {
    /// Wraps a file system.
    pub fn new(inner: V) -> Self {
        Self::with_hook(inner, Counter::default())
    }

    /// Returns the current counts; [`Counts::since`] subtracts earlier ones.
    pub fn counts(&self) -> Counts {
        self.hook().lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::OpenOptions;
    use crate::mem::MemVfs;

    #[test]
    fn calls_and_bytes_are_counted_apart() {
        let vfs = CountingVfs::new(MemVfs::new());
        vfs.create_dir(Path::new("/d"), 0o700).unwrap();
        drop(vfs.open(Path::new("/d/a"), OpenOptions::create(0o600)).unwrap());
        let before = vfs.counts();
        let file = vfs.open(Path::new("/d/a"), OpenOptions::WRITE).unwrap();
        file.write_all_at(b"hello", 0).unwrap();
        drop(file);
        let dir = vfs.open_dir(Path::new("/d")).unwrap();
        dir.list(&mut |_, _| {}).unwrap();
        dir.read_head(b"a", &mut [0; 2]).unwrap();
        assert!(dir.read_head(b"b", &mut [0; 2]).is_err());
        vfs.sync_dir(Path::new("/d")).unwrap();
        let cost = vfs.counts().since(&before);
        assert_eq!(cost.calls(), 3 + 2 + 4 + 1 + 3);
        assert_eq!((cost.of(CallKind::Open), cost.of(CallKind::Close)), (5, 3));
        assert_eq!(cost.of(CallKind::Name), 0);
        assert_eq!(cost.bytes_under(Path::new("/d")), Bytes { read: 2, written: 5 });
        assert_eq!(cost.bytes_under(Path::new("/e")), Bytes::default());
        assert_eq!(cost.bytes(), Bytes { read: 2, written: 5 });
    }
}
