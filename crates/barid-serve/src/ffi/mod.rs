//! Calls that the compiler cannot check.

pub(crate) mod passed;
