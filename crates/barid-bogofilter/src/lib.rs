//! bogofilter's programs `bogofilter`, `bogoutil` and `bogolexer`: their options, files, answers
//! and exit codes, implemented with the tokens and the word lists of barid's spam filter.
//! [`dropin`] does their work, the other modules read arguments and files.
//!
//! Mail delivery starts one process per message, so nothing unnecessary is done before the message
//! is read. The program `bogofilter` of this crate contains nothing else, so that it can be linked
//! statically (`cargo xtask dist`), which saves a third of the cost of such a process; `barid
//! bogofilter` is the same code in the large program.

mod config;
pub mod dropin;
mod filter;
mod getopt;
mod help;
mod input;
mod lexer;
mod limits;
mod options;
mod output;
mod places;
mod program;
mod query;
mod syslog;
mod util;

pub use self::program::{Foreign, Program};
