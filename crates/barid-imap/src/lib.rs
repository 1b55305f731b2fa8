//! IMAP4rev2 and IMAP4rev1 without sockets: the grammar in both directions, and the session of a
//! server as a state machine (RFC 9051, RFC 3501 and extensions).
//!
//! - [`wire`] turns bytes from a client into commands, one at a time and within bounds, and has the
//!   writers of responses.
//! - [`command`] has the commands as values.
//! - [`search`] has the syntax of SEARCH.
//! - [`backend`] has the traits of what a session needs: the mailboxes of an account, and views of
//!   them.
//! - [`session`] runs commands on a backend and writes the responses.
//!
//! Nothing here opens a file or waits; `docs/design/imap.md` describes how the pieces fit together.

pub mod backend;
pub mod command;
pub mod fetch;
mod lex;
pub mod limits;
pub mod search;
pub mod session;
pub mod wire;
