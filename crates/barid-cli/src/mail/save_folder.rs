//! A folder into which files are saved, none of which replaces another.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use barid::vfs::{File, OpenOptions, OsVfs, Timestamp, Vfs};

use crate::limits::{FILE_NAME_LEN_MAX, FILE_NAMES_MAX};

/// A folder into which files are saved.
#[derive(Debug)]
pub(crate) struct SaveFolder {
    dir: PathBuf,
    tried: TriedNames,
}

impl SaveFolder {
    /// Creates the folder if it is missing.
    ///
    /// # Errors
    ///
    /// Returns an error of the file system.
    pub(crate) fn new(dir: &Path) -> anyhow::Result<Self> {
        OsVfs.create_dir_all(dir, 0o777).with_context(|| dir.display().to_string())?;
        Ok(Self { dir: dir.to_owned(), tried: TriedNames::default() })
    }

    /// Creates a file that did not exist (`O_EXCL`), so that neither a file nor a link of that name
    /// is followed or overwritten.
    ///
    /// # Errors
    ///
    /// Returns an error of the file system, or one if there are very many files of this name.
    pub(crate) fn create(&mut self, name: &str) -> anyhow::Result<SavedFile> {
        for _ in 0..FILE_NAMES_MAX {
            let path = self.dir.join(self.tried.next(name));
            let options = OpenOptions { no_follow: true, ..OpenOptions::create_new(0o666) };
            match OsVfs.open(&path, options) {
                Ok(file) => return Ok(SavedFile { path, file, len: 0 }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(at(&path, error)),
            }
        }
        anyhow::bail!("{}: there are {FILE_NAMES_MAX} files of this name", self.dir.display())
    }
}

/// A file that is saved.
#[derive(Debug)]
pub(crate) struct SavedFile {
    path: PathBuf,
    file: Box<dyn File>,
    len: u64,
}

impl SavedFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns how many bytes were written.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Appends bytes.
    ///
    /// # Errors
    ///
    /// Returns an error of the file system.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.file.write_all_at(bytes, self.len).map_err(|error| at(&self.path, error))?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Sets the time of the last change, in seconds since 1970.
    ///
    /// # Errors
    ///
    /// Returns an error of the file system.
    pub(crate) fn set_date(&self, seconds: i64) -> anyhow::Result<()> {
        let date = Timestamp { unix_nanos: seconds.saturating_mul(1_000_000_000) };
        self.file.set_times(date, date).map_err(|error| at(&self.path, error))
    }

    /// Removes the file: half of it would be taken for the whole.
    pub(crate) fn remove(self) {
        let _ = OsVfs.remove_file(&self.path);
    }
}

/// Returns an error with its path; it is none of standard output.
fn at(path: &Path, error: std::io::Error) -> anyhow::Error {
    anyhow::anyhow!("{}: {error}", path.display())
}

/// Divides a name into its stem and its ending with the dot.
pub(crate) fn divided(name: &str) -> (&str, &str) {
    let at = name.rfind('.').filter(|at| *at > 0 && name.len() - at <= FILE_NAME_LEN_MAX / 4);
    name.split_at(at.unwrap_or(name.len()))
}

/// Names that were tried, so that the thousandth `image001.png` is not tried a thousand times.
#[derive(Debug, Default)]
struct TriedNames(HashMap<String, u32>);

impl TriedNames {
    /// Returns the next name to try: the name itself, then with a number in front of its ending.
    fn next(&mut self, name: &str) -> String {
        // File systems may ignore case.
        let number = self.0.entry(name.to_lowercase()).or_insert(0);
        *number += 1;
        let (stem, ending) = divided(name);
        match number {
            1 => name.to_owned(),
            number => format!("{stem}-{number}{ending}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_unique() {
        let mut tried = TriedNames::default();
        let names = ["a.tar.gz", "A.tar.gz", "a.tar.gz", "b", "b"].map(|name| tried.next(name));
        assert_eq!(names, ["a.tar.gz", "A.tar-2.gz", "a.tar-3.gz", "b", "b-2"]);
    }
}
