//! Corpora of mail for tests.
//!
//! Corpora of real mail are not part of the repository. They are read from the folder in the
//! environment variable `BARID_CORPORA` (with the packs unpacked side by side), else from
//! `../shared/corpora/*.tar.zst` beside the repository. Each of these is unpacked once, on first
//! use, to `barid-corpora` in the build folder.
//!
//! If one is missing, a test gets a small generated one in its place (`own.rs`), with the same
//! folders; with `CI=true` it fails. [`either`] returns the value that a test expects from each.

mod clients;
mod hostile;
mod own;
mod spam;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::skip::in_ci;
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

/// Short names of the corpora that tests use most.
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
/// Returns `None` after [`skip_or_fail`] if it is missing and has no small replacement (the test
/// suites of others); the test then returns.
///
/// # Panics
///
/// With `CI=true` when the corpus of real mail is missing or cannot be unpacked.
#[expect(clippy::print_stderr, reason = "test output")]
pub fn find(name: &str) -> Option<PathBuf> {
    let why = match real(name) {
        Ok(path) => return Some(path),
        Err(why) => format!("corpus {name}: {why}"),
    };
    if !in_ci() {
        let root = own::root().unwrap_or_else(|error| panic!("small corpora: {error}"));
        let path = root.join(inner(name));
        if disk::exists(&path) {
            eprintln!("{why}; the small one of our own takes its place");
            return Some(path);
        }
    }
    skip_or_fail(&why);
    None
}

/// Returns `in_real` if the corpus of real mail is present, and `in_own` if the small one replaces
/// it.
pub fn either<T>(name: &str, in_real: T, in_own: T) -> T {
    if is_real(name) { in_real } else { in_own }
}

/// Returns `true` if the corpus of real mail is present.
pub fn is_real(name: &str) -> bool {
    real(name).is_ok()
}

/// Returns the path of a corpus of real mail, or why it is missing.
fn real(name: &str) -> Result<PathBuf, String> {
    let inner = inner(name);
    let root = match std::env::var_os("BARID_CORPORA").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => unpacked(inner).map_err(|error| error.to_string())?,
    };
    let path = root.join(inner);
    if disk::exists(&path) { Ok(path) } else { Err(format!("no {}", path.display())) }
}

/// Returns the path of a corpus relative to the folder of all corpora.
fn inner(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, inner)| inner)
}

/// Returns the paths of all files under a corpus folder, sorted; see [`find`].
///
/// # Panics
///
/// With `CI=true` when the corpus of real mail is missing.
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

/// Returns the folder of the repository.
pub fn repository() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder.ancestors().nth(2).expect("because this crate is in crates/").to_path_buf()
}

/// Returns the folder of build results.
pub fn target_folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => repository().join(folder),
        None => repository().join("target"),
    }
}

/// Unpacks the pack that contains the path `inner`, unless it is already unpacked, and returns the
/// folder of the unpacked corpora.
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
