//! Deletion of mailboxes, and its undoing (RFC 9051 §6.3.5).
//!
//! A deleted mailbox is moved to a folder of its own, `trash/NUMBER/mailbox` in the folder of the
//! tree's state, or in the root if the state is on another file system, in a place that neither
//! barid nor Dovecot lists ([`FolderTree::trash_in_root`]). It keeps its identity, so its ledger
//! and its UIDs come back with it.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use barid::{Format, MailboxAtRest, MessageLayout};
use barid_imap::command::MailboxName;
use barid_vfs::{
    DotLock, DotLockOptions, File, FileType, LockError, LockKind, LockMode, OpenOptions, Timestamp,
    Vfs, create_dir_durable, lock_file,
};

use crate::change::{TreeChange, of_lock};
use crate::error::{Error, Result};
use crate::journal::Step;
use crate::limits::{DELETE_PURGE_ENTRIES_MAX, DELETED_MAX, PURGE_ENTRIES_MAX};
use crate::names::NamedPlace;
use crate::options::Layout;
use crate::state::{DeletedState, PastValidity, SpotBase, key_of, place_of_key};
use crate::steps::spec_at;
use crate::tree::{FolderTree, Occupant, format_at, is_absent};

/// A deleted mailbox that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedMailbox {
    /// The name that it had.
    pub name: String,
    /// Time of the deletion.
    pub time: Timestamp,
}

/// Name of the mailbox in its folder.
const KEPT_NAME: &str = "mailbox";
/// Folder of deleted mailboxes in the folder of the tree's state.
const TRASH: &str = "trash";
/// Permission bits of it.
const TRASH_MODE: u32 = 0o700;

impl FolderTree {
    /// Deletes a mailbox; it is kept for the time of the options, and [`FolderTree::undelete`]
    /// brings it back. Mailboxes below it stay. A folder that is not a mailbox is removed if it is
    /// empty. Deleted mailboxes whose time is over are removed.
    ///
    /// **Commit point:** the rename of the journal into its place. Order: journal; a folder for the
    /// deleted mailbox; the rename of the mailbox or, if its folder contains others, of its parts;
    /// state; removal of the journal. After a crash the mailbox is in one of the two places, whole,
    /// and the next call completes the deletion.
    ///
    /// # Errors
    /// [`Error::NoSuchMailbox`]; [`Error::Cannot`] for INBOX; [`Error::HasChildren`] for a folder
    /// that contains others and is not a mailbox; [`Error::Locked`]; errors of the file system.
    pub fn delete(&self, name: &MailboxName) -> Result<()> {
        let name = &name.0;
        let place = self.rules.parse(name)?;
        if place == NamedPlace::Inbox {
            return Err(Error::Cannot { name: name.clone(), why: "INBOX cannot be deleted" });
        }
        let mut change = self.begin()?;
        let (path, occupant) = self.occupant(&place, name)?;
        let format = match occupant {
            Occupant::Mailbox(format) => format,
            Occupant::Folder if self.rules.layout != Layout::MaildirPlusPlus => {
                return change.remove_folder(&path, name);
            }
            _ => return Err(Error::NoSuchMailbox { name: name.clone() }),
        };
        self.check_without_inbox(&path, name)?;
        let is_content = self.rules.layout != Layout::MaildirPlusPlus
            && format.is_folder()
            && self.has_folders_below(&path, format)?;
        let (rest, _held) = change.take(&path, name, format)?;
        let deletion = Deletion { key: key_of(&place), path, format, rest, is_content };
        let made = change.move_to_trash(&deletion, true);
        match made {
            Err(error) if error.io_kind() == Some(ErrorKind::CrossesDevices) => {
                change.move_to_trash(&deletion, false)?;
            }
            made => made?,
        }
        // What is not removed now is removed by a later purge; the mailbox is deleted in any case.
        let _ = change.purge(self.options.keep_deleted, DELETE_PURGE_ENTRIES_MAX);
        Ok(())
    }

    /// Returns the folder in the root for deleted mailboxes, which is listed by nobody: Maildir++
    /// has only names with dots; Dovecot skips `tmp` in nested Maildirs, and `.imap` among mboxes;
    /// and what is hidden is skipped here.
    pub(crate) fn trash_in_root(&self) -> PathBuf {
        self.root.join(match self.rules.layout {
            Layout::MaildirPlusPlus => "barid-trash",
            Layout::NestedMaildirs => "tmp/barid-trash",
            Layout::Files(format) if format.layout == MessageLayout::OneFile => ".imap/barid-trash",
            Layout::Files(_) => ".barid-trash",
        })
    }

