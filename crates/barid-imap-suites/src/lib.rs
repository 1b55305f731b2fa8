//! Suites for IMAP servers: checks that any server is put through, over TCP and over the standard
//! input and output of a program.
//!
//! A server implements [`Server`]. [`DovecotServer`] is the peer with which the suites themselves
//! are checked, [`ProgramServer`] a program of our own.
//!
//! - [`clients`] drives real clients.
//! - [`scripts`] runs scripts in the language of imaptest.
//! - [`crash`] kills a server under load.
//! - [`qresync`] follows a mailbox by QRESYNC alone.
//! - [`differential`](mod@differential) compares the answers of two servers to random commands.

pub mod clients;
pub mod crash;
pub mod differential;
pub mod limits;
pub mod mail;
pub mod qresync;
pub mod scripts;
mod server;
pub mod wire;

pub use server::{
    ConfiguredServer, DovecotServer, Killed, Login, MailFormat, MortalServer, ProgramArgs,
    ProgramServer, Server, TlsListener, Transport, open,
};
