//! The tip of a repository: the commit of its HEAD, from loose or packed refs.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use barid_mailbox::{Error, Result};
use barid_vfs::Vfs;
use xxhash_rust::xxh3::xxh3_64;

use super::limits::{REF_LEN_MAX, REFS_LEN_MAX, SYMREFS_MAX};
use super::oid::Oid;

/// The history of a repository, as its files name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tip {
    /// The newest commit; `None` before the first one.
    pub(crate) commit: Option<Oid>,
    /// Commits whose parents a shallow clone does not have, ascending.
    pub(crate) shallow: Vec<Oid>,
}

impl Tip {
    /// Returns a hash of the shallow commits; 0 if there are none.
    pub(crate) fn shallow_hash(&self) -> u64 {
        let bytes: Vec<u8> = self.shallow.iter().flat_map(|oid| oid.0).collect();
        if bytes.is_empty() { 0 } else { xxh3_64(&bytes).max(1) }
    }
}

/// Reads the tip of the repository at `git_dir`.
///
/// # Errors
/// Errors of the file system; [`Error::Object`] for a HEAD that is damaged;
/// [`Error::Unsupported`] for SHA-256 and for reftables.
pub(crate) fn tip(vfs: &dyn Vfs, git_dir: &Path) -> Result<Tip> {
    let commit = commit_of_head(vfs, git_dir)?;
    let path = git_dir.join("shallow");
    let text = read_if_there(vfs, &path, REFS_LEN_MAX)?.unwrap_or_default();
    let mut shallow: Vec<Oid> = text.split(|byte| *byte == b'\n').filter_map(Oid::parse).collect();
    shallow.sort_unstable();
    Ok(Tip { commit, shallow })
}

/// Returns the files that change with the tip: `HEAD`, the ref that it names, and those of all
/// refs.
pub(crate) fn ref_paths(vfs: &dyn Vfs, git_dir: &Path) -> Vec<PathBuf> {
    let head = git_dir.join("HEAD");
    let text = vfs.read(&head, REF_LEN_MAX).unwrap_or_default();
    let target = target_of(&text).map(|name| git_dir.join(OsStr::from_bytes(name)));
    let others = ["packed-refs", "shallow"].map(|name| git_dir.join(name));
    [head].into_iter().chain(target).chain(others).collect()
}

fn commit_of_head(vfs: &dyn Vfs, git_dir: &Path) -> Result<Option<Oid>> {
    let mut name = b"HEAD".to_vec();
    for _ in 0..=SYMREFS_MAX {
        let path = git_dir.join(OsStr::from_bytes(&name));
        let bad = |problem| Error::Object {
            path: path.clone(),
            object: String::from_utf8_lossy(&name).into_owned(),
            problem,
        };
        let Some(text) = read_if_there(vfs, &path, REF_LEN_MAX)? else {
            if name == b"HEAD" {
                return Err(bad("is missing"));
            }
            return packed(vfs, git_dir, &name);
        };
        if let Some(target) = target_of(&text) {
            if target == b"refs/heads/.invalid" {
                let what = "the repository stores its refs in reftables, which barid cannot read; \
                            `git refs migrate --ref-format=files` converts them";
                return Err(Error::Unsupported { path: git_dir.to_owned(), what });
            }
            name = target.to_vec();
            continue;
        }
        let hex = text.trim_ascii();
        if hex.len() == 64 && hex.iter().all(u8::is_ascii_hexdigit) {
            let what = "the repository uses SHA-256, which barid cannot read";
            return Err(Error::Unsupported { path: git_dir.to_owned(), what });
        }
        return Oid::parse(hex).map(Some).ok_or_else(|| bad("is not a ref"));
    }
    let (path, object) = (git_dir.join("HEAD"), "HEAD".to_owned());
    Err(Error::Object { path, object, problem: "names too many symbolic refs in turn" })
}

/// Returns the name in a symbolic ref; `None` if it is not one, or leads out of the repository.
fn target_of(text: &[u8]) -> Option<&[u8]> {
    let name = text.strip_prefix(b"ref:")?.trim_ascii();
    let is_safe = name.starts_with(b"refs/")
        && !name.contains(&0)
        && name.split(|byte| *byte == b'/').all(|part| part != b".." && !part.is_empty());
    is_safe.then_some(name)
}

/// Finds a ref in `packed-refs`; `None` if the branch has no commit yet.
fn packed(vfs: &dyn Vfs, git_dir: &Path, name: &[u8]) -> Result<Option<Oid>> {
    let path = git_dir.join("packed-refs");
    let text = read_if_there(vfs, &path, REFS_LEN_MAX)?.unwrap_or_default();
    let found = text.split(|byte| *byte == b'\n').find_map(|line| {
        let (hex, rest) = line.split_at_checked(Oid::HEX_LEN)?;
        (rest.strip_prefix(b" ")?.trim_ascii_end() == name).then(|| Oid::parse(hex))
    });
    Ok(found.flatten())
}

fn read_if_there(vfs: &dyn Vfs, path: &Path, len_max: u64) -> Result<Option<Vec<u8>>> {
    match vfs.read(path, len_max) {
        Ok(text) => Ok(Some(text)),
        // A branch `a` may have been removed, and a branch `a/b` made.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory
            ) =>
        {
            Ok(None)
        }
        Err(source) => Err(Error::at(path)(source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barid_vfs::{MemVfs, OpenOptions};

    const HEX: &str = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";

    fn check(files: &[(&str, &str)], expected: std::result::Result<Option<Oid>, &str>) {
        let vfs = MemVfs::new();
        let dir = Path::new("/g/refs/heads");
        vfs.create_dir_all(dir, 0o700).unwrap();
        for (name, text) in files {
            let file = vfs.open(&Path::new("/g").join(name), OpenOptions::create_new(0o600));
            file.unwrap().write_all_at(text.as_bytes(), 0).unwrap();
        }
        match (tip(&vfs, Path::new("/g")), expected) {
            (Ok(tip), Ok(expected)) => assert_eq!(tip.commit, expected, "{files:?}"),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{files:?}: {error}");
            }
            (found, _) => panic!("{files:?}: {found:?}"),
        }
    }

    #[test]
    fn a_tip_is_loose_or_packed() {
        let (some, head) = (Ok(Some(Oid::EMPTY_BLOB)), ("HEAD", "ref: refs/heads/master\n"));
        let line = format!("{HEX}\n");
        let packed = format!("# pack-refs with: peeled\n{HEX} refs/heads/master\n");
        check(&[("HEAD", &line)], some);
        check(&[head, ("refs/heads/master", &line)], some);
        check(&[head, ("packed-refs", &packed)], some);
        check(&[head], Ok(None));
        check(&[("HEAD", "ref: refs/heads/main"), ("packed-refs", &packed)], Ok(None));
        check(&[], Err("is missing"));
        check(&[("HEAD", "ref: ../../etc/passwd\n")], Err("is not a ref"));
        check(&[("HEAD", "nonsense")], Err("HEAD"));
        check(&[head, ("refs/heads/master", "ref: refs/heads/master")], Err("in turn"));
        check(&[("HEAD", "ref: refs/heads/.invalid\n")], Err("reftables"));
        check(&[("HEAD", &"a".repeat(64))], Err("SHA-256"));
        check(&[("HEAD", &"a".repeat(5000))], Err("too large"));
    }
}
