//! Errors of the library as refusals of the protocol (RFC 5530).

use barid::{Error, ErrorKind, FormatError};
use barid_imap::backend::Refusal;

/// Turns an error into a refusal.
pub(crate) fn refused(error: Error) -> Refusal {
    let text = error.to_string();
    match &error {
        Error::NoSuchMessage { .. } => Refusal::new("EXPUNGEISSUED", "The message is gone"),
        Error::Keyword { .. } | Error::Mailbox(FormatError::MessageTooLarge { .. }) => {
            Refusal::new("LIMIT", text)
        }
        Error::ReadOnly { .. } => Refusal::new("READ-ONLY", text),
        Error::UnknownEncoding { .. } => Refusal::new("UNKNOWN-CTE", text),
        Error::Renumbered { .. } => fatal("UNAVAILABLE", text),
        Error::Cache(_) | Error::Superseded { .. } => fatal("UNAVAILABLE", text),
        _ if is_missing(&error) => Refusal::new("NONEXISTENT", text),
        _ if is_full(&error) => Refusal::new("OVERQUOTA", text),
        _ => match error.kind() {
            ErrorKind::User => Refusal::new("CANNOT", text),
            ErrorKind::Config => Refusal::new("CONTACTADMIN", text),
            ErrorKind::Corrupt => Refusal::new("CORRUPTION", text),
            ErrorKind::Io => Refusal::new("UNAVAILABLE", text),
        },
    }
}

/// Creates a refusal that ends the session: what it knows of the selected mailbox is not valid any
/// more.
pub(crate) fn fatal(code: &'static str, text: impl Into<String>) -> Refusal {
    Refusal { is_fatal: true, ..Refusal::new(code, text) }
}

/// Returns the error of the file system that is the cause, if there is one.
fn io_error(error: &Error) -> Option<&std::io::Error> {
    match error {
        Error::Io { source, .. } | Error::Mailbox(FormatError::Io { source, .. }) => Some(source),
        _ => None,
    }
}

fn is_missing(error: &Error) -> bool {
    io_error(error).is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn is_full(error: &Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let kinds = [StorageFull, QuotaExceeded, FileTooLarge];
    io_error(error).is_some_and(|error| kinds.contains(&error.kind()))
}
