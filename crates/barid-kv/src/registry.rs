//! The list of stores.

use crate::stores::{
    bdb, gdbm, kyotocabinet, lmdb, memory, qdbm, rocksdb, sqlite, tdb, tokyocabinet,
};
use crate::{Capabilities, Kv, Library, Result};

/// All stores that users can choose, in order of preference: lmdb, tokyocabinet, qdbm,
/// kyotocabinet, rocksdb, gdbm, bdb, tdb.
pub static STORES: &[&dyn Kv] = &[
    &lmdb::Lmdb,
    &tokyocabinet::TokyoCabinet,
    &qdbm::Qdbm,
    &kyotocabinet::KyotoCabinet,
    &rocksdb::Rocksdb,
    &gdbm::Gdbm,
    &bdb::Bdb,
    &tdb::Tdb,
];

/// The store for tests: one file, written whole at every commit through the given file system.
pub static MEMORY: &dyn Kv = &memory::Memory;

/// The table of a word list of bogofilter's SQLite build. Users cannot choose it, so it has no
/// name: code that finds such a file creates a [`crate::Choice`] from it.
pub static SQLITE: &dyn Kv = &sqlite::Sqlite;

/// Returns the store of that name.
///
/// # Errors
/// Returns [`crate::Error::Choice`], which lists the stores.
pub fn find(name: &str) -> Result<&'static dyn Kv> {
    let all = || STORES.iter().copied().chain([MEMORY]);
    all().find(|store| store.name() == name).ok_or_else(|| {
        let names: Vec<&str> = STORES.iter().map(|store| store.name()).collect();
        crate::Error::Choice(format!("{name}: no such store; there are {}", names.join(", ")))
    })
}

/// Returns the name of the store whose library has left an unfinished file under `name`; `None` if
/// it is not such a file.
pub fn store_of_unfinished(name: &[u8]) -> Option<&[u8]> {
    let mut prefixes = STORES.iter().filter_map(|store| store.unfinished_prefix());
    prefixes.find_map(|prefix| name.strip_prefix(prefix.as_bytes()))
}

/// Data about a store, and whether it can be used here.
#[derive(Clone, Debug)]
pub struct StoreSurvey {
    /// Its name.
    pub name: &'static str,
    /// The version of its library, or the reason why it cannot be used and what to install.
    pub available: std::result::Result<String, String>,
    /// The library that it loads; `None` if it is built in.
    pub library: Option<&'static Library>,
    /// Its capabilities.
    pub capabilities: &'static Capabilities,
}

/// Returns all stores that users can choose, in order of preference. Loads their libraries.
pub fn survey() -> Vec<StoreSurvey> {
    let survey = |store: &&'static dyn Kv| StoreSurvey {
        name: store.name(),
        available: store.version().map_err(|error| match error {
            crate::Error::Unavailable { why, .. } => why,
            error => error.to_string(),
        }),
        library: store.library(),
        capabilities: store.capabilities(),
    };
    STORES.iter().map(survey).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_listed_in_order_and_found_by_name() {
        let order =
            ["lmdb", "tokyocabinet", "qdbm", "kyotocabinet", "rocksdb", "gdbm", "bdb", "tdb"];
        let names: Vec<&str> = STORES.iter().map(|store| store.name()).collect();
        let expected: Vec<&str> = order.into_iter().filter(|name| names.contains(name)).collect();
        assert_eq!(names, expected);
        for name in names.into_iter().chain(["memory"]) {
            assert_eq!(find(name).unwrap().name(), name);
        }
        let error = find("nothing").unwrap_err().to_string();
        assert!(find(SQLITE.name()).is_err());
        assert!(error.starts_with("nothing: no such store; there are lmdb, "), "{error}");
    }

    #[test]
    fn a_survey_tells_a_version_or_what_to_install() {
        let found = survey();
        assert_eq!(found.len(), STORES.len());
        for StoreSurvey { name, available, library, .. } in found {
            match (available, library) {
                (Ok(version), _) => assert!(version.contains(|c: char| c.is_ascii_digit())),
                (Err(why), library) => {
                    assert!(std::env::var("CI").as_deref() != Ok("true"), "{name}: {why}");
                    let package = library.map_or("", |library| library.package);
                    assert!(why.contains(package), "{name}: {why}");
                    println!("{name}: skipped: {why}");
                }
            }
        }
    }
}
