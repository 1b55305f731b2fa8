//! User bases: who may log in, and with which password.

mod parse;
mod passwd_file;
mod static_users;
mod system;
mod verified;

use std::fmt::Debug;
use std::net::IpAddr;

pub use self::parse::{LineProblem, NumberOf, ParseOptions, ParsedFile, Problem, parse};
pub use self::passwd_file::{PasswdFile, PasswdFileOptions};
pub use self::static_users::StaticUsers;
pub use self::system::{PasswordCheck, SystemUsers};
use crate::error::{Error, Result};
use crate::name::UserName;
use crate::scheme::scram::ScramKeys;
use crate::user::User;

/// A user who tries to log in with a password.
#[derive(Clone, Copy)]
pub struct Login<'a> {
    /// The name, in the form of the [`NameRules`](crate::NameRules).
    pub name: &'a UserName,
    /// The password.
    pub password: &'a [u8],
    /// The address of the client; `None` for connections from this machine without one.
    pub peer: Option<IpAddr>,
}

impl Debug for Login<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Login").field("name", &self.name).field("peer", &self.peer).finish()
    }
}

/// The reason for which a login is refused, for the log of the server. Clients learn nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No such user.
    #[error("unknown user")]
    UnknownUser,
    /// Another password.
    #[error("wrong password")]
    WrongPassword,
    /// The user has no password, or may not log in at all.
    #[error("the account is locked")]
    Locked,
    /// The password was right, and the client's address is not among the user's networks.
    #[error("right password, but not from this address (allow_nets)")]
    Address,
}

/// The result of checking a user: who he is, or why not.
pub type Verdict = std::result::Result<User, Refusal>;

/// The keys for a conversation of SCRAM with a user, who may not exist.
#[derive(Debug)]
pub struct ScramEntry {
    pub(crate) keys: ScramKeys,
    /// The user who is logged in if the proof is right. For those who do not exist the keys are
    /// made up, and no proof is.
    pub(crate) user: Verdict,
}

/// A user base.
///
/// Methods may block: hashes take up to seconds of processor time and memory by intention, and the
/// caller bounds how many run at once. The time of [`UserBase::verify`] does not tell whether a
/// user exists.
pub trait UserBase: Debug + Send + Sync {
    /// Verifies a password.
    ///
    /// # Errors
    /// Returns an error if the base does not work now; that a login is refused is a [`Verdict`].
    fn verify(&self, login: &Login<'_>) -> Result<Verdict>;

    /// Returns a user without asking for a password, for logins that were verified otherwise: by a
    /// token, or by another user who may act for him.
    ///
    /// # Errors
    /// As [`UserBase::verify`].
    fn user(&self, name: &UserName, peer: Option<IpAddr>) -> Result<Verdict>;

    /// Returns `true` if every user of the base can log in by SCRAM-SHA-256.
    ///
    /// # Errors
    /// As [`UserBase::verify`].
    fn offers_scram(&self) -> Result<bool> {
        Ok(false)
    }

    /// Returns the keys of a user; those of one who does not exist are made up, and the same at
    /// every call.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] unless [`UserBase::offers_scram`].
    fn scram(&self, name: &UserName, peer: Option<IpAddr>) -> Result<ScramEntry> {
        let _ = (name, peer);
        Err(Error::unavailable("SCRAM", "the user base has no keys"))
    }
}
