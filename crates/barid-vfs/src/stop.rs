//! Work of many calls that can be interrupted.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::api::Vfs;
use crate::layer::{CallKind, Hook, Layer, Verdict};

/// A [`Vfs`] whose calls fail once a flag is set, while [`StopVfs::ending`] runs. Closing files and
/// releasing locks do not fail.
pub type StopVfs = Layer<Arc<dyn Vfs>, Stopper>;

/// The state of a [`StopVfs`].
#[derive(Clone, Debug)]
pub struct Stopper {
    stop: Option<Arc<AtomicBool>>,
    is_armed: Arc<AtomicBool>,
}

impl Hook for Stopper {
    fn before(&self, kind: CallKind, _: &Path) -> io::Result<Verdict> {
        let is_set = |stop: &Arc<AtomicBool>| stop.load(Ordering::Relaxed);
        let releases = matches!(kind, CallKind::Close | CallKind::Lock | CallKind::Name);
        let ends = self.is_armed.load(Ordering::Relaxed) && self.stop.as_ref().is_some_and(is_set);
        match ends && !releases {
            // Not `Interrupted`, after which a call is made again.
            true => Err(io::Error::other("interrupted")),
            false => Ok(Verdict::Make),
        }
    }
}

impl StopVfs {
    /// Wraps a file system; `stop` is the flag.
    pub fn new(inner: Arc<dyn Vfs>, stop: Option<Arc<AtomicBool>>) -> Self {
        Self::with_hook(inner, Stopper { stop, is_armed: Arc::default() })
    }

    /// Runs work that only reads, and whose calls fail once the flag is set.
    pub fn ending<T>(&self, work: impl FnOnce() -> T) -> T {
        self.hook().is_armed.store(true, Ordering::Relaxed);
        let result = work();
        self.hook().is_armed.store(false, Ordering::Relaxed);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemVfs, OpenOptions};

    #[test]
    fn calls_fail_only_in_work_that_may_end() {
        let (stop, path) = (Arc::new(AtomicBool::new(false)), Path::new("/a"));
        let vfs = StopVfs::new(Arc::new(MemVfs::new()), Some(Arc::clone(&stop)));
        let file = vfs.open(path, OpenOptions::create(0o600)).unwrap();
        let read = || file.read_at(&mut [0; 4], 0).is_ok();
        assert!(vfs.ending(read));
        stop.store(true, Ordering::Relaxed);
        assert!(read());
        assert!(!vfs.ending(read) && vfs.ending(|| vfs.metadata(path).is_err()));
        assert!(read());
    }
}
