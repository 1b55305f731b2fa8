//! The search for the mailboxes on the disk.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use barid::{Folder, FolderSearch, Format, folders_with};
use barid_vfs::FileType;

use crate::error::{Error, Result};
use crate::names::{INBOX, Levels};
use crate::options::Layout;
use crate::tree::{FolderTree, format_at, is_absent};

/// A mailbox below the root, or a folder of the layouts that have folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FolderNode {
    pub(crate) path: PathBuf,
    /// Its format; `None` if it is not a mailbox.
    pub(crate) format: Option<Format>,
    /// Its name on the disk is in modified UTF-7.
    is_encoded: bool,
}

/// Mailboxes and folders by their levels, so that those below one follow it.
pub(crate) type FoundFolders = BTreeMap<Levels, FolderNode>;

impl FolderTree {
    /// Finds all mailboxes and folders below the root, without INBOX. A file that no name leads to
    /// is left out ([`crate::names`]), and so is everything that is reached by a link.
    pub(crate) fn search(&self) -> Result<FoundFolders> {
        let dotted_only = self.rules.layout == Layout::MaildirPlusPlus;
        let search = FolderSearch { empty: !dotted_only, dotted_only };
        let mut found = FoundFolders::new();
        if self.vfs.metadata(&self.root).is_err_and(|error| is_absent(&error)) {
            return Ok(found);
        }
        for folder in folders_with(&*self.vfs, &self.root, search)?.into_iter().skip(1) {
            let Some((levels, node)) = self.node(folder) else { continue };
            let is_better = |old: &FolderNode| node.is_encoded && !old.is_encoded;
            if found.get(&levels).is_none_or(is_better) {
                found.insert(levels, node);
            }
        }
        Ok(found)
    }

    /// Finds all Maildir++ folders that have names, whether they are Maildirs or not: a rename must
    /// not leave one behind that cannot be looked into now.
    ///
    /// # Errors
    /// Errors of the file system, those of a single folder, too.
    pub(crate) fn dotted_folders(&self) -> Result<FoundFolders> {
        let (vfs, mut names) = (&*self.vfs, Vec::new());
        let dir = vfs.open_dir(&self.root).map_err(Error::at(&self.root))?;
        dir.list(&mut |name, file_type| {
            if name.starts_with(b".") && file_type != FileType::File {
                names.push(name.to_vec());
            }
        })
        .map_err(Error::at(&self.root))?;
        let mut found = FoundFolders::new();
        for name in names {
            let Some((levels, is_encoded)) = self.rules.levels_of_file(&name) else { continue };
            let path = self.root.join(OsStr::from_bytes(&name));
            let file_type = vfs.symlink_metadata(&path).map_err(Error::at(&path))?.file_type;
            if file_type != FileType::Dir || path == self.inbox.path {
                continue;
            }
            let format = format_at(vfs, &path)?;
            let is_better = |old: &FolderNode| is_encoded && !old.is_encoded;
            if found.get(&levels).is_none_or(is_better) {
                found.insert(levels, FolderNode { path, format, is_encoded });
            }
        }
        Ok(found)
    }

    /// Returns the levels of a folder; `None` if no name leads to it, or only that of INBOX.
    fn node(&self, folder: Folder) -> Option<(Levels, FolderNode)> {
        let Folder { path, format, .. } = folder;
        let is_dotted = self.rules.layout == Layout::MaildirPlusPlus;
        let belongs = match format {
            Some(format) => self.may_contain(format),
            // A level that exists only in names.
            None => !is_dotted,
        };
        if !belongs || path == self.inbox.path {
            return None;
        }
        let (levels, is_encoded) = match is_dotted {
            true => self.rules.levels_of_file(path.file_name()?.as_bytes())?,
            false => self.levels_of_path(&path)?,
        };
        let is_first_inbox = self.rules.prefix.is_empty() && levels[0].eq_ignore_ascii_case(INBOX);
        if is_first_inbox && (levels.len() == 1 || levels[0] != INBOX) {
            return None;
        }
        if format.is_some_and(|format| !format.is_folder()) && !self.is_file_inside(&path) {
            return None;
        }
        Some((levels, FolderNode { path, format, is_encoded }))
    }

    /// Returns the levels of a path of which every folder is a level.
    fn levels_of_path(&self, path: &Path) -> Option<(Levels, bool)> {
        if let Ok(rest) = path.strip_prefix(&self.below_inbox)
            && self.rules.prefix.is_empty()
        {
            let (mut levels, is_encoded) = self.levels_of_parts(rest)?;
            levels.insert(0, INBOX.to_owned());
            return Some((levels, is_encoded));
        }
        let (levels, is_encoded) = self.levels_of_parts(path.strip_prefix(&self.root).ok()?)?;
        // What is below another spelling of INBOX has no name.
        let is_inbox = self.rules.prefix.is_empty() && levels[0].eq_ignore_ascii_case(INBOX);
        (!is_inbox).then_some((levels, is_encoded))
    }

    fn levels_of_parts(&self, path: &Path) -> Option<(Levels, bool)> {
        let (mut levels, mut is_encoded) = (Levels::new(), true);
        for part in path {
            let (level, is_level_encoded) = self.rules.levels_of_file(part.as_bytes())?;
            levels.extend(level);
            is_encoded &= is_level_encoded;
        }
        Some((levels, is_encoded))
    }

    /// Returns `true` if a file is not a link that leads out of the root.
    fn is_file_inside(&self, path: &Path) -> bool {
        let found = self.vfs.symlink_metadata(path);
        found.is_ok_and(|found| match found.file_type {
            FileType::Symlink => self.is_inside(path, FileType::Symlink),
            _ => true,
        })
    }
}
