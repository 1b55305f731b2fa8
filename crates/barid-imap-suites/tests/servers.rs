//! The server of the tests: Dovecot, or the program that the environment names.

use std::path::Path;

use barid_imap_suites::{DovecotServer, MailFormat, ProgramArgs, ProgramServer, Server};

/// Starts a server for a test; `None` if it was skipped.
pub(crate) fn server(format: MailFormat) -> Option<Box<dyn Server>> {
    match std::env::var_os("BARID_IMAP_SERVER") {
        None => Some(Box::new(DovecotServer::start(format)?)),
        Some(program) => {
            let args = ProgramArgs::default();
            Some(Box::new(ProgramServer::start(Path::new(&program), args, format).unwrap()))
        }
    }
}

/// Returns `true` if the server is Dovecot.
pub(crate) fn is_dovecot() -> bool {
    std::env::var_os("BARID_IMAP_SERVER").is_none()
}

/// Returns the format that the environment names, or the one of the test.
pub(crate) fn format_or(format: MailFormat) -> MailFormat {
    let named = std::env::var("BARID_IMAP_FORMAT").ok();
    named.and_then(|name| MailFormat::named(&name)).unwrap_or(format)
}

/// Returns a number of the environment, or the one of a short run.
pub(crate) fn number(name: &str, short: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(short)
}
