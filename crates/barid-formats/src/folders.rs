//! The mailboxes below a directory: Maildir++ folders, nested Maildirs and MH folders, directories
//! of mboxes.
//!
//! Maildir++ (Courier, Dovecot) stores the folder `A/B` of a Maildir in its subdirectory `.A.B`,
//! named in modified UTF-7 (RFC 3501 §5.1.3). Links to directories are not followed, hidden files
//! are not mailboxes, and depth and number are bounded.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use barid_mailbox::{Error, Format, Result, Subfolders};
use barid_message::decode_utf7;
use barid_vfs::{FileType, Vfs};

use crate::detect::detect;
use crate::registry::FormatName;

/// Maximum depth of directories that are followed.
const DEPTH_MAX: u32 = 32;
/// Maximum number of folders.
const FOLDERS_MAX: usize = 100_000;
/// Maximum number of entries read from one directory.
const ENTRIES_MAX: usize = 1_000_000;

/// A mailbox, or a level of the tree above one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Its path; for a level that exists only in names, the path that it would have.
    pub path: PathBuf,
    /// Its own name, without those of the levels above.
    pub name: String,
    /// Number of levels above it.
    pub depth: u32,
    /// Its format; `None` if it contains folders but no messages.
    pub format: Option<Format>,
}

/// Extent of a search for folders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FolderSearch {
    /// A directory without mailboxes at any depth is a folder, too.
    pub empty: bool,
    /// Only the Maildir++ folders of the directory itself are searched for, even if it is not a
    /// Maildir. Nothing else is listed.
    pub dotted_only: bool,
}

