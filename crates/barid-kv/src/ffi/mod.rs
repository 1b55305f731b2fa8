//! The unsafe code of this crate: one file for each library, with a safe handle type.

pub(crate) mod failure;
pub(crate) mod library;
pub(crate) mod tdb;
