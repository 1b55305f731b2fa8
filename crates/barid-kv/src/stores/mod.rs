//! One file per store.

pub(crate) mod memory;
