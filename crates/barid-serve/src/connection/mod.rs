//! Connections: bytes between a client and its session.
//!
//! A connection is a task that waits for input, for changes of the selected mailbox and for time.
//! The session runs on a thread that may wait for the disk, and only while it has work; what it
//! writes goes through a bounded channel to the client, so that a slow client makes its own session
//! wait and no other.

mod compression;
mod login;
mod output;
mod session;
mod verifier;

pub(crate) use self::login::{ClientId, LoginEnd, LoginRules, login};
pub(crate) use self::session::{SessionEnd, StopRequest, serve, serve_logged};
pub(crate) use self::verifier::{LocalVerifier, Verdict, Verifier};
