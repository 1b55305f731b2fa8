//! One file per store.

pub(crate) mod memory;
pub(crate) mod outside;
pub(crate) mod tdb;
