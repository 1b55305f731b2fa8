//! Changes of the tree: one at a time, journalled, and completed after a crash.
//!
//! A change takes the lock of the tree, completes what an earlier process left unfinished, plans
//! its steps, and writes them with the state that they leave to the journal. **The rename of the
//! journal into its place is the commit point**; it is durable before the first step. Then, each
//! durable before the next: the steps, the file `names`, the removal of the journal. A recovery
//! does the same from the first step on. If one of these fails, for lack of rights or space, all of
//! them are undone in reverse, and the journal goes. If that fails, too, the journal stays, and the
//! next change tries again.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use barid::{Mailbox, MailboxAtRest, at_rest};
use barid_types::UidValidity;
use barid_vfs::{
    File, FileType, LockError, LockKind, LockMode, OpenOptions, atomic_replace, create_dir_durable,
    lock_file,
};

use crate::error::{Error, Result};
use crate::journal::{Step, TreeJournal};
use crate::limits::{JOURNAL_LEN_MAX, TREE_LOCK_TIMEOUT};
use crate::state::{Spot, SpotBase, TreeState};
use crate::steps::{Grounds, spec_at};
use crate::tree::{FolderTree, NAMES_FILE, is_absent};
use crate::validity;

/// Name of the journal in the folder of the tree.
const JOURNAL_FILE: &str = "journal";
/// Name of the file that is locked.
const LOCK_FILE: &str = "lock";
/// Permission bits of the folder of the tree, and below of its files.
const STATE_FOLDER_MODE: u32 = 0o700;
const STATE_FILE_MODE: u32 = 0o600;
/// Permission bits of a root that is created.
const ROOT_MODE: u32 = 0o700;

/// A change of a tree, whose lock is held.
#[derive(Debug)]
pub(crate) struct TreeChange<'a> {
    pub(crate) tree: &'a FolderTree,
    /// The folder of the tree's state.
    pub(crate) folder: PathBuf,
    /// The state on the disk.
    before: TreeState,
    /// The state after the change.
    pub(crate) state: TreeState,
    _lock: Box<dyn File>,
}

