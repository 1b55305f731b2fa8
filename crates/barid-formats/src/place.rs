//! Names of mailboxes in trees: a name that [`crate::folders()`] lists leads to its mailbox, and a
//! new name gets the path and the format of its tree.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use barid_mailbox::{Format, Subfolders};
use barid_message::encode_utf7;
use barid_vfs::Vfs;

use crate::detect::detect;

/// Maximum number of entries read from a directory to find the kind of its tree.
const NEIGHBOURS_MAX: usize = 256;
/// Maximum number of directories read on the way up to mailboxes.
const LEVELS_MAX: usize = 2;

/// The place of a new mailbox in a tree of mailboxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreePlace {
    /// Its path.
    pub path: PathBuf,
    /// The format of the mailboxes around it.
    pub format: Format,
}

/// Returns the path of the mailbox that a path names. A path that exists names itself; otherwise
/// `ROOT/A/B` names the Maildir++ folder `.A.B` of the Maildir `ROOT`, in modified UTF-7 or as
/// written, if that exists. Costs one `stat` where the path exists.
pub fn resolve_name(vfs: &dyn Vfs, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() || vfs.symlink_metadata(path).is_ok() {
        return path.to_owned();
    }
    let candidates =
        Below::new(vfs, path).map(|below| [below.plus_plus(true), below.plus_plus(false)]);
    let is_there = |path: &PathBuf| vfs.metadata(path).is_ok();
    candidates.into_iter().flatten().flatten().find(is_there).unwrap_or_else(|| path.to_owned())
}

/// Returns the place of a new mailbox at `path`, which does not exist, if that is in a tree of
/// Maildirs, MH folders or mixes: the Maildir++ folder `.A.B` for `ROOT/A/B` if `ROOT` is a Maildir
/// that nests no others and no name has a dot; otherwise the path itself. A directory that is not a
/// mailbox is such a tree if it contains two or more of them, all of one kind, and the name has no
/// extension.
pub fn place_in_tree(vfs: &dyn Vfs, path: &Path) -> Option<TreePlace> {
    let below = Below::new(vfs, path)?;
    let at_path = |format| Some(TreePlace { path: path.to_owned(), format });
    match detect(vfs, &below.root).ok()? {
        Some(format) if format.subfolders == Subfolders::Dotted => {
            let has = |plus_plus| has_folders_of(vfs, &below.root, format, plus_plus);
            let has_plus_plus = !below.prefix.is_empty() || has(true);
            if !has_plus_plus && has(false) {
                return at_path(format);
            }
            let path = below.plus_plus(true).unwrap_or_else(|| path.to_owned());
            Some(TreePlace { path, format })
        }
        Some(format) if format.is_folder() => at_path(format),
        Some(_) => None,
        None if path.extension().is_some() => None,
        None => kind_of_neighbours(vfs, &below.root).and_then(at_path),
    }
}

/// A path, split into the part that exists and the names below.
struct Below {
    /// The directory that exists; for a Maildir++ folder, its Maildir.
    root: PathBuf,
    /// The name of the Maildir++ folder, with its first dot.
    prefix: OsString,
    /// The names below.
    names: Vec<OsString>,
}

impl Below {
    fn new(vfs: &dyn Vfs, path: &Path) -> Option<Self> {
        let mut names = Vec::new();
        let mut root = path;
        loop {
            let Component::Normal(name) = root.components().next_back()? else { return None };
            names.insert(0, name.to_owned());
            root = root.parent()?;
            let there = if root.as_os_str().is_empty() { Path::new(".") } else { root };
            if vfs.metadata(there).is_ok() {
                root = there;
                break;
            }
        }
        let is_dotted = |path: &Path| {
            detect(vfs, path)
                .is_ok_and(|found| found.is_some_and(|f| f.subfolders == Subfolders::Dotted))
        };
        let name = root.file_name().filter(|name| name.as_bytes().starts_with(b"."));
        if let (Some(name), Some(parent)) = (name, root.parent())
            && is_dotted(parent)
            && is_dotted(root)
        {
            return Some(Self { root: parent.to_owned(), prefix: name.to_owned(), names });
        }
        Some(Self { root: root.to_owned(), prefix: OsString::new(), names })
    }

    /// Returns the path of the Maildir++ folder; `None` for a name with a dot, which separates
    /// levels there.
    fn plus_plus(&self, encoded: bool) -> Option<PathBuf> {
        let mut file = self.prefix.as_bytes().to_vec();
        for name in &self.names {
            if name.as_bytes().contains(&b'.') {
                return None;
            }
            file.push(b'.');
            match name.to_str() {
                Some(name) if encoded => file.extend_from_slice(encode_utf7(name).as_bytes()),
                _ => file.extend_from_slice(name.as_bytes()),
            }
        }
        Some(self.root.join(OsString::from_vec(file)))
    }
}