    /// Returns `true` if the folder of a mailbox has folders that are not part of the mailbox.
    fn has_folders_below(&self, path: &Path, format: Format) -> Result<bool> {
        let own = [format.message_folders, format.work_folders].concat();
        let mut folders = Vec::new();
        let dir = self.vfs.open_dir(path).map_err(Error::at(path))?;
        dir.list(&mut |name, file_type| {
            let is_own = own.iter().any(|own| own.as_bytes() == name);
            if !is_own && !matches!(file_type, FileType::File | FileType::Symlink) {
                folders.push((name.to_vec(), file_type));
            }
        })
        .map_err(Error::at(path))?;
        Ok(folders.into_iter().any(|(name, file_type)| {
            file_type == FileType::Dir
                || is_folder(&*self.vfs, &path.join(OsStr::from_bytes(&name)))
        }))
    }

    /// Returns the deleted mailboxes that are kept, the oldest first.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn deleted(&self) -> Result<Vec<DeletedMailbox>> {
        self.settle()?;
        let Some(folder) = self.state_folder()? else { return Ok(Vec::new()) };
        let deleted = self.read_state(&folder)?.deleted.into_iter();
        let shown = |deleted: DeletedState| DeletedMailbox {
            name: self.name_of(&place_of_key(&deleted.key)),
            time: deleted.time,
        };
        Ok(deleted.map(shown).collect())
    }

    /// Brings back the mailbox of a name that was deleted last, durably, with its UIDs, special
    /// uses and metadata.
    ///
    /// **Commit point:** the rename of the journal into its place. Order: journal; folders above;
    /// the rename of the mailbox or of its parts; state; removal of the journal.
    ///
    /// # Errors
    /// [`Error::NotKept`]; [`Error::AlreadyExists`]; errors of the file system.
    pub fn undelete(&self, name: &MailboxName) -> Result<()> {
        let name = &name.0;
        let place = self.rules.parse(name)?;
        let mut change = self.begin()?;
        let key = key_of(&place);
        let at = change.state.deleted.iter().rposition(|deleted| deleted.key == key);
        let Some(at) = at else { return Err(Error::NotKept { name: name.clone() }) };
        let deleted = change.state.deleted.remove(at);
        let kept = change.grounds().path(&deleted.kept);
        let steps = change.steps_back(&place, &kept, name)?;
        change.state.give_properties(&key, (deleted.uses, deleted.metadata));
        change.make(steps)?;
        if let Some(folder) = kept.parent() {
            // It is empty now, or has the empty folder of a mailbox that was in a folder of others.
            let _ = self.vfs.remove_dir(&kept).and_then(|()| self.vfs.remove_dir(folder));
            let _ = self.vfs.remove_dir(folder);
        }
        Ok(())
    }

    /// Removes the deleted mailboxes that were deleted longer ago than `kept`, for good.
    ///
    /// **Commit point:** the rename of the new file `names`, after which they cannot be brought
    /// back; then their files are removed. A later purge removes what a crash leaves of them.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn purge(&self, kept: Duration) -> Result<()> {
        self.begin()?.purge(kept, PURGE_ENTRIES_MAX)
    }
}

/// Plan of a deletion.
#[derive(Debug)]
struct Deletion {
    key: String,
    path: PathBuf,
    format: Format,
    rest: MailboxAtRest,
    is_content: bool,
}

