//! Other programs that change files between any two calls.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::MemVfs;
use crate::layer::{CallKind, Hook, Layer, Verdict};

/// A file system in memory in which other programs act: a function runs before every call, and
/// changes files through another handle of the [`MemVfs`].
pub type MeanwhileVfs = Layer<MemVfs, Others>;

/// The other programs of a [`MeanwhileVfs`].
#[derive(Clone)]
pub struct Others(Arc<Act>);

/// Work of other programs before a call of this kind for this path.
type Act = dyn Fn(CallKind, &Path) + Send + Sync;

impl fmt::Debug for Others {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Others")
    }
}

impl Hook for Others {
    fn before(&self, kind: CallKind, path: &Path) -> io::Result<Verdict> {
        (self.0)(kind, path);
        Ok(Verdict::Make)
    }
}

impl MeanwhileVfs {
    /// Wraps a file system; `act` runs before every call, in the thread that makes the call.
    pub fn new(inner: MemVfs, act: impl Fn(CallKind, &Path) + Send + Sync + 'static) -> Self {
        Self::with_hook(inner, Others(Arc::new(act)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OpenOptions, Vfs as _};

    #[test]
    fn others_act_before_a_call() {
        let disk = MemVfs::new();
        let others = disk.clone();
        let vfs = MeanwhileVfs::new(disk, move |kind, path| {
            if kind == CallKind::Stat {
                others.open(path, OpenOptions::create(0o600)).unwrap();
            }
        });
        let path = Path::new("/a");
        assert!(vfs.open(path, OpenOptions::READ).is_err());
        assert!(vfs.metadata(path).is_ok());
        assert!(vfs.open(path, OpenOptions::READ).is_ok());
    }
}