/// Returns `true` if a Maildir contains others, as Maildir++ folders or nested.
fn has_folders_of(vfs: &dyn Vfs, root: &Path, format: Format, plus_plus: bool) -> bool {
    neighbours(vfs, root)
        .iter()
        .filter(|name| name.starts_with(b".") == plus_plus)
        .any(|name| detect_at(vfs, root, name) == Some(format))
}

/// Returns the format of all mailboxes of a directory, or of the first above it that has some.
fn kind_of_neighbours(vfs: &dyn Vfs, dir: &Path) -> Option<Format> {
    for dir in dir.ancestors().take(LEVELS_MAX) {
        let names = neighbours(vfs, dir);
        let visible = names.iter().filter(|name| !name.starts_with(b"."));
        let mut formats = visible.filter_map(|name| detect_at(vfs, dir, name));
        if let Some(first) = formats.next() {
            let second = formats.next()?;
            let is_one =
                first.is_folder() && first == second && formats.all(|format| format == first);
            return is_one.then_some(first);
        }
    }
    None
}

fn neighbours(vfs: &dyn Vfs, dir: &Path) -> Vec<Vec<u8>> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let mut names = Vec::new();
    if let Ok(handle) = vfs.open_dir(dir) {
        // A directory that cannot be listed has no neighbours.
        let _ = handle.list(&mut |name, _| {
            if names.len() < NEIGHBOURS_MAX {
                names.push(name.to_vec());
            }
        });
    }
    names
}

fn detect_at(vfs: &dyn Vfs, dir: &Path, name: &[u8]) -> Option<Format> {
    detect(vfs, &dir.join(OsStr::from_bytes(name))).ok().flatten()
}

#[cfg(test)]
mod tests {
    use barid_vfs::{MemVfs, OpenOptions};

    use super::*;

    fn world() -> MemVfs {
        let vfs = MemVfs::new();
        let maildir = |path: &str| {
            for folder in ["new", "cur", "tmp"] {
                vfs.create_dir_all(&Path::new(path).join(folder), 0o700).unwrap();
            }
        };
        for path in ["/plus", "/plus/.Entw&APw-rfe", "/plus/.A.B", "/plus/.\u{e4}", "/alone"] {
            maildir(path);
        }
        for path in ["/nested", "/nested/lists", "/dirs/a", "/dirs/b", "/mixed/a"] {
            maildir(path);
        }
        vfs.create_dir_all(Path::new("/dirs/empty/deep"), 0o700).unwrap();
        vfs.create_dir_all(Path::new("/mh/inbox"), 0o700).unwrap();
        vfs.create_dir_all(Path::new("/boxes"), 0o700).unwrap();
        for path in ["/mh/inbox/.mh_sequences", "/boxes/one", "/mixed/one"] {
            vfs.open(Path::new(path), OpenOptions::create_new(0o600)).unwrap();
        }
        vfs
    }

    #[test]
    fn names_lead_to_their_mailboxes() {
        let vfs = world();
        for (name, expected) in [
            ("/plus/Entwürfe", "/plus/.Entw&APw-rfe"),
            ("/plus/.Entw&APw-rfe", "/plus/.Entw&APw-rfe"),
            ("/plus/ä", "/plus/.ä"),
            ("/plus/A/B", "/plus/.A.B"),
            ("/plus/A", "/plus/A"),
            ("/plus/.A/B", "/plus/.A/B"),
            ("/nested/lists", "/nested/lists"),
            ("/nowhere/x", "/nowhere/x"),
            ("", ""),
        ] {
            assert_eq!(resolve_name(&vfs, Path::new(name)), Path::new(expected), "{name}");
        }
    }

    #[test]
    fn new_mailboxes_are_of_the_kind_of_their_tree() {
        let vfs = world();
        let check = |path: &str, expected: Option<(&str, &str)>| {
            let found = place_in_tree(&vfs, Path::new(path));
            let found =
                found.as_ref().map(|found| (found.path.to_str().unwrap(), found.format.name()));
            assert_eq!(found, expected, "{path}");
        };
        check("/plus/Archive/2031", Some(("/plus/.Archive.2031", "maildir")));
        check("/plus/Entwürfe/alt", Some(("/plus/.Entw&APw-rfe.alt", "maildir")));
        check("/plus/.A.B/C", Some(("/plus/.A.B.C", "maildir")));
        check("/plus/v1.2", Some(("/plus/v1.2", "maildir")));
        check("/alone/Archive", Some(("/alone/.Archive", "maildir")));
        check("/nested/new-one", Some(("/nested/new-one", "maildir")));
        check("/dirs/c", Some(("/dirs/c", "maildir")));
        check("/dirs/c.mbox", None);
        check("/dirs/empty/x", Some(("/dirs/empty/x", "maildir")));
        check("/dirs/empty/deep/x", None);
        check("/mh/inbox/sub", Some(("/mh/inbox/sub", "mh")));
        check("/mh/other", None);
        check("/boxes/two", None);
        check("/mixed/two", None);
    }
}
