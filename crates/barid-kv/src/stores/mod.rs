//! One file per store, and the code that several of them share.

pub(crate) mod bdb;
pub(crate) mod files;
pub(crate) mod gdbm;
pub(crate) mod kyotocabinet;
pub(crate) mod lmdb;
pub(crate) mod memory;
pub(crate) mod outside;
pub(crate) mod qdbm;
pub(crate) mod rocksdb;
mod session;
pub(crate) mod sqlite;
pub(crate) mod tdb;
pub(crate) mod tokyocabinet;
