//! The stores there are.

use crate::stores::{bdb, gdbm, lmdb, memory, rocksdb, tdb, tokyocabinet};
use crate::{Kv, Result};

/// All stores that a user may choose, in order of preference: lmdb, tokyocabinet, qdbm,
/// kyotocabinet, rocksdb, gdbm, bdb, tdb.
pub static STORES: &[&dyn Kv] = &[
    &lmdb::Lmdb,
    &tokyocabinet::TokyoCabinet,
    &rocksdb::Rocksdb,
    &gdbm::Gdbm,
    &bdb::Bdb,
    &tdb::Tdb,
];

/// The store of the tests: one file, written whole at every commit through the file system given.
pub static MEMORY: &dyn Kv = &memory::Memory;

/// The store of that name.
///
/// # Errors
/// [`crate::Error::Choice`], naming those there are.
pub fn find(name: &str) -> Result<&'static dyn Kv> {
    let all = || STORES.iter().copied().chain([MEMORY]);
    all().find(|store| store.name() == name).ok_or_else(|| {
        let names: Vec<&str> = STORES.iter().map(|store| store.name()).collect();
        crate::Error::Choice(format!("{name}: no such store; there are {}", names.join(", ")))
    })
}
