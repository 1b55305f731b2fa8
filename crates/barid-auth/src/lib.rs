//! Authentication of clients: SASL mechanisms, user bases, password schemes, tokens and back-off,
//! without sockets.
//!
//! - [`sasl`] has the mechanisms of a server as state machines. [`sasl::SaslService`] knows which
//!   of them it may offer on a [`sasl::Channel`], and starts a [`sasl::Exchange`].
//! - [`base`] has the user bases, which hold passwords and accounts: passwd-files as Dovecot reads
//!   them, and users that all have the same password.
//! - [`scheme`] verifies and makes password hashes.
//! - [`oauth`] validates bearer tokens over an [`oauth::HttpFetcher`] that the caller supplies.
//! - [`pam`] asks the system's PAM.
//! - [`limiter`] delays those who fail.
//!
//! Secrets are overwritten when they are dropped, and neither `Debug` output nor errors have them.
//! `docs/design/auth.md` describes the defences against guessing users and passwords.

pub mod base;
mod error;
mod ffi;
pub mod limiter;
pub mod limits;
mod mac;
mod name;
mod net;
pub mod oauth;
pub mod pam;
pub mod sasl;
pub mod scheme;
mod secret;
mod server_secret;
mod user;

pub use error::{Error, Result};
pub use ffi::accounts::{gid_of, system_user};
pub use name::{NameRules, UserName};
pub use net::{NetParseError, Network};
pub use secret::Secret;
pub use server_secret::ServerSecret;
pub use user::{ExpandError, Template, User};