impl FolderTree {
    /// Begins a change: creates the root if it is missing, locks the tree, and completes an
    /// unfinished change.
    pub(crate) fn begin(&self) -> Result<TreeChange<'_>> {
        let vfs = &*self.vfs;
        if self.options.mailboxes.read_only {
            let why = "the mailboxes are opened read-only";
            return Err(Error::Cannot { name: self.root.display().to_string(), why });
        }
        self.make_root()?;
        let missing = || Error::at(&self.root)(ErrorKind::NotFound.into());
        let folder = self.state_folder()?.ok_or_else(missing)?;
        if vfs.metadata(&folder).is_err_and(|error| is_absent(&error)) {
            // The identity of the root, after which the folder is named.
            vfs.sync_dir(&self.root).map_err(Error::at(&self.root))?;
        }
        create_dir_durable(vfs, &folder, STATE_FOLDER_MODE).map_err(Error::at(&folder))?;
        let lock = self.lock(&folder)?;
        self.recover(&folder)?;
        let state = self.read_state(&folder)?;
        Ok(TreeChange { tree: self, folder, before: state.clone(), state, _lock: lock })
    }

    /// Creates the root if it is missing, durably.
    pub(crate) fn make_root(&self) -> Result<()> {
        let (vfs, root) = (&*self.vfs, &self.root);
        match vfs.metadata(root) {
            Ok(found) if found.file_type != FileType::Dir => {
                let why = "it is a mailbox, and cannot contain others";
                Err(Error::Cannot { name: root.display().to_string(), why })
            }
            Err(error) if is_absent(&error) => {
                create_dir_durable(vfs, root, ROOT_MODE).map_err(Error::at(root))
            }
            _ => Ok(()),
        }
    }

    fn lock(&self, folder: &Path) -> Result<Box<dyn File>> {
        let path = folder.join(LOCK_FILE);
        let file = self.vfs.open(&path, OpenOptions::create(STATE_FILE_MODE));
        let file = file.map_err(Error::at(&path))?;
        let how = (LockKind::Fcntl, LockMode::Exclusive);
        match lock_file(&*self.vfs, &*file, &path, how, TREE_LOCK_TIMEOUT) {
            Ok(()) => Ok(file),
            Err(error) => Err(of_lock(error, &path)),
        }
    }

    /// Completes the change of a process that is gone, if there is one and it may be written; waits
    /// for a process that is changing the tree. What cannot be completed does not keep anybody from
    /// reading: the next change reports it. Costs a few calls where nothing is unfinished.
    pub(crate) fn settle(&self) -> Result<()> {
        let Some(folder) = self.state_folder()? else { return Ok(()) };
        let unfinished = self.vfs.symlink_metadata(&folder.join(JOURNAL_FILE)).is_ok();
        if unfinished && !self.options.mailboxes.read_only {
            let _ = self.lock(&folder).and_then(|_lock| self.recover(&folder));
        }
        Ok(())
    }

    /// Completes an unfinished change, or undoes it if that is not possible. The lock is held.
    fn recover(&self, folder: &Path) -> Result<()> {
        let path = folder.join(JOURNAL_FILE);
        let bytes = match self.vfs.read(&path, JOURNAL_LEN_MAX) {
            Ok(bytes) => bytes,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(source) => return Err(Error::at(&path)(source)),
        };
        let journal = TreeJournal::from_bytes(&bytes)
            .map_err(|unreadable| Error::Damaged { path: path.clone(), what: unreadable.what() })?;
        let Err(failed) = self.complete(folder, &journal) else { return Ok(()) };
        self.roll_back(folder, &journal)
            .map_err(|_| Error::Unfinished { journal: path, why: failed.to_string() })
    }

    /// Does all steps of a change whose journal is durable, stores its state, and removes the
    /// journal.
    fn complete(&self, folder: &Path, journal: &TreeJournal) -> Result<()> {
        let grounds = self.grounds(folder);
        journal.steps.iter().try_for_each(|step| grounds.complete(step))?;
        self.store(folder, &journal.after)?;
        self.remove_journal(folder)
    }

    /// Undoes a change, as far as it was made, and removes the journal.
    fn roll_back(&self, folder: &Path, journal: &TreeJournal) -> Result<()> {
        let grounds = self.grounds(folder);
        journal.steps.iter().rev().try_for_each(|step| grounds.undo(step))?;
        // Without a write: there may be no space for one.
        if self.read_state(folder)? != journal.before {
            self.store(folder, &journal.before)?;
        }
        self.remove_journal(folder)
    }

    fn remove_journal(&self, folder: &Path) -> Result<()> {
        let path = folder.join(JOURNAL_FILE);
        match self.vfs.remove_file(&path) {
            Err(error) if !is_absent(&error) => return Err(Error::at(&path)(error)),
            _ => {}
        }
        self.vfs.sync_dir(folder).map_err(Error::at(folder))
    }

    fn store(&self, folder: &Path, state: &TreeState) -> Result<()> {
        self.replace(&folder.join(NAMES_FILE), &state.to_bytes())
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let write = |file: &dyn File| file.write_all_at(bytes, 0);
        let replaced = atomic_replace(&*self.vfs, path, STATE_FILE_MODE, true, write);
        replaced.map(drop).map_err(Error::at(path))
    }
}

