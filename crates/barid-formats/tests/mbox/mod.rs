//! mbox files of real mail, of other programs, and of kinds that no program writes.

mod bad_input;
mod corpora;
mod cost;
mod crash;
pub(crate) mod locks;
mod locks_session;
mod peers;
mod rounds;
pub(crate) mod rounds_killed;

mod support;