impl TreeChange<'_> {
    /// Removes an empty folder.
    fn remove_folder(&mut self, path: &Path, name: &str) -> Result<()> {
        let vfs = &*self.tree.vfs;
        let mut is_empty = true;
        let dir = vfs.open_dir(path).map_err(Error::at(path))?;
        dir.list(&mut |_, _| is_empty = false).map_err(Error::at(path))?;
        if !is_empty {
            return Err(Error::HasChildren { name: name.to_owned() });
        }
        let mode = vfs.metadata(path).map_err(Error::at(path))?.mode & 0o777;
        let step = Step::RemoveFolder { at: self.spot(path)?, mode };
        self.make(vec![step])
    }

    /// Moves a mailbox to the folder of deleted mailboxes: that in the state, or that in the root.
    fn move_to_trash(&mut self, deletion: &Deletion, in_state: bool) -> Result<()> {
        let Deletion { key, path, format, rest, is_content } = deletion;
        let (tree, before) = (self.tree, self.state.clone());
        let in_state = in_state && self.same_device(path);
        let trash = match in_state {
            true => self.folder.join(TRASH),
            false => tree.trash_in_root(),
        };
        let number = self.state.deleted_last.saturating_add(1);
        let folder = trash.join(number.to_string());
        let kept = folder.join(KEPT_NAME);
        let found = tree.vfs.symlink_metadata(path).map_err(Error::at(path))?;
        create_dir_durable(&*tree.vfs, &trash, TRASH_MODE).map_err(Error::at(&trash))?;
        let at = |path: &Path| self.spot(path);
        let mut steps = vec![Step::MakeFolder { at: at(&folder)?, mode: TRASH_MODE }];
        if *is_content {
            steps.push(Step::MakeFolder { at: at(&kept)?, mode: found.mode & 0o777 });
            steps.push(Step::MoveContent { from: at(path)?, to: at(&kept)?, format: *format });
        } else {
            steps.push(Step::Move { from: at(path)?, to: at(&kept)?, inode: found.inode });
        }
        let deleted = DeletedState {
            number,
            key: key.clone(),
            time: tree.vfs.now(),
            kept: at(&kept)?,
            uses: None,
            metadata: Default::default(),
        };
        let (uses, metadata) = self.state.take_properties(key);
        self.state.deleted_last = number;
        self.state.deleted.push(DeletedState { uses, metadata, ..deleted });
        self.note_left(key, rest);
        let made = self.make(steps);
        if made.is_err() {
            self.state = before;
        }
        made
    }

    /// Remembers the UIDVALIDITYs of a mailbox that loses its name.
    pub(crate) fn note_left(&mut self, key: &str, rest: &MailboxAtRest) {
        for uidvalidity in rest.stored_uidvalidity.into_iter().chain(rest.ledger_uidvalidity) {
            self.state.note_past(key, PastValidity { uidvalidity, id: rest.id });
        }
    }

    /// Returns `true` if a path in the root seems to be on the file system of the state.
    fn same_device(&self, path: &Path) -> bool {
        let device =
            |path: &Path| self.tree.vfs.symlink_metadata(path).map(|found| found.device).ok();
        device(path) == device(&self.folder)
    }

    /// Plans the way back of a deleted mailbox. If a folder has its name now, because mailboxes are
    /// below it, the parts of the mailbox move into that.
    fn steps_back(&self, place: &NamedPlace, kept: &Path, name: &str) -> Result<Vec<Step>> {
        let (tree, vfs) = (self.tree, &*self.tree.vfs);
        let found = vfs.symlink_metadata(kept).map_err(Error::at(kept))?;
        let format = format_at(vfs, kept)?;
        let (path, occupant) = tree.occupant(place, name)?;
        let mut steps = self.missing_folders(&path, name, self.file_mode()?)?;
        let (from, to) = (self.spot(kept)?, self.spot(&path)?);
        match (occupant, format) {
            (Occupant::Nothing, _) if vfs.symlink_metadata(&path).is_err() => {
                steps.push(Step::Move { from, to, inode: found.inode });
            }
            // Files that are there already would be taken for those of the mailbox.
            (Occupant::Folder, Some(format))
                if format.is_folder() && self.grounds().content(&path, format)?.is_empty() =>
            {
                steps.push(Step::MoveContent { from, to, format });
            }
            _ => return Err(Error::AlreadyExists { name: name.to_owned() }),
        }
        Ok(steps)
    }

    /// Prepares a mailbox to be moved: completes an unfinished change of it, and locks it if it is
    /// a file.
    ///
    /// # Errors
    /// [`Error::Locked`]; [`Error::Cannot`] if it is in the middle of a change.
    pub(crate) fn take(
        &self,
        path: &Path,
        name: &str,
        format: Format,
    ) -> Result<(MailboxAtRest, Option<HeldFile>)> {
        let rest = self.at_rest(path, name)?;
        let held = self.hold(path, format)?;
        if held.is_none() {
            return Ok((rest, held));
        }
        let (vfs, options) = (&self.tree.vfs, &self.tree.options.mailboxes);
        let rest = barid::at_rest(vfs, &spec_at(path), options)?;
        let why = "another process began to change it; try again";
        match rest.is_unfinished {
            true => Err(Error::Cannot { name: name.to_owned(), why }),
            false => Ok((rest, held)),
        }
    }

    /// Takes the locks of a mailbox that is a file, so that no program is writing it while it is
    /// renamed: the lock file beside it and the kernel locks, as far as they can be taken.
    fn hold(&self, path: &Path, format: Format) -> Result<Option<HeldFile>> {
        if format.is_folder() {
            return Ok(None);
        }
        let tree = self.tree;
        let timeout = tree.options.mailboxes.lock_timeout;
        let options = DotLockOptions { timeout, ..DotLockOptions::default() };
        let dotlock = match DotLock::acquire(&tree.vfs, path, options) {
            Ok(lock) => Some(lock),
            Err(error @ LockError::Held { .. }) => return Err(of_lock(error, path)),
            // The other locks must do.
            Err(_) => None,
        };
        let file = match tree.vfs.open(path, OpenOptions::WRITE) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                tree.vfs.open(path, OpenOptions::READ)
            }
            file => file,
        };
        let file = file.map_err(Error::at(path))?;
        for kind in [LockKind::Fcntl, LockKind::Flock] {
            let locked = lock_file(&*tree.vfs, &*file, path, (kind, LockMode::Exclusive), timeout);
            // Other errors are those of a file system without locks, or of a file that may only be
            // read.
            if let Err(error @ LockError::Held { .. }) = locked {
                return Err(of_lock(error, path));
            }
        }
        Ok(Some(HeldFile { _dotlock: dotlock, _file: file }))
    }

    /// Removes deleted mailboxes for good: those that are older than `kept`, and the oldest of too
    /// many; of their files at most `entries_max`.
    fn purge(&mut self, kept: Duration, entries_max: usize) -> Result<()> {
        let now = self.tree.vfs.now().unix_nanos;
        let kept_nanos = i64::try_from(kept.as_nanos()).unwrap_or(i64::MAX);
        let excess = self.state.deleted.len().saturating_sub(DELETED_MAX);
        let mut at = 0;
        let before = self.state.deleted.len();
        self.state.deleted.retain(|deleted| {
            at += 1;
            at > excess && now.saturating_sub(deleted.time.unix_nanos) < kept_nanos
        });
        if self.state.deleted.len() < before {
            self.make(Vec::new())?;
        }
        let in_state = (SpotBase::State, self.folder.join(TRASH));
        let in_root = (SpotBase::Root, self.tree.trash_in_root());
        let mut budget = entries_max;
        for (base, trash) in [in_state, in_root] {
            self.remove_forgotten(base, &trash, &mut budget)?;
        }
        Ok(())
    }

    /// Removes the folders in a folder of deleted mailboxes that the state does not name.
    fn remove_forgotten(&self, base: SpotBase, trash: &Path, budget: &mut usize) -> Result<()> {
        let vfs = &self.tree.vfs;
        let numbers: Vec<u64> = self
            .state
            .deleted
            .iter()
            .filter(|deleted| deleted.kept.base == base)
            .map(|deleted| deleted.number)
            .collect();
        let mut forgotten = Vec::new();
        match vfs.open_dir(trash) {
            Ok(dir) => dir
                .list(&mut |name, _| {
                    let name = std::str::from_utf8(name).ok();
                    let number = name.and_then(|name| name.parse::<u64>().ok());
                    forgotten.extend(number.filter(|number| !numbers.contains(number)));
                })
                .map_err(Error::at(trash))?,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(source) => return Err(Error::at(trash)(source)),
        }
        for number in forgotten {
            remove_tree(vfs, &trash.join(number.to_string()), budget)?;
        }
        Ok(())
    }
}

