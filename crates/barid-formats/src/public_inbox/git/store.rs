//! The objects of a repository: its packs, its loose files, and those of its alternates.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barid_vfs::{FileStamp, FileType, Vfs};

use super::error::{ObjectError, ObjectResult};
use super::limits::{ALTERNATES_LEN_MAX, OBJECT_DIRS_MAX, PACKS_MAX, PACKS_OPEN_MAX};
use super::oid::Oid;
use super::pack::{Pack, PackFiles};

/// Age of the last change of a folder, in nanoseconds, below which an equal stamp proves nothing.
const RACY_NANOS: u64 = 2_000_000_000;

/// The objects of one repository. Lists packs when they are first needed, and again when an object
/// is missing and the folders of packs have changed.
#[derive(Debug)]
pub(crate) struct GitObjects {
    objects: PathBuf,
    open: Arc<OpenPacks>,
    state: Mutex<StoreState>,
}

/// Packs whose files are open, of several repositories together.
#[derive(Debug, Default)]
pub(crate) struct OpenPacks {
    /// In the order of opening.
    packs: Mutex<VecDeque<Arc<Pack>>>,
}

impl OpenPacks {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Pack>>> {
        self.packs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Adds a pack that was opened; closes the oldest one if there are too many.
    fn add(&self, pack: Arc<Pack>) {
        let mut packs = self.lock();
        packs.push_back(pack);
        if packs.len() > PACKS_OPEN_MAX
            && let Some(oldest) = packs.pop_front()
        {
            oldest.close();
        }
    }

    /// Closes packs that do not exist any more.
    fn remove(&self, gone: &HashSet<*const Pack>) {
        self.lock().retain(|pack| !gone.contains(&Arc::as_ptr(pack)));
    }
}

/// The objects of a repository on a file system.
#[derive(Clone, Copy)]
pub(crate) struct Repository<'a> {
    pub(crate) vfs: &'a dyn Vfs,
    pub(crate) store: &'a GitObjects,
}

#[derive(Debug, Default)]
struct StoreState {
    dirs: Arc<[PathBuf]>,
    packs: Arc<[Arc<Pack>]>,
    /// The stamps of the folders of packs before they were listed.
    listed: Option<Vec<FileStamp>>,
}

