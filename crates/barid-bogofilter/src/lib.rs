//! bogofilter's programs `bogofilter`, `bogoutil` and `bogolexer`: their options, files, answers
//! and exit codes, over the spam filter of barid.
//!
//! One process a message is how mail is delivered, so nothing is done before the message is read
//! that is not needed. The program `bogofilter` of this crate holds nothing else, so that it can be
//! linked statically (`cargo xtask dist`), which takes a third off what such a process costs;
//! `barid bogofilter` is the same in the large program.

mod config;
mod filter;
mod getopt;
mod help;
mod input;
mod lexer;
mod limits;
mod options;
mod places;
mod program;
mod query;
mod said;
mod syslog;
mod util;

pub use self::program::{Foreign, Program};
