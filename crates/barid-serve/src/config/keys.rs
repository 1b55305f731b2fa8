//! The sections of the configuration file and their keys.

/// A section of the file: a table, or each table of an array.
#[derive(Clone, Copy, Debug)]
pub struct ConfigSection {
    /// The name as it stands in brackets, such as `limits` or `users.pam`; empty for the keys
    /// before the first section.
    pub name: &'static str,
    /// `true` if the section may be repeated, and stands in double brackets.
    pub is_repeated: bool,
    /// The keys that hold values.
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

const fn one(name: &'static str, keys: &'static [&'static str]) -> ConfigSection {
    ConfigSection { name, is_repeated: false, keys }
}

const fn many(name: &'static str, keys: &'static [&'static str]) -> ConfigSection {
    ConfigSection { name, is_repeated: true, keys }
}

/// Returns the keys of a section: its values, and the names of the sections in it.
pub(super) fn keys_in(section: &str) -> Vec<&'static str> {
    let values = SECTIONS.iter().filter(|known| known.name == section).flat_map(|known| known.keys);
    let inner = SECTIONS.iter().filter_map(|known| match section {
        "" => known.name.split('.').next(),
        _ => known.name.strip_prefix(section)?.strip_prefix('.'),
    });
    let mut keys: Vec<&str> = values.copied().chain(inner).collect();
    keys.dedup();
    keys
}

/// Returns the sections that have a key.
pub(super) fn sections_with(key: &str) -> Vec<&'static str> {
    let with = SECTIONS.iter().filter(|section| section.keys.contains(&key));
    with.map(|section| section.name).collect()
}