/// Returns the tree of `dir` and below, every folder before its subfolders, in the order of names.
/// A directory without mailboxes at any depth is left out, and so is one that cannot be read.
///
/// # Errors
/// [`Error::Io`] if `dir` itself cannot be read.
pub fn folders(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<Folder>> {
    folders_with(vfs, dir, FolderSearch::default())
}

/// Returns the tree of `dir` and below as [`folders`] does, within the extent that `search` names.
///
/// # Errors
/// As [`folders`].
pub fn folders_with(vfs: &dyn Vfs, dir: &Path, search: FolderSearch) -> Result<Vec<Folder>> {
    let mut found = Vec::new();
    let format = detect(vfs, dir)?;
    let name = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned();
    found.push(Folder { path: dir.to_owned(), name, depth: 0, format });
    if search.dotted_only {
        let dotted = FormatName::all().map(FormatName::format);
        let dotted = dotted.into_iter().find(|format| format.subfolders == Subfolders::Dotted);
        if let Some(dotted) = dotted {
            let children = plus_plus(vfs, (dir, dotted), 1, &entries(vfs, dir)?);
            found.extend(children.into_iter().take(FOLDERS_MAX));
        }
        return Ok(found);
    }
    let mut open = vec![(dir.to_owned(), 0, format, 1)];
    // Subfolders are inserted right after their parent; deeper levels are visited from the last one
    // on, so that the positions remembered for the others stay right.
    while let Some((path, depth, format, at)) = open.pop() {
        let children = match children(vfs, &path, depth + 1, format) {
            Ok(children) => children,
            Err(error) if depth == 0 => return Err(error),
            Err(_) => continue,
        };
        let room = FOLDERS_MAX.saturating_sub(found.len());
        for (offset, child) in children.iter().enumerate().take(room) {
            let is_level = child.format.is_none() && is_real_dir(vfs, &child.path);
            let nests = child.format.is_some_and(Format::is_folder) || is_level;
            if nests && child.depth < DEPTH_MAX {
                open.push((child.path.clone(), child.depth, child.format, at + offset + 1));
            }
        }
        found.splice(at..at, children.into_iter().take(room));
    }
    if !search.empty {
        prune(&mut found);
    }
    Ok(found)
}

/// Returns the entries of a directory by name; none for a file.
fn entries(vfs: &dyn Vfs, path: &Path) -> Result<Vec<(Vec<u8>, FileType)>> {
    let mut names: Vec<(Vec<u8>, FileType)> = Vec::new();
    let dir = match vfs.open_dir(path) {
        Ok(dir) => dir,
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(Vec::new()),
        Err(source) => return Err(Error::at(path)(source)),
    };
    dir.list(&mut |name, file_type| {
        if names.len() < ENTRIES_MAX {
            names.push((name.to_vec(), file_type));
        }
    })
    .map_err(Error::at(path))?;
    names.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(names)
}

/// Returns the folders right below `path`; for Maildir++, all below it.
fn children(vfs: &dyn Vfs, path: &Path, depth: u32, format: Option<Format>) -> Result<Vec<Folder>> {
    let names = entries(vfs, path)?;
    let mut found = Vec::new();
    if let Some(format) = format
        && format.subfolders == Subfolders::Dotted
    {
        found = plus_plus(vfs, (path, format), depth, &names);
    }
    for (name, file_type) in names {
        let is_part = format.is_some_and(|format| is_part_of_mailbox(format, &name, file_type));
        if name.starts_with(b".") || is_part {
            continue;
        }
        let path = path.join(OsStr::from_bytes(&name));
        if let Some(folder) = folder_at(vfs, path, &name, depth, file_type) {
            found.push(folder);
        }
    }
    Ok(found)
}

/// Returns `true` if a file or folder of a mailbox is its own, and not a mailbox below it.
fn is_part_of_mailbox(format: Format, name: &[u8], file_type: FileType) -> bool {
    let mut own = format.message_folders.iter().chain(format.work_folders);
    format.has_message_files() && file_type != FileType::Dir
        || own.any(|folder| folder.as_bytes() == name)
}

/// Returns the folder of one name: a mailbox, or a directory that may contain some.
fn folder_at(
    vfs: &dyn Vfs,
    path: PathBuf,
    name: &[u8],
    depth: u32,
    file_type: FileType,
) -> Option<Folder> {
    let format = detect(vfs, &path).ok()?;
    let is_dir = match file_type {
        FileType::Dir => true,
        FileType::File => false,
        _ => is_real_dir(vfs, &path),
    };
    let is_link_to_dir = !is_dir && format.is_some_and(Format::has_message_files);
    if (format.is_none() && !is_dir) || is_link_to_dir || is_lock(name) {
        return None;
    }
    let name = String::from_utf8_lossy(name).into_owned();
    Some(Folder { path, name, depth, format })
}

/// Returns `true` for a lock file, and for the temporary file of one: `NAME.lock.` followed by a
/// host, a process or a random number.
fn is_lock(name: &[u8]) -> bool {
    name.ends_with(b".lock") || memchr::memmem::find(name, b".lock.").is_some()
}

/// Returns the Maildir++ folders of a Maildir, and the levels that exist only in their names.
fn plus_plus(
    vfs: &dyn Vfs,
    (root, of_root): (&Path, Format),
    depth: u32,
    names: &[(Vec<u8>, FileType)],
) -> Vec<Folder> {
    let mut tree: BTreeMap<Vec<&[u8]>, Option<Format>> = BTreeMap::new();
    for (name, _) in names {
        let Some(rest) = name.strip_prefix(b".").filter(|rest| !rest.is_empty()) else {
            continue;
        };
        let levels: Vec<&[u8]> = rest.split(|byte| *byte == b'.').collect();
        let sound = levels.len() < DEPTH_MAX as usize && levels.iter().all(|l| !l.is_empty());
        let path = root.join(OsStr::from_bytes(name));
        if !sound || !is_real_dir(vfs, &path) {
            continue;
        }
        if !matches!(detect(vfs, &path), Ok(Some(format)) if format == of_root) {
            continue;
        }
        for len in 1..levels.len() {
            tree.entry(levels[..len].to_vec()).or_default();
        }
        tree.insert(levels, Some(of_root));
    }
    let folder = |(levels, format): (Vec<&[u8]>, Option<Format>)| {
        let file = [b".", levels.join(&b'.').as_slice()].concat();
        let last = levels.last().copied().unwrap_or_default();
        Folder {
            path: root.join(OsStr::from_bytes(&file)),
            name: decode_utf7(last).unwrap_or_else(|| String::from_utf8_lossy(last).into_owned()),
            depth: depth + levels.len() as u32 - 1,
            format,
        }
    };
    tree.into_iter().map(folder).collect()
}

fn is_real_dir(vfs: &dyn Vfs, path: &Path) -> bool {
    vfs.symlink_metadata(path).is_ok_and(|metadata| metadata.file_type == FileType::Dir)
}

/// Removes directories without a mailbox below them; the root stays.
fn prune(folders: &mut Vec<Folder>) {
    // From the end: bit d means that a folder of depth d is on the way to a mailbox.
    let mut needed: u64 = 0;
    let mut keep = vec![false; folders.len()];
    for (at, folder) in folders.iter().enumerate().rev() {
        let bit = 1_u64 << folder.depth.min(63);
        keep[at] = at == 0 || folder.format.is_some() || needed & bit != 0;
        needed &= bit - 1;
        if keep[at] && folder.depth > 0 {
            needed |= 1 << (folder.depth - 1).min(63);
        }
    }
    let mut keep = keep.into_iter();
    folders.retain(|_| keep.next().unwrap_or(true));
}

#[cfg(test)]
mod tests {
    use super::*;
    use barid_vfs::{MemVfs, OpenOptions};

    fn check(dirs: &[&str], files: &[(&str, &str)], expected: &[(u32, &str, bool)]) {
        check_with(FolderSearch::default(), dirs, files, expected);
    }

    fn check_with(
        search: FolderSearch,
        dirs: &[&str],
        files: &[(&str, &str)],
        expected: &[(u32, &str, bool)],
    ) {
        let vfs = MemVfs::new();
        for dir in dirs {
            vfs.create_dir_all(&Path::new("/r").join(dir), 0o700).unwrap();
        }
        for (path, content) in files {
            let file = vfs.open(&Path::new("/r").join(path), OpenOptions::create_new(0o600));
            file.unwrap().write_all_at(content.as_bytes(), 0).unwrap();
        }
        let found = folders_with(&vfs, Path::new("/r"), search).unwrap();
        let found: Vec<_> =
            found.iter().map(|f| (f.depth, f.name.as_str(), f.format.is_some())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn maildir_plus_plus() {
        check(
            &[
                "new",
                "cur",
                "tmp",
                ".A.B/new",
                ".A.B/cur",
                ".A.B.C/new",
                ".A.B.C/cur",
                ".&AOQ-/new",
                ".&AOQ-/cur",
                ".hidden",
                "nested/new",
                "nested/cur",
            ],
            &[("dovecot-uidlist", "3 V1 N1\n")],
            &[
                (0, "r", true),
                (1, "ä", true),
                (1, "A", false),
                (2, "B", true),
                (3, "C", true),
                (1, "nested", true),
            ],
        );
    }

    #[test]
    fn directories_of_mboxes() {
        check(
            &["sub/deep", "empty/x", "m/new", "m/cur"],
            &[
                ("inbox", "From a Thu Jan  1 00:00:00 1970\n\n"),
                ("inbox.lock", ""),
                ("inbox.lock.f695bd4aa853fa14.4242.host", ""),
                ("notes", "nothing\n"),
                ("sub/deep/old", "From a Thu Jan  1 00:00:00 1970\n\n"),
                ("zero", ""),
            ],
            &[
                (0, "r", false),
                (1, "inbox", true),
                (1, "m", true),
                (1, "sub", false),
                (2, "deep", false),
                (3, "old", true),
                (1, "zero", true),
            ],
        );
    }

    #[test]
    fn a_search_has_an_extent() {
        let dirs =
            ["new", "cur", "tmp", ".A.B/new", ".A.B/cur", ".A.B/.C/new", ".A.B/.C/cur", "m/new"];
        let dotted = FolderSearch { dotted_only: true, ..FolderSearch::default() };
        let expected = [(0, "r", true), (1, "A", false), (2, "B", true)];
        check_with(dotted, &dirs, &[], &expected);
        check_with(dotted, &dirs[3..], &[], &[(0, "r", false), expected[1], expected[2]]);
        let empty = FolderSearch { empty: true, ..FolderSearch::default() };
        let dirs = ["a/b", "m/new", "m/cur", ".hidden"];
        let file = [("text", "text\n")];
        let expected = [(0, "r", false), (1, "a", false), (2, "b", false), (1, "m", true)];
        check_with(empty, &dirs, &file, &expected);
    }

    #[test]
    fn mh_folders_nest() {
        check(
            &["inbox/2", "inbox/lists"],
            &[
                ("inbox/.mh_sequences", ""),
                ("inbox/1", "From a Thu Jan  1 00:00:00 1970\n\n"),
                ("inbox/lists/.mh_sequences", "unseen: 1\n"),
                ("inbox/lists/7", "Subject: x\n\n"),
            ],
            &[(0, "r", false), (1, "inbox", true), (2, "lists", true)],
        );
    }
}
