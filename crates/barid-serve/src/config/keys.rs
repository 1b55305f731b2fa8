//! The sections of the configuration file and their keys.

/// A section of the file: a table, or each table of an array.
#[derive(Clone, Copy, Debug)]
pub struct ConfigSection {
    /// The name as it stands in brackets, such as `limits` or `users.pam`, where [`ANY_NAME`]
    /// stands for any part; empty for the keys before the first section.
    pub name: &'static str,
    /// `true` if the section may be repeated, and stands in double brackets.
    pub is_repeated: bool,
    /// The keys that hold values; [`ANY_NAME`] if all names are keys.
    pub keys: &'static [&'static str],
}

/// All sections, in the order of the reference.
pub const SECTIONS: &[ConfigSection] = &[
    one(
        "server",
        &[
            "hostname",
            "state_dir",
            "cache_dir",
            "front_user",
            "auth_user",
            "admin_socket",
            "clear_logins",
        ],
    ),
    many("listen", &["protocol", "address", "socket", "mode", "group"]),
    many("tls", &["certificate", "key", "names"]),
    one("users", &["lower_case", "extra_characters", "masters", "disabled_mechanisms"]),
    many("users.passwd_file", &["path", "default_scheme"]),
    one("users.pam", &["service", "uid_min", "timeout"]),
    one(
        "users.oauth",
        &[
            "issuer",
            "audience",
            "mailbox_claim",
            "scope",
            "jwks_url",
            "algorithms",
            "introspection_url",
            "client_id",
            "client_secret_file",
            "ca_file",
        ],
    ),
    one(
        "mail",
        &[
            "location",
            "inbox",
            "layout",
            "format",
            "separator",
            "prefix",
            "owner",
            "state_dir",
            "cache_dir",
            "keep_deleted",
        ],
    ),
    one(
        "limits",
        &[
            "connections",
            "connections_per_address",
            "connections_per_user",
            "login_timeout",
            "worker_idle",
            "restart_delay",
            "worker_memory",
            "message_size",
        ],
    ),
    one("imap", &["uid_only", "message_limit", "unauthenticate"]),
    many("disable", &["capabilities", "users", "clients"]),
    one("quota", &["size", "messages"]),
    one(
        "delivery",
        &["detail_separator", "detail_mailbox", "create_mailboxes", "duplicates", "timeout"],
    ),
    one("delivery.spam", &["mailbox", "profile", "wordlist"]),
    many(
        "delivery.rule",
        &["header", "contains", "matches", "address", "list_id", "mailbox", "flags"],
    ),
    one("log", &["format", "target", "level"]),
    one("metrics", &["address"]),
    one("rawlog", &["folder"]),
];

/// Returns a section that occurs once.
#[must_use]
pub const fn one(name: &'static str, keys: &'static [&'static str]) -> ConfigSection {
    ConfigSection { name, is_repeated: false, keys }
}

/// Returns a section that may be repeated, in double brackets.
#[must_use]
pub const fn many(name: &'static str, keys: &'static [&'static str]) -> ConfigSection {
    ConfigSection { name, is_repeated: true, keys }
}

/// Stands for any name, as the key of a section or as a part of the name of one.
pub const ANY_NAME: &str = "*";

/// Returns the keys of a section: its values, and the names of the sections in it.
pub(super) fn keys_in(sections: &[ConfigSection], section: &str) -> Vec<&'static str> {
    let is_it = |known: &&ConfigSection| is_named(known.name, section);
    let values = sections.iter().filter(is_it).flat_map(|known| known.keys);
    let inner = sections.iter().filter_map(|known| inner_name(known.name, section));
    let mut keys: Vec<&str> = values.copied().chain(inner).collect();
    keys.dedup();
    keys
}

/// Returns `true` if a section of the table, in whose name a part may be [`ANY_NAME`], has a name.
fn is_named(known: &str, name: &str) -> bool {
    let mut parts = name.split('.');
    let mut equal = known.split('.').map(|known| {
        let part = parts.next();
        part.is_some_and(|part| part == known || known == ANY_NAME && !part.is_empty())
    });
    equal.all(|is_equal| is_equal) && parts.next().is_none()
}

/// Returns the first part of the name of a section after the name of the one that it is in.
fn inner_name(known: &'static str, outer: &str) -> Option<&'static str> {
    let mut rest = known;
    if !outer.is_empty() {
        let len = known.match_indices('.').nth(outer.split('.').count() - 1)?.0;
        if !is_named(&known[..len], outer) {
            return None;
        }
        rest = &known[len + 1..];
    }
    rest.split('.').next().filter(|name| !name.is_empty())
}

/// Returns the sections that have a key.
pub(super) fn sections_with(sections: &[ConfigSection], key: &str) -> Vec<&'static str> {
    let with = sections.iter().filter(|section| section.keys.contains(&key));
    with.map(|section| section.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[ConfigSection] = &[
        one("", &["top"]),
        one("a", &["x"]),
        one("a.b", &["y"]),
        one("free", &[ANY_NAME]),
        one("of.*", &["z"]),
        one("of.*.*", &[ANY_NAME]),
    ];

    fn check(section: &str, expected: &[&str]) {
        assert_eq!(keys_in(KNOWN, section), expected, "{section}");
    }

    #[test]
    fn keys_are_values_and_sections() {
        check("", &["top", "a", "free", "of"]);
        check("a", &["x", "b"]);
        check("a.b", &["y"]);
        check("free", &["*"]);
        check("of", &["*"]);
        check("of.some", &["z", "*"]);
        check("of.some.more", &["*"]);
        check("of.some.more.yet", &[]);
        check("unknown", &[]);
    }
}