impl GitObjects {
    /// Makes the store of the repository at `git_dir`, whose open packs count among `open`; reads
    /// nothing yet.
    pub(crate) fn new(git_dir: &Path, open: Arc<OpenPacks>) -> Self {
        Self { objects: git_dir.join("objects"), open, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for GitObjects {
    /// Closes the packs, which others may keep open.
    fn drop(&mut self) {
        let packs = Arc::clone(&self.lock().packs);
        self.open.remove(&packs.iter().map(Arc::as_ptr).collect());
    }
}

impl<'a> Repository<'a> {
    /// Returns the folder of the repository's own objects.
    pub(crate) fn path(&self) -> &'a Path {
        &self.store.objects
    }

    /// Returns the packs.
    pub(super) fn packs(&self) -> ObjectResult<Arc<[Arc<Pack>]>> {
        let mut state = self.store.lock();
        if state.listed.is_none() {
            self.list(&mut state)?;
        }
        Ok(Arc::clone(&state.packs))
    }

    /// Lists the packs again if they may have changed since they were `searched`. Returns `true` if
    /// there are others now, because of this call or of another thread.
    pub(super) fn relist(&self, searched: &Arc<[Arc<Pack>]>) -> ObjectResult<bool> {
        let mut state = self.store.lock();
        if !Arc::ptr_eq(&state.packs, searched) {
            return Ok(true);
        }
        let now = self.vfs.now().unix_nanos;
        let stamps = self.stamps(&state.dirs);
        // A time far in the future is one that a program has set: no change repeats it.
        let is_settled = |stamp: &FileStamp| {
            now.abs_diff(stamp.modified.max(stamp.changed).unix_nanos) >= RACY_NANOS
        };
        if state.listed.as_ref() == Some(&stamps) && stamps.iter().all(is_settled) {
            return Ok(false);
        }
        self.list(&mut state)?;
        Ok(!Arc::ptr_eq(&state.packs, searched))
    }

    /// Returns the open files of a pack.
    pub(super) fn open(&self, pack: &Arc<Pack>) -> ObjectResult<Arc<PackFiles>> {
        let (files, is_new) = pack.files(self.vfs)?;
        if is_new {
            self.store.open.add(Arc::clone(pack));
        }
        Ok(files)
    }

    /// Returns the paths at which the object may be as a file of its own.
    pub(super) fn loose_paths(&self, oid: Oid) -> impl Iterator<Item = PathBuf> + use<> {
        let dirs = Arc::clone(&self.store.lock().dirs);
        let hex = oid.to_hex();
        (0..dirs.len()).map(move |at| {
            let (folder, file) = hex.split_at(2);
            dirs[at].join(OsStr::from_bytes(folder)).join(OsStr::from_bytes(file))
        })
    }

    fn stamps(&self, dirs: &[PathBuf]) -> Vec<FileStamp> {
        let stamp = |dir: &PathBuf| {
            let found = self.vfs.metadata(&dir.join("pack"));
            found.map_or_else(|_| FileStamp::default(), |metadata| FileStamp::from(&metadata))
        };
        dirs.iter().map(stamp).collect()
    }

    fn list(&self, state: &mut StoreState) -> ObjectResult<()> {
        state.dirs = self.object_dirs()?.into();
        let stamps = self.stamps(&state.dirs);
        let mut packs = Vec::new();
        for dir in state.dirs.iter() {
            match self.list_packs(&dir.join("pack"), &mut packs) {
                Err(error) if error.is_ours() || *dir == self.store.objects => return Err(error),
                _ => {}
            }
        }
        state.packs.iter().for_each(|pack| pack.forget_damage());
        if !state.packs.iter().map(|pack| pack.path()).eq(packs.iter().map(PathBuf::as_path)) {
            // Packs that are still there keep their open files.
            let known: HashMap<&Path, &Arc<Pack>> =
                state.packs.iter().map(|pack| (pack.path(), pack)).collect();
            let kept = |path: PathBuf| match known.get(&*path) {
                Some(pack) => Arc::clone(pack),
                None => Arc::new(Pack::new(path)),
            };
            let packs: Arc<[Arc<Pack>]> = packs.into_iter().map(kept).collect();
            let mut gone: HashSet<*const Pack> = state.packs.iter().map(Arc::as_ptr).collect();
            packs.iter().for_each(|pack| _ = gone.remove(&Arc::as_ptr(pack)));
            self.store.open.remove(&gone);
            state.packs = packs;
        }
        state.listed = Some(stamps);
        Ok(())
    }

    /// Appends the paths of the packs in a folder that have an index, in the order of their names.
    fn list_packs(&self, folder: &Path, packs: &mut Vec<PathBuf>) -> ObjectResult<()> {
        let dir = match self.vfs.open_dir(folder) {
            Ok(dir) => dir,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(());
            }
            Err(source) => return Err(ObjectError::at(folder)(source)),
        };
        let mut names: Vec<Vec<u8>> = Vec::new();
        let room = PACKS_MAX.saturating_sub(packs.len());
        let listed = dir.list(&mut |name, file_type| {
            let is_index = name.starts_with(b"pack-") && name.ends_with(b".idx");
            if is_index && file_type != FileType::Dir && names.len() < room {
                names.push(name.to_vec());
            }
        });
        listed.map_err(ObjectError::at(folder))?;
        names.sort_unstable();
        let paths = names.iter().map(|name| folder.join(OsStr::from_bytes(name)));
        packs.extend(paths.map(|path| path.with_extension("pack")));
        Ok(())
    }

    /// Returns the own folder of objects and those of alternates, each once.
    fn object_dirs(&self) -> ObjectResult<Vec<PathBuf>> {
        let mut dirs = vec![self.store.objects.clone()];
        let mut at = 0;
        while at < dirs.len() {
            let path = dirs[at].join("info/alternates");
            let text = match self.vfs.read(&path, ALTERNATES_LEN_MAX) {
                Ok(text) => text,
                Err(source) if crate::files::is_ours(&source) => {
                    return Err(ObjectError::at(&path)(source));
                }
                // Alternates that cannot be read are passed over, as by git.
                Err(_) => Vec::new(),
            };
            for line in text.split(|byte| *byte == b'\n') {
                if line.is_empty() || line.starts_with(b"#") || dirs.len() >= OBJECT_DIRS_MAX {
                    continue;
                }
                // Canonical paths make circles end; what is missing is passed over, as by git.
                let dir = self.vfs.canonicalize(&dirs[at].join(OsStr::from_bytes(line)));
                if let Ok(dir) = dir
                    && !dirs.contains(&dir)
                {
                    dirs.push(dir);
                }
            }
            at += 1;
        }
        Ok(dirs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barid_vfs::{CallKind, CountingVfs, Host as _, MemVfs, OpenOptions, Timestamp};

    #[test]
    fn a_list_that_another_thread_renewed_is_searched() {
        let vfs = MemVfs::new();
        let folder = Path::new("/g/objects/pack");
        vfs.create_dir_all(folder, 0o700).unwrap();
        let store = GitObjects::new(Path::new("/g"), Arc::default());
        let repository = Repository { vfs: &vfs, store: &store };
        let searched = repository.packs().unwrap();
        assert!(!repository.relist(&searched).unwrap(), "nothing is new");
        vfs.open(&folder.join("pack-1.idx"), OpenOptions::create_new(0o600)).unwrap();
        // Two threads have searched the same packs, and the folder has not changed for long.
        vfs.set_now(Timestamp { unix_nanos: vfs.now().unix_nanos + 10 * RACY_NANOS as i64 });
        assert!(repository.relist(&searched).unwrap());
        assert!(repository.relist(&searched).unwrap());
        let searched = repository.packs().unwrap();
        assert_eq!(searched.len(), 1);
        assert!(!repository.relist(&searched).unwrap());
        // A folder whose time is in the future is not listed each time.
        vfs.set_now(Timestamp { unix_nanos: 0 });
        let counting = CountingVfs::new(vfs);
        let repository = Repository { vfs: &counting, store: &store };
        assert!(!repository.relist(&searched).unwrap());
        assert_eq!(counting.counts().of(CallKind::List), 0);
    }
}
