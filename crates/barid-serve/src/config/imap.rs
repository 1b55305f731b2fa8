//! Extensions of IMAP: those that are off unless they are turned on, and those that are disabled.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use super::reader::Section;
use super::{Pattern, ServerConfig};

/// Extensions of IMAP that are off unless they are turned on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImapSettings {
    /// UIDONLY (RFC 9586).
    pub uid_only: bool,
    /// Messages that a command processes (MESSAGELIMIT, RFC 9738); `None` for all.
    pub message_limit: Option<NonZeroU32>,
    /// UNAUTHENTICATE (RFC 8437).
    pub unauthenticate: bool,
}

impl ImapSettings {
    pub(super) fn read(section: Option<&Section<'_>>) -> Self {
        let Some(section) = section else { return Self::default() };
        // Clients may rely on 1000 (RFC 9738 §3).
        let limit = section.number("message_limit", 1000..=u64::from(u32::MAX));
        Self {
            uid_only: section.flag("uid_only").unwrap_or_default(),
            message_limit: limit
                .and_then(|limit| u32::try_from(limit).ok())
                .and_then(NonZeroU32::new),
            unauthenticate: section.flag("unauthenticate").unwrap_or_default(),
        }
    }
}

/// Capabilities that are neither shown to some users or clients nor accepted from them.
#[derive(Clone, Debug)]
pub struct DisabledCapabilities {
    /// The capabilities, in upper case.
    pub capabilities: BTreeSet<String>,
    /// Users; all if empty.
    pub users: Vec<Pattern>,
    /// Names that clients give with ID; all, and those without one, if empty.
    pub clients: Vec<Pattern>,
}

impl DisabledCapabilities {
    /// Returns `true` if these settings apply to a user with a client, which may not have given
    /// its name.
    #[must_use]
    pub fn applies(&self, user: &str, client: Option<&str>) -> bool {
        let is_any = |patterns: &[Pattern], text: &str| {
            patterns.iter().any(|pattern| pattern.matches(text.as_bytes()))
        };
        let is_client = match client {
            Some(client) => is_any(&self.clients, client),
            None => false,
        };
        (self.users.is_empty() || is_any(&self.users, user))
            && (self.clients.is_empty() || is_client)
    }
}

impl ServerConfig {
    /// Returns the capabilities that are disabled for all users and clients, and so before login.
    #[must_use]
    pub fn disabled_for_all(&self) -> Vec<String> {
        let for_all = |one: &&DisabledCapabilities| one.users.is_empty() && one.clients.is_empty();
        let disabled = self.disable.iter().filter(for_all);
        disabled.flat_map(|one| one.capabilities.iter().cloned()).collect()
    }
}

pub(super) fn disabled(root: &Section<'_>) -> Vec<DisabledCapabilities> {
    let mut disabled = Vec::new();
    for section in root.sections("disable", "disable") {
        let capabilities: BTreeSet<String> = section
            .list("capabilities", |name| {
                let is_name = !name.is_empty()
                    && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
                match is_name {
                    true => Ok(name.to_ascii_uppercase()),
                    false => Err(format!("{name:?} is not the name of a capability")),
                }
            })
            .into_iter()
            .collect();
        if !section.has("capabilities") {
            section.problem_here("`capabilities` is missing");
        }
        disabled.push(DisabledCapabilities {
            capabilities,
            users: section.list("users", Pattern::parse),
            clients: section.list("clients", Pattern::parse),
        });
    }
    disabled
}
