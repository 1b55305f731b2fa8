//! A mail server over the mailboxes that barid opens: IMAP for any client.
//!
//! - [`mail`] implements the traits of `barid-imap` with the library `barid`: the mail of a user,
//!   shared by all sessions of the user.
//! - [`config`] reads the configuration file.
//! - [`delivery`] stores messages that mail servers hand over.
//! - [`lmtp`] takes them over LMTP.
//! - [`log`] records what the server does.
//! - [`serve_stdio`] serves one session over standard input and output, [`serve_try`] a folder of
//!   users on the loopback interface.
//! - [`server`] serves many users by several processes.

pub mod config;
mod connection;
pub mod delivery;
mod ffi;
mod limits;
mod listener;
pub mod lmtp;
pub mod log;
pub mod mail;
mod quota;
pub mod server;
mod shared_folders;
pub mod socket;
mod stdio;
mod tls;
mod try_dir;
mod users;

pub use barid_auth::{NameRules, User, UserName, system_user};
pub use barid_folders::FolderOptions;

pub use self::shared_folders::create_user_folders;
pub use self::stdio::serve_stdio;
pub use self::try_dir::{TryAddress, TryOptions, serve_try};

/// Returns the fields of the answer to ID (RFC 2971).
fn server_id() -> Vec<(String, String)> {
    [("name", "barid"), ("version", env!("CARGO_PKG_VERSION"))]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}