impl TreeChange<'_> {
    /// Makes the change: the steps and the state, all or nothing, durably.
    ///
    /// Commit point: the rename of the journal into its place; without steps, of the file `names`.
    ///
    /// # Errors
    /// Errors of the steps, which are undone then; [`Error::Unfinished`] if they cannot be.
    pub(crate) fn make(&mut self, steps: Vec<Step>) -> Result<()> {
        let Self { tree, folder, before, state, .. } = self;
        state.changes = before.changes.wrapping_add(1);
        if steps.is_empty() {
            tree.store(folder, state)?;
            before.clone_from(state);
            return Ok(());
        }
        let journal = TreeJournal { steps, before: before.clone(), after: state.clone() };
        let path = folder.join(JOURNAL_FILE);
        if let Err(error) = tree.replace(&path, &journal.to_bytes()) {
            // It may be in its place and not durable.
            let _ = tree.remove_journal(folder);
            return Err(error);
        }
        let Err(failed) = tree.complete(folder, &journal) else {
            before.clone_from(state);
            return Ok(());
        };
        match tree.roll_back(folder, &journal) {
            Ok(()) => Err(failed),
            Err(_) => Err(Error::Unfinished { journal: path, why: failed.to_string() }),
        }
    }

    pub(crate) fn grounds(&self) -> Grounds<'_> {
        self.tree.grounds(&self.folder)
    }

    /// Returns the spot of a path in the root or in the folder of the tree's state.
    pub(crate) fn spot(&self, path: &Path) -> Result<Spot> {
        let bases = [(SpotBase::State, &self.folder), (SpotBase::Root, &self.tree.root)];
        let found = bases.into_iter().find_map(|(base, folder)| {
            let path = path.strip_prefix(folder).ok()?.to_owned();
            Some(Spot { base, path })
        });
        let why = "it is not in the folder of the mailboxes";
        found.ok_or_else(|| Error::Cannot { name: path.display().to_string(), why })
    }

    /// Returns a UIDVALIDITY that no mailbox of the account has had: above all that are known, and
    /// not below the current second.
    pub(crate) fn next_uidvalidity(&mut self) -> UidValidity {
        let vfs = &*self.tree.vfs;
        let seconds = u32::try_from(vfs.now().unix_seconds().max(1)).unwrap_or(u32::MAX);
        let of_dovecot = validity::highest(vfs, &self.tree.root);
        let known = self.state.uidvalidity_max.max(of_dovecot).saturating_add(1);
        self.state.uidvalidity_max = known.max(seconds);
        UidValidity::new(self.state.uidvalidity_max).unwrap_or(UidValidity::MAX)
    }

    /// Returns identity and UIDVALIDITY of a mailbox that is about to be moved, after an unfinished
    /// change of it is completed.
    ///
    /// # Errors
    /// [`Error::Cannot`] if the change cannot be completed.
    pub(crate) fn at_rest(&self, path: &Path, name: &str) -> Result<MailboxAtRest> {
        let (vfs, options) = (&self.tree.vfs, &self.tree.options.mailboxes);
        let spec = spec_at(path);
        let found = at_rest(vfs, &spec, options)?;
        if !found.is_unfinished {
            return Ok(found);
        }
        drop(Mailbox::open_in(vfs.clone(), &spec, options)?);
        let found = at_rest(vfs, &spec, options)?;
        let why = "a change of it is unfinished and cannot be completed";
        match found.is_unfinished {
            true => Err(Error::Cannot { name: name.to_owned(), why }),
            false => Ok(found),
        }
    }

    /// Returns the permission bits of new files: those for reading and writing of the root.
    pub(crate) fn file_mode(&self) -> Result<u32> {
        let root = &self.tree.root;
        let found = self.tree.vfs.metadata(root).map_err(Error::at(root))?;
        Ok(found.mode & 0o666 | 0o600)
    }
}

/// Converts the error of a lock.
pub(crate) fn of_lock(error: LockError, path: &Path) -> Error {
    match error {
        LockError::Held { path, holder } => {
            let holder = holder.unwrap_or_else(|| "another process".to_owned());
            Error::Locked { path, holder }
        }
        LockError::Io { path, source } => Error::Io { path, source },
        _ => Error::Locked { path: path.to_owned(), holder: "another process".to_owned() },
    }
}
