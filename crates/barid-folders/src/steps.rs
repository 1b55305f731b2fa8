//! The steps of a change, done on the disk, and undone.
//!
//! Each step is durable when it returns, and may be repeated. Of a rename the target folder is
//! synced before the source folder, so that no crash can lose both names.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::{CreateOptions, Format, MailboxSpec, OpenOptions, at_rest, detect, renumber};
use barid_types::UidValidity;
use barid_vfs::{FileType, OpenOptions as FileOptions, Vfs, create_dir_durable};

use crate::error::{Error, Result};
use crate::journal::Step;
use crate::limits::{CONTENT_ENTRIES_MAX, REST_ENTRIES_MAX};
use crate::state::{Spot, SpotBase};

/// The attribute with the identity of a mailbox (docs/protocol.md).
const IDENTITY: &str = "user.barid.id";
/// The file that marks a Maildir++ folder for Courier, maildrop and Dovecot.
const DOTTED_MARK: &str = "maildirfolder";

/// The folders in which the steps are done.
#[derive(Clone, Debug)]
pub(crate) struct Grounds<'a> {
    pub(crate) vfs: &'a Arc<dyn Vfs>,
    /// The root of the tree.
    pub(crate) root: &'a Path,
    /// The folder of the tree's state.
    pub(crate) state: &'a Path,
    /// Options with which mailboxes are opened.
    pub(crate) mailboxes: &'a OpenOptions,
}

