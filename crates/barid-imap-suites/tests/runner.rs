//! The suites against Dovecot, each for a moment, and longer if the environment says so.
//!
//! With `BARID_IMAP_SERVER=PROGRAM` the server is that program instead (`serve --try`), and
//! `BARID_IMAP_FORMAT` is the format.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests print their figures")]

mod clients;
mod differential;
mod golden;
mod imaptest;
mod program;
mod qresync;
mod servers;
