//! Accidents of stores: damaged files, a killed writer, a full disk.

pub(crate) mod damage;
pub(crate) mod full;
pub(crate) mod killed;
