//! The unsafe code of this crate: the system's accounts, and libpam.

pub(crate) mod accounts;
pub(crate) mod pam;
