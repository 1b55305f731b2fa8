//! The capabilities of a session.

use std::fmt;

use super::reply::Reply;
use super::{Done, Session};
use crate::backend::{Account, Answer};

/// Capabilities of a session after login in the order of the response, each with those without
/// which it is not offered.
const CAPABILITIES: &[(&str, &[&str])] = &[
    ("IMAP4rev1", &[]),
    ("IMAP4rev2", &["ENABLE"]),
    ("LITERAL+", &[]),
    ("SASL-IR", &[]),
    ("ID", &[]),
    ("ENABLE", &[]),
    ("IDLE", &[]),
    ("NAMESPACE", &[]),
    ("CHILDREN", &[]),
    ("UNSELECT", &[]),
    ("UIDPLUS", &[]),
    ("MOVE", &[]),
    ("SPECIAL-USE", &[]),
    ("CREATE-SPECIAL-USE", &["SPECIAL-USE"]),
    ("LIST-EXTENDED", &[]),
    ("LIST-STATUS", &["LIST-EXTENDED"]),
    ("STATUS=SIZE", &[]),
    ("ESEARCH", &[]),
    ("SEARCHRES", &["ESEARCH"]),
    ("BINARY", &[]),
    ("MULTIAPPEND", &[]),
    ("WITHIN", &[]),
    ("CONDSTORE", &[]),
    ("QRESYNC", &["CONDSTORE", "ENABLE"]),
    ("SORT", &[]),
    ("SORT=DISPLAY", &["SORT"]),
    ("ESORT", &["SORT"]),
    ("THREAD=REFERENCES", &[]),
    ("THREAD=REFS", &[]),
    ("THREAD=ORDEREDSUBJECT", &[]),
    ("I18NLEVEL=1", &[]),
    ("UTF8=ACCEPT", &["ENABLE"]),
    ("PARTIAL", &["ESEARCH"]),
    ("METADATA", &[]),
    ("LIST-METADATA", &["LIST-EXTENDED", "METADATA"]),
    ("REPLACE", &[]),
    ("CATENATE", &[]),
    ("CONTEXT=SEARCH", &["ESEARCH"]),
    ("CONTEXT=SORT", &["SORT", "ESORT"]),
    ("ACL", &[]),
    ("RIGHTS=kxte", &["ACL"]),
    ("LIST-MYRIGHTS", &["ACL", "LIST-EXTENDED"]),
    ("PREVIEW", &[]),
    ("SAVEDATE", &[]),
    ("OBJECTID", &[]),
    ("UIDBATCHES", &[]),
    ("INPROGRESS", &[]),
    ("MULTISEARCH", &["ESEARCH"]),
    ("NOTIFY", &[]),
    ("QUOTA", &[]),
    ("QUOTA=RES-STORAGE", &["QUOTA"]),
    ("QUOTA=RES-MESSAGE", &["QUOTA"]),
    ("UIDONLY", &["ENABLE"]),
    ("MESSAGELIMIT", &[]),
    ("COMPRESS=DEFLATE", &[]),
    ("UNAUTHENTICATE", &[]),
    ("APPENDLIMIT", &[]),
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
        let names = CAPABILITIES.iter().map(|(name, _)| *name);
        let offered = names.filter(|name| self.offers(name));
        // A connection is compressed once (RFC 4978 §3).
        let offered = offered.filter(|name| !(self.is_compressed && *name == "COMPRESS=DEFLATE"));
        let value_of = |name| match name {
            "APPENDLIMIT" => self.account.append_limit(),
            "MESSAGELIMIT" => self.settings.message_limit.map(|limit| limit.get().into()),
            _ => None,
        };
        Capabilities(
            offered
                .map(|name| match value_of(name) {
                    Some(value) => format!("{name}={value}"),
                    None => name.to_owned(),
                })
                .collect(),
        )
    }

    /// Returns `true` if a capability is offered: it and all that it needs are possible, and
    /// disabled neither for the user nor for the client. `name` is that of the list, without value.
    pub(super) fn offers(&self, name: &str) -> bool {
        let known = CAPABILITIES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        known.is_some_and(|(name, needs)| {
            [name].into_iter().chain(*needs).all(|name| self.is_possible(name))
        })
    }

    fn is_possible(&self, name: &str) -> bool {
        let is_set_up = match name {
            "UIDONLY" => self.settings.offers_uid_only,
            "MESSAGELIMIT" => self.settings.message_limit.is_some(),
            "COMPRESS=DEFLATE" => self.settings.can_compress,
            "UNAUTHENTICATE" => self.settings.can_unauthenticate,
            "NOTIFY" => self.account.can_follow(),
            "QUOTA" => !self.account.limited_resources().is_empty(),
            "QUOTA=RES-STORAGE" => self.account.limited_resources().contains(&"STORAGE"),
            "QUOTA=RES-MESSAGE" => self.account.limited_resources().contains(&"MESSAGE"),
            _ => true,
        };
        is_set_up && !self.is_disabled(name)
    }

    pub(super) fn capability(&self, reply: &mut Reply<'_>) -> Answer<Done> {
        reply.line(format_args!("* CAPABILITY {}", self.capabilities()));
        Ok(Done::text("Capability completed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::features::FEATURES;

    /// Capabilities without input of their own: they change responses, or what comes before login.
    const WITHOUT_INPUT: &[&str] = &[
        "IMAP4rev1",
        "LITERAL+",
        "SASL-IR",
        "CHILDREN",
        "I18NLEVEL=1",
        "RIGHTS=kxte",
        "INPROGRESS",
    ];
    /// Capabilities that ENABLE alone names.
    const ENABLED: &[&str] = &["UIDONLY"];

    #[test]
    fn every_capability_has_its_input_and_the_other_way_round() {
        let mut seen = 0;
        for (name, needs) in CAPABILITIES {
            let has_feature = FEATURES.iter().any(|feature| feature.of.contains(name));
            let has_none = WITHOUT_INPUT.contains(name) || ENABLED.contains(name);
            assert!(has_feature != has_none, "{name}");
            assert!(needs.iter().all(|need| CAPABILITIES.iter().any(|(name, _)| name == need)));
            seen += 1;
        }
        assert!(seen > 40, "{seen}");
    }
}
