//! A server of many users, as several processes (`docs/design/server-processes.md`).

mod admin;
mod auth;
mod confine;
mod decoding;
mod front;
mod handover;
mod link;
mod lmtp;
mod messages;
mod setup;
mod supervisor;
mod system_calls;
mod user_folders;
mod watcher;
mod worker;

use std::io;

pub use self::admin::{AdminVerb, ask_server};
pub use self::decoding::{DecodedMessage, decode_as_any_message};
use self::link::Link;
use self::supervisor::Role;
pub use self::supervisor::{OpenStderr, ServerStart, serve_config};
use crate::config::SpamSettings;
use crate::delivery::SpamCheck;

/// Makes the spam filter of a user from the settings.
pub type MakeSpamCheck = fn(SpamSettings) -> Box<dyn SpamCheck>;

/// Runs a process of a server that the supervisor has started; standard input is the link to it.
///
/// # Errors
/// A name that is no part of a server; errors that end the process.
pub fn run_role(name: &str, make_spam: MakeSpamCheck) -> io::Result<()> {
    let roles = [
        Role::Front,
        Role::Auth,
        Role::Pam,
        Role::Lmtp,
        Role::Delivery,
        Role::Watcher,
        Role::Worker,
    ];
    let role = roles.into_iter().find(|role| role.name() == name);
    let role = role.ok_or_else(|| io::Error::other(format!("{name}: no part of a server")))?;
    let link = Link::from_stdin()?;
    match role {
        Role::Front => front::run_front(link),
        Role::Auth => auth::run_auth(link),
        Role::Pam => auth::run_pam(link),
        Role::Lmtp => lmtp::run_lmtp(link),
        Role::Delivery => lmtp::run_deliver(link, make_spam),
        Role::Watcher => watcher::run_watcher(link),
        Role::Worker => worker::run_worker(link),
    }
}
