//! A server of many users, as several processes (`docs/design/server-processes.md`).

mod admin;
mod auth;
mod confine;
mod decoding;
mod front;
mod link;
mod messages;
mod setup;
mod supervisor;
mod system_calls;
mod worker;

use std::io;

pub use self::admin::{AdminVerb, ask_server};
pub use self::decoding::{DecodedMessage, decode_as_any_message};
use self::link::Link;
use self::supervisor::Role;
pub use self::supervisor::{OpenStderr, ServerStart, serve_config};

/// Runs a process of a server that the supervisor has started; standard input is the link to it.
///
/// # Errors
/// A name that is no part of a server; errors that end the process.
pub fn run_role(name: &str) -> io::Result<()> {
    let roles = [Role::Front, Role::Auth, Role::Pam, Role::Worker];
    let role = roles.into_iter().find(|role| role.name() == name);
    let role = role.ok_or_else(|| io::Error::other(format!("{name}: no part of a server")))?;
    let link = Link::from_stdin()?;
    match role {
        Role::Front => front::run_front(link),
        Role::Auth => auth::run_auth(link),
        Role::Pam => auth::run_pam(link),
        Role::Worker => worker::run_worker(link),
    }
}
