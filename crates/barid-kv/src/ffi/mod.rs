//! The unsafe code of this crate: one file for each library, with a safe handle type.

pub(crate) mod bdb;
mod bytes;
pub(crate) mod failure;
pub(crate) mod gdbm;
pub(crate) mod kyotocabinet;
pub(crate) mod library;
pub(crate) mod lmdb;
pub(crate) mod pairs;
pub(crate) mod probe;
pub(crate) mod qdbm;
pub(crate) mod rocksdb;
pub(crate) mod sqlite;
pub(crate) mod tdb;
pub(crate) mod tokyocabinet;
pub(crate) mod zdict;
