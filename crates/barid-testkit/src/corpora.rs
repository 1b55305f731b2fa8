//! The corpora of real mail. They are not part of the repository.
//!
//! They are looked for in the folder that the environment variable `BARID_CORPORA` names (the packs
//! unpacked side by side), else in `../shared/corpora/*.tar.zst` beside the repository, which are
//! unpacked once, each when it is first asked for, to `barid-corpora` in the build folder.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::{disk, skip_or_fail};

/// A pack and the folders that it unpacks to.
const PACKS: &[(&str, &[&str])] = &[
    ("dev-list-man", &["linux-man"]),
    ("dev-old-mips1996-2001", &["linux-mips"]),
    ("dev-rich-usrp-last500", &["usrp-users"]),
    ("dev-formats", &["uw-imap-formats"]),
    ("dev-torture", &["torture"]),
    ("dev-spam", &["spamassassin", "csdmc2010"]),
    ("dev-trec07p-first8000", &["dev-trec07p-first8000"]),
];

/// Short names of what tests ask for most.
const ALIASES: &[(&str, &str)] = &[
    ("dev-list-man", "linux-man/msgs"),
    ("dev-old-mips", "linux-mips/msgs"),
    ("dev-rich", "usrp-users/msgs"),
    ("dev-formats", "uw-imap-formats"),
    ("dev-torture", "torture"),
];

/// Finds a folder or file of the corpora: `name` is its path inside them (`linux-man/msgs`) or the
/// name of a pack (`dev-list-man`, `dev-old-mips`, `dev-rich`, `dev-formats`, `dev-torture`).
///
/// `None` after [`skip_or_fail`], so the test returns.
///
/// # Panics
///
/// With `CI=true` when the corpus is missing or cannot be unpacked.
pub fn find(name: &str) -> Option<PathBuf> {
    let inner = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, inner)| inner);
    let found = match std::env::var_os("BARID_CORPORA").filter(|folder| !folder.is_empty()) {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => unpacked(inner),
    };
    let missing = match found.map(|root| root.join(inner)) {
        Ok(path) if disk::exists(&path) => return Some(path),
        Ok(path) => format!("corpus {name}: no {}", path.display()),
        Err(error) => format!("corpus {name}: {error}"),
    };
    skip_or_fail(&missing);
    None
}

/// The paths of all files under a corpus folder, sorted; see [`find`].
///
/// # Panics
///
/// With `CI=true` when the corpus is missing.
pub fn files(name: &str) -> Option<Vec<PathBuf>> {
    let folder = find(name)?;
    match disk::list_files(&folder) {
        Ok(paths) => Some(paths),
        Err(error) => {
            skip_or_fail(&format!("corpus {name}: {error}"));
            None
        }
    }
}

/// Reads a file of a corpus.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    disk::read(path)
}

/// The folder of the repository.
pub fn repository() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder.ancestors().nth(2).expect("because this crate is in crates/").to_path_buf()
}

/// The folder of build results.
pub fn target_folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => repository().join(folder),
        None => repository().join("target"),
    }
}

/// Unpacks the pack that holds the path `inner` unless that was done, and returns the folder of the
/// unpacked corpora.
fn unpacked(inner: &str) -> io::Result<PathBuf> {
    static UNPACKING: Mutex<()> = Mutex::new(());
    let first = inner.split('/').next().unwrap_or(inner);
    let pack = PACKS.iter().find(|(_, folders)| folders.contains(&first));
    let (pack, folders) = pack.ok_or_else(|| io::Error::other("no pack holds it"))?;
    let root = target_folder().join("barid-corpora");
    let guard = UNPACKING.lock();
    if !disk::exists(&root.join(first)) {
        let archive = repository().join(format!("../shared/corpora/{pack}.tar.zst"));
        if !disk::exists(&archive) {
            return Err(io::Error::other("set BARID_CORPORA; no ../shared/corpora is here"));
        }
        unpack(&archive, folders, &root)?;
    }
    drop(guard);
    Ok(root)
}

/// Unpacks to a folder of this process, then moves the folders into place one by one. Another
/// process may do the same at the same time: the first wins, and both have the same content.
fn unpack(archive: &Path, folders: &[&str], root: &Path) -> io::Result<()> {
    let own = root.join(format!(".unpacking-{}", std::process::id()));
    disk::create_dir_all(&own)?;
    let mut zstd = Command::new("zstd")
        .args(["-d", "--long=27", "-q", "-c"])
        .arg(archive)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| io::Error::other(format!("zstd (Debian package zstd): {error}")))?;
    let bytes = zstd.stdout.take().expect("because it was piped");
    let tar = Command::new("tar").args(["-x", "-f", "-", "-C"]).arg(&own).stdin(bytes).status()?;
    let zstd = zstd.wait()?;
    if !tar.success() || !zstd.success() {
        return Err(io::Error::other(format!("{} cannot be unpacked", archive.display())));
    }
    for folder in folders {
        let place = root.join(folder);
        if disk::exists(&own.join(folder)) && !disk::exists(&place) {
            match disk::rename(&own.join(folder), &place) {
                Err(_) if disk::exists(&place) => {}
                result => result?,
            }
        }
    }
    disk::remove_tree(&own)
}