impl Grounds<'_> {
    /// Returns the path of a spot.
    pub(crate) fn path(&self, spot: &Spot) -> PathBuf {
        let base = match spot.base {
            SpotBase::Root => self.root,
            SpotBase::State => self.state,
        };
        if spot.path.as_os_str().is_empty() { base.to_owned() } else { base.join(&spot.path) }
    }

    /// Does a step, or the rest of it, durably.
    pub(crate) fn complete(&self, step: &Step) -> Result<()> {
        match step {
            Step::MakeFolder { at, mode } => {
                let path = self.path(at);
                create_dir_durable(&**self.vfs, &path, *mode).map_err(Error::at(&path))
            }
            Step::Move { from, to, inode } => {
                self.rename(&self.path(from), &self.path(to), *inode, true)
            }
            Step::MoveContent { from, to, format } => {
                self.move_content(&self.path(from), &self.path(to), *format)
            }
            Step::Create { at, format, uidvalidity, mode, is_dotted, .. } => {
                let create = CreateOptions {
                    uidvalidity: Some(*uidvalidity),
                    mode: *mode,
                    ..CreateOptions::default()
                };
                self.create(&self.path(at), *format, &create, *is_dotted)
            }
            Step::Renumber { at, uidvalidity } => self.renumber(&self.path(at), *uidvalidity),
            Step::RemoveFolder { at, .. } => self.remove_folder(&self.path(at)),
        }
    }

    /// Undoes a step as far as it was done, durably. A mailbox that was created stays.
    pub(crate) fn undo(&self, step: &Step) -> Result<()> {
        match step {
            Step::MakeFolder { at, .. } => match self.remove_folder(&self.path(at)) {
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::DirectoryNotEmpty => {
                    Ok(())
                }
                result => result,
            },
            Step::Move { from, to, inode } => {
                self.rename(&self.path(to), &self.path(from), *inode, false)
            }
            Step::MoveContent { from, to, format } => {
                self.move_content(&self.path(to), &self.path(from), *format)
            }
            Step::Create { at, is_new, .. } => self.remove_rest(&self.path(at), *is_new),
            // The new UIDVALIDITY is as good as the old one.
            Step::Renumber { .. } => Ok(()),
            Step::RemoveFolder { at, mode } => {
                let path = self.path(at);
                create_dir_durable(&**self.vfs, &path, *mode).map_err(Error::at(&path))
            }
        }
    }

    /// Renames the file with this inode, and makes that durable. With `must_exist` it is an error
    /// if it is in neither place.
    fn rename(&self, from: &Path, to: &Path, inode: u64, must_exist: bool) -> Result<()> {
        let is_at = |path: &Path| {
            let found = self.vfs.symlink_metadata(path);
            found.is_ok_and(|found| found.inode == inode)
        };
        if is_at(from) {
            self.vfs.rename_new(from, to).map_err(Error::at(to))?;
        } else if !is_at(to) {
            let gone = Error::at(from)(ErrorKind::NotFound.into());
            return if must_exist { Err(gone) } else { Ok(()) };
        }
        self.sync_parents(from, to)
    }

    fn sync_parents(&self, from: &Path, to: &Path) -> Result<()> {
        let (from, to) = (parent_of(from), parent_of(to));
        self.vfs.sync_dir(to).map_err(Error::at(to))?;
        match self.vfs.sync_dir(from) {
            // The folder itself may have been moved by an earlier step.
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::at(from)(error)),
            _ => Ok(()),
        }
    }

    /// Moves what belongs to the mailbox in the folder `from`, its identity included, to the folder
    /// `to`. Subfolders that are not parts of the mailbox stay.
    fn move_content(&self, from: &Path, to: &Path, format: Format) -> Result<()> {
        let identity = self.vfs.xattr(from, IDENTITY).map_err(Error::at(from))?;
        if let Some(identity) = &identity {
            self.vfs.set_xattr(to, IDENTITY, identity).map_err(Error::at(to))?;
            self.vfs.sync_dir(to).map_err(Error::at(to))?;
        }
        for name in self.content(from, format)? {
            let (old, new) = (from.join(&name), to.join(&name));
            self.vfs.rename_new(&old, &new).map_err(Error::at(&new))?;
        }
        self.vfs.sync_dir(to).map_err(Error::at(to))?;
        if identity.is_some() {
            self.vfs.remove_xattr(from, IDENTITY).map_err(Error::at(from))?;
        }
        self.vfs.sync_dir(from).map_err(Error::at(from))
    }

    /// Returns the entries of a folder that belong to the mailbox in it.
    pub(crate) fn content(&self, folder: &Path, format: Format) -> Result<Vec<PathBuf>> {
        let own = [format.message_folders, format.work_folders].concat();
        let mut names = Vec::new();
        let dir = self.vfs.open_dir(folder).map_err(Error::at(folder))?;
        dir.list(&mut |name, file_type| {
            let is_own = file_type != FileType::Dir || own.iter().any(|own| own.as_bytes() == name);
            if is_own && names.len() < CONTENT_ENTRIES_MAX {
                names.push(PathBuf::from(OsStr::from_bytes(name)));
            }
        })
        .map_err(Error::at(folder))?;
        Ok(names)
    }

    fn create(
        &self,
        path: &Path,
        format: Format,
        create: &CreateOptions,
        is_dotted: bool,
    ) -> Result<()> {
        let vfs = &**self.vfs;
        if self.vfs.symlink_metadata(path).is_ok()
            && detect(vfs, path).map_err(barid::Error::from)?.is_some()
        {
            return self.give_uidvalidity(path, create.uidvalidity);
        }
        if is_dotted {
            create_dir_durable(vfs, path, folder_mode(create.mode)).map_err(Error::at(path))?;
            let mark = path.join(DOTTED_MARK);
            let file = vfs.open(&mark, FileOptions::create(create.mode));
            file.map_err(Error::at(&mark))?;
            vfs.sync_dir(path).map_err(Error::at(path))?;
        }
        Ok(barid::create(self.vfs, path, format, create, &self.mailboxes.state_dir)?)
    }

    /// Completes an interrupted creation: gives a mailbox without UIDVALIDITY the planned one.
    fn give_uidvalidity(&self, path: &Path, uidvalidity: Option<UidValidity>) -> Result<()> {
        let spec = spec_at(path);
        let found = at_rest(self.vfs, &spec, self.mailboxes)?;
        if let (None, Some(uidvalidity)) = (found.uidvalidity(), uidvalidity) {
            renumber(self.vfs, &spec, self.mailboxes, uidvalidity)?;
        }
        Ok(())
    }

    fn renumber(&self, path: &Path, uidvalidity: UidValidity) -> Result<()> {
        if self.vfs.symlink_metadata(path).is_err() {
            // The next step, which moves it, was done before.
            return Ok(());
        }
        let spec = spec_at(path);
        let found = at_rest(self.vfs, &spec, self.mailboxes)?;
        let is_new = found.uidvalidity() == Some(uidvalidity);
        if is_new || renumber(self.vfs, &spec, self.mailboxes, uidvalidity)? {
            return Ok(());
        }
        let unsupported = ErrorKind::Unsupported.into();
        Err(Error::at(path)(unsupported))
    }

    fn remove_folder(&self, path: &Path) -> Result<()> {
        match self.vfs.remove_dir(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::at(path)(error)),
            _ => {
                let parent = parent_of(path);
                self.vfs.sync_dir(parent).map_err(Error::at(parent))
            }
        }
    }

    /// Removes what an interrupted creation left if it made the folder: empty folders, empty files
    /// and the list of no UIDs.
    fn remove_rest(&self, path: &Path, is_new: bool) -> Result<()> {
        let vfs = &**self.vfs;
        let Ok(found) = vfs.symlink_metadata(path) else { return Ok(()) };
        if detect(vfs, path).map_err(barid::Error::from)?.is_some() {
            let why = "the mailbox is there, and its properties are not stored".to_owned();
            return Err(Error::Unfinished { journal: self.state.to_owned(), why });
        }
        if found.file_type != FileType::Dir || !is_new {
            return Ok(());
        }
        let mut entries = Vec::new();
        let dir = vfs.open_dir(path).map_err(Error::at(path))?;
        dir.list(&mut |name, file_type| {
            if entries.len() < REST_ENTRIES_MAX {
                entries.push((path.join(OsStr::from_bytes(name)), file_type));
            }
        })
        .map_err(Error::at(path))?;
        for (entry, file_type) in entries {
            let is_ours = entry
                .file_name()
                .is_some_and(|name| name.as_bytes().starts_with(UIDLIST.as_bytes()))
                || vfs.symlink_metadata(&entry).is_ok_and(|found| found.size == 0);
            // What is left keeps its folder, which is not an error.
            let _ = match file_type {
                FileType::Dir => vfs.remove_dir(&entry),
                _ if is_ours => vfs.remove_file(&entry),
                _ => Ok(()),
            };
        }
        match self.remove_folder(path) {
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::DirectoryNotEmpty => {
                Ok(())
            }
            result => result,
        }
    }
}

/// The file in which a new Maildir has its UIDVALIDITY.
const UIDLIST: &str = "dovecot-uidlist";
/// Returns the mailbox at a path, whatever its format.
pub(crate) fn spec_at(path: &Path) -> MailboxSpec {
    MailboxSpec { format: None, path: path.to_owned() }
}

/// Returns the permission bits of a folder whose files have these.
pub(crate) fn folder_mode(mode: u32) -> u32 {
    mode & 0o666 | (mode | mode << 1) >> 2 & 0o111
}

/// Returns the folder of a path.
pub(crate) fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
