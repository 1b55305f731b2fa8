//! Failures of delivery, as mail servers understand them.

use std::io;

use serde::{Deserialize, Serialize};

use super::spool::SpoolError;

/// Kind of a failure: what a mail server is to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliveryErrorKind {
    /// Try again later.
    Temporary,
    /// The disk is full: try again later.
    StorageFull,
    /// No such user: return the message.
    UnknownUser,
    /// The user has as much mail as he may have: return the message.
    OverQuota,
    /// The message is larger than allowed: return it.
    TooLarge,
    /// Not a message: return it.
    Malformed,
    /// This process may not deliver to the user.
    Forbidden,
}

/// A message was not delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct DeliveryError {
    /// The kind.
    pub kind: DeliveryErrorKind,
    /// The reason.
    pub text: String,
}

impl DeliveryError {
    /// Creates an error.
    pub fn new(kind: DeliveryErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// Creates an error after which another try is worthwhile.
    pub fn temporary(error: impl std::fmt::Display) -> Self {
        Self::new(DeliveryErrorKind::Temporary, error.to_string())
    }

    /// Returns the exit code of a program that delivers (`sysexits.h`).
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            DeliveryErrorKind::Temporary | DeliveryErrorKind::StorageFull => 75,
            DeliveryErrorKind::UnknownUser => 67,
            DeliveryErrorKind::OverQuota | DeliveryErrorKind::TooLarge => 73,
            DeliveryErrorKind::Malformed => 65,
            DeliveryErrorKind::Forbidden => 77,
        }
    }

    /// Returns the kind that an exit code of [`DeliveryError::exit_code`] stands for; all others
    /// are temporary, so that no mail is returned because of an accident.
    #[must_use]
    pub fn of_exit_code(code: Option<i32>, text: String) -> Self {
        let kind = match code {
            Some(67) => DeliveryErrorKind::UnknownUser,
            Some(73) => DeliveryErrorKind::OverQuota,
            Some(65) => DeliveryErrorKind::Malformed,
            _ => DeliveryErrorKind::Temporary,
        };
        Self { kind, text }
    }

    /// Returns the reply of SMTP: code and enhanced status code (RFC 3463).
    #[must_use]
    pub fn reply(&self) -> (u16, &'static str) {
        match self.kind {
            DeliveryErrorKind::Temporary => (451, "4.3.0"),
            DeliveryErrorKind::StorageFull => (452, "4.3.1"),
            DeliveryErrorKind::UnknownUser => (550, "5.1.1"),
            DeliveryErrorKind::OverQuota => (552, "5.2.2"),
            DeliveryErrorKind::TooLarge => (552, "5.3.4"),
            DeliveryErrorKind::Malformed => (554, "5.6.0"),
            // The administrator can mend it.
            DeliveryErrorKind::Forbidden => (451, "4.3.5"),
        }
    }
}

/// Returns the error of the file system that caused an error.
fn io_kind(error: &(dyn std::error::Error + 'static)) -> Option<io::ErrorKind> {
    let mut error = error;
    loop {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        error = error.source()?;
    }
}

fn of(error: &(dyn std::error::Error + 'static)) -> DeliveryError {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    let kind = match io_kind(error) {
        Some(StorageFull | QuotaExceeded) => DeliveryErrorKind::StorageFull,
        _ => DeliveryErrorKind::Temporary,
    };
    DeliveryError::new(kind, error.to_string())
}

impl From<barid::Error> for DeliveryError {
    fn from(error: barid::Error) -> Self {
        match error {
            barid::Error::Mailbox(barid::FormatError::MessageTooLarge { .. }) => {
                Self::new(DeliveryErrorKind::TooLarge, error.to_string())
            }
            error => of(&error),
        }
    }
}

impl From<barid_folders::Error> for DeliveryError {
    fn from(error: barid_folders::Error) -> Self {
        of(&error)
    }
}

impl From<SpoolError> for DeliveryError {
    fn from(error: SpoolError) -> Self {
        match error {
            SpoolError::TooLarge(_) => Self::new(DeliveryErrorKind::TooLarge, error.to_string()),
            SpoolError::Io(error) => error.into(),
        }
    }
}

impl From<io::Error> for DeliveryError {
    fn from(error: io::Error) -> Self {
        of(&error)
    }
}
