//! Real clients, each driven through what its users do, against any server.
//!
//! A client is one file: a function that writes a configuration, runs the program and checks the
//! result on the disk and through a connection of its own. Programs run as an unprivileged user
//! with a home of their own.

mod aerc;
mod alpine;
mod context;
mod curl;
mod fetchmail;
mod getmail;
mod go_imap;
mod imapclient;
mod imapfilter;
mod imapflow;
mod imaplib;
mod mbsync;
mod mutt;
mod offlineimap;
mod perl;
mod programs;
mod roundcube;
mod thunderbird;

pub use context::{ClientContext, MailboxMessage};
pub use programs::{CLIENTS, Client, ClientOutcome, Requirement, run_client, run_clients};
