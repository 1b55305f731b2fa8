//! The unsafe code of this crate: the system's accounts.

pub(crate) mod accounts;
