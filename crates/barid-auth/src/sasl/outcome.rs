//! The results of an exchange.

use std::time::Duration;

use super::Mechanism;
use crate::base::Refusal;
use crate::error::Error;
use crate::name::UserName;
use crate::oauth::TokenRefusal;
use crate::user::User;

/// The result of a message.
#[derive(Debug)]
pub enum Step {
    /// The server sends this challenge, and the client answers.
    Challenge(Vec<u8>),
    /// The client is authenticated.
    Done(Box<Identity>),
    /// The client is not authenticated.
    Failed(Failure),
}

/// A client who is authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user whose mailboxes are opened.
    pub user: User,
    /// The user who was verified; another one than `user` if he may act for him.
    pub login: UserName,
    /// The mechanism.
    pub mechanism: Mechanism,
}

/// The reason for which a client is not authenticated. The text is for the log of the server; the
/// client gets [`Failure::response`] only.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A message that breaks the rules of the mechanism.
    #[error("the client sent {0}")]
    Malformed(&'static str),
    /// The user base refuses the user.
    #[error(transparent)]
    Credentials(#[from] Refusal),
    /// The token is refused.
    #[error("token: {0}")]
    Token(#[from] TokenRefusal),
    /// The user may not act as the other one that he names.
    #[error("right credentials, but the user may not act for another")]
    Authorization,
    /// The mechanism is not offered on this channel.
    #[error("the mechanism is not offered on this connection")]
    NotOffered,
    /// The channel binding of SCRAM fails, as if somebody sat in the middle.
    #[error("channel binding: {0}")]
    Binding(&'static str),
    /// The user or the address has to wait.
    #[error("too many failures: refused for {} s", .0.as_secs())]
    Delayed(Duration),
    /// Authentication does not work now.
    #[error(transparent)]
    Unavailable(#[from] Error),
}

impl Failure {
    /// Returns the response code of RFC 5530 and the text for the client. Neither tells whether the
    /// user exists.
    #[must_use]
    pub const fn response(&self) -> (&'static str, &'static str) {
        match self {
            Self::Credentials(_) | Self::Token(_) | Self::Binding(_) | Self::Malformed(_) => {
                ("AUTHENTICATIONFAILED", "Authentication failed")
            }
            Self::Authorization => ("AUTHORIZATIONFAILED", "Not allowed to act for this user"),
            Self::NotOffered => ("CANNOT", "Mechanism not available on this connection"),
            Self::Delayed(_) => ("UNAVAILABLE", "Too many failed attempts, try again later"),
            Self::Unavailable(_) => {
                ("UNAVAILABLE", "Authentication is not available now, try again later")
            }
        }
    }

    /// Returns `true` if the failure counts for the back-off: the client may be guessing.
    #[must_use]
    pub const fn is_guess(&self) -> bool {
        match self {
            // Its signature was right: a client that has not renewed its token yet.
            Self::Token(TokenRefusal::Expired) => false,
            Self::Credentials(_)
            | Self::Token(_)
            | Self::Binding(_)
            | Self::Malformed(_)
            | Self::Authorization => true,
            Self::NotOffered | Self::Delayed(_) | Self::Unavailable(_) => false,
        }
    }
}
