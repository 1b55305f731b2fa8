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

/// Number of hexadecimal digits in a name of a SHA-256 repository.
const SHA256_HEX_LEN: usize = 64;

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
    let commit = follow_head(vfs, git_dir, &mut Vec::new())?;
    let path = git_dir.join("shallow");
    let text = read_if_there(vfs, &path, REFS_LEN_MAX)?.unwrap_or_default();
    let mut shallow: Vec<Oid> = text.split(|byte| *byte == b'\n').filter_map(Oid::parse).collect();
    shallow.sort_unstable();
    Ok(Tip { commit, shallow })
}

/// Returns the files that change with the tip: `HEAD`, the refs that it leads to, and the files of
/// several refs.
pub(crate) fn ref_paths(vfs: &dyn Vfs, git_dir: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    // The error is that of `tip`.
    drop(follow_head(vfs, git_dir, &mut paths));
    paths.extend(["packed-refs", "shallow"].map(|name| git_dir.join(name)));
    paths
}

/// Follows HEAD to its commit; appends the paths of HEAD and of each loose ref on the way, also of
/// one that does not exist.
fn follow_head(vfs: &dyn Vfs, git_dir: &Path, visited: &mut Vec<PathBuf>) -> Result<Option<Oid>> {
    let mut name = b"HEAD".to_vec();
    for _ in 0..=SYMREFS_MAX {
        let path = git_dir.join(OsStr::from_bytes(&name));
        visited.push(path.clone());
        let Some(text) = read_if_there(vfs, &path, REF_LEN_MAX)? else {
            if name == b"HEAD" {
                return Err(bad_ref(path, &name, "is missing"));
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
        if is_sha256(hex) {
            return Err(sha256(git_dir));
        }
        return Oid::parse(hex).map(Some).ok_or_else(|| bad_ref(path, &name, "is not a ref"));
    }
    Err(bad_ref(git_dir.join("HEAD"), b"HEAD", "names too many symbolic refs in turn"))
}

fn bad_ref(path: PathBuf, name: &[u8], problem: &'static str) -> Error {
    Error::Object { path, object: String::from_utf8_lossy(name).into_owned(), problem }
}

fn is_sha256(hex: &[u8]) -> bool {
    hex.len() == SHA256_HEX_LEN && hex.iter().all(u8::is_ascii_hexdigit)
}

fn sha256(git_dir: &Path) -> Error {
    let what = "the repository uses SHA-256, which barid cannot read";
    Error::Unsupported { path: git_dir.to_owned(), what }
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
    for line in text.split(|byte| *byte == b'\n') {
        // Lines of comments and of peeled tags have no name.
        let Some(space) = memchr::memchr(b' ', line) else { continue };
        let (hex, found) = (&line[..space], line[space + 1..].trim_ascii_end());
        if is_sha256(hex) {
            return Err(sha256(git_dir));
        }
        if found == name {
            let oid = Oid::parse(hex).map(Some);
            return oid.ok_or_else(|| bad_ref(path, name, "has a damaged line"));
        }
    }
    Ok(None)
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
        let sha256 = format!("# pack-refs with: peeled\n{} refs/heads/x\n", "a".repeat(64));
        check(&[head, ("packed-refs", &sha256)], Err("SHA-256"));
        for line in [&HEX[1..], &format!("{HEX}0"), "x", ""] {
            let damaged = format!("{line} refs/heads/master\n");
            check(&[head, ("packed-refs", &damaged)], Err("refs/heads/master has a damaged line"));
        }
        check(&[("HEAD", &"a".repeat(5000))], Err("too large"));
    }

    #[test]
    fn all_refs_on_the_way_to_the_commit_are_watched() {
        let vfs = MemVfs::new();
        vfs.create_dir_all(Path::new("/g/refs/heads"), 0o700).unwrap();
        for (name, target) in [("HEAD", "refs/heads/a"), ("refs/heads/a", "refs/heads/b")] {
            let file = vfs.open(&Path::new("/g").join(name), OpenOptions::create_new(0o600));
            file.unwrap().write_all_at(format!("ref: {target}\n").as_bytes(), 0).unwrap();
        }
        let names = ["HEAD", "refs/heads/a", "refs/heads/b", "packed-refs", "shallow"];
        let expected = names.map(|name| Path::new("/g").join(name));
        assert_eq!(ref_paths(&vfs, Path::new("/g")), expected);
    }
}