/// Locks of a mailbox that is a file; released when dropped.
#[derive(Debug)]
pub(crate) struct HeldFile {
    _dotlock: Option<DotLock>,
    _file: Box<dyn File>,
}

/// Removes a folder with all that is in it, as far as the budget of entries goes. Not durable: what
/// comes back after a crash is removed by a later purge.
fn remove_tree(vfs: &Arc<dyn Vfs>, folder: &Path, budget: &mut usize) -> Result<()> {
    let mut open = vec![(folder.to_owned(), false)];
    while let Some((path, is_listed)) = open.pop() {
        if is_listed {
            vfs.remove_dir(&path).map_err(Error::at(&path))?;
            continue;
        }
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        let dir = vfs.open_dir(&path).map_err(Error::at(&path))?;
        dir.list(&mut |name, file_type| {
            if *budget > 0 {
                *budget -= 1;
                let entry = path.join(OsStr::from_bytes(name));
                let is_folder = match file_type {
                    FileType::Dir => true,
                    FileType::Other => is_folder(&**vfs, &entry),
                    FileType::File | FileType::Symlink => false,
                };
                if is_folder { folders.push((entry, false)) } else { files.push(entry) }
            }
        })
        .map_err(Error::at(&path))?;
        for (removed, file) in vfs.remove_files(&files).into_iter().zip(&files) {
            removed.map_err(Error::at(file))?;
        }
        if *budget == 0 {
            return Ok(());
        }
        open.push((path, true));
        open.append(&mut folders);
    }
    Ok(())
}

fn is_folder(vfs: &dyn Vfs, path: &Path) -> bool {
    vfs.symlink_metadata(path).is_ok_and(|found| found.file_type == FileType::Dir)
}
