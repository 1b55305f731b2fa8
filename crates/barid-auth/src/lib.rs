//! Authentication of clients: user bases, password schemes and back-off, without sockets.
//!
//! - [`base`] has the user bases, which hold passwords and accounts: passwd-files as Dovecot reads
//!   them, and users that all have the same password.
//! - [`scheme`] verifies and makes password hashes.
//! - [`limiter`] delays those who fail.
//!
//! Secrets are overwritten when they are dropped, and neither `Debug` output nor errors have them.

pub mod base;
mod error;
mod ffi;
pub mod limiter;
pub mod limits;
mod mac;
mod name;
mod net;
pub mod scheme;
mod secret;
mod server_secret;
mod user;

pub use error::{Error, Result};
pub use ffi::accounts::system_user;
pub use name::{NameRules, UserName};
pub use net::{NetParseError, Network};
pub use secret::Secret;
pub use server_secret::ServerSecret;
pub use user::{ExpandError, Template, User};
