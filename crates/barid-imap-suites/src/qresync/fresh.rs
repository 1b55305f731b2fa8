//! The mailbox as a client without memory finds it.

use std::collections::BTreeMap;
use std::io;

use super::model::Messages;
use crate::server::{Server, Transport, open};
use crate::wire::Fetched;

/// A mailbox as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FreshMailbox {
    /// Flags by UID.
    pub(super) messages: Messages,
    /// Mod-sequences by UID.
    pub(super) modseqs: BTreeMap<u32, u64>,
}

/// Fetches all UIDs, flags and mod-sequences with a new session.
pub(super) fn fresh_fetch(
    server: &dyn Server,
    user: u32,
    transport: Transport,
) -> io::Result<FreshMailbox> {
    let mut connection = open(server, user, transport)?;
    let exists = connection.ok("EXAMINE INBOX")?.number("EXISTS").unwrap_or(0);
    let mut fresh = FreshMailbox::default();
    if exists > 0 {
        let reply = connection.ok("UID FETCH 1:* (FLAGS MODSEQ)")?;
        for fetched in reply.untagged.iter().filter_map(|line| Fetched::of(line)) {
            let uid = fetched.number("UID").and_then(|uid| u32::try_from(uid).ok());
            if let (Some(uid), Some(flags)) = (uid, fetched.flags()) {
                fresh.messages.insert(uid, flags);
                fresh.modseqs.insert(uid, fetched.number("MODSEQ").unwrap_or(0));
            }
        }
    }
    connection.logout()?;
    Ok(fresh)
}
