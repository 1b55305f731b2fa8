//! The programs that several benches measure: how each is started, asked and read, in one place.
//! The steps of a bench are in its own adapters.

pub(crate) mod answer;
pub(crate) mod barid;
pub(crate) mod dovecot;
pub(crate) mod neomutt;
