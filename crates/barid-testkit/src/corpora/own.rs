//! Small generated corpora, for machines without those of real mail.
//!
//! They have the folders that tests use, and the same messages everywhere: mail of [`Corpus`],
//! spam, and in `torture` mail that is broken on purpose. They are written to `barid-corpora-own`
//! in the build folder, under a name derived from their content.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use xxhash_rust::xxh3::Xxh3;

use super::{clients, hostile, spam, target_folder};
use crate::corpus::{Corpus, Profile};
use crate::disk;

/// Folders of generated mail: seed, number and kind of the messages.
const LISTS: [(&str, u64, u64, Profile); 5] = [
    ("linux-man/msgs", 101, 600, Profile::Modern),
    ("linux-mips/msgs", 102, 400, Profile::Classic),
    ("usrp-users/msgs", 103, 100, Profile::Modern),
    ("spamassassin/ham", 104, 300, Profile::Classic),
    ("csdmc2010/not-in-spamassassin/ham", 105, 60, Profile::Modern),
];
/// Folders of spam: seed and number of the messages.
const SPAM: [(&str, u64, u64); 2] =
    [("spamassassin/spam", 106, 200), ("csdmc2010/not-in-spamassassin/spam", 107, 60)];
/// Seed of the mail from which broken mail is made.
const HOSTILE_SEED: u64 = 108;
/// Seed of the mail in the layouts of c-client.
const CLIENTS_SEED: u64 = 111;

/// Returns the folder of the small corpora, which the first call writes.
///
/// # Errors
/// Errors of the file system.
pub(super) fn root() -> Result<&'static PathBuf, String> {
    static ROOT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let root = ROOT.get_or_init(|| write(&all()).map_err(|error| error.to_string()));
    root.as_ref().map_err(Clone::clone)
}

/// Returns all files by their paths.
fn all() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for (folder, seed, count, profile) in LISTS {
        let corpus = Corpus::with_profile(seed, count, profile);
        let message = |number| (name(folder, number), list_message(&corpus, number));
        files.extend((0..count).map(message));
    }
    for (folder, seed, count) in SPAM {
        files.extend((0..count).map(|number| (name(folder, number), spam::message(seed, number))));
    }
    let hostile = hostile::files(&Corpus::new(HOSTILE_SEED, 100));
    files.extend(hostile.into_iter().map(|(name, bytes)| (format!("torture/{name}"), bytes)));
    files.extend(clients::files(CLIENTS_SEED));
    files
}

fn name(folder: &str, number: u64) -> String {
    format!("{folder}/{number:04}.eml")
}

/// Returns a message of a list: sometimes with lines that an mbox quotes, or without the end of its
/// last line.
fn list_message(corpus: &Corpus, number: u64) -> Vec<u8> {
    let mut bytes = corpus.message(number).bytes;
    let is_encoded = bytes.windows(6).any(|part| part == b"base64");
    match number % 20 {
        7 if !is_encoded => bytes.extend_from_slice(b"\nFrom here on it is quoted\n>From there\n"),
        13 if !is_encoded => bytes.extend_from_slice(b"\n>From the start\n"),
        19 if !bytes.windows(6).any(|part| part == b"\nFrom ") => drop(bytes.pop()),
        _ => {}
    }
    bytes
}

/// Writes the files to a folder of this process, which is then renamed; if another process was
/// faster, its folder has the same content.
fn write(files: &[(String, Vec<u8>)]) -> io::Result<PathBuf> {
    let mut hash = Xxh3::new();
    for (name, bytes) in files {
        hash.update(name.as_bytes());
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    let folder = target_folder().join("barid-corpora-own");
    let root = folder.join(format!("{:016x}", hash.digest()));
    if disk::exists(&root) {
        return Ok(root);
    }
    let making = folder.join(format!(".making-{}", std::process::id()));
    for (name, bytes) in files {
        let path = making.join(name);
        disk::create_dir_all(path.parent().expect("because every file is in a folder"))?;
        disk::write(&path, bytes)?;
    }
    match disk::rename(&making, &root) {
        Err(_) if disk::exists(&root) => disk::remove_tree(&making)?,
        renamed => renamed?,
    }
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_files_are_made_again() {
        let files = all();
        assert!(files == all());
        let count =
            |folder: &str| files.iter().filter(|(name, _)| name.starts_with(folder)).count();
        for (folder, expected) in [
            ("linux-man/msgs/", 600),
            ("spamassassin/", 500),
            ("csdmc2010/", 120),
            ("torture/notmuch/", hostile::LOOPS),
        ] {
            assert_eq!(count(folder), expected, "{folder}");
        }
        let mut names: Vec<_> = files.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), files.len(), "two files of one name");
    }
}
