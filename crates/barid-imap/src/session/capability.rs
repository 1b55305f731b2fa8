//! The capabilities of a session.

use std::fmt;

use super::reply::Reply;
use super::{Done, Session};
use crate::backend::{Account, Answer};

/// Capabilities of a session after login that need nothing of the account or the connection.
const CAPABILITIES: &[&str] = &[
    "IMAP4rev1",
    "IMAP4rev2",
    "LITERAL+",
    "SASL-IR",
    "ID",
    "ENABLE",
    "IDLE",
    "NAMESPACE",
    "CHILDREN",
    "UNSELECT",
    "UIDPLUS",
    "MOVE",
    "SPECIAL-USE",
    "CREATE-SPECIAL-USE",
    "LIST-EXTENDED",
    "LIST-STATUS",
    "STATUS=SIZE",
    "ESEARCH",
    "SEARCHRES",
    "BINARY",
    "MULTIAPPEND",
    "WITHIN",
    "CONDSTORE",
    "QRESYNC",
    "SORT",
    "SORT=DISPLAY",
    "ESORT",
    "THREAD=REFERENCES",
    "THREAD=REFS",
    "THREAD=ORDEREDSUBJECT",
    "I18NLEVEL=1",
    "UTF8=ACCEPT",
    "PARTIAL",
    "METADATA",
    "LIST-METADATA",
    "REPLACE",
    "CATENATE",
    "CONTEXT=SEARCH",
    "CONTEXT=SORT",
    "ACL",
    "RIGHTS=kxte",
    "LIST-MYRIGHTS",
    "UIDBATCHES",
    "INPROGRESS",
    "MULTISEARCH",
    "UIDONLY",
];

/// The capabilities of a session, as they are advertised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(Vec<String>);

impl Capabilities {
    /// Returns `true` if a capability is available; `name` is in the spelling of its RFC.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|capability| capability == name)
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

impl<A: Account> Session<A> {
    /// Returns the capabilities.
    pub fn capabilities(&self) -> Capabilities {
        let mut names: Vec<String> = CAPABILITIES.iter().map(|name| (*name).to_owned()).collect();
        if self.settings.can_compress && !self.is_compressed {
            names.push("COMPRESS=DEFLATE".to_owned());
        }
        if self.settings.can_unauthenticate {
            names.push("UNAUTHENTICATE".to_owned());
        }
        if self.account.can_follow() {
            names.push("NOTIFY".to_owned());
        }
        let resources = self.account.limited_resources();
        if !resources.is_empty() && self.is_available("QUOTA") {
            names.push("QUOTA".to_owned());
            names.extend(resources.iter().map(|name| format!("QUOTA=RES-{name}")));
        }
        names.push(match self.account.append_limit() {
            Some(limit) => format!("APPENDLIMIT={limit}"),
            None => "APPENDLIMIT".to_owned(),
        });
        names.retain(|name| self.is_available(name));
        Capabilities(names)
    }

    pub(super) fn capability(&self, reply: &mut Reply<'_>) -> Answer<Done> {
        reply.line(format_args!("* CAPABILITY {}", self.capabilities()));
        Ok(Done::text("Capability completed"))
    }
}
