//! An open file that has a path.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::api::{File, OpenOptions, Timestamp, Vfs as _};
use crate::host::Host as _;
use crate::layer::{CallKind, Hook, Layer, Verdict};
use crate::{MemVfs, OsVfs};

/// Time from the last change of the file to the clock: nobody is writing it any more.
const AGE: Duration = Duration::from_secs(60);

/// A file system in memory in which one path is that of a file that is open, as
/// [`crate::create_unlinked`] makes one.
pub type OneFileVfs = Layer<MemVfs, OneFile>;

/// The file of a [`OneFileVfs`].
#[derive(Clone, Debug)]
pub struct OneFile {
    path: PathBuf,
    file: Arc<dyn File>,
}

impl Hook for OneFile {
    fn before(&self, _: CallKind, _: &Path) -> io::Result<Verdict> {
        Ok(Verdict::Make)
    }

    fn stand_in(&self, path: &Path) -> Option<Arc<dyn File>> {
        (path == self.path).then(|| Arc::clone(&self.file))
    }
}

impl OneFileVfs {
    /// Creates a file system with `file` at `path`, whose parent is the root.
    ///
    /// # Errors
    /// The path is not one of a file in the root; errors of the file.
    pub fn new(path: &Path, file: Box<dyn File>) -> io::Result<Self> {
        let memory = MemVfs::new();
        memory.open(path, OpenOptions::create_new(0o600))?;
        let changed = file.metadata()?.modified.max(OsVfs.now());
        let now = changed.unix_nanos.saturating_add(AGE.as_nanos() as i64);
        memory.set_now(Timestamp { unix_nanos: now });
        Ok(Self::with_hook(memory, OneFile { path: path.to_owned(), file: file.into() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create_unlinked;

    #[test]
    fn a_file_without_a_name_gets_a_path() {
        let elsewhere = MemVfs::new();
        let file = create_unlinked(&elsewhere, Path::new("/spool")).unwrap();
        file.write_all_at(b"text", 0).unwrap();
        let path = Path::new("/input");
        let vfs = OneFileVfs::new(path, file).unwrap();
        assert_eq!(vfs.read(path, 10).unwrap(), b"text");
        assert_eq!(vfs.read(&vfs.canonicalize(path).unwrap(), 10).unwrap(), b"text");
        for metadata in [vfs.metadata(path), vfs.symlink_metadata(path)] {
            let metadata = metadata.unwrap();
            assert_eq!(metadata.size, 4);
            assert!(metadata.modified < vfs.now());
        }
        let dir = vfs.open_dir(Path::new("/")).unwrap();
        let mut head = [0; 10];
        let (metadata, len) = dir.read_head(b"input", &mut head).unwrap();
        assert_eq!((metadata.size, &head[..len]), (4, &b"text"[..]));
        assert_eq!(dir.metadata(b"input").unwrap().size, 4);
        let file = dir.open(b"input", OpenOptions::READ).unwrap();
        assert_eq!(file.metadata().unwrap().size, 4);
        assert!(vfs.metadata(Path::new("/other")).is_err());
        vfs.open(Path::new("/other"), OpenOptions::create_new(0o600)).unwrap();
        assert_eq!(vfs.metadata(Path::new("/other")).unwrap().size, 0);
    }
}
