//! The foundation of barid's tests and benchmarks: generated mail, the corpora of real mail, and
//! the peers, which are other mail programs whose answers are compared with barid's.
//!
//! A test that needs a peer or a corpus requests it and returns if it gets `None`: the reason was
//! printed as `skipped: ...`, and with `CI=true` the test has already failed ([`skip_or_fail`]).
//!
//! Development only: nothing that is shipped depends on this crate.

pub mod boxes;
pub mod child;
pub mod corpora;
pub mod deliveries;
pub mod disk;
pub mod peers;
mod pty;
mod scratch;
mod skip;
pub mod tree;
pub mod usage;
pub mod watch;
pub mod zip;

pub use barid_corpus as corpus;
pub use scratch::Scratch;
pub use skip::skip_or_fail;
