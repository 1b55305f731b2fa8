//! Dovecot's `imap`.

use anyhow::{Context as _, Result};
use barid_testkit::peers::{Imap, Reply};
use barid_testkit::watch::so_far;

use crate::lab::Figures;

/// The command that opens the mailbox of a session.
pub(crate) const SELECT: &str = "SELECT INBOX";

/// Opens the mailbox of a session.
pub(crate) fn select(session: &mut Imap) -> Result<Reply> {
    session.command(SELECT).context("Dovecot")
}

/// Returns the number of messages in the answer to SELECT.
pub(crate) fn exists(reply: &Reply) -> Result<u32> {
    reply.number("EXISTS").context("Dovecot does not say how many messages there are")
}

/// Ends a session and returns the figures of its whole process.
pub(crate) fn figures_of(session: Imap) -> Result<Figures> {
    let watched = so_far(session.pid().context("Dovecot has gone")?);
    let usage = session.logout().context("LOGOUT")?;
    // The kernel's figure at exit includes the peak of the parent process.
    Ok(Figures { maxrss_bytes: watched.maxrss, ..Figures::of_process(&usage) })
}
